//! What this process remembers of workflows: graphs, which never change, those whose jobs ran here, and those that
//! others bring on.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::workflow::{EndNote, Graph, PartOf};
use backstop_core::{JobId, WorkflowId};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Workflows whose jobs ran here that are remembered.
const MOST_TOUCHED: usize = 4_096;

/// Steps that ran here that are remembered until their ends are followed up.
const MOST_STEPS: usize = 16_384;

/// Nodes of all graphs that are remembered together.
const MOST_NODES: usize = 100_000;

/// How long a workflow is left to whoever was quicker, about: the first time, and how often that doubles.
const ASIDE: Duration = Duration::from_millis(20);
const DOUBLINGS: u32 = 4;

/// How long a batch rests, about, that has so many jobs before it that nobody waits for its end yet.
const REST: Duration = Duration::from_millis(300);

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
    /// Those of them all ends of which this process follows up: batches, and what people have asked for here.
    whole: HashSet<WorkflowId>,
    /// Steps of all others. The end of a step is for the process where it ran: of many that run steps of one graph only
    /// one reads and writes it then, and the others are not refused for being late.
    steps: HashSet<JobId>,
    step_order: VecDeque<JobId>,
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

    fn touch(&mut self, id: WorkflowId) {
        if self.touched.insert(id) {
            self.order.push_back(id);
        }
        if self.order.len() > MOST_TOUCHED
            && let Some(oldest) = self.order.pop_front()
        {
            self.touched.remove(&oldest);
            self.whole.remove(&oldest);
        }
    }

    /// True when all of these are left to others.
    fn all_left(&self, workflows: &HashSet<WorkflowId>, now: Instant) -> bool {
        // As a rule nothing is left to others, or something is not, and nothing has to be counted.
        workflows.len() <= self.aside.len() && workflows.iter().all(|id| self.is_left(*id, now))
    }
}

impl WorkflowMemory {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job runs here that is a part of something.
    pub(crate) fn runs(&self, job: JobId, part: &PartOf) {
        let mut inner = self.lock();
        inner.touch(part.id);
        if part.node.is_none() {
            inner.whole.insert(part.id);
        } else if inner.steps.insert(job) {
            inner.step_order.push_back(job);
        }
        if inner.step_order.len() > MOST_STEPS
            && let Some(oldest) = inner.step_order.pop_front()
        {
            inner.steps.remove(&oldest);
        }
    }

    /// Somebody does something about all of this workflow here.
    pub(super) fn touch(&self, id: WorkflowId) {
        let mut inner = self.lock();
        inner.touch(id);
        inner.whole.insert(id);
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
        inner.all_left(&inner.touched, now)
    }

    /// True when no end is for this process to follow up.
    pub(super) fn has_no_ends(&self, now: Instant) -> bool {
        let inner = self.lock();
        inner.steps.is_empty() && inner.all_left(&inner.whole, now)
    }

    /// True when a workflow is left to others for now.
    pub(super) fn is_left(&self, id: WorkflowId, now: Instant) -> bool {
        self.lock().is_left(id, now)
    }

    /// True when jobs of this workflow ran here.
    pub(super) fn is_ours(&self, id: WorkflowId) -> bool {
        self.lock().touched.contains(&id)
    }

