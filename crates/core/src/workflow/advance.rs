//! A workflow or a batch as it is stored, and what follows when jobs of it have ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    BatchProgress, CancelCause, EndNote, Graph, NodeEnd, NodeMove, NodeState, WorkflowCounts,
    WorkflowProgress,
};
use crate::id::{JobId, WorkflowId};
use crate::job::Callback;
use crate::time::Timestamp;

/// Where a workflow or a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum WorkflowStatus {
    /// Some of it has not ended.
    Running,
    /// All of it has ended, and nothing failed that may not.
    Succeeded,
    /// All of it has ended, and something failed.
    Failed,
    /// People hold it back.
    Paused,
    /// It was called off.
    Canceled,
}

impl std::fmt::Display for WorkflowStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl WorkflowStatus {
    /// The word used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Canceled => "canceled",
        }
    }

    /// True when nothing more happens by itself.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }
}

/// What a workflow is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowBody {
    /// Nodes that wait for each other; the graph itself is stored beside it.
    Graph(WorkflowProgress),
    /// The same of a large graph whose nodes are stored beside it too: what can be told without them.
    Counted(WorkflowCounts),
    /// Jobs without an order.
    Batch(BatchProgress),
}

/// A workflow or a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// Its identity.
    pub id: WorkflowId,
    /// What people call it.
    pub name: Arc<str>,
    /// The tenant whose it is (E13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// The queues that its jobs are on: who may not see one of them does not see the workflow (E13).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub queues: BTreeSet<Arc<str>>,
    /// What it was submitted under; a second submit with it is answered as long as the workflow is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where it is.
    pub status: WorkflowStatus,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When all of it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// How often all of it had ended: a dead step that is driven again lets it go on.
    #[serde(default)]
    pub rounds: u32,
    /// The job to submit when it has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<Callback>,
    /// The job to submit when it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<Callback>,
    /// What it is made of.
    pub body: WorkflowBody,
}

/// The end of a job, with its result where somebody asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEnd {
    /// What is noted of it.
    pub note: EndNote,
    /// What it came to.
    pub result: Option<Value>,
}

/// What is to be done when jobs of a workflow have ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Advance {
    /// Jobs that may run.
    pub release: Vec<JobId>,
    /// Jobs to call off.
    pub cancel: Vec<(JobId, CancelCause)>,
    /// Nodes that are submitted again: their number, the job that was called off, and the one that stands for it.
    pub renew: Vec<(u32, JobId, JobId)>,
    /// The job to submit because all of it has ended: under this id.
    pub callback: Option<(JobId, Callback)>,
    /// Nodes that run because of how those before them ended, where they might not have (W2).
    pub branches: Vec<u32>,
    /// True when all of it has ended just now.
    pub finished: bool,
}

impl Workflow {
    /// One that is stored at `now`, with nothing to follow.
    #[must_use]
    pub const fn new(id: WorkflowId, name: Arc<str>, body: WorkflowBody, now: Timestamp) -> Self {
        Self {
            id,
            name,
            tenant: None,
            queues: BTreeSet::new(),
            key: None,
            status: WorkflowStatus::Running,
            created_at: now,
            finished_at: None,
            rounds: 0,
            on_success: None,
            on_failure: None,
            body,
        }
    }

    /// Takes ends of jobs, and answers what follows. A graph must come with its nodes.
    pub fn advance(&mut self, graph: Option<&Graph>, ends: &[JobEnd], now: Timestamp) -> Advance {
        let before = self.standing();
        let (mut moves, mut counted, mut died_again) = (Vec::new(), false, false);
        match (&mut self.body, graph) {
            (WorkflowBody::Batch(batch), _) => {
                ends.iter().for_each(|end| batch.count(end.note.end, end.note.again));
                counted = true;
            }
            (WorkflowBody::Graph(progress), Some(graph)) => {
                for JobEnd { note, result } in ends {
                    // The end of a job that does not stand for its node any more says nothing.
                    if progress.job(graph, note.mark.number) == Some(note.job) {
                        let state = progress.state(note.mark.number);
                        let was_dead = state == NodeState::Ended(NodeEnd::Failed);
                        counted |= was_dead || !matches!(state, NodeState::Ended(_));
                        died_again |= was_dead && note.again && note.end == NodeEnd::Failed;
                        moves.extend(progress.end(graph, note.mark.number, note.end, result.as_ref()));
                    }
                }
            }
            (WorkflowBody::Graph(_) | WorkflowBody::Counted(_), _) => {}
        }
        let mut advance = Advance::default();
        if let (WorkflowBody::Graph(progress), Some(graph)) = (&mut self.body, graph) {
            advance.take(moves, progress, graph);
        }
        // One that is held back while a dead step is driven again is not over because of ends that say nothing.
        if counted {
            self.judge(before, died_again, &mut advance, now);
        }
        advance
    }

    /// Shows it as held back by people, also when all of it had ended: a dead step of it is driven again.
    pub const fn hold_back(&mut self) {
        // It is removed by its age when it has an end.
        (self.status, self.finished_at) = (WorkflowStatus::Paused, None);
    }

