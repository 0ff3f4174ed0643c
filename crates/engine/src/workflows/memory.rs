//! What this process remembers of workflows: graphs, which never change, and those whose jobs ran here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_core::WorkflowId;
use backstop_core::workflow::Graph;
use tokio::sync::Notify;

/// Workflows whose jobs ran here that are remembered.
const MOST_TOUCHED: usize = 4_096;

/// Nodes of all graphs that are remembered together.
const MOST_NODES: usize = 100_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WorkflowMemory {
    inner: Mutex<Inner>,
    /// Rung when a job of a workflow has ended here.
    pub(crate) ended: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    touched: HashSet<WorkflowId>,
    order: VecDeque<WorkflowId>,
    graphs: HashMap<WorkflowId, Arc<Graph>>,
    nodes: usize,
}

impl WorkflowMemory {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job of this workflow runs here.
    pub(crate) fn touch(&self, id: WorkflowId) {
        let mut inner = self.lock();
        if inner.touched.insert(id) {
            inner.order.push_back(id);
        }
        if inner.order.len() > MOST_TOUCHED
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.touched.remove(&oldest);
        }
    }

    /// Rings when jobs of workflows run here: some of them may have ended.
    pub(crate) fn runs_ended(&self) {
        if !self.lock().touched.is_empty() {
            self.ended.notify_one();
        }
    }

    /// True when no job of any workflow ran here.
    pub(super) fn is_untouched(&self) -> bool {
        self.lock().touched.is_empty()
    }

    /// True when jobs of this workflow ran here.
    pub(super) fn has_touched(&self, id: WorkflowId) -> bool {
        self.lock().touched.contains(&id)
    }

    /// A graph that was read before.
    pub(super) fn graph(&self, id: WorkflowId) -> Option<Arc<Graph>> {
        self.lock().graphs.get(&id).cloned()
    }

    /// Remembers a graph. All are forgotten when there are too many: what is needed is read again.
    pub(super) fn keep(&self, id: WorkflowId, graph: &Arc<Graph>) {
        let mut inner = self.lock();
        if inner.graphs.contains_key(&id) {
            return;
        }
        inner.nodes += graph.nodes().len();
        if inner.nodes > MOST_NODES {
            inner.graphs.clear();
            inner.nodes = graph.nodes().len();
        }
        inner.graphs.insert(id, graph.clone());
    }
}
