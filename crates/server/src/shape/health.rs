//! Readiness as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether this process can do its work, and what that rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `not_ready`.
    pub status: String,
    /// Each check with its last result.
    pub checks: Vec<ReadyCheck>,
}

/// The last result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadyCheck {
    /// What was checked: `store`; a duty of maintenance as `duty/DUTY`; a loop of the process as `WORKER/LOOP`, where
    /// `server` and `maintenance` stand beside the workers; a dependency of a worker's kinds as
    /// `WORKER/dependency/NAME`; a bridge as `bridge/NAME`; `WORKER/failures` while a worker claims nothing because it
    /// fails far more often than others.
    pub name: String,
    /// True when it went well.
    pub ok: bool,
    /// How long ago that was, in milliseconds: for a loop, when it was last heard of; for a duty, since when nobody
    /// leads it; for a dependency, when it was last checked or found unavailable.
    pub age_ms: u64,
    /// How old it may be before it counts as failed, for a loop or a duty.
    pub deadline_ms: Option<u64>,
    /// How long the check took, for the store.
    pub took_ms: Option<u64>,
    /// How often it had to be started again, for a loop.
    pub restarts: Option<u32>,
    /// For how long it has been well or not, in milliseconds, for a dependency and for failures.
    pub since_ms: Option<u64>,
    /// False for what is shown and does not count: the dependencies of remote workers, `remote/dependency/NAME`, and
    /// bridges.
    pub required: bool,
    /// What is wrong, in a stable word.
    pub problem: Option<String>,
}
