//! A workflow as it is submitted, and what makes a graph of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Condition, Edge, Graph, GraphNode, Join, ResultTest};
use crate::id::JobId;

/// Nodes that a workflow may have, those that ask predicates among them.
pub const MOST_NODES: usize = 20_000;

/// Edges that a workflow may have.
pub const MOST_EDGES: usize = 100_000;

/// Characters of a node's name.
const MOST_NAME: usize = 128;

/// How many of the nodes behind a node run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkflowBranching))]
pub enum Branching {
    /// All whose condition holds.
    #[default]
    All,
    /// The first one whose condition holds, in the order in which they were given.
    FirstMatch,
}

/// A node as it is submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShapeNode {
    /// Its name.
    pub name: Arc<str>,
    /// The nodes that it follows.
    pub after: Vec<Arc<str>>,
    /// How many of them it waits for.
    pub join: Join,
    /// What their ends must be like.
    pub when: Condition,
    /// The node whose result is its payload.
    pub payload_from: Option<Arc<str>>,
}

/// A workflow as it is submitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkflowShape {
    /// Its nodes.
    pub nodes: Vec<ShapeNode>,
    /// How many of the nodes behind a node run, by its name.
    pub branches: BTreeMap<Arc<str>, Branching>,
}

/// Why a workflow cannot be (W6). Nothing is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWorkflow {
    /// There is nothing to do.
    #[error("a workflow has at least one node")]
    Empty,
    /// It is too large.
    #[error("the workflow has {actual} {what}, the limit is {limit}: submit a batch, or several workflows")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        actual: usize,
        /// How many may be.
        limit: usize,
    },
    /// A name that cannot be one.
    #[error(
        "`{name}` cannot be the name of a node: it is empty, has over 128 characters or a control character"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Two nodes have one name.
    #[error("two nodes are called `{name}`")]
    TwoOfOneName {
        /// The name.
        name: String,
    },
    /// A name that no node has.
    #[error("node `{node}` names `{name}`, and no node is called so")]
    UnknownNode {
        /// The node that names it.
        node: String,
        /// The name.
        name: String,
    },
    /// Branches of a node that is not there.
    #[error("branches are given for `{name}`, and no node is called so")]
    UnknownBranches {
        /// The name.
        name: String,
    },
    /// Nodes that wait for each other.
    #[error("these nodes wait for each other in a circle: {}", names.join(", "))]
    Cycle {
        /// Their names.
        names: Vec<String>,
    },
    /// A condition without a node that it is about.
    #[error("node `{node}` has a condition and follows no node")]
    NothingBefore {
        /// The node.
        node: String,
    },
    /// One of several branches also follows another node, so it is not one of them.
    #[error(
        "node `{node}` is one of the branches of `{of}`, of which the first that matches runs: it can follow no other"
    )]
    FollowsOthers {
        /// The node.
        node: String,
        /// The node before it.
        of: String,
    },
    /// A place in a result that cannot be one.
    #[error("node `{node}` looks at `{pointer}` in a result; a JSON pointer is empty or begins with `/`")]
    Pointer {
        /// The node.
        node: String,
        /// The text.
        pointer: String,
    },
    /// A payload from a node that it does not follow.
    #[error("node `{node}` takes its payload from `{from}`, which it does not follow on success")]
    PayloadFrom {
        /// The node.
        node: String,
        /// The node whose result it wants.
        from: String,
    },
}

impl InvalidWorkflow {
    /// The nodes that it is about.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Empty | Self::TooLarge { .. } => Vec::new(),
            Self::Name { name } | Self::TwoOfOneName { name } | Self::UnknownBranches { name } => vec![name],
            Self::UnknownNode { node, name } => vec![node, name],
            Self::Cycle { names } => names.iter().map(String::as_str).collect(),
            Self::NothingBefore { node } | Self::Pointer { node, .. } => vec![node],
            Self::FollowsOthers { node, of } => vec![node, of],
            Self::PayloadFrom { node, from } => vec![node, from],
        }
    }
}

/// Names that an error lists at most.
const MOST_NAMED: usize = 10;

