//! Which fire of which schedule a job is (W11).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Which fire of which schedule a job is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FiredBy {
    /// The schedule.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: Arc<str>,
    /// The moment at which it was to fire; that of the request for a run by hand.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub fire_time: Timestamp,
}
