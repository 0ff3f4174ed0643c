//! What queues let in, as the programs that serve them say it to the store: for clients that come by another door, such
//! as the SQL function of PostgreSQL (L12).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One document of [`crate::Drawer::Gates`]. What is left out is not said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAdmission {
    /// The kinds that the queue takes (E8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// Whether a job needs a signature there (E9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<bool>,
    /// How many jobs may wait there (H12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
}

impl QueueAdmission {
    /// The key of what holds where a queue says nothing itself.
    pub const EVERYWHERE: &'static str = "all";

    /// The key of what one queue says.
    #[must_use]
    pub fn key_of(queue: &str) -> String {
        format!("queue/{queue}")
    }

    /// The document; none when nothing is said.
    #[must_use]
    pub fn to_body(&self) -> Option<Arc<str>> {
        if *self == Self::default() {
            return None;
        }
        serde_json::to_string(self).ok().map(Into::into)
    }
}
