//! One run of a job in a remote worker: what it asks of servers, and what it writes down about its steps.

use std::io;
use std::time::Duration;

use backstop::JobId;
use serde_json::{Value, json};

use crate::journal::{Journal, JournalEntry};

/// What is to be done about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemoteEffectAnswer {
    /// Nothing: it is known since this run.
    Done(u32),
    /// The outside has to be asked whether it has happened.
    Verify,
    /// It is to be called.
    Run,
}

/// One run, as its handler knows it.
pub(crate) struct RemoteRun<'a> {
    /// The job as it was claimed.
    pub(crate) claimed: &'a Value,
    /// Its id.
    pub(crate) job: JobId,
    /// The number of the run.
    pub(crate) run: u32,
    /// Where it says what it does.
    pub(crate) journal: &'a Journal,
    /// How it asks a server.
    pub(crate) ask: &'a dyn Fn(&str, &Value) -> io::Result<Value>,
}

impl RemoteRun<'_> {
    /// Posts something about the run, under its lease.
    ///
    /// # Errors
    /// When no server takes it: the run is given up.
    pub(crate) fn post(&self, path: &str, mut body: Value) -> io::Result<Value> {
        body["lease"] = self.claimed["lease"]["token"].clone();
        (self.ask)(path, &body)
    }

    /// Runs a step that takes so long, unless it is stored; its result is the number of the run that called it.
    ///
    /// # Errors
    /// As [`RemoteRun::post`].
    pub(crate) fn step(&self, index: Option<u32>, name: &str, takes: Duration) -> io::Result<u32> {
        let run = if let Some(stored) = run_number(&self.claimed["steps"][name]) {
            stored
        } else {
            self.called(name);
            std::thread::sleep(takes);
            self.store(index, name)?
        };
        self.given(name, run);
        Ok(run)
    }

    /// Stores that a step or an effect has succeeded; its result is the number of this run.
    ///
    /// # Errors
    /// As [`RemoteRun::post`].
    pub(crate) fn store(&self, index: Option<u32>, name: &str) -> io::Result<u32> {
        let mut done = json!({ "name": name, "result": self.run });
        if let Some(index) = index {
            done["index"] = index.into();
        }
        self.post("/api/v1/work/step", done)?;
        Ok(self.run)
    }

    /// Begins an effect; answers what is to be done about it.
    ///
    /// # Errors
    /// As [`RemoteRun::post`], and when the answer says none of the things that it may say.
    pub(crate) fn begin(&self, begun: &Value) -> io::Result<RemoteEffectAnswer> {
        let answer = self.post("/api/v1/work/effect", begun.clone())?;
        match (answer["state"].as_str(), run_number(&answer["result"])) {
            (Some("done"), Some(run)) => Ok(RemoteEffectAnswer::Done(run)),
            (Some("verify"), _) => Ok(RemoteEffectAnswer::Verify),
            (Some("run"), _) => Ok(RemoteEffectAnswer::Run),
            _ => {
                let what = format!("/api/v1/work/effect: it is answered {answer}");
                self.journal.write(JournalEntry::Broken(what.clone()));
                Err(io::Error::other(what))
            }
        }
    }

    /// Writes down that the code of a step is called.
    pub(crate) fn called(&self, name: &str) {
        let (job, run) = (self.job, self.run);
        self.journal.write(JournalEntry::Stepping { job, name: name.to_owned(), run });
    }

    /// Writes down which result it has of a step.
    pub(crate) fn given(&self, name: &str, run: u32) {
        self.journal.write(JournalEntry::Stepped { job: self.job, name: name.to_owned(), run });
    }
}

/// The number of a run, as it stands in the result of a step.
fn run_number(result: &Value) -> Option<u32> {
    u32::try_from(result.as_u64()?).ok()
}
