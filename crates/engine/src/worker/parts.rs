//! All that a worker is made of, once it is built.

use std::sync::Arc;

use super::execute::Executor;
use super::health::WorkerNeeds;

/// A queue that a worker serves.
#[derive(Debug, Clone)]
pub(crate) struct ServedQueue {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) prefetch: usize,
}

/// See the module.
pub(crate) struct WorkerParts {
    pub(crate) executor: Executor,
    pub(crate) queues: Vec<ServedQueue>,
    pub(crate) name: String,
    pub(crate) maintenance: bool,
    /// What may be away that its kinds need.
    pub(crate) needs: WorkerNeeds,
}
