//! How long what is over is kept (L16, D5).

use backstop::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What of retention to tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionQuery {
    /// Count what the next round takes, too. Nothing is changed.
    pub count: bool,
}

/// How long one sort of things is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Retention)]
pub struct RetentionJson {
    /// What.
    pub what: RetentionOf,
    /// For so long; null for ever.
    pub keep_ms: Option<u64>,
    /// Jobs that the next round takes: those whose time is over, 10,000 at most. Only where they were to be counted,
    /// and only of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
}

/// What is kept for a time when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetentionOf {
    /// Jobs that succeeded, from their end; then they are archived.
    Succeeded,
    /// Jobs that were canceled, likewise.
    Canceled,
    /// Dead letters, likewise.
    Failed,
    /// Archived jobs that ran, from their archival; then they are removed.
    Archived,
    /// Re-drive plans, from their end; then they are removed.
    Plans,
    /// Incidents without dead letters, from their last failure; then they are removed.
    Incidents,
    /// Queues, from when they were found empty; then they are left out of lists.
    Queues,
    /// Workflows and batches, from their end; then they are removed.
    Workflows,
    /// Rejected items, from when they were written; then they are removed.
    Rejects,
    /// Signals that nobody waited for; then they are removed.
    Signals,
    /// The audit log; then it is removed.
    AuditLog,
}

impl RetentionOf {
    /// The state of the jobs that it is about; none for what is no hot job.
    #[must_use]
    pub const fn state(self) -> Option<State> {
        match self {
            Self::Succeeded => Some(State::Succeeded),
            Self::Canceled => Some(State::Canceled),
            Self::Failed => Some(State::Failed),
            _ => None,
        }
    }
}
