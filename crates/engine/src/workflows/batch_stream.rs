//! The jobs of one stream, on their way into a batch: each is added once, also by those who repeat the submit (W3).
//!
//! How many are stored is known from the batch, and the stream comes in the same order again. Each addition says where
//! it begins, in the write that counts it: what another has added meanwhile is passed over.

use backstop_core::workflow::{BatchProgress, WorkflowBody};

use super::batch::{BatchHandle, children};
use super::problem::WorkflowProblem;
use super::{queues, stored};
use crate::submit::Enqueue;

/// Where a stream of jobs is.
pub(super) struct BatchStream {
    batch: BatchHandle,
    /// Jobs of the stream that were taken so far.
    pub(super) at: u64,
    /// Jobs of the stream that are stored already, as far as that is known.
    stored: u64,
}

/// The same jobs once more.
pub(super) fn copies(jobs: &[Enqueue]) -> Vec<Enqueue> {
    jobs.iter().map(Enqueue::copied).collect()
}

impl BatchStream {
    /// The stream of a batch whose first jobs are these, as this or an earlier submit began it; none when nothing is
    /// to be added to it.
    pub(super) async fn of(batch: &BatchHandle, at: u64) -> Result<Option<Self>, WorkflowProblem> {
        let known = if batch.deduplicated { Self::progress(batch).await? } else { None };
        Ok(match (batch.deduplicated, known) {
            (false, _) => Some(Self { batch: batch.clone(), at, stored: at }),
            (true, Some(BatchProgress { total, sealed: false, streamed: true, .. })) => {
                let mut batch = batch.clone();
                batch.deduplicated = false;
                Some(Self { batch, at, stored: total })
            }
            (true, _) => None,
        })
    }

    async fn progress(batch: &BatchHandle) -> Result<Option<BatchProgress>, WorkflowProblem> {
        let parts = batch.parts();
        let found = stored::one(&*parts.store, &parts.workflows, batch.id).await?;
        Ok(found.and_then(|found| match found.workflow.body {
            WorkflowBody::Batch(progress) => Some(progress),
            WorkflowBody::Graph(_) | WorkflowBody::Counted(_) => None,
        }))
    }

    /// Adds those of the next jobs that are not stored.
    pub(super) async fn add(&mut self, jobs: Vec<Enqueue>) -> Result<(), WorkflowProblem> {
        let (at, end) = (self.at, self.at + jobs.len() as u64);
        self.at = end;
        if end <= self.stored || jobs.is_empty() {
            return Ok(());
        }
        let on = queues::of(&jobs);
        let jobs = children(self.batch.id, jobs).await?;
        let behind = |batch: &mut BatchProgress| {
            // Others were added by hand: nobody repeats the stream then.
            let known = if batch.streamed { batch.total.saturating_sub(at).min(end - at) } else { 0 };
            batch.total += end - at - known;
            jobs.iter().skip(usize::try_from(known).unwrap_or(usize::MAX)).cloned().collect()
        };
        match self.batch.change(&on, behind).await {
            // Another who repeats the same stream was faster.
            Err(WorkflowProblem::Sealed(_)) if self.is_stored(end).await? => Ok(()),
            other => other,
        }
    }

    async fn is_stored(&self, end: u64) -> Result<bool, WorkflowProblem> {
        let known = Self::progress(&self.batch).await?;
        Ok(known.is_some_and(|batch| batch.streamed && batch.total >= end))
    }

    /// Seals the batch.
    pub(super) async fn end(self) -> Result<BatchHandle, WorkflowProblem> {
        self.batch.seal().await?;
        Ok(self.batch)
    }
}
