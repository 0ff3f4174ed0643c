//! How many jobs may wait in one place before further ones are refused (H12).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::tenant;

/// Where waiting jobs are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepthScope {
    /// In one queue.
    Queue(Arc<str>),
    /// In all queues of one tenant (E13).
    Tenant(Arc<str>),
}

impl DepthScope {
    /// True when the jobs of a queue are counted there.
    #[must_use]
    pub fn holds(&self, queue: &str) -> bool {
        match self {
            Self::Queue(name) => **name == *queue,
            Self::Tenant(name) => tenant::of_queue(queue) == Some(&**name),
        }
    }
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
