//! What a bulk handler sees: each job of its call, and what the call shares (W12).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::JobId;
use backstop_store::Error as StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::entry::CallEntry;
use super::job::BulkJob;
use crate::context::JobContext;
use crate::engine::Backstop;
use crate::error::CompleteError;
use crate::outcome::IntoReply;
use crate::tx::CallerTransaction;

/// One job of a bulk call. [`BulkItem::answer`] says what became of it; one that is dropped without an answer has
/// failed when the call returns, and is tried again by its own retries.
///
/// Durable steps, signals and rejects are for handlers of one job: a call that is made again for some of its jobs could
/// not tell what it has done for which.
pub struct BulkItem<J: BulkJob> {
    job: J,
    cx: JobContext<()>,
    entry: CallEntry,
}

impl<J: BulkJob> BulkItem<J> {
    pub(super) fn new(job: J, entry: CallEntry) -> Self {
        let cx = JobContext::new(Arc::new(()), entry.entry.run.clone());
        Self { job, cx, entry }
    }

    /// The job's input.
    #[must_use]
    pub const fn job(&self) -> &J {
        &self.job
    }

    /// Says what became of this job: what a handler of one job would return, [`Outcome`](crate::Outcome)s included. It
    /// counts at once and for good, whatever becomes of the call.
    pub fn answer(self, reply: J::Output) {
        self.entry.answer(reply.into_reply());
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.cx.id()
    }

    /// The job's queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.cx.queue()
    }

    /// Which attempt of this job this is, from 1. A call that is made again is the same attempt.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.cx.attempt()
    }

    /// Which run of this job this is, from 1.
    #[must_use]
    pub fn run_number(&self) -> u32 {
        self.cx.run_number()
    }

    /// How many charged runs may follow the first.
    #[must_use]
    pub fn max_retries(&self) -> u32 {
        self.cx.max_retries()
    }

    /// How long a call with this job may take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.cx.timeout()
    }

    /// A key for outside effects that stays the same over every run of this job, and over every call of a run.
    #[must_use]
    pub fn effect_key(&self) -> String {
        self.cx.effect_key()
    }

    /// The job's tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        self.cx.tags()
    }

    /// The job's params, decoded; missing params decode as the empty object.
    ///
    /// # Errors
    /// When they do not have the shape of `T`.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.cx.params()
    }

    /// What ties the job to a request or a trace outside.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.cx.correlation_id()
    }

    /// The job's business key.
    #[must_use]
    pub fn business_key(&self) -> Option<&str> {
        self.cx.business_key()
    }

    /// The tenant whose job this is (E13). One call may have jobs of several.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.cx.tenant()
    }

    /// Keeps a line with the run of this job, up to the output limit (F15).
    pub fn log(&self, line: impl AsRef<str>) {
        self.cx.log(line);
    }

    /// Stores how far this job is.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn progress(&self, percent: u8, note: impl Into<String>) -> Result<(), StoreError> {
        self.cx.progress(percent, note).await
    }

    /// True when this job should be left alone: it was canceled, its lease was lost, or the call's time is up. What is
    /// answered for it then is not written.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.entry.stop.is_cancelled()
    }

    /// The token behind [`BulkItem::is_canceled`], to wait for or to hand to other code.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.entry.stop.clone()
    }

    /// Completes this job inside the handler's own transaction, as [`JobContext::complete_in`] does (L14): the rows of
    /// all jobs of a call and their completions can be one commit. Answer `Ok` after the commit.
    ///
    /// When the transaction is rolled back and the call fails, its jobs are split as after any failure.
    ///
    /// # Errors
    /// As [`JobContext::complete_in`].
    pub async fn complete_in(
        &self,
        tx: &mut impl CallerTransaction,
        result: impl Serialize,
    ) -> Result<(), CompleteError> {
        self.cx.complete_in(tx, result).await
    }

    /// The same for a transaction that blocks the thread, such as rusqlite's, inside `spawn_blocking`.
    ///
    /// # Errors
    /// As [`JobContext::complete_in`].
    #[cfg(feature = "sqlite")]
    pub fn complete_in_blocking(
        &self,
        tx: &backstop_sqlite::rusqlite::Connection,
        result: impl Serialize,
    ) -> Result<(), CompleteError> {
        self.cx.complete_in_blocking(tx, result)
    }
}

impl<J: BulkJob> fmt::Debug for BulkItem<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkItem").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// What the jobs of a call share.
pub struct BulkContext<C> {
    app: Arc<C>,
    engine: Backstop,
}

impl<C> BulkContext<C> {
    pub(super) const fn new(app: Arc<C>, engine: Backstop) -> Self {
        Self { app, engine }
    }

    /// The application's own context, as it was given to the worker.
    #[must_use]
    pub fn app(&self) -> &C {
        &self.app
    }

    /// The same to keep, such as for a blocking task.
    #[must_use]
    pub fn shared_app(&self) -> Arc<C> {
        self.app.clone()
    }

    /// The engine that runs the jobs.
    #[must_use]
    pub const fn engine(&self) -> &Backstop {
        &self.engine
    }
}

impl<C> fmt::Debug for BulkContext<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BulkContext")
    }
}
