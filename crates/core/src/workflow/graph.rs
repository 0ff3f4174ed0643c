//! The graph of a workflow, as it is stored: it never changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Condition;
use crate::id::JobId;

/// Nodes of which a workflow tells in its own document.
pub(super) const FEW_NODES: usize = 64;

/// How many of the nodes before it a node waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkflowJoin))]
pub enum Join {
    /// For all of them.
    #[default]
    All,
    /// For the first one.
    Any,
}

impl Join {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// A node waits for another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The node before.
    #[serde(rename = "f")]
    pub from: u32,
    /// What its end must be like.
    #[serde(rename = "w", default, skip_serializing_if = "is_success")]
    pub when: Condition,
    /// True when it must not be like that: another branch was to be taken first.
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    pub unless: bool,
}

fn is_success(when: &Condition) -> bool {
    *when == Condition::Success
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphNode {
    /// Its name, one of a kind in its workflow.
    #[serde(rename = "n")]
    pub name: Arc<str>,
    /// The job that it is.
    #[serde(rename = "j")]
    pub job: JobId,
    /// How many of the nodes before it it waits for.
    #[serde(rename = "o", default, skip_serializing_if = "Join::is_all")]
    pub join: Join,
    /// What it waits for.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Edge>,
    /// The nodes whose results it is given: those that it was said to follow.
    #[serde(rename = "i", default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<u32>,
    /// The predicate that this node asks; none for one that was submitted.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<String>,
}

/// All nodes, with what they wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Nodes", into = "Nodes")]
pub struct Graph {
    nodes: Vec<GraphNode>,
    /// For each node the edges that leave it: the node behind, and the number of the edge among all.
    following: Vec<Vec<(u32, usize)>>,
    /// The number of each node's first edge.
    first_edges: Vec<usize>,
}

/// The graph as it is written.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Nodes(Vec<GraphNode>);

impl From<Nodes> for Graph {
    fn from(Nodes(nodes): Nodes) -> Self {
        Self::new(nodes)
    }
}

impl From<Graph> for Nodes {
    fn from(graph: Graph) -> Self {
        Self(graph.nodes)
    }
}

impl Graph {
    /// True when how far its nodes are is stored in a document of its own: who lists workflows, or waits for one, does
    /// not read what grows with their graphs.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.nodes.len() > FEW_NODES
    }

    /// The graph of these nodes. An edge from a node that is not there is passed by.
    #[must_use]
    pub fn new(nodes: Vec<GraphNode>) -> Self {
        let mut following = vec![Vec::new(); nodes.len()];
        let mut first_edges = Vec::with_capacity(nodes.len());
        let mut edge = 0;
        for (number, node) in (0u32..).zip(&nodes) {
            first_edges.push(edge);
            for Edge { from, .. } in &node.after {
                if let Some(behind) = following.get_mut(*from as usize) {
                    behind.push((number, edge));
                }
                edge += 1;
            }
        }
        Self { nodes, following, first_edges }
    }

    /// All nodes, by number.
    #[must_use]
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// A node.
    #[must_use]
    pub fn node(&self, number: u32) -> Option<&GraphNode> {
        self.nodes.get(number as usize)
    }

    /// How many edges there are.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.nodes.iter().map(|node| node.after.len()).sum()
    }

    /// The edges that leave a node: the node behind each, and the number of the edge among all.
    #[must_use]
    pub fn following(&self, number: u32) -> &[(u32, usize)] {
        self.following.get(number as usize).map_or(&[], Vec::as_slice)
    }

    /// The edge with this number among all, which leads to this node.
    pub(super) fn edge(&self, to: u32, edge: usize) -> Option<&Edge> {
        let first = self.first_edges.get(to as usize)?;
        self.node(to)?.after.get(edge.checked_sub(*first)?)
    }

    /// The numbers of the edges that lead to a node.
    pub(super) fn leading_to(&self, number: u32) -> std::ops::Range<usize> {
        let first = self.first_edges.get(number as usize).copied().unwrap_or_default();
        first..first + self.node(number).map_or(0, |node| node.after.len())
    }

    /// True when the result of a node decides what follows it.
    #[must_use]
    pub fn asks_for_result(&self, number: u32) -> bool {
        let asks = |(to, edge): &(u32, usize)| {
            self.edge(*to, *edge).is_some_and(|edge| matches!(edge.when, Condition::Result(_)))
        };
        self.following(number).iter().any(asks)
    }

    /// The node that asks a predicate for this one, with its number. Edges of its own come last: those before are of
    /// other branches.
    #[must_use]
    pub fn asking_for(&self, number: u32) -> Option<(u32, &GraphNode)> {
        let asking = self.node(number)?.after.last()?.from;
        self.node(asking).filter(|node| node.predicate.is_some()).map(|node| (asking, node))
    }

    /// The condition that a node was submitted with.
    #[must_use]
    pub fn condition(&self, number: u32) -> Condition {
        match self.asking_for(number).and_then(|(_, asking)| asking.predicate.clone()) {
            Some(predicate) => Condition::Predicate(predicate),
            None => {
                let last = self.node(number).and_then(|node| node.after.last());
                last.map(|edge| edge.when.clone()).unwrap_or_default()
            }
        }
    }

    /// True when the node runs or not, by how those before it end: more than one way was open (W2). Those that ask
    /// predicates are none of the branches that were submitted.
    #[must_use]
    pub fn is_branch(&self, number: u32) -> bool {
        let decided = |node: &GraphNode| {
            node.predicate.is_none()
                && node.after.iter().any(|edge| edge.unless || edge.when != Condition::Success)
        };
        self.node(number).is_some_and(decided)
    }

    /// Everything behind a node, in the order of their numbers.
    #[must_use]
    pub fn downstream(&self, number: u32) -> Vec<u32> {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![number];
        while let Some(node) = open.pop() {
            for (to, _) in self.following(node) {
                if let Some(seen) = seen.get_mut(*to as usize).filter(|seen| !**seen) {
                    *seen = true;
                    open.push(*to);
                }
            }
        }
        (0u32..).zip(seen).filter(|(_, seen)| *seen).map(|(number, _)| number).collect()
    }
}
