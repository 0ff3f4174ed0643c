//! A worker as it is shown.

use std::collections::BTreeMap;

use backstop::Timestamp;
use backstop_core::WorkerId;
use backstop_core::health::{DependencyReport, FailurePauseReport, WorkerReport};
use backstop_store::WorkerView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A worker that is live, or was until it stopped renewing its lease.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// This incarnation.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// The version of its code, if it said so.
    pub code_version: Option<String>,
    /// The queues it serves, of those that the caller may see.
    pub queues: Vec<String>,
    /// What it can run.
    pub kinds: Vec<WorkerKind>,
    /// When it made itself known.
    pub started_at: Timestamp,
    /// Until when it may be silent.
    pub expires_at: Timestamp,
    /// True while its lease runs.
    pub live: bool,
    /// Jobs it holds; none when it also serves queues that the caller may not see.
    pub running: Option<u64>,
    /// How many jobs it runs at once at most, by queue, of those that the caller may see. Empty until it has said so,
    /// within its first seconds, and for workers over HTTP, which ask for as many as they like.
    #[serde(default)]
    pub slots: BTreeMap<String, u64>,
    /// What its kinds need that may be away, each with its last result (H2); empty when it also serves queues that the
    /// caller may not see.
    #[serde(default)]
    pub dependencies: Vec<DependencyReport>,
    /// Set while it claims nothing because it fails far more often than others (H8).
    #[serde(default)]
    pub paused: Option<FailurePauseReport>,
}

/// A kind that a worker can run, up to a version of its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerKind {
    /// The kind.
    pub kind: String,
    /// The highest payload version it reads.
    pub version: u32,
}

impl Worker {
    /// A worker with those of its queues that the caller sees, under the caller's names, and what it tells of itself;
    /// its slots are told under these names too.
    #[must_use]
    pub fn of(view: WorkerView, queues: Vec<String>, report: WorkerReport) -> Self {
        let whole = queues.len() == view.queues.len();
        let kinds = view.kinds.iter();
        Self {
            id: view.id,
            name: view.name,
            code_version: view.code_version,
            queues,
            kinds: kinds
                .map(|known| WorkerKind { kind: known.kind.to_string(), version: known.version })
                .collect(),
            started_at: view.started_at,
            expires_at: view.expires_at,
            live: view.live,
            running: whole.then_some(view.running),
            slots: report.slots,
            dependencies: if whole { report.dependencies } else { Vec::new() },
            paused: report.paused.filter(|_| whole),
        }
    }
}
