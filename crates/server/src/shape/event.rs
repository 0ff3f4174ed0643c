//! What can be asked of events.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which events are sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventQuery {
    /// Queues, with commas between them.
    pub queue: Option<String>,
    /// Kinds, with commas between them.
    pub kind: Option<String>,
    /// Names of events, with commas between them.
    pub event: Option<String>,
    /// One job.
    pub job: Option<String>,
    /// The id of the last event that was seen.
    pub after: Option<String>,
}
