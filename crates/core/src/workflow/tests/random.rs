//! Random graphs: what follows step by step, against a graph that is judged anew each time, and against the jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A graph judged anew from how each node ended: what every node may be. Nodes that were `started` stay so, whatever
/// comes of those before them. Which of several reasons a node is called off for depends on which came first: that is
/// taken from `told`.
fn judged(play: &Random) -> Vec<NodeState> {
    let (graph, told) = (&play.play.graph, play.play.progress());
    let mut states: Vec<Option<NodeState>> = vec![None; graph.nodes().len()];
    // Edges lead from earlier nodes to later ones or to those that ask, so some rounds are enough.
    loop {
        let mut moved = false;
        for (number, node) in (0u32..).zip(graph.nodes()) {
            if states[number as usize].is_some() {
                continue;
            }
            let known = |edge: &Edge| match states[edge.from as usize] {
                Some(NodeState::Ended(end)) => {
                    let result = play.ends.get(&edge.from).map(|(_, result)| result);
                    Some(edge.when.holds(end, result) != edge.unless && end != NodeEnd::Canceled)
                }
                _ => None,
            };
            let edges: Vec<Option<bool>> = node.after.iter().map(known).collect();
            let (holds, fails) = (|edge: &_| *edge == Some(true), |edge: &_| *edge == Some(false));
            let (ready, lost) = match node.join {
                Join::All => (edges.iter().all(holds), edges.iter().any(fails)),
                Join::Any => (edges.iter().any(holds), edges.iter().all(fails)),
            };
            // What was called off by people, or behind that, stays so when something else is driven again.
            let given_up = play.driven && told.state(number) == NodeState::Ended(NodeEnd::Canceled);
            let state = if play.started.contains(&number) {
                play.ends.get(&number).map_or(NodeState::Released, |(end, _)| NodeState::Ended(*end))
            } else if given_up {
                NodeState::Ended(NodeEnd::Canceled)
            } else if ready {
                NodeState::Released
            } else if lost {
                match told.state(number) {
                    state @ NodeState::Ended(end) if end != NodeEnd::Succeeded && end != NodeEnd::Failed => {
                        state
                    }
                    other => panic!("node {number} cannot run, and is {other:?}"),
                }
            } else {
                continue;
            };
            (states[number as usize], moved) = (Some(state), true);
        }
        if !moved {
            return states.into_iter().map(|state| state.unwrap_or(NodeState::Waiting)).collect();
        }
    }
}

fn random_shape(dice: &mut Dice) -> WorkflowShape {
    let count = 2 + dice.below(9);
    let mut nodes = Vec::new();
    for index in 0..count {
        let mut after: Vec<Arc<str>> = Vec::new();
        for before in 0..index {
            if dice.below(3) == 0 {
                after.push(before.to_string().into());
            }
        }
        let when = match dice.below(6) {
            _ if after.is_empty() => Condition::Success,
            0 => Condition::Failure,
            1 => Condition::Always,
            2 => result_is(u64::from(dice.below(2) == 0)),
            3 => Condition::Predicate("p".into()),
            _ => Condition::Success,
        };
        let join = if dice.below(3) == 0 { Join::Any } else { Join::All };
        nodes.push(ShapeNode { name: index.to_string().into(), after, join, when, payload_from: None });
    }
    let alone = |of: &str| nodes.iter().all(|node| node.after.len() < 2 || !node.after.contains(&of.into()));
    let first: Vec<Arc<str>> =
        (0..count).map(|n| n.to_string().into()).filter(|n: &Arc<str>| alone(n)).collect();
    let branches = first.into_iter().filter(|_| dice.below(2) == 0).map(|name| (name, Branching::FirstMatch));
    WorkflowShape { branches: branches.collect(), nodes }
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_of(&mut self, nodes: &[u32]) -> u32 {
        nodes[usize::try_from(self.below(nodes.len() as u64)).expect("small")]
    }
}

/// Where a job of a random graph is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlayedJob {
    Waits,
    Runs,
    CalledOff,
}

/// A random graph under way, with what its store would know.
struct Random {
    seed: u64,
    dice: Dice,
    play: Play,
    /// How nodes ended last.
    ends: BTreeMap<u32, (NodeEnd, Value)>,
    /// Nodes that were let run.
    started: BTreeSet<u32>,
    jobs: BTreeMap<JobId, PlayedJob>,
    /// True once a dead step was driven again.
    driven: bool,
}

