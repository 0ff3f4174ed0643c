//! How far a graph is: the state of each node and of each edge.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::graph::FEW_NODES;
use super::{Graph, Join, NodeEnd};
use crate::id::JobId;

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It waits for other nodes.
    Waiting,
    /// Its job may run, or runs.
    Released,
    /// It has ended.
    Ended(NodeEnd),
}

impl NodeState {
    const fn letter(self) -> char {
        match self {
            Self::Waiting => 'w',
            Self::Released => 'r',
            Self::Ended(NodeEnd::Succeeded) => 's',
            Self::Ended(NodeEnd::Failed) => 'f',
            Self::Ended(NodeEnd::Canceled) => 'c',
            Self::Ended(NodeEnd::NotTaken) => 'n',
            Self::Ended(NodeEnd::DependencyFailed) => 'd',
        }
    }

    const fn of_letter(letter: char) -> Self {
        match letter {
            'r' => Self::Released,
            's' => Self::Ended(NodeEnd::Succeeded),
            'f' => Self::Ended(NodeEnd::Failed),
            'c' => Self::Ended(NodeEnd::Canceled),
            'n' => Self::Ended(NodeEnd::NotTaken),
            'd' => Self::Ended(NodeEnd::DependencyFailed),
            _ => Self::Waiting,
        }
    }
}

/// Why a node is called off by its workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// Its branch was not taken.
    NotTaken,
    /// Something that it needs has failed.
    DependencyFailed,
    /// Something before it was called off.
    Canceled,
}

impl CancelCause {
    /// The reason that its job is given.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotTaken => "not_taken",
            Self::DependencyFailed => "dependency_failed",
            Self::Canceled => "an earlier step was canceled",
        }
    }

    const fn end(self) -> NodeEnd {
        match self {
            Self::NotTaken => NodeEnd::NotTaken,
            Self::DependencyFailed => NodeEnd::DependencyFailed,
            Self::Canceled => NodeEnd::Canceled,
        }
    }
}

/// What is to be done about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeMove {
    /// Its job may run.
    Release(u32),
    /// Its job was called off, and can run after all: it is submitted again, as another job.
    Renew(u32),
    /// Its job is called off.
    Cancel(u32, CancelCause),
}

/// Nodes by where they are. Those that ask predicates are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkflowCounts {
    /// All.
    pub total: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those that were called off, by people or because they can not run.
    pub canceled: u64,
    /// Those that may run, or run.
    pub released: u64,
    /// Those that wait for others.
    pub waiting: u64,
}

/// How far a graph is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Letters", into = "Letters")]
pub struct WorkflowProgress {
    nodes: Vec<NodeState>,
    /// How many of them ask predicates: the last ones.
    asking: usize,
    /// Whether each edge holds, once its first node has ended.
    edges: Vec<Option<bool>>,
    /// Jobs that stand for nodes whose first job was called off.
    jobs: BTreeMap<u32, JobId>,
    /// Nodes that wait again, although their job was called off: something before them was driven again.
    called_off: BTreeSet<u32>,
}

/// The progress as it is written: one letter for each node and each edge.
#[derive(Serialize, Deserialize)]
struct Letters {
    nodes: String,
    #[serde(default, skip_serializing_if = "is_none")]
    asking: usize,
    edges: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    jobs: BTreeMap<u32, JobId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    called_off: BTreeSet<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over by reference")]
const fn is_none(count: &usize) -> bool {
    *count == 0
}

impl From<Letters> for WorkflowProgress {
    fn from(Letters { nodes, asking, edges, jobs, called_off }: Letters) -> Self {
        let edge = |letter| match letter {
            'y' => Some(true),
            'n' => Some(false),
            _ => None,
        };
        Self {
            nodes: nodes.chars().map(NodeState::of_letter).collect(),
            asking,
            edges: edges.chars().map(edge).collect(),
            jobs,
            called_off,
        }
    }
}

impl From<WorkflowProgress> for Letters {
    fn from(progress: WorkflowProgress) -> Self {
        let edge = |edge| match edge {
            Some(true) => 'y',
            Some(false) => 'n',
            None => '.',
        };
        Self {
            nodes: progress.nodes.into_iter().map(NodeState::letter).collect(),
            asking: progress.asking,
            edges: progress.edges.into_iter().map(edge).collect(),
            jobs: progress.jobs,
            called_off: progress.called_off,
        }
    }
}

impl WorkflowProgress {
    /// True for that of a large graph: see [`Graph::is_large`].
    #[must_use]
    pub const fn is_long(&self) -> bool {
        self.nodes.len() > FEW_NODES
    }