impl WorkflowShape {
    /// Checks the shape, and makes the graph of it. `job` answers the id for each node, in the order of the nodes;
    /// nodes that ask predicates come behind those that were given.
    ///
    /// # Errors
    /// [`InvalidWorkflow`] names what is wrong.
    pub fn graph(&self, mut job: impl FnMut() -> JobId) -> Result<Graph, InvalidWorkflow> {
        let numbers = self.numbers()?;
        let mut nodes: Vec<GraphNode> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let inputs = self.before(node, &numbers)?;
            nodes.push(GraphNode {
                name: node.name.clone(),
                job: job(),
                join: node.join,
                after: Vec::new(),
                inputs,
                predicate: None,
            });
        }
        self.check_cycle(&nodes)?;
        let mut branches = Branches::new(self, &numbers)?;
        for (index, node) in self.nodes.iter().enumerate() {
            let own = self.own_edges(node, index, &mut nodes, &mut job);
            nodes[index].after.extend(branches.earlier(node, &own));
            nodes[index].after.extend(own);
        }
        let edges: usize = nodes.iter().map(|node| node.after.len()).sum();
        for (what, actual, limit) in [("nodes", nodes.len(), MOST_NODES), ("edges", edges, MOST_EDGES)] {
            if actual > limit {
                return Err(InvalidWorkflow::TooLarge { what, actual, limit });
            }
        }
        Ok(Graph::new(nodes))
    }

    fn numbers(&self) -> Result<HashMap<&str, u32>, InvalidWorkflow> {
        if self.nodes.is_empty() {
            return Err(InvalidWorkflow::Empty);
        }
        let (actual, limit) = (self.nodes.len(), MOST_NODES);
        if actual > limit {
            return Err(InvalidWorkflow::TooLarge { what: "nodes", actual, limit });
        }
        let mut numbers = HashMap::with_capacity(actual);
        for (number, node) in (0u32..).zip(&self.nodes) {
            let name = &*node.name;
            if name.is_empty() || name.chars().count() > MOST_NAME || name.chars().any(char::is_control) {
                let name = name.chars().filter(|c| !c.is_control()).take(MOST_NAME).collect();
                return Err(InvalidWorkflow::Name { name });
            }
            if numbers.insert(name, number).is_some() {
                return Err(InvalidWorkflow::TwoOfOneName { name: name.to_owned() });
            }
        }
        Ok(numbers)
    }

    /// The numbers of the nodes that a node follows, each once.
    fn before(&self, node: &ShapeNode, numbers: &HashMap<&str, u32>) -> Result<Vec<u32>, InvalidWorkflow> {
        let name = || node.name.to_string();
        let mut before = BTreeSet::new();
        for after in &node.after {
            let unknown = || InvalidWorkflow::UnknownNode { node: name(), name: after.to_string() };
            before.insert(*numbers.get(&**after).ok_or_else(unknown)?);
        }
        if before.is_empty() && node.when != Condition::Success {
            return Err(InvalidWorkflow::NothingBefore { node: name() });
        }
        if let Condition::Result(ResultTest { pointer, .. }) = &node.when
            && !(pointer.is_empty() || pointer.starts_with('/'))
        {
            return Err(InvalidWorkflow::Pointer { node: name(), pointer: pointer.clone() });
        }
        if let Some(from) = &node.payload_from {
            let follows = numbers.get(&**from).is_some_and(|number| before.contains(number));
            if !follows || !node.when.needs_success() || (node.join == Join::Any && before.len() > 1) {
                return Err(InvalidWorkflow::PayloadFrom { node: name(), from: from.to_string() });
            }
        }
        Ok(before.into_iter().collect())
    }

    /// Takes away what waits for nothing, again and again: what is left waits for each other.
    fn check_cycle(&self, nodes: &[GraphNode]) -> Result<(), InvalidWorkflow> {
        let mut left: Vec<usize> = nodes.iter().map(|node| node.inputs.len()).collect();
        let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (number, node) in nodes.iter().enumerate() {
            node.inputs.iter().for_each(|from| behind[*from as usize].push(number));
        }
        let mut free: Vec<usize> = (0..nodes.len()).filter(|number| left[*number] == 0).collect();
        let mut gone = 0;
        while let Some(number) = free.pop() {
            gone += 1;
            for to in &behind[number] {
                left[*to] -= 1;
                if left[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        if gone == nodes.len() {
            return Ok(());
        }
        let stuck = self.nodes.iter().zip(&left).filter(|(_, left)| **left > 0);
        let names = stuck.map(|(node, _)| node.name.to_string()).take(MOST_NAMED).collect();
        Err(InvalidWorkflow::Cycle { names })
    }

    /// The edges that a node asks for. A predicate becomes a node of its own that waits for the same, and whose answer
    /// the node waits for.
    fn own_edges(
        &self,
        node: &ShapeNode,
        index: usize,
        nodes: &mut Vec<GraphNode>,
        job: &mut impl FnMut() -> JobId,
    ) -> Vec<Edge> {
        let (inputs, join) = (nodes[index].inputs.clone(), node.join);
        let edges = |when: &Condition| -> Vec<Edge> {
            inputs.iter().map(|from| Edge { from: *from, when: when.clone(), unless: false }).collect()
        };
        let Condition::Predicate(predicate) = &node.when else { return edges(&node.when) };
        let from = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let after = edges(&Condition::Success);
        nodes.push(GraphNode {
            name: self.predicate_name(&node.name),
            job: job(),
            join,
            after,
            inputs,
            predicate: Some(predicate.clone()),
        });
        nodes[index].join = Join::All;
        vec![Edge { from, when: answer(true), unless: false }]
    }

    /// A name that no node has.
    fn predicate_name(&self, node: &str) -> Arc<str> {
        let mut name = format!("{node}?");
        while self.nodes.iter().any(|node| *node.name == *name) {
            name.push('?');
        }
        name.into()
    }
}

/// What a predicate says.
fn answer(yes: bool) -> Condition {
    Condition::Result(ResultTest { pointer: String::new(), equals: yes.into() })
}

/// Branches of which the first one runs whose condition holds.
struct Branches<'s> {
    /// For each such node, by number, the edges of the branches so far.
    so_far: HashMap<u32, Vec<Edge>>,
    numbers: &'s HashMap<&'s str, u32>,
}

impl<'s> Branches<'s> {
    fn new(shape: &'s WorkflowShape, numbers: &'s HashMap<&'s str, u32>) -> Result<Self, InvalidWorkflow> {
        let mut so_far = HashMap::new();
        for (name, branching) in &shape.branches {
            let unknown = || InvalidWorkflow::UnknownBranches { name: name.to_string() };
            let number = *numbers.get(&**name).ok_or_else(unknown)?;
            if *branching == Branching::FirstMatch {
                so_far.insert(number, Vec::new());
            }
        }
        let this = Self { so_far, numbers };
        for node in &shape.nodes {
            let of = node.after.iter().find(|after| this.number(after).is_some());
            if let Some(of) = of.filter(|_| node.after.iter().collect::<BTreeSet<_>>().len() > 1) {
                let (node, of) = (node.name.to_string(), of.to_string());
                return Err(InvalidWorkflow::FollowsOthers { node, of });
            }
        }
        Ok(this)
    }

    /// The number of a node of whose branches the first one runs.
    fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied().filter(|number| self.so_far.contains_key(number))
    }

    /// That no earlier branch is taken: edges to wait for beside a node's own, which are remembered for later ones.
    fn earlier(&mut self, node: &ShapeNode, own: &[Edge]) -> Vec<Edge> {
        let of = node.after.first().and_then(|after| self.number(after));
        let Some(so_far) = of.and_then(|of| self.so_far.get_mut(&of)) else { return Vec::new() };
        let earlier = so_far.clone();
        so_far.extend(own.iter().map(|edge| match &edge.when {
            // A predicate that failed says neither yes nor no.
            Condition::Result(test) if matches!(node.when, Condition::Predicate(_)) => {
                let when = Condition::Result(ResultTest { equals: false.into(), ..test.clone() });
                Edge { when, ..edge.clone() }
            }
            _ => Edge { unless: true, ..edge.clone() },
        }));
        earlier
    }
}
