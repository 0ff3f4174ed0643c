//! What one process remembers of jobs that take turns (H5).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use backstop_store::sharing::LastTurn;

/// What this process remembers of jobs that take turns.
#[derive(Debug, Default)]
pub struct TurnMemory {
    /// Whose turn was the last one in each queue.
    pub(crate) last: LastTurn,
    /// Queues where such jobs were due when somebody looked: a hint, for claims that would rather not look.
    seen: RwLock<HashSet<Arc<str>>>,
    /// How many jobs of a key were needed in each queue the last time: a hint, for who reads them.
    depths: RwLock<HashMap<Arc<str>, usize>>,
}

impl TurnMemory {
    /// Notes whether jobs that take turns were due in a queue.
    pub fn note(&self, queue: &Arc<str>, due: bool) {
        let known = self.is_due(queue);
        if known != due {
            let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
            if due {
                seen.insert(queue.clone())
            } else {
                seen.remove(queue)
            };
        }
    }

    /// True when such jobs were due in a queue the last time.
    #[must_use]
    pub fn is_due(&self, queue: &str) -> bool {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).contains(queue)
    }

    /// Notes how many jobs of one key were needed in a queue.
    pub(crate) fn note_depth(&self, queue: &Arc<str>, depth: usize) {
        if self.depth(queue) != depth {
            self.depths.write().unwrap_or_else(PoisonError::into_inner).insert(queue.clone(), depth);
        }
    }

    /// How many jobs of one key were needed in a queue the last time.
    pub(crate) fn depth(&self, queue: &str) -> usize {
        self.depths.read().unwrap_or_else(PoisonError::into_inner).get(queue).copied().unwrap_or_default()
    }
}