    /// Its steps, or its jobs, by where they are.
    #[must_use]
    pub fn counts(&self) -> WorkflowCounts {
        match &self.body {
            WorkflowBody::Graph(progress) => progress.counts(),
            WorkflowBody::Counted(counts) => *counts,
            WorkflowBody::Batch(batch) => batch.counts(),
        }
    }

    /// Where it is, by its steps: one all of which has ended has come to what they say, also while people hold it back
    /// because a dead step of it is driven again.
    fn standing(&self) -> WorkflowStatus {
        match &self.body {
            WorkflowBody::Graph(progress) if progress.is_over() => self.outcome(),
            _ => self.status,
        }
    }

    /// Follows from what has ended whether all of it has; `before` is where it was. A step that was driven again and
    /// died again is a failure of its own, also where nothing else was waiting for it.
    fn judge(&mut self, before: WorkflowStatus, died_again: bool, advance: &mut Advance, now: Timestamp) {
        let over = match &self.body {
            WorkflowBody::Graph(progress) => progress.is_over(),
            // Nothing follows from ends of nodes that are not known.
            WorkflowBody::Counted(_) => return,
            WorkflowBody::Batch(batch) => batch.is_over(),
        };
        if !over {
            // A step that was driven again lets it go on; a batch is judged once.
            if self.status.is_over() && matches!(self.body, WorkflowBody::Graph(_)) {
                (self.status, self.finished_at) = (WorkflowStatus::Running, None);
            }
            return;
        }
        let after = self.outcome();
        if before.is_over() && matches!(self.body, WorkflowBody::Batch(_)) {
            return;
        }
        if before == after && !(died_again && after == WorkflowStatus::Failed) {
            // That it was held back in between makes it no other end.
            if self.status != after {
                (self.status, self.finished_at) = (after, Some(now));
            }
            return;
        }
        (self.status, self.finished_at) = (after, Some(now));
        let rounds = self.rounds;
        self.rounds = rounds.saturating_add(1);
        advance.finished = true;
        let (role, callback) = match after {
            WorkflowStatus::Succeeded => ("on_success", &self.on_success),
            _ => ("on_failure", &self.on_failure),
        };
        let id = JobId::from_uuid(self.id.as_uuid()).callback(role, rounds);
        advance.callback = callback.clone().map(|callback| (id, callback));
    }

    fn outcome(&self) -> WorkflowStatus {
        match &self.body {
            WorkflowBody::Batch(batch) if batch.has_succeeded() => WorkflowStatus::Succeeded,
            WorkflowBody::Batch(_) => WorkflowStatus::Failed,
            WorkflowBody::Graph(progress) if progress.has(NodeEnd::Failed) => WorkflowStatus::Failed,
            WorkflowBody::Graph(progress) if progress.has(NodeEnd::Canceled) => WorkflowStatus::Canceled,
            WorkflowBody::Graph(_) | WorkflowBody::Counted(_) => WorkflowStatus::Succeeded,
        }
    }
}

impl Advance {
    fn take(&mut self, moves: Vec<NodeMove>, progress: &mut WorkflowProgress, graph: &Graph) {
        let canceled = |next: &NodeMove| match next {
            NodeMove::Cancel(node, _) => Some(*node),
            NodeMove::Release(_) | NodeMove::Renew(_) => None,
        };
        let canceled: BTreeSet<u32> = moves.iter().filter_map(canceled).collect();
        let mut seen = BTreeSet::new();
        // Of a node that was moved twice, the last move counts: it may have been called off after it was released in
        // the same breath.
        for next in moves.into_iter().rev() {
            let (NodeMove::Release(node) | NodeMove::Renew(node) | NodeMove::Cancel(node, _)) = next;
            let Some(job) = progress.job(graph, node).filter(|_| seen.insert(node)) else { continue };
            if !matches!(next, NodeMove::Cancel(..)) && graph.is_branch(node) {
                self.branches.push(node);
            }
            match next {
                NodeMove::Release(_) => self.release.push(job),
                NodeMove::Cancel(_, cause) => self.cancel.push((job, cause)),
                // Its job was to be called off in the same breath, and still waits.
                NodeMove::Renew(_) if canceled.contains(&node) => self.release.push(job),
                NodeMove::Renew(_) => {
                    let again = job.callback("renewed", 0);
                    progress.renew(node, again);
                    self.renew.push((node, job, again));
                }
            }
        }
        self.release.sort_unstable();
        self.branches.sort_unstable();
        self.cancel.sort_unstable_by_key(|(job, _)| *job);
        debug_assert!(
            self.renew.iter().all(|(node, ..)| progress.state(*node) == NodeState::Released),
            "what is submitted again may run"
        );
    }

    /// Adds what followed later in the same breath.
    pub fn extend(&mut self, later: Self) {
        self.release.extend(later.release);
        self.cancel.extend(later.cancel);
        self.renew.extend(later.renew);
        self.branches.extend(later.branches);
        self.callback = later.callback.or_else(|| self.callback.take());
        self.finished |= later.finished;
    }

    /// True when nothing is to be done about any job.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.release.is_empty() && self.cancel.is_empty() && self.renew.is_empty() && self.callback.is_none()
    }
}
