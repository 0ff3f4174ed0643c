//! Waiting for a workflow or a batch, and being told on the way (W3).

use std::time::Duration;

use backstop_core::WorkflowId;
use backstop_core::workflow::WorkflowStatus;

use super::batch::BatchHandle;
use super::problem::WorkflowProblem;
use super::stored;
use super::view::{WorkflowView, Workflows, driven_again};
use crate::parts::EngineParts;

/// How long a wait leaves the store alone at first when no event of this process tells of the workflow, and at last.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const LOOK_SELDOM: Duration = Duration::from_secs(2);

impl Workflows<'_> {
    /// Waits until all of a workflow or a batch has ended, also what a dead step comes to that is driven again, and
    /// answers how. On the way `progress` is called with where it is, at first and whenever it is further, also by what
    /// other processes did. Views are without nodes: each look costs the same, however many there are.
    ///
    /// Wrap it in [`tokio::time::timeout`] to wait for a limited time: nothing is lost when it is dropped.
    ///
    /// # Errors
    /// When there is none of this id, or the store is away.
    pub async fn wait(
        self,
        id: WorkflowId,
        mut progress: impl FnMut(&WorkflowView),
    ) -> Result<WorkflowView, WorkflowProblem> {
        let parts = self.parts();
        let mut events = parts.events.subscribe();
        let (mut pause, mut before) = (LOOK_AGAIN, None);
        loop {
            let found = stored::head(&*parts.store, id).await?;
            let view = WorkflowView::of(found.ok_or(WorkflowProblem::Unknown(id))?, None);
            if before.as_ref() != Some(&view) {
                progress(&view);
                pause = LOOK_AGAIN;
            }
            if view.status.is_over() && !goes_on(parts, &view).await? {
                return Ok(view);
            }
            before = Some(view);
            // Events tell of this process at once; looking again now and then covers all others.
            let about_it = async {
                while events.next().await.is_some_and(|event| event.workflow().is_none_or(|it| it.id != id)) {
                }
            };
            if tokio::time::timeout(pause, about_it).await.is_err() {
                pause = (pause * 2).min(LOOK_SELDOM);
            }
        }
    }
}

/// True when a dead step of a workflow that has failed is driven again.
async fn goes_on(parts: &EngineParts, view: &WorkflowView) -> Result<bool, WorkflowProblem> {
    // No other one has dead steps, and a batch is judged once.
    if view.status != WorkflowStatus::Failed || view.batch.is_some() {
        return Ok(false);
    }
    let found = stored::one(&*parts.store, &parts.workflows, view.id).await?;
    let Some(stored) = found else { return Ok(false) };
    // It may have gone on since it was looked at.
    let same = stored.workflow.status == view.status;
    Ok(!same || !driven_again(parts, &stored).await?.is_empty())
}

impl BatchHandle {
    /// Waits until all of its jobs have ended, and answers how many ended how: see [`Workflows::wait`].
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # #[job]
    /// # async fn resize(picture: u32) {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// # let worker = engine.worker(()).register::<Resize>().queue("default", 4).start().await?;
    /// let batch = engine.batch("pictures").for_each(1..=3, |picture| engine.enqueue(Resize { picture })).await?;
    /// let ended = batch.wait(|seen| println!("{} of {}", seen.counts.succeeded, seen.counts.total)).await?;
    /// assert_eq!(ended.counts.succeeded, 3);
    /// # worker.stop().await;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the batch is gone, or the store is away.
    pub async fn wait(&self, progress: impl FnMut(&WorkflowView)) -> Result<WorkflowView, WorkflowProblem> {
        Workflows::of(self.parts()).wait(self.id, progress).await
    }
}
