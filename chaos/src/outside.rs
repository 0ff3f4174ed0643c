//! The job that does something outside, between two steps, and whose process may die around it (W8).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{JobId, StepError};

use crate::journal::{Journal, JournalEntry};

/// The name of its effect.
pub const EFFECT: &str = "send";

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
        self.step(cx, "prepare").await?;
        let effect = cx.effect(EFFECT, cx.effect_key(), || self.call(cx));
        let sent = match self.verifies() {
            true => effect.verify(|| self.ask(cx)).await?,
            false => effect.retry_safe().await?,
        };
        given(cx, EFFECT, sent);
        self.step(cx, "close").await
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

    async fn work(&self) {
        tokio::time::sleep(Duration::from_millis(2 + self.number % 8)).await;
    }
}

fn called(cx: &JobContext<Arc<Journal>>, name: &str) {
    let (job, run) = (cx.id(), cx.run_number());
    cx.app().write(JournalEntry::Stepping { job, name: name.to_owned(), run });
}

fn given(cx: &JobContext<Arc<Journal>>, name: &str, run: u32) {
    cx.app().write(JournalEntry::Stepped { job: cx.id(), name: name.to_owned(), run });
}