    /// That of a graph whose jobs have just been stored: nodes that wait for nothing may run.
    #[must_use]
    pub fn begin(graph: &Graph) -> Self {
        let state = |node: &super::GraphNode| {
            if node.after.is_empty() { NodeState::Released } else { NodeState::Waiting }
        };
        Self {
            nodes: graph.nodes().iter().map(state).collect(),
            asking: graph.nodes().iter().filter(|node| node.predicate.is_some()).count(),
            edges: vec![None; graph.edges()],
            jobs: BTreeMap::new(),
            called_off: BTreeSet::new(),
        }
    }

    /// Where a node is.
    #[must_use]
    pub fn state(&self, node: u32) -> NodeState {
        self.nodes.get(node as usize).copied().unwrap_or(NodeState::Waiting)
    }

    /// The job that stands for a node.
    #[must_use]
    pub fn job(&self, graph: &Graph, node: u32) -> Option<JobId> {
        self.jobs.get(&node).copied().or_else(|| graph.node(node).map(|node| node.job))
    }

    /// Notes that another job stands for a node now.
    pub(super) fn renew(&mut self, node: u32, job: JobId) {
        self.jobs.insert(node, job);
    }

    /// True when no node waits or runs any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.nodes.iter().all(|state| matches!(state, NodeState::Ended(_)))
    }

    /// Nodes by where they are.
    #[must_use]
    pub fn counts(&self) -> WorkflowCounts {
        let mut counts = WorkflowCounts::default();
        let shown = self.nodes.len().saturating_sub(self.asking);
        for state in self.nodes.iter().take(shown) {
            counts.total += 1;
            *match state {
                NodeState::Waiting => &mut counts.waiting,
                NodeState::Released => &mut counts.released,
                NodeState::Ended(NodeEnd::Succeeded) => &mut counts.succeeded,
                NodeState::Ended(NodeEnd::Failed) => &mut counts.failed,
                NodeState::Ended(_) => &mut counts.canceled,
            } += 1;
        }
        counts
    }

    /// True when some node ended like this, one that asks a predicate among them.
    #[must_use]
    pub fn has(&self, end: NodeEnd) -> bool {
        self.nodes.contains(&NodeState::Ended(end))
    }

    /// What a node still waits for, in the order of their numbers: steps that have not ended, and predicates that are
    /// being asked. A predicate whose own turn has not come stands for what it waits for.
    #[must_use]
    pub fn open_before(&self, graph: &Graph, node: u32) -> BTreeSet<u32> {
        let (mut found, mut open) = (BTreeSet::new(), vec![node]);
        while let Some(node) = open.pop() {
            let undecided = graph.leading_to(node).filter(|edge| matches!(self.edges.get(*edge), Some(None)));
            for before in undecided.filter_map(|edge| graph.edge(node, edge)).map(|edge| edge.from) {
                let asks = graph.node(before).is_some_and(|node| node.predicate.is_some());
                if asks && self.state(before) == NodeState::Waiting {
                    open.push(before);
                } else {
                    found.insert(before);
                }
            }
        }
        found
    }

