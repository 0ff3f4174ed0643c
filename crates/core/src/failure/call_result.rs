//! What the end of a run says of the dependency that it called.

use serde::{Deserialize, Serialize};

use super::Cause;

/// What the end of a run says of the dependency (H4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResult {
    /// It answered.
    Success,
    /// It failed.
    Failure,
    /// Something else went wrong: the call counts, and not as a failure.
    Neutral,
    /// As if the dependency had not been called.
    Ignored,
}

impl CallResult {
    /// What a run says of its dependency that ended by this cause and says nothing else of it. An error may well be the
    /// dependency's; what a handler calls permanent or invalid, and a panic, is about the job; the rest has not been
    /// decided by a call at all.
    #[must_use]
    pub const fn of(cause: Cause) -> Self {
        match cause {
            Cause::Succeeded => Self::Success,
            Cause::Error | Cause::Timeout | Cause::Rejected => Self::Failure,
            Cause::Permanent | Cause::Invalid | Cause::Panic | Cause::RateLimited => Self::Neutral,
            _ => Self::Ignored,
        }
    }
}
