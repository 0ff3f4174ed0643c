//! What this process remembers of workflows: graphs, which never change, those whose jobs ran here, and those that
//! others bring on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::WorkflowId;
use backstop_core::workflow::Graph;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Workflows whose jobs ran here that are remembered.
const MOST_TOUCHED: usize = 4_096;

/// Nodes of all graphs that are remembered together.
const MOST_NODES: usize = 100_000;

/// How long a workflow is left to whoever was quicker, about: the first time, and how often that doubles.
const ASIDE: Duration = Duration::from_millis(20);
const DOUBLINGS: u32 = 4;

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
    /// Workflows that others have written just when this process would have: until when they are left to them, and how
    /// often in a row that was so.
    aside: HashMap<WorkflowId, (Instant, u32)>,
}

impl Inner {
    fn is_left(&self, id: WorkflowId, now: Instant) -> bool {
        self.aside.get(&id).is_some_and(|(until, _)| *until > now)
    }
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

    /// True when there is nothing to look for: no job of any workflow ran here, or all of those are left to others.
    pub(super) fn has_none(&self, now: Instant) -> bool {
        let inner = self.lock();
        // As a rule nothing is left to others, or something is not, and nothing has to be counted.
        inner.touched.len() <= inner.aside.len() && inner.touched.iter().all(|id| inner.is_left(*id, now))
    }

    /// True when jobs of this workflow ran here, and it is not left to others.
    pub(super) fn is_ours(&self, id: WorkflowId, now: Instant) -> bool {
        let inner = self.lock();
        inner.touched.contains(&id) && !inner.is_left(id, now)
    }

    /// Leaves a workflow for a moment to others who were quicker, and longer each time: of many processes that run the
    /// jobs of one batch, one or two read and write what follows, and the rest run jobs.
    pub(super) fn leave(&self, id: WorkflowId, now: Instant) {
        let mut inner = self.lock();
        inner.aside.retain(|other, (until, _)| *other == id || *until > now);
        let (until, times) = inner.aside.entry(id).or_insert((now, 0));
        // Not all that were too late at one moment come back at one moment.
        *until = now + (ASIDE * 2_u32.pow(*times)).mul_f64(0.5 + fastrand::f64());
        *times = DOUBLINGS.min(*times + 1);
    }

    /// This process was the quickest.
    pub(super) fn take(&self, id: WorkflowId) {
        self.lock().aside.remove(&id);
    }

    /// When the first workflow that was left to others is looked at again.
    pub(crate) fn look_again(&self, now: Instant) -> Option<Instant> {
        self.lock().aside.values().map(|(until, _)| *until).filter(|until| *until > now).min()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_bring_on_is_left_to_them_for_longer_each_time() {
        // W3
        let (memory, id, now) = (WorkflowMemory::default(), WorkflowId::from_u128(7), Instant::now());
        assert!(memory.has_none(now) && !memory.is_ours(id, now), "no job of it ran here");
        memory.touch(id);
        assert!(!memory.has_none(now) && memory.is_ours(id, now) && memory.look_again(now).is_none());
        let (mut at, mut shortest) = (now, ASIDE / 2);
        for _ in 0..8 {
            memory.leave(id, at);
            let again = memory.look_again(at).expect("it is left");
            assert!(again >= at + shortest && again <= at + ASIDE * 24, "{:?}", again - at);
            assert!(!memory.is_ours(id, again - Duration::from_millis(1)) && memory.is_ours(id, again));
            assert!(memory.has_none(at) && !memory.has_none(again));
            assert_eq!(memory.look_again(again), None);
            (at, shortest) = (again, (shortest * 2).min(ASIDE * 8));
        }
        memory.leave(id, at);
        memory.take(id);
        assert!(memory.is_ours(id, at), "nobody else was quicker");
        memory.leave(id, at);
        assert!(memory.look_again(at).expect("it is left") <= at + ASIDE * 2, "it begins again");
    }
}
