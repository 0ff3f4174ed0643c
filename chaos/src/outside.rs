//! The job that does something outside, between two steps, and whose process may die around it (W8).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{JobId, StepError};
use serde_json::{Value, json};

use crate::journal::{Journal, JournalEntry};
use crate::remote::{RemoteEffectAnswer, RemoteRun};

/// The name of its effect.
pub const EFFECT: &str = "send";

/// The steps before and after it.
const PREPARE: &str = "prepare";
const CLOSE: &str = "close";

/// A step, an effect, another step. The outside is a folder: what happened there is a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct EffectStepsJob {
    /// Decides how long it takes, and what is done about an effect of which nobody knows whether it happened.
    pub number: u64,
    /// The outside.
    pub outside: PathBuf,
}

impl EffectStepsJob {
    /// The outside of a campaign, in its folder.
    ///
    /// # Panics
    /// When the folder cannot be written.
    #[must_use]
    pub fn outside_in(folder: &Path) -> PathBuf {
        let outside = folder.join("outside");
        std::fs::create_dir_all(&outside).expect("the folder can be written");
        outside
    }

    /// True when it asks the outside before it calls again; all others call again with the same key.
    #[must_use]
    pub const fn verifies(&self) -> bool {
        self.number % 2 == 1
    }
}

impl Job for EffectStepsJob {
    const KIND: &'static str = "outside";
    type Context = Arc<Journal>;
    type Output = JobResult<u32>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<u32> {
        let (lease, run) = (cx.lease(), cx.run_number());
        cx.app().write(JournalEntry::Began { lease, run });
        let answer = self.walk(&cx).await;
        cx.app().write(JournalEntry::Ended { lease, run });
        Ok(answer?)
    }
}

impl EffectStepsJob {
    async fn walk(&self, cx: &JobContext<Arc<Journal>>) -> Result<u32, StepError> {
        self.step(cx, PREPARE).await?;
        let effect = cx.effect(EFFECT, cx.effect_key(), || self.call(cx));
        let sent = match self.verifies() {
            true => effect.verify(|| self.ask(cx)).await?,
            false => effect.retry_safe().await?,
        };
        given(cx, EFFECT, sent);
        self.step(cx, CLOSE).await
    }

    async fn step(&self, cx: &JobContext<Arc<Journal>>, name: &'static str) -> Result<u32, StepError> {
        let called = || async {
            called(cx, name);
            self.work().await;
            JobResult::Ok(cx.run_number())
        };
        let run = cx.step(name, called).await?;
        given(cx, name, run);
        Ok(run)
    }

    /// The call to the outside, with time to die in before it and after it.
    async fn call(&self, cx: &JobContext<Arc<Journal>>) -> JobResult<u32> {
        called(cx, EFFECT);
        self.work().await;
        cx.app().write(JournalEntry::Effect { job: cx.id(), key: cx.effect_key() });
        std::fs::write(self.file(cx.id()), "it happened")?;
        self.work().await;
        Ok(cx.run_number())
    }

    /// Asks the outside. The outcome is known since this run, whichever one it was that called.
    async fn ask(&self, cx: &JobContext<Arc<Journal>>) -> JobResult<Option<u32>> {
        let happened = self.file(cx.id()).exists();
        let (job, run) = (cx.id(), cx.run_number());
        cx.app().write(JournalEntry::Asked { job, run, happened });
        self.work().await;
        Ok(happened.then_some(run))
    }

    fn file(&self, job: JobId) -> PathBuf {
        self.outside.join(job.to_string())
    }

    /// How long it takes to do anything.
    const fn takes(&self) -> Duration {
        Duration::from_millis(2 + self.number % 8)
    }

    async fn work(&self) {
        tokio::time::sleep(self.takes()).await;
    }
}

/// The same in a remote worker. It tells the order of its calls, as a client of the API may.
impl EffectStepsJob {
    /// Does what the handler does; answers the outcome.
    ///
    /// # Errors
    /// When no server takes what it says: the run is given up.
    pub(crate) fn remotely(run: &RemoteRun<'_>) -> io::Result<Value> {
        let job: Self = serde_json::from_value(run.claimed["payload"].clone())?;
        run.step(Some(0), PREPARE, job.takes())?;
        let sent = job.send_remotely(run)?;
        run.given(EFFECT, sent);
        let closed = run.step(Some(2), CLOSE, job.takes())?;
        Ok(json!({ "type": "succeeded", "result": closed }))
    }

    /// Calls the outside, unless that has happened; answers the run since which it is known.
    fn send_remotely(&self, run: &RemoteRun<'_>) -> io::Result<u32> {
        let policy = if self.verifies() { "verify" } else { "retry_safe" };
        let key = run.job.to_string();
        let mut begun = json!({ "index": 1, "name": EFFECT, "key": key, "policy": policy });
        let happened = match run.begin(&begun)? {
            RemoteEffectAnswer::Done(sent) => return Ok(sent),
            RemoteEffectAnswer::Verify => {
                let happened = self.ask_remotely(run);
                if !happened {
                    begun["not_seen"] = true.into();
                    run.post("/api/v1/work/effect", begun)?;
                }
                happened
            }
            RemoteEffectAnswer::Run => false,
        };
        if !happened {
            run.called(EFFECT);
            std::thread::sleep(self.takes());
            run.journal.write(JournalEntry::Effect { job: run.job, key });
            std::fs::write(self.file(run.job), "it happened")?;
            std::thread::sleep(self.takes());
        }
        run.store(Some(1), EFFECT)
    }

    /// Asks the outside.
    fn ask_remotely(&self, run: &RemoteRun<'_>) -> bool {
        let happened = self.file(run.job).exists();
        run.journal.write(JournalEntry::Asked { job: run.job, run: run.run, happened });
        std::thread::sleep(self.takes());
        happened
    }
}

fn called(cx: &JobContext<Arc<Journal>>, name: &str) {
    let (job, run) = (cx.id(), cx.run_number());
    cx.app().write(JournalEntry::Stepping { job, name: name.to_owned(), run });
}

fn given(cx: &JobContext<Arc<Journal>>, name: &str, run: u32) {
    cx.app().write(JournalEntry::Stepped { job: cx.id(), name: name.to_owned(), run });
}
