//! What a worker says of itself, and what it is told when it renews.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::{Lease, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

/// A kind that a worker can run, up to a version of its payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KnownKind {
    /// The kind.
    pub kind: Arc<str>,
    /// The highest payload version it reads.
    pub version: u32,
}

impl KnownKind {
    /// True when a job of `kind` and `version` can be run.
    #[must_use]
    pub fn covers(&self, kind: &str, version: u32) -> bool {
        *self.kind == *kind && version <= self.version
    }
}

/// A worker that makes itself known.
#[derive(Debug, Clone)]
pub struct NewWorker {
    /// This incarnation.
    pub id: WorkerId,
    /// A name for people, such as `host:pid`.
    pub name: String,
    /// The version of the application's code.
    pub code_version: Option<String>,
    /// The queues it serves.
    pub queues: Vec<Arc<str>>,
    /// What it can run.
    pub kinds: Arc<[KnownKind]>,
    /// How long it may be silent.
    pub lease: Duration,
}

/// A started run that was handed to a worker elsewhere (E7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedRun {
    /// The hold.
    pub lease: Lease,
    /// When it started.
    pub started_at: Timestamp,
}

/// The answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// Until when everything it holds is safe.
    pub expires_at: Timestamp,
    /// The leases it asked about and no longer holds: canceled, or taken by others.
    pub lost: Vec<Lease>,
}