    /// True when these ends in a workflow are for this process to follow up.
    pub(super) fn are_ours<'n>(&self, id: WorkflowId, notes: impl IntoIterator<Item = &'n EndNote>) -> bool {
        let inner = self.lock();
        inner.whole.contains(&id) || notes.into_iter().any(|note| inner.steps.contains(&note.job))
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

    /// Looks at a batch again later, and then at many ends at once: nothing follows from one of them.
    pub(super) fn rest(&self, id: WorkflowId, now: Instant) {
        let mut inner = self.lock();
        inner.aside.retain(|_, (until, _)| *until > now);
        inner.aside.insert(id, (now + REST.mul_f64(0.5 + fastrand::f64()), 0));
    }

    /// This process was the quickest.
    pub(super) fn take(&self, id: WorkflowId) {
        self.lock().aside.remove(&id);
    }

    /// What follows from these ends is written.
    pub(super) fn followed_up<'n>(&self, notes: impl IntoIterator<Item = &'n EndNote>) {
        let mut inner = self.lock();
        for note in notes {
            inner.steps.remove(&note.job);
        }
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
    use backstop_core::workflow::{NodeEnd, WorkflowMark};

    use super::*;

    #[test]
    fn the_end_of_a_step_is_for_the_process_where_it_ran() {
        // W1, W3
        let (memory, now) = (WorkflowMemory::default(), Instant::now());
        let part = |id, node: Option<&str>| PartOf {
            id,
            node: node.map(Into::into),
            number: 0,
            follows: false,
            renewed: false,
            payload_from: None,
        };
        let note = |id, job| EndNote {
            job: JobId::from_u128(job),
            mark: WorkflowMark { id, number: 0 },
            end: NodeEnd::Succeeded,
            again: false,
        };
        let [graph, batch, other] = [7, 8, 9].map(WorkflowId::from_u128);
        assert!(memory.has_no_ends(now));
        memory.runs(JobId::from_u128(1), &part(graph, Some("first")));
        assert!(!memory.has_no_ends(now));
        assert!(memory.are_ours(graph, &[note(graph, 2), note(graph, 1)]), "one of them ran here");
        assert!(!memory.are_ours(graph, &[note(graph, 2)]), "it ran elsewhere");
        assert!(!memory.are_ours(graph, None), "a document that says nothing");
        assert!(memory.is_ours(graph), "who looks after all that it has touched, looks after that too");
        memory.followed_up(&[note(graph, 1)]);
        assert!(!memory.are_ours(graph, &[note(graph, 1)]) && memory.has_no_ends(now));

        memory.runs(JobId::from_u128(3), &part(batch, None));
        assert!(memory.are_ours(batch, &[note(batch, 4)]), "a batch is for all who run its jobs");
        assert!(!memory.are_ours(other, &[note(other, 5)]));
        memory.touch(other);
        assert!(memory.are_ours(other, &[note(other, 5)]), "somebody called it off here");
        memory.leave(batch, now);
        memory.leave(other, now);
        assert!(memory.has_no_ends(now) && memory.is_left(batch, now) && !memory.is_left(graph, now));

        let more = JobId::from_u128(1_000);
        memory.runs(more, &part(graph, Some("first")));
        for job in (2_000..).take(MOST_STEPS) {
            memory.runs(JobId::from_u128(job), &part(graph, Some("first")));
        }
        assert!(!memory.are_ours(graph, &[note(graph, 1_000)]), "what is remembered is bounded");
        assert!(memory.are_ours(graph, &[note(graph, 2_000)]));
        assert_eq!(memory.lock().steps.len(), MOST_STEPS);
    }

    #[test]
    fn what_others_bring_on_is_left_to_them_for_longer_each_time() {
        // W3
        let (memory, id, now) = (WorkflowMemory::default(), WorkflowId::from_u128(7), Instant::now());
        assert!(memory.has_none(now) && !memory.is_ours(id), "no job of it ran here");
        memory.touch(id);
        assert!(!memory.has_none(now) && memory.is_ours(id) && memory.look_again(now).is_none());
        let (mut at, mut shortest) = (now, ASIDE / 2);
        for _ in 0..8 {
            memory.leave(id, at);
            let again = memory.look_again(at).expect("it is left");
            assert!(again >= at + shortest && again <= at + ASIDE * 24, "{:?}", again - at);
            assert!(memory.is_left(id, again - Duration::from_millis(1)) && !memory.is_left(id, again));
            assert!(memory.has_none(at) && !memory.has_none(again));
            assert_eq!(memory.look_again(again), None);
            (at, shortest) = (again, (shortest * 2).min(ASIDE * 8));
        }
        memory.leave(id, at);
        memory.take(id);
        assert!(!memory.is_left(id, at), "nobody else was quicker");
        memory.leave(id, at);
        assert!(memory.look_again(at).expect("it is left") <= at + ASIDE * 2, "it begins again");
    }
}
