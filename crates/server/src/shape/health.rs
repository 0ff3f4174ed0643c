//! Readiness as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether this process can do its work, and what that rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `not_ready`.
    pub status: String,
    /// Each check with its last result.
    pub checks: Vec<Check>,
}

/// The last result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReadyCheck)]
pub struct Check {
    /// What was checked: `store`, or a loop of a worker as `WORKER/LOOP`.
    pub name: String,
    /// True when it went well.
    pub ok: bool,
    /// How long ago that was, in milliseconds: for a loop, when it was last heard of.
    pub age_ms: u64,
    /// How old it may be before it counts as failed, for a loop.
    pub deadline_ms: Option<u64>,
    /// How long the check took, for the store.
    pub took_ms: Option<u64>,
    /// How often it had to be started again, for a loop.
    pub restarts: Option<u32>,
    /// What is wrong, in a stable word.
    pub problem: Option<String>,
}
