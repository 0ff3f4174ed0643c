//! The crash matrix (C6): processes killed at named points, twenty times at each, and what was found afterwards.
//!
//! A point is reached from outside, so that the code under test is the code that ships. On database servers a proxy
//! stands between the process and its server and holds the connection at the bytes of the point; the process is then
//! killed. On SQLite the process watches its own statements ([`statements`]) and ends itself. Points between two
//! statements are reached by the handler itself ([`job`]).
//!
//! [`campaign`] kills processes that work on the store, [`servers`] those of the HTTP API and remote workers; [`trap`]
//! says where. [`older`] makes a store of the first version. [`figures`] counts what was found and keeps it for
//! docs/guarantees.md.

pub mod campaign;
pub mod figures;
pub mod job;
pub mod older;
pub mod remote;
pub mod servers;
pub mod statements;
pub mod trap;

use serde::{Deserialize, Serialize};

/// A moment at which a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillPoint {
    /// The transaction that ends a run is written, and its COMMIT has not reached the database; or the one statement
    /// that ends it has not.
    BeforeCommit,
    /// The database has committed the end of a run, and nobody has been told.
    AfterCommit,
    /// A run has failed, and the transaction that schedules the next try is not committed.
    RetryScheduling,
    /// The handler has done what it does outside, and has not returned.
    AfterEffect,
    /// The handler has begun, and holds its lease.
    LeaseHeld,
    /// Some jobs of one batch have been sent, or some endings of one report.
    MidBatch,
    /// Some statements of the migrations have been run, on an empty store.
    MidMigration,
    /// Some statements of the migrations have been run, on a store of the first version with jobs in it.
    MidUpgrade,
}

impl KillPoint {
    /// Those at which a process dies that runs jobs, submits them or serves the API.
    pub const OF_JOBS: [Self; 6] = [
        Self::BeforeCommit,
        Self::AfterCommit,
        Self::RetryScheduling,
        Self::AfterEffect,
        Self::LeaseHeld,
        Self::MidBatch,
    ];

    /// Its name, as in docs/guarantees.md.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeCommit => "before_commit",
            Self::AfterCommit => "after_commit",
            Self::RetryScheduling => "retry_scheduling",
            Self::AfterEffect => "after_effect",
            Self::LeaseHeld => "lease_held",
            Self::MidBatch => "mid_batch",
            Self::MidMigration => "mid_migration",
            Self::MidUpgrade => "mid_upgrade",
        }
    }
}
