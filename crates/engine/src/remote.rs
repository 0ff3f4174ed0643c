//! Workers outside of this process (E7): they take jobs, keep them by heartbeats, and report how their runs ended.
//!
//! A lease of the store belongs to a worker, and a worker that restarts under its old name must not keep alive what its
//! predecessor held. So every claim that takes jobs makes itself known as a worker of its own, a batch, and a heartbeat
//! renews the batches of the leases it names and no others. Beside them one row for each name says which queues and
//! kinds somebody out there serves (H10); it holds no job.
//!
//! Runs end here as they do everywhere: same checks before, same rules, budgets, redaction and follow-ups after. How a
//! lease travels (as a signed token) and who may show it is the server's affair.

mod batches;
mod claim;
mod clocks;
mod dependencies;
mod died;
mod failures;
mod finish;
mod health;
mod heartbeat;
pub(crate) mod memory;
mod overtime;
mod presence;
mod rejects;
mod signals;
mod steps;
pub(crate) mod suspect;
mod taken;
mod work;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::failure::redact;
use backstop_core::health::WaitsByQueue;
use backstop_core::job::{NoteError, Progress, Stale};
use backstop_store::{Error as StoreError, Note};

use self::memory::RemoteMemory;
use crate::engine::Backstop;
use crate::parts::EngineParts;

pub use finish::Finished;
pub use heartbeat::{LostLease, LostReason, RenewedLeases};
pub use rejects::RemoteReject;
pub use steps::{RemoteEffect, RemoteStep};
pub use work::{CircuitPass, Ended, Grant, Handed, RemoteWorker, WorkRequest};

/// The engine as workers outside of the process use it. Made by [`Backstop::remote`].
///
/// ```
/// use std::time::Duration;
/// use backstop::prelude::*;
/// use backstop::{CircuitPass, Ended, Finished, Grant, Handed, KnownKind, RemoteWorker, WorkRequest};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let job = engine.enqueue_raw("resize", "{}").submit().await?;
/// let remote = engine.remote();
/// let worker = RemoteWorker { realm: String::new(), name: "gpu-1".into(), instance: None };
/// let request = WorkRequest {
///     worker: worker.clone(),
///     queues: vec!["default".into()],
///     kinds: vec![KnownKind { kind: "resize".into(), version: 1 }].into(),
///     limit: 1,
///     wait: Duration::ZERO,
///     lease: Duration::from_secs(30),
///     code_version: None,
/// };
/// let mut taken: Vec<Handed> = remote.claim(request).await?;
/// let grant: Grant = taken.remove(0).grant;
/// let needs_nothing: Option<CircuitPass> = grant.circuit;
/// assert_eq!(needs_nothing, None);
/// assert!(remote.heartbeat(&worker, vec![grant.clone()]).await?.lost.is_empty());
/// let ended = Ended::Succeeded { result: Some("done".into()) };
/// remote.finish(vec![Finished { grant, ended, step: None, logs: Vec::new() }]).await?;
/// assert_eq!(job.result().await?, "done");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Remote {
    parts: Arc<EngineParts>,
    memory: Arc<RemoteMemory>,
}

impl Backstop {
    /// The engine as workers outside of this process use it (E7).
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote { parts: self.parts.clone(), memory: self.remote_memory.clone() }
    }
}

impl Remote {
    /// Keeps what a run says of its progress. The note is sanitized like everything a run says (F11).
    ///
    /// # Errors
    /// When the store is away. A lease that is no longer held is answered, not an error.
    pub async fn progress(
        &self,
        grant: &Grant,
        percent: u8,
        note: &str,
    ) -> Result<Result<(), Stale>, StoreError> {
        let progress = Progress { percent: percent.min(100), note: self.parts.config.sanitized(note) };
        self.said(Note::progress(grant.lease, progress)).await
    }

    /// Keeps lines with a run that is under way, sanitized, as far as its output limit goes (F15).
    ///
    /// # Errors
    /// When the store is away. A lease that is no longer held is answered, not an error.
    pub async fn log(&self, grant: &Grant, lines: &[String]) -> Result<Result<(), Stale>, StoreError> {
        let config = &self.parts.config;
        let limit = config.limits.output_bytes;
        // All of it at once: a secret may go over several lines.
        let text = redact::sanitize(&*config.redactor, &lines.join("\n"), limit);
        let lines = text.lines().map(str::to_owned).collect();
        self.said(Note::log(grant.lease, lines, limit)).await
    }

    /// How long the jobs that this process has handed out in the last minute had been due, by queue. Workers within a
    /// process tell that themselves: see [`Backstop::worker_reports`].
    #[must_use]
    pub fn waits(&self, now: Timestamp) -> WaitsByQueue {
        self.memory.waits.lock().unwrap_or_else(PoisonError::into_inner).counts(now)
    }

    fn waited(&self, queue: &str, wait: Duration, now: Timestamp) {
        self.memory.waits.lock().unwrap_or_else(PoisonError::into_inner).note(queue, wait, now);
    }

    /// Keeps what is refused only when the lease is stale.
    async fn said(&self, note: Note) -> Result<Result<(), Stale>, StoreError> {
        let stale = Stale { job: note.lease.job, fence: note.lease.fence };
        Ok(self.note(note).await?.map_err(|_| stale))
    }

    async fn note(&self, note: Note) -> Result<Result<(), NoteError>, StoreError> {
        let stale = Stale { job: note.lease.job, fence: note.lease.fence };
        let mut answers = self.parts.store.annotate(vec![note]).await?;
        Ok(answers.pop().unwrap_or(Err(stale.into())))
    }
}
