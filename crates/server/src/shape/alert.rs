//! What a channel was told of an incident, as it is shown.

use backstop::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one channel was told of one incident so far (D3).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// The failure's fingerprint, or the terminal reason of jobs that no run killed.
    pub incident: String,
    /// The channel.
    pub channel: String,
    /// Messages that came through.
    pub told: u64,
    /// When the latest one did.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub told_at: Option<Timestamp>,
    /// Deaths that were told by the message of another one.
    pub suppressed: u64,
    /// Deaths that were not told because the incident was muted.
    pub muted: u64,
    /// Deaths that were never told because the channel was unavailable for too long.
    pub dropped: u64,
    /// Deaths that wait to be told.
    pub waiting: u64,
    /// Failed deliveries in a row.
    pub failures: u32,
    /// When the next delivery is tried after a failure.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_try: Option<Timestamp>,
    /// Why the latest delivery failed.
    pub trouble: Option<String>,
}
