//! What a worker tells the others of itself, through the store: a small document of its own.

use serde::{Deserialize, Serialize};

use super::dependency::CheckResult;
use super::failures::{CountsByKind, FailureComparison};
use crate::time::Timestamp;

/// How one dependency is for one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DependencyReport {
    /// Its name.
    pub dependency: String,
    /// The kinds of the worker that need it; while it is red the worker claims none of them.
    pub kinds: Vec<String>,
    /// True when it is green.
    pub ok: bool,
    /// Since when it is as it is.
    pub since: Timestamp,
    /// What was last seen of it; none before the first check.
    pub last: Option<CheckResult>,
    /// When it is checked next, or tried again.
    pub next_at: Option<Timestamp>,
    /// How often it turned red because a run found it away, since a run last went well.
    pub failed_tries: u32,
}

/// A worker that claims nothing because of its failures (H8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailurePauseReport {
    /// Since when.
    pub since: Timestamp,
    /// When it tries again with a few runs.
    pub until: Timestamp,
    /// Why.
    pub why: FailureComparison,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Every dependency that its kinds need.
    #[serde(default)]
    pub dependencies: Vec<DependencyReport>,
    /// What its runs of the last minutes came to.
    #[serde(default)]
    pub runs: CountsByKind,
    /// Set while it claims nothing because of its failures.
    #[serde(default)]
    pub paused: Option<FailurePauseReport>,
}

impl WorkerReport {
    /// The red dependency for which it does not claim a kind.
    #[must_use]
    pub fn red_for(&self, kind: &str) -> Option<&DependencyReport> {
        let needs = |one: &&DependencyReport| !one.ok && one.kinds.iter().any(|needing| needing == kind);
        self.dependencies.iter().find(needs)
    }
}
