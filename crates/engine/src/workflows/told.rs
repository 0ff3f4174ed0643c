//! What is told of workflows and batches: events to who listens, and figures (V1, V3). Told after the commit.

use backstop_core::Timestamp;
use backstop_core::event::{Event, EventKind, WorkflowHeader};
use backstop_core::workflow::{Advance, Graph, JobEnd, NodeEnd, Workflow};

use crate::parts::EngineParts;

/// What is to be told once it is committed.
#[derive(Debug, Default)]
pub(super) struct WorkflowNews {
    events: Vec<EventKind>,
    ends: Vec<NodeEnd>,
    branches: usize,
    finished: Option<&'static str>,
}

impl WorkflowNews {
    /// That of a workflow as it is now.
    pub(super) fn of(
        parts: &EngineParts,
        workflow: &Workflow,
        graph: Option<&Graph>,
        ends: &[JobEnd],
        follows: &Advance,
    ) -> Self {
        let mut news = Self {
            events: Vec::new(),
            ends: ends.iter().map(|end| end.note.end).collect(),
            branches: follows.branches.len(),
            finished: follows.finished.then(|| workflow.status.as_str()),
        };
        if !["workflow", "branch_taken"].iter().any(|name| parts.events.is_wanted(name)) {
            return news;
        }
        let header = WorkflowHeader::of(workflow);
        for (number, graph) in follows.branches.iter().filter_map(|number| Some((*number, graph?))) {
            let Some(node) = graph.node(number) else { continue };
            let name = |before: &u32| graph.node(*before).map(|node| node.name.clone());
            news.events.push(EventKind::BranchTaken {
                workflow: header.clone(),
                step: node.name.clone(),
                after: node.inputs.iter().filter_map(name).collect(),
                when: graph.condition(number),
            });
        }
        let (status, counts) = (workflow.status, workflow.counts());
        news.events.push(EventKind::Workflow { workflow: header, status, counts });
        news
    }

    /// That of a workflow which nothing followed from.
    pub(super) fn standing(parts: &EngineParts, workflow: &Workflow) -> Self {
        Self::of(parts, workflow, None, &[], &Advance::default())
    }

    /// The same, and what came of it in the same transaction.
    pub(super) fn and(mut self, later: Self) -> Self {
        self.events.extend(later.events);
        self
    }

    /// Tells what was committed at `now`.
    pub(super) fn tell(self, parts: &EngineParts, now: Timestamp) {
        parts.figures.workflow_advanced(&self.ends, self.branches, self.finished);
        for what in self.events {
            parts.events.publish(Event { at: now, node: None, job: None, what });
        }
    }
}
