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
mod finish;
mod heartbeat;
mod overtime;
mod presence;
mod taken;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Failure, redact};
use backstop_core::job::{JobView, Progress, Stale};
use backstop_core::{Lease, Timestamp, WorkerId};
use backstop_store::{Error as StoreError, KnownKind, Note};
use serde_json::Value;

use crate::engine::Backstop;

pub use finish::Finished;
pub use heartbeat::{Beat, LostLease, LostReason};

/// What one process remembers of remote workers; all of it can be lost without harm.
#[derive(Debug, Default)]
pub(crate) struct Remotes {
    batches: batches::Batches,
    presences: presence::Presences,
    clocks: overtime::Clocks,
}

/// The engine as workers outside of the process use it. Made by [`Backstop::remote`].
///
/// ```
/// use std::time::Duration;
/// use backstop::prelude::*;
/// use backstop::{Ended, Finished, Grant, Handed, KnownKind, RemoteWorker, WorkRequest};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let job = engine.enqueue_raw("resize", "{}").submit().await?;
/// let remote = engine.remote();
/// let worker = RemoteWorker { realm: String::new(), name: "gpu-1".into() };
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
/// assert!(remote.heartbeat(&worker, vec![grant.clone()]).await?.lost.is_empty());
/// let ended = Ended::Succeeded { result: Some("done".into()) };
/// remote.finish(vec![Finished { grant, ended, logs: Vec::new() }]).await?;
/// assert_eq!(job.result().await?, "done");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Remote {
    engine: Backstop,
}

/// Who works.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteWorker {
    /// Whose it is: names of different realms are different workers. Empty for those of no tenant.
    pub realm: String,
    /// Its name, for people.
    pub name: String,
}

impl RemoteWorker {
    fn id(&self) -> WorkerId {
        WorkerId::named(&self.realm, &self.name)
    }
}

/// A request for work.
#[derive(Debug, Clone)]
pub struct WorkRequest {
    /// Who asks.
    pub worker: RemoteWorker,
    /// The queues to take from, in this order.
    pub queues: Vec<Arc<str>>,
    /// What the worker can run.
    pub kinds: Arc<[KnownKind]>,
    /// Jobs to take at most, over all queues.
    pub limit: usize,
    /// How long to wait for work when there is none.
    pub wait: Duration,
    /// How long the worker may be silent about what it takes.
    pub lease: Duration,
    /// The version of its code.
    pub code_version: Option<Arc<str>>,
}

/// The right to write about one run, with what every node must know to honour it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease itself.
    pub lease: Lease,
    /// The job's queue.
    pub queue: Arc<str>,
    /// When it was taken.
    pub claimed_at: Timestamp,
    /// How long each heartbeat keeps it.
    pub term: Duration,
    /// How many jobs were taken together.
    pub batch: u32,
    /// The version of the code that runs it.
    pub code_version: Option<Arc<str>>,
}

/// A job that was handed to a remote worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    /// The job.
    pub view: JobView,
    /// The right to write about it.
    pub grant: Grant,
    /// Until when it is held without a heartbeat.
    pub expires_at: Timestamp,
}

/// How a remote worker says that a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It went well.
    Succeeded {
        /// What it came to.
        result: Option<Value>,
    },
    /// It failed.
    Failed(Failure),
    /// It asks to run again later, at no cost.
    Snoozed {
        /// How much later.
        delay: Duration,
    },
    /// The handler calls the job off.
    Canceled {
        /// Why.
        reason: String,
    },
    /// A failure that is the job's result: kept, never retried, no incident (F16).
    ReportedFailure {
        /// What it came to.
        result: Value,
    },
    /// A dependency asks for patience: it runs again later, at no cost.
    RateLimited {
        /// How much later.
        delay: Duration,
    },
    /// The worker stops and hands the job back, at no cost (L18).
    Interrupted,
}

impl Backstop {
    /// The engine as workers outside of this process use it (E7).
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote { engine: self.clone() }
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
        let config = self.engine.config();
        let note = redact::sanitize(&*config.redactor, note, config.limits.error_chars);
        let progress = Progress { percent: percent.min(100), note };
        self.note(Note::progress(grant.lease, progress)).await
    }

    /// Keeps lines with a run that is under way, sanitized, as far as its output limit goes (F15).
    ///
    /// # Errors
    /// When the store is away. A lease that is no longer held is answered, not an error.
    pub async fn log(&self, grant: &Grant, lines: &[String]) -> Result<Result<(), Stale>, StoreError> {
        let config = self.engine.config();
        let limit = config.limits.output_bytes;
        // All of it at once: a secret may go over several lines.
        let text = redact::sanitize(&*config.redactor, &lines.join("\n"), limit);
        let lines = text.lines().map(str::to_owned).collect();
        self.note(Note::log(grant.lease, lines, limit)).await
    }

    async fn note(&self, note: Note) -> Result<Result<(), Stale>, StoreError> {
        let stale = Stale { job: note.lease.job, fence: note.lease.fence };
        let mut answers = self.engine.store().annotate(vec![note]).await?;
        Ok(answers.pop().unwrap_or(Err(stale)))
    }
}
