//! Claims whose answer was lost: what they took is handed back, because nobody here knows that it has it.
//!
//! The worker goes on renewing its lease, so nobody else would ever take such jobs.

use std::collections::HashSet;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Ending, JobView, State};
use backstop_core::{Fence, JobId, Lease};
use backstop_store::{Error as StoreError, Finish, JobFilter, PageRequest};

use super::runtime::RunningWorker;

/// Rows of a page.
const PAGE: usize = 1_000;

impl RunningWorker {
    /// Hands back what the store says this worker holds, and it does not. No claim may be under way.
    pub(crate) async fn hand_back_unknown(&self) -> Result<(), StoreError> {
        let said = self.held_by_the_store().await?;
        // In this order: a run is among the endings before it leaves the running ones, and what has become durable
        // since the store was asked is refused.
        let known: HashSet<(JobId, Fence)> = self
            .held()
            .into_iter()
            .chain(self.outbox.leases())
            .map(|lease| (lease.job, lease.fence))
            .collect();
        let unknown: Vec<Finish> = said
            .into_iter()
            .filter(|finish| !known.contains(&(finish.lease.job, finish.lease.fence)))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let answers = self.store().finish(unknown).await?;
        let jobs = answers.iter().filter(|answer| answer.is_ok()).count();
        tracing::warn!(jobs, "the answer to a claim was lost: the jobs it had taken were handed back");
        Ok(())
    }

    /// A way back for every job that the store has under this worker's name.
    async fn held_by_the_store(&self) -> Result<Vec<Finish>, StoreError> {
        let worker = self.id();
        let filter = JobFilter { state: Some(State::Running), ..JobFilter::default() };
        let mut request = PageRequest { limit: PAGE, after: None };
        let mut held = Vec::new();
        loop {
            let page = self.store().list(filter.clone(), request).await?;
            let mine = |view: &&JobView| view.record.hold.is_some_and(|hold| hold.worker == worker);
            held.extend(page.items.iter().filter(mine).map(|view| {
                let (job, fence) = (view.job.spec.id, view.record.fence);
                let ending =
                    Ending::plain(view.job.spec.header(), Cause::Interrupted, Decision::handed_back());
                Finish { lease: Lease { job, worker, fence }, ending }
            }));
            match page.next {
                Some(next) => request = PageRequest { limit: PAGE, after: Some(next) },
                None => return Ok(held),
            }
        }
    }
}
