//! The job that is handled many at a time in a campaign (W12).

use std::sync::Arc;
use std::time::Duration;

use backstop::bulk::{BulkContext, BulkItem, BulkJob, BulkSettings};
use backstop::prelude::*;

use crate::journal::{Journal, JournalEntry};

/// One of many in a call; its number says what becomes of it, and of the call.
#[derive(Debug, Serialize, Deserialize)]
pub struct BulkCampaignJob {
    /// Decides what it does.
    pub number: u64,
}

impl BulkCampaignJob {
    /// True when every call with it fails: it becomes a dead letter, and no other job does.
    #[must_use]
    pub const fn never_works(number: u64) -> bool {
        number % 10 == 2
    }

    /// True when it gets no answer in its first attempt.
    #[must_use]
    pub const fn is_forgotten(number: u64) -> bool {
        number % 10 == 4
    }

    /// True when it is answered before a call fails, and not after that.
    const fn is_first(number: u64) -> bool {
        number.is_multiple_of(3)
    }
}

impl BulkJob for BulkCampaignJob {
    const KIND: &'static str = "together";
    type Context = Arc<Journal>;
    type Output = JobResult<u64>;

    fn bulk() -> BulkSettings {
        BulkSettings::default().most(8).wait(Duration::from_millis(10))
    }

    async fn run(items: Vec<BulkItem<Self>>, cx: BulkContext<Arc<Journal>>) -> JobResult {
        let jobs = items.len();
        cx.app().write_all(items.iter().map(|item| {
            let (job, run) = (item.id(), item.run_number());
            JournalEntry::Called { job, run, jobs }
        }));
        tokio::time::sleep(Duration::from_millis(jobs as u64)).await;
        let fails = items.iter().any(|item| Self::never_works(item.job().number));
        for item in items {
            let number = item.job().number;
            let forgotten = Self::is_forgotten(number) && item.attempt() == 1;
            if Self::never_works(number) || forgotten || (fails && !Self::is_first(number)) {
                continue;
            }
            cx.app().write(JournalEntry::Answered { job: item.id(), run: item.run_number() });
            item.answer(Ok(number));
        }
        if fails { Err(Outcome::permanent("one of them never works").into()) } else { Ok(()) }
    }
}
