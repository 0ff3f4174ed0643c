//! The job that the processes of a campaign submit and run.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;

use crate::journal::{Entry, Journal};

/// Fails, snoozes or succeeds as its number says, after a moment of work.
#[derive(Debug, Serialize, Deserialize)]
pub struct Toil {
    /// Decides what it does.
    pub number: u64,
}

impl Job for Toil {
    const KIND: &'static str = "toil";
    type Context = Arc<Journal>;
    type Output = JobResult<u64>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<u64> {
        cx.app().write(&Entry::Began(cx.id(), cx.run_number()));
        tokio::time::sleep(Duration::from_millis(self.number % 8)).await;
        let first = cx.attempt() == 1;
        let answer = match self.number % 10 {
            0 if first => Err("it fails the first time".into()),
            1 if cx.run_number() == 1 => Err(Outcome::snooze(Duration::from_millis(20)).into()),
            2 => Err(Outcome::permanent("it never works").into()),
            number => Ok(number),
        };
        cx.app().write(&Entry::Ended(cx.id(), cx.run_number()));
        answer
    }
}

/// Retries at once, forgives every crash: what is tested is the counting, not the waiting.
#[must_use]
pub fn policy() -> Policy {
    Policy::default().retries(5).crashes(100_000).backoff(Backoff::none())
}
