//! What a handler submits: jobs of their own, and jobs that are stored with the completion of its run (L23).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backstop_core::JobId;

use super::JobContext;
use crate::error::SubmitError;
use crate::job::{Job, ResultOf};
use crate::run::children::ChildJobs;
use crate::submit::Enqueue;

impl<C> JobContext<C> {
    /// Prepares another job, as [`Backstop::enqueue`](crate::Backstop::enqueue) does; it carries the correlation id and
    /// the trace of this one (L23).
    ///
    /// `.submit().await` stores it at once, so a run that fails later and is tried again submits it again: give it an
    /// idempotency key, or hand it to [`JobContext::submit_with_completion`]. In the transaction that completes this
    /// job, use `.submit_in(&mut tx)`.
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue<ResultOf<J>> {
        self.run.engine.enqueue(job).caused_by(&self.run.job.spec)
    }

    /// The same for a job by the name of its kind, with its payload as JSON text.
    pub fn enqueue_raw(&self, kind: &str, payload: impl Into<Arc<str>>) -> Enqueue {
        self.run.engine.enqueue_raw(kind, payload).caused_by(&self.run.job.spec)
    }

    /// Submits a job together with the completion of this run: in the transaction that completes it, also in that of
    /// [`JobContext::complete_in`]. A run that fails or loses its job submits nothing, so nothing is doubled when it is
    /// tried again (L23).
    ///
    /// ```standalone_crate
    /// use std::time::Duration;
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn sign_up(cx: JobContext<()>, user: u64) -> JobResult {
    ///     cx.submit_with_completion(cx.enqueue(Welcome { user })).await?;
    ///     let survey = cx.enqueue(Survey { user }).delay(Duration::from_secs(7 * 24 * 60 * 60));
    ///     cx.submit_with_completion(survey).await?;
    ///     Ok(())
    /// }
    ///
    /// #[job]
    /// async fn welcome(user: u64) {}
    ///
    /// #[job]
    /// async fn survey(user: u64) {}
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// engine.enqueue(SignUp { user: 7 }).submit().await?;
    /// let worker = engine.worker(()).register_all().queue("default", 1).inline()?;
    /// let ran: Vec<_> = worker.drain(10).await?.into_iter().map(|run| run.kind.to_string()).collect();
    /// assert_eq!(ran, ["sign_up", "welcome"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the job is refused. It can have no keys and replace no other job: a completion is not refused because of
    /// another job.
    pub async fn submit_with_completion<T>(&self, job: Enqueue<T>) -> Result<JobId, SubmitError> {
        if self.run.completes.load(Ordering::SeqCst) {
            return Err(ChildJobs::too_late().into());
        }
        let child = job.prepared().await?;
        let id = child.spec.id;
        self.run.children.add(child, self.run.engine.parts.config.limits.batch)?;
        Ok(id)
    }
}