impl Random {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let play = Play::new(&random_shape(&mut dice));
        let first = |node: &GraphNode| if node.after.is_empty() { PlayedJob::Runs } else { PlayedJob::Waits };
        let jobs = play.graph.nodes().iter().map(|node| (node.job, first(node))).collect();
        let mut random =
            Self { seed, dice, play, ends: BTreeMap::new(), started: BTreeSet::new(), jobs, driven: false };
        random.note_started();
        random
    }

    fn nodes_in(&self, state: NodeState) -> Vec<u32> {
        let numbers = (0u32..).zip(self.play.graph.nodes()).map(|(number, _)| number);
        numbers.filter(|number| self.play.progress().state(*number) == state).collect()
    }

    fn note_started(&mut self) {
        self.started.extend(self.nodes_in(NodeState::Released));
    }

    /// Ends a node, sometimes after it had died and was driven again before anybody looked.
    fn end(&mut self, node: u32) {
        let end = match self.dice.below(8) {
            0 => NodeEnd::Failed,
            1 => NodeEnd::Canceled,
            _ => NodeEnd::Succeeded,
        };
        let asks = self.play.graph.nodes()[node as usize].predicate.is_some();
        let yes = self.dice.below(2) == 0;
        let result = if asks { json!(yes) } else { json!({ "size": u64::from(yes) }) };
        let mut ends = vec![self.play.end_of(node, end, result.clone())];
        if self.dice.below(8) == 0 {
            ends.insert(0, self.play.end_of(node, NodeEnd::Failed, Value::Null));
            self.driven = true;
        }
        let follows = self.play.workflow.advance(Some(&self.play.graph), &ends, NOW);
        self.ends.insert(node, (end, result));
        self.store(&follows);
        let name = self.play.graph.nodes()[node as usize].name.clone();
        let seed = self.seed;
        assert!(self.play.end_with(&name, end, json!(null)).is_empty(), "seed {seed}: told twice");
        self.note_started();
    }

    /// Does to the jobs what follows.
    fn store(&mut self, follows: &Advance) {
        let mut turns: Vec<(JobId, Option<PlayedJob>, PlayedJob)> = Vec::new();
        turns.extend(follows.release.iter().map(|job| (*job, Some(PlayedJob::Waits), PlayedJob::Runs)));
        turns.extend(
            follows.cancel.iter().map(|(job, _)| (*job, Some(PlayedJob::Waits), PlayedJob::CalledOff)),
        );
        for (_, old, again) in &follows.renew {
            turns.push((*old, Some(PlayedJob::CalledOff), PlayedJob::CalledOff));
            turns.push((*again, None, PlayedJob::Runs));
        }
        for (job, from, to) in turns {
            let before = self.jobs.insert(job, to);
            assert_eq!(before, from, "seed {}: job {job} is to be {to:?}", self.seed);
        }
    }

    fn check(&self) {
        let (seed, states) = (self.seed, self.play.states());
        for (number, expected) in (0u32..).zip(judged(self)) {
            let state = self.play.progress().state(number);
            assert!(
                state == expected,
                "seed {seed}, node {number}: {state:?}, judged anew {expected:?}\n{states}"
            );
        }
    }
}

#[test]
fn whatever_the_order_of_ends_all_nodes_come_to_what_the_graph_says() {
    // W2, W4, W6: a random graph, ends in random order, some told twice, dead steps driven again at any time.
    for seed in 1..=3_000 {
        let mut random = Random::new(seed);
        let mut drives = random.dice.below(4);
        loop {
            let open = random.nodes_in(NodeState::Released);
            let dead = random.nodes_in(NodeState::Ended(NodeEnd::Failed));
            let drive = drives > 0 && !dead.is_empty() && (open.is_empty() || random.dice.below(3) == 0);
            let node = match (drive, open.is_empty()) {
                (true, _) => random.dice.one_of(&dead),
                (false, false) => random.dice.one_of(&open),
                (false, true) => break,
            };
            drives -= u64::from(drive);
            random.driven |= drive;
            random.end(node);
            random.check();
        }
        let states = random.play.states();
        assert!(random.play.workflow.status.is_over(), "seed {seed}: {states}");
        let waits = random.jobs.values().any(|job| *job == PlayedJob::Waits);
        assert!(!waits, "seed {seed}: a job waits for ever: {states}");
    }
}
