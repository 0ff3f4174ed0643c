//! A line of the audit log as it is shown.

use backstop::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A call that changed something, or tried to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditLine {
    /// When, by the store's clock.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The name of the token; `local` on a machine without tokens, `nobody` without a valid one.
    pub who: String,
    /// The tenant of the token, if it has one.
    pub tenant: Option<String>,
    /// The method.
    pub method: String,
    /// The route, with its parameters in braces.
    pub route: String,
    /// The path. Calls that carry data and calls of nobody have the route's.
    pub path: String,
    /// What it was answered.
    pub status: u16,
    /// The address it came from.
    pub from: Option<String>,
    /// How many calls that were alike came within a tenth of a second.
    pub count: u64,
    /// What is gone, in words, where maintenance retired something: then it was no call, and `who` is `maintenance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
}
