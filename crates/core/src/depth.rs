//! How many jobs may wait in one place before further ones are refused (H12).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// Where waiting jobs are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepthScope {
    /// In one queue.
    Queue(Arc<str>),
    /// In all queues of one tenant (E13).
    Tenant(Arc<str>),
}

impl fmt::Display for DepthScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue `{name}`"),
            Self::Tenant(name) => write!(f, "tenant `{name}`"),
        }
    }
}

/// How many jobs may wait there: pending ones and those that wait for something else, whenever they are due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepthLimit {
    /// Where they are counted.
    pub scope: DepthScope,
    /// So many at most.
    pub most: u64,
}

impl DepthLimit {
    /// Refuses one more job where so many wait.
    ///
    /// # Errors
    /// [`Refusal::QueueFull`].
    pub fn check(&self, depth: u64) -> Result<(), Refusal> {
        if depth < self.most {
            return Ok(());
        }
        Err(Refusal::QueueFull { scope: self.scope.clone(), depth, limit: self.most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_free_place_is_given_and_no_more() {
        // H12
        let limit = DepthLimit { scope: DepthScope::Queue("mail".into()), most: 2 };
        assert_eq!((limit.check(0), limit.check(1)), (Ok(()), Ok(())));
        let refused = limit.check(2).expect_err("full");
        assert_eq!(refused.code(), "queue_full");
        assert_eq!(refused.to_string(), "queue `mail` is full (2 waiting, the limit is 2)");
        let details = serde_json::json!({ "queue": "mail", "depth": 2, "limit": 2, "retry_after_ms": 1_000 });
        assert_eq!(refused.details(), details);
        let tenant = DepthLimit { scope: DepthScope::Tenant("acme".into()), most: 1 };
        assert_eq!(tenant.check(7).expect_err("full").details()["tenant"], "acme");
    }
}
