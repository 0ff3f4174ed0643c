//! The job that the processes of a campaign submit and run.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;

use crate::journal::{Journal, JournalEntry};

/// Jobs with this number and those above it take their time.
pub const SLOW: u64 = 1_000_000_000;

/// How long they take.
const SLOW_WORK: Duration = Duration::from_millis(100);

/// Fails, snoozes or succeeds as its number says, after a moment of work.
#[derive(Debug, Serialize, Deserialize)]
pub struct CampaignJob {
    /// Decides what it does.
    pub number: u64,
}

impl CampaignJob {
    /// How long it works.
    #[must_use]
    pub const fn takes(&self) -> Duration {
        if self.number >= SLOW { SLOW_WORK } else { Duration::from_millis(self.number % 8) }
    }

    /// True when it becomes a dead letter.
    #[must_use]
    pub const fn never_works(&self) -> bool {
        self.number % 10 == 2
    }
}

impl Job for CampaignJob {
    const KIND: &'static str = "toil";
    type Context = Arc<Journal>;
    type Output = JobResult<u64>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<u64> {
        let (lease, run) = (cx.lease(), cx.run_number());
        cx.app().write(JournalEntry::Began { lease, run });
        tokio::time::sleep(self.takes()).await;
        let first = cx.attempt() == 1;
        let answer = match self.number % 10 {
            0 if first => Err("it fails the first time".into()),
            1 if run == 1 => Err(Outcome::snooze(Duration::from_millis(20)).into()),
            2 => Err(Outcome::permanent("it never works").into()),
            number => Ok(number),
        };
        cx.app().write(JournalEntry::Ended { lease, run });
        answer
    }
}

/// Retries at once, forgives every crash: what is tested is the counting, not the waiting.
#[must_use]
pub fn policy() -> Policy {
    Policy::default().retries(5).crashes(100_000).backoff(Backoff::none())
}
