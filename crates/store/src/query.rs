//! What can be asked of a store, and how it answers.

use std::sync::Arc;

use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::job::{Attempt, JobDetail, State};
use backstop_core::{JobId, Timestamp, WorkerId};
use serde::Serialize;

use crate::KnownKind;

/// Which jobs to list; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// On this queue.
    pub queue: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// In this state, as it is shown: a pending job in a held lane is waiting.
    pub state: Option<State>,
    /// With this tag.
    pub tag: Option<String>,
    /// With this business key.
    pub business_key: Option<String>,
    /// Dead for this reason.
    pub reason: Option<TerminalReason>,
    /// Last failed with this fingerprint.
    pub fingerprint: Option<String>,
    /// Stored at or after this moment.
    pub created_after: Option<Timestamp>,
    /// Stored before this moment.
    pub created_before: Option<Timestamp>,
}

/// A page to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest<K> {
    /// Rows at most.
    pub limit: usize,
    /// The key of the last row of the page before.
    pub after: Option<K>,
}

impl<K> PageRequest<K> {
    /// The first page.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// A page that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, K> {
    /// The rows.
    pub items: Vec<T>,
    /// The key to ask for the next page with; none on the last one.
    pub next: Option<K>,
}

/// A job that has left the hot tables (L16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// When it left.
    pub archived_at: Timestamp,
    /// How it had ended.
    pub state: State,
    /// All that was known of it, as JSON text: `job` and `attempts`, both as every interface shows them, the runs
    /// oldest first.
    pub document: Arc<str>,
}

impl Archived {
    /// What is kept of a job that leaves at `archived_at` with these runs, oldest first.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn new(
        job: &JobDetail,
        attempts: &[Attempt],
        archived_at: Timestamp,
    ) -> Result<Self, serde_json::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            job: &'a JobDetail,
            attempts: &'a [Attempt],
        }
        let document = serde_json::to_string(&Document { job, attempts })?.into();
        Ok(Self { archived_at, state: job.view.record.state, document })
    }
}

/// A queue with its kept counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// True when claims pass it by.
    pub paused: bool,
    /// Jobs that may be claimed now or later; those of held lanes are not counted here.
    pub pending: u64,
    /// Jobs held for a dependency, a signal or code.
    pub waiting: u64,
    /// Jobs that workers hold.
    pub running: u64,
    /// Jobs that people hold back.
    pub paused_jobs: u64,
    /// Jobs that ended well.
    pub succeeded: u64,
    /// Dead letters.
    pub failed: u64,
    /// Jobs that were called off.
    pub canceled: u64,
    /// When the longest-waiting due job became due.
    pub oldest_due: Option<Timestamp>,
    /// Live workers that serve it.
    pub workers: u64,
}

/// A worker as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// This incarnation.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// The version of its code.
    pub code_version: Option<String>,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// What it can run.
    pub kinds: Vec<KnownKind>,
    /// When it made itself known.
    pub started_at: Timestamp,
    /// Until when it may be silent.
    pub expires_at: Timestamp,
    /// True while its lease runs.
    pub live: bool,
    /// Jobs it holds.
    pub running: u64,
}

/// All failures with one fingerprint (D2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Incident {
    /// What they have in common.
    pub fingerprint: Fingerprint,
    /// The kind of job.
    pub kind: String,
    /// The error's type.
    pub error_type: String,
    /// The sanitized text of the first one.
    pub message: String,
    /// Failed runs.
    pub failures: u64,
    /// Of these, runs that made a dead letter.
    pub dead: u64,
    /// The first one.
    pub first_seen: Timestamp,
    /// The latest one.
    pub last_seen: Timestamp,
    /// The latest job.
    pub sample_job: JobId,
}

/// Pending jobs that no live worker of their queue knows (H10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldLane {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// Their payload version.
    pub version: u32,
    /// How many.
    pub jobs: u64,
}

/// What a store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreInfo {
    /// `sqlite`, `postgres`, `mysql` or `memory`.
    pub backend: &'static str,
    /// Where it is, without credentials.
    pub location: String,
}

/// One sentence of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// What to do, when there is something to do.
    pub hint: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Warning,
    /// An acknowledged job could be lost, or work cannot go on.
    Bad,
}
