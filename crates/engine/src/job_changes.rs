//! The same change of many jobs (L7, L8): of all that a filter finds, as many with one call as one call may hold up.

use backstop_core::JobId;
use backstop_core::job::{JobView, Operation};
use backstop_store::{Error as StoreError, JobFilter, PageRequest};

use crate::engine::Backstop;

/// Jobs that one call changes at most.
pub const MOST_CHANGED: u64 = 10_000;

/// Jobs that are read and changed together, so that no transaction is long.
const BATCH: usize = 500;

/// What is done to each of many jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobChange {
    /// As [`Backstop::cancel`].
    Cancel {
        /// Why, in words.
        reason: String,
    },
    /// As [`Backstop::pause`].
    Pause,
    /// As [`Backstop::resume`].
    Resume,
}

/// What a change of many jobs did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct JobsChanged {
    /// Jobs that were changed.
    pub changed: u64,
    /// Jobs that had moved on before their turn came, and stay as they are.
    pub left: u64,
    /// Where to go on; none when there are no more.
    pub next: Option<JobId>,
}

impl Backstop {
    /// Does the same to the jobs that a filter finds and `may` lets pass, newest first, behind `after`:
    /// [`MOST_CHANGED`] of them at most. Each stands for itself: one that has moved on since it was found stays as it
    /// is.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::State;
    /// use backstop::job_changes::{JobChange, JobsChanged};
    /// use backstop::query::JobFilter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// for _ in 0..3 {
    ///     engine.enqueue_raw("report", "{}").tag("nightly").submit().await?;
    /// }
    /// let nightly = JobFilter { state: Some(State::Pending), tag: Some("nightly".into()), ..JobFilter::default() };
    /// let cancel = JobChange::Cancel { reason: "the warehouse is moved".into() };
    /// let done: JobsChanged = engine.change_jobs(&nightly, &cancel, None, |_| true).await?;
    /// assert_eq!((done.changed, done.left, done.next), (3, 0, None));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the store is away. What was changed before stays changed.
    pub async fn change_jobs(
        &self,
        filter: &JobFilter,
        change: &JobChange,
        after: Option<JobId>,
        may: impl Fn(&JobView) -> bool,
    ) -> Result<JobsChanged, StoreError> {
        let operation = match change {
            JobChange::Cancel { reason } => Operation::Cancel { reason: self.parts.config.sanitized(reason) },
            JobChange::Pause => Operation::Pause,
            JobChange::Resume => Operation::Resume,
        };
        let mut done = JobsChanged { next: after, ..JobsChanged::default() };
        loop {
            let page = PageRequest { limit: BATCH, after: done.next };
            let found = self.parts.store.list(filter.clone(), page).await?;
            let jobs: Vec<JobId> =
                found.items.iter().filter(|view| may(view)).map(|view| view.job.spec.id).collect();
            if !jobs.is_empty() {
                for answer in self.parts.store.operate(jobs.clone(), operation.clone()).await? {
                    let changed = answer.is_ok_and(|operated| operated.changed);
                    *(if changed { &mut done.changed } else { &mut done.left }) += 1;
                }
                if matches!(operation, Operation::Cancel { .. }) {
                    jobs.into_iter().for_each(|job| self.parts.runs.cancel(job));
                }
            }
            // Keyset by id: what was changed is behind the cursor and is not seen again.
            done.next = found.next;
            if done.next.is_none() || done.changed + done.left >= MOST_CHANGED {
                return Ok(done);
            }
        }
    }
}