    /// Takes the end of a node, and answers what follows from it, however far that goes.
    ///
    /// The end of one that has ended already changes nothing, unless it was a dead letter: then it was driven again
    /// (W4), and what its first end called off is decided anew.
    pub fn end(&mut self, graph: &Graph, node: u32, end: NodeEnd, result: Option<&Value>) -> Vec<NodeMove> {
        let mut moves = Vec::new();
        match self.state(node) {
            _ if graph.node(node).is_none() => return moves,
            NodeState::Ended(NodeEnd::Failed) => self.reopen(graph, node),
            NodeState::Ended(_) => return moves,
            NodeState::Waiting | NodeState::Released => {}
        }
        // A result is looked at for the node that brought it only: what is called off has none.
        let mut ended = vec![(node, end, result)];
        while let Some((node, end, result)) = ended.pop() {
            self.set(node, NodeState::Ended(end));
            // Depth first, in the order of the numbers.
            for (to, edge) in graph.following(node).iter().rev() {
                let Some(condition) = graph.edge(*to, *edge) else { continue };
                let holds = condition.when.holds(end, result) != condition.unless;
                // What is called off takes everything behind it along, also what would follow "unless".
                let holds = holds && end != NodeEnd::Canceled;
                if let Some(known) = self.edges.get_mut(*edge) {
                    *known = Some(holds);
                }
                let cause = cause(end, condition.when.needs_success() && !condition.unless);
                let Some(next) = self.look(graph, *to, cause) else { continue };
                if let NodeMove::Cancel(to, cause) = next {
                    ended.push((to, cause.end(), None));
                    self.set(to, NodeState::Ended(cause.end()));
                    // The job of one that had waited again is called off since the first time.
                    if self.called_off.remove(&to) {
                        continue;
                    }
                }
                moves.push(next);
            }
        }
        moves
    }

    fn set(&mut self, node: u32, state: NodeState) {
        if let Some(known) = self.nodes.get_mut(node as usize) {
            *known = state;
        }
    }

    /// Takes back what followed from the end of a dead step that was driven again, before it ends anew: what could not
    /// run because of it waits again, and so does what was decided by that in turn. What may run, or has run, stays as
    /// it is; so does what people called off.
    fn reopen(&mut self, graph: &Graph, node: u32) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            for (to, edge) in graph.following(node) {
                if let Some(known) = self.edges.get_mut(*edge) {
                    *known = None;
                }
                let called_off = [NodeEnd::DependencyFailed, NodeEnd::NotTaken].map(NodeState::Ended);
                if called_off.contains(&self.state(*to)) && self.prospect(graph, *to) != Some(Prospect::Lost)
                {
                    self.set(*to, NodeState::Waiting);
                    self.called_off.insert(*to);
                    open.push(*to);
                }
            }
        }
    }

    /// What is to be done about a node one of whose edges is known now; `cause` says why, if it can not run.
    fn look(&mut self, graph: &Graph, node: u32, cause: CancelCause) -> Option<NodeMove> {
        if self.state(node) != NodeState::Waiting {
            return None;
        }
        match self.prospect(graph, node)? {
            Prospect::Open => None,
            Prospect::Lost => Some(NodeMove::Cancel(node, cause)),
            Prospect::Ready => {
                self.set(node, NodeState::Released);
                let again = self.called_off.remove(&node);
                Some(if again { NodeMove::Renew(node) } else { NodeMove::Release(node) })
            }
        }
    }

    /// What the edges of a node say of it.
    fn prospect(&self, graph: &Graph, node: u32) -> Option<Prospect> {
        let edges = self.edges.get(graph.leading_to(node))?;
        let (ready, lost) = match graph.node(node)?.join {
            Join::All => (edges.iter().all(|edge| *edge == Some(true)), edges.contains(&Some(false))),
            Join::Any => (edges.contains(&Some(true)), edges.iter().all(|edge| *edge == Some(false))),
        };
        Some(match (ready, lost) {
            (true, _) => Prospect::Ready,
            (false, true) => Prospect::Lost,
            (false, false) => Prospect::Open,
        })
    }
}

/// Whether a node can run, by what is known of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prospect {
    Open,
    Ready,
    Lost,
}

/// Why a node cannot run when one before it ended like this.
const fn cause(end: NodeEnd, needed_success: bool) -> CancelCause {
    match end {
        NodeEnd::Canceled => CancelCause::Canceled,
        NodeEnd::Failed | NodeEnd::DependencyFailed if needed_success => CancelCause::DependencyFailed,
        _ => CancelCause::NotTaken,
    }
}
