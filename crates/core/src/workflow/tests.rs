//! What follows from the ends of steps.

mod random;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::id::{JobId, WorkflowId};
use crate::job::{Callback, Operation, PausedFrom, Record, Spec, State, StoredJob};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn node(name: &str, after: &[&str]) -> ShapeNode {
    let after = after.iter().map(|name| Arc::from(*name)).collect();
    ShapeNode { name: name.into(), after, ..ShapeNode::default() }
}

fn on(when: Condition, node: ShapeNode) -> ShapeNode {
    ShapeNode { when, ..node }
}

fn any(node: ShapeNode) -> ShapeNode {
    ShapeNode { join: Join::Any, ..node }
}

fn result_is(equals: impl Into<Value>) -> Condition {
    Condition::Result(ResultTest { pointer: "/size".into(), equals: equals.into() })
}

fn shape(nodes: impl Into<Vec<ShapeNode>>) -> WorkflowShape {
    WorkflowShape { nodes: nodes.into(), ..WorkflowShape::default() }
}

fn graph(shape: &WorkflowShape) -> Result<Graph, InvalidWorkflow> {
    let mut next = 0;
    shape.graph(|| {
        next += 1;
        JobId::from_u128(next)
    })
}

/// A workflow under way, driven by the names of its nodes.
struct Play {
    graph: Graph,
    workflow: Workflow,
}

impl Play {
    fn new(shape: &WorkflowShape) -> Self {
        let graph = graph(shape).expect("a shape that can be");
        let body = WorkflowBody::Graph(WorkflowProgress::begin(&graph));
        Self { workflow: workflow(body), graph }
    }

    fn number(&self, name: &str) -> u32 {
        let found = self.graph.nodes().iter().position(|node| *node.name == *name);
        u32::try_from(found.unwrap_or_else(|| panic!("no node {name}"))).expect("few nodes")
    }

    fn progress(&self) -> &WorkflowProgress {
        let WorkflowBody::Graph(progress) = &self.workflow.body else { panic!("it is a graph") };
        progress
    }

    fn end_with(&mut self, name: &str, end: NodeEnd, result: Value) -> Advance {
        let end = self.end_of(self.number(name), end, result);
        self.workflow.advance(Some(&self.graph), &[end], NOW)
    }

    fn end_of(&self, number: u32, end: NodeEnd, result: Value) -> JobEnd {
        let job = self.progress().job(&self.graph, number).expect("it has one");
        let mark = WorkflowMark { id: self.workflow.id, number };
        JobEnd { note: EndNote { job, mark, end, again: false }, result: Some(result) }
    }

    fn succeeds(&mut self, name: &str) -> Advance {
        self.end_with(name, NodeEnd::Succeeded, json!({}))
    }

    fn fails(&mut self, name: &str) -> Advance {
        self.end_with(name, NodeEnd::Failed, Value::Null)
    }

    /// Every node as `name:letter`.
    fn states(&self) -> String {
        let text = serde_json::to_value(self.progress()).expect("plain text");
        let letters = text["nodes"].as_str().expect("letters").to_owned();
        let named: Vec<String> = self
            .graph
            .nodes()
            .iter()
            .zip(letters.chars())
            .map(|(node, letter)| format!("{}:{letter}", node.name))
            .collect();
        named.join(" ")
    }
}

fn workflow(body: WorkflowBody) -> Workflow {
    Workflow {
        on_success: Some(callback("well")),
        on_failure: Some(callback("badly")),
        ..Workflow::new(WorkflowId::from_u128(7), "test".into(), body, NOW)
    }
}

fn callback(kind: &str) -> Callback {
    Callback { kind: kind.into(), version: 1, queue: "default".into(), payload: "{}".into() }
}

#[test]
fn a_chain_goes_on_step_by_step() {
    // W1
    let mut play = Play::new(&shape([node("a", &[]), node("b", &["a"]), node("c", &["b"])]));
    assert_eq!(play.states(), "a:r b:w c:w");
    let follows = play.succeeds("a");
    assert_eq!((follows.release.len(), follows.cancel.len(), follows.callback.is_some()), (1, 0, false));
    assert_eq!(play.states(), "a:s b:r c:w");
    play.succeeds("b");
    let last = play.succeeds("c");
    assert_eq!((play.workflow.status, last.finished), (WorkflowStatus::Succeeded, true));
    assert_eq!(&*last.callback.expect("it asked for one").1.kind, "well");
}

#[test]
fn a_graph_ends_with_the_last_steps_that_succeeded() {
    // W1, W2
    let nodes = [
        node("a", &[]),
        node("b", &["a"]),
        on(Condition::Failure, node("mend", &["a"])),
        on(Condition::Predicate("large".into()), node("call", &["a"])),
        node("alone", &[]),
    ];
    let last = |play: &Play| -> Vec<String> {
        let name = |number| play.graph.node(number).expect("it is one").name.to_string();
        play.progress().last_ones(&play.graph).into_iter().map(name).collect()
    };
    let mut play = Play::new(&shape(nodes.clone()));
    assert_eq!(last(&play), Vec::<String>::new());
    play.succeeds("alone");
    play.succeeds("a");
    assert_eq!(last(&play), ["a", "alone"]);
    play.succeeds("b");
    assert_eq!(last(&play), ["b", "alone"], "who did not follow takes nothing away");
    let mut play = Play::new(&shape(nodes));
    play.fails("a");
    play.succeeds("mend");
    assert_eq!(last(&play), ["mend"]);
}

#[test]
fn a_dead_step_fires_failure_branches_and_calls_off_the_rest() {
    // W2, W4
    let nodes = [
        node("a", &[]),
        node("b", &["a"]),
        node("c", &["b"]),
        on(Condition::Failure, node("mend", &["a"])),
        on(Condition::Always, node("tidy", &["b"])),
    ];
    let mut play = Play::new(&shape(nodes.clone()));
    let follows = play.fails("a");
    assert_eq!(play.states(), "a:f b:d c:d mend:r tidy:r");
    assert_eq!(follows.cancel.len(), 2);
    assert!(follows.cancel.iter().all(|(_, cause)| *cause == CancelCause::DependencyFailed));
    play.succeeds("mend");
    let last = play.succeeds("tidy");
    assert_eq!(play.workflow.status, WorkflowStatus::Failed, "a step is dead");
    assert_eq!(&*last.callback.expect("it asked for one").1.kind, "badly");

    let mut play = Play::new(&shape(nodes));
    play.succeeds("a");
    assert_eq!(play.states(), "a:s b:r c:w mend:n tidy:w", "the failure branch is not taken");
    play.succeeds("b");
    play.succeeds("c");
    play.succeeds("tidy");
    assert_eq!(play.workflow.status, WorkflowStatus::Succeeded);
}

#[test]
fn branches_by_result_all_or_the_first() {
    // W2
    let nodes = [
        node("weigh", &[]),
        on(result_is(1), node("letter", &["weigh"])),
        on(result_is(1), node("also", &["weigh"])),
        on(result_is(2), node("parcel", &["weigh"])),
        node("other", &["weigh"]),
    ];
    let mut all = Play::new(&shape(nodes.clone()));
    all.end_with("weigh", NodeEnd::Succeeded, json!({ "size": 1 }));
    assert_eq!(all.states(), "weigh:s letter:r also:r parcel:n other:r");

    let mut first = shape(nodes);
    first.branches.insert("weigh".into(), Branching::FirstMatch);
    for (size, expected) in [
        (json!(1), "weigh:s letter:r also:n parcel:n other:n"),
        (json!(2), "weigh:s letter:n also:n parcel:r other:n"),
        (json!("1"), "weigh:s letter:n also:n parcel:n other:r"),
    ] {
        let mut play = Play::new(&first);
        play.end_with("weigh", NodeEnd::Succeeded, json!({ "size": size }));
        assert_eq!(play.states(), expected, "{size}");
    }
}

#[test]
fn a_predicate_is_a_step_of_its_own() {
    // W2
    let heavy = || Condition::Predicate("heavy".into());
    let mut shape = shape([
        node("weigh", &[]),
        on(heavy(), node("truck", &["weigh"])),
        on(Condition::Predicate("far".into()), node("plane", &["weigh"])),
        node("walk", &["weigh"]),
    ]);
    shape.branches.insert("weigh".into(), Branching::FirstMatch);
    let mut play = Play::new(&shape);
    assert_eq!(play.states(), "weigh:r truck:w plane:w walk:w truck?:w plane?:w");
    play.succeeds("weigh");
    assert_eq!(play.states(), "weigh:s truck:w plane:w walk:w truck?:r plane?:r", "both are asked");
    play.end_with("plane?", NodeEnd::Succeeded, json!(true));
    assert_eq!(
        play.states(),
        "weigh:s truck:w plane:w walk:n truck?:r plane?:s",
        "the earlier one may say yes"
    );
    play.end_with("truck?", NodeEnd::Succeeded, json!(false));
    assert_eq!(play.states(), "weigh:s truck:n plane:r walk:n truck?:s plane?:s");

    let mut dead = Play::new(&shape);
    dead.succeeds("weigh");
    dead.fails("truck?");
    let WorkflowCounts { total, .. } = dead.progress().counts();
    assert_eq!((dead.states().as_str(), total), ("weigh:s truck:d plane:d walk:d truck?:f plane?:r", 4));
}

#[test]
fn joins_wait_for_all_or_for_the_first() {
    // W6
    let nodes = [node("a", &[]), node("b", &[]), node("all", &["a", "b"]), any(node("one", &["a", "b"]))];
    let mut play = Play::new(&shape(nodes.clone()));
    play.succeeds("b");
    assert_eq!(play.states(), "a:r b:s all:w one:r");
    play.succeeds("a");
    assert_eq!(play.states(), "a:s b:s all:r one:r");
    let mut play = Play::new(&shape(nodes));
    play.fails("a");
    assert_eq!(play.states(), "a:f b:r all:d one:w");
    play.fails("b");
    assert_eq!(play.states(), "a:f b:f all:d one:d");
}

#[test]
fn what_is_called_off_takes_everything_behind_it_along() {
    // W4
    let mut play = Play::new(&shape([
        node("a", &[]),
        node("b", &["a"]),
        on(Condition::Always, node("c", &["b"])),
        on(Condition::Failure, node("d", &["a"])),
        node("apart", &[]),
    ]));
    let follows = play.end_with("a", NodeEnd::Canceled, Value::Null);
    assert_eq!(play.states(), "a:c b:c c:c d:c apart:r");
    assert!(follows.cancel.iter().all(|(_, cause)| *cause == CancelCause::Canceled));
    play.succeeds("apart");
    assert_eq!(play.workflow.status, WorkflowStatus::Canceled);
}

#[test]
fn a_dead_step_that_is_driven_again_goes_on_from_there_and_only_there() {
    // W4
    let mut play = Play::new(&shape([
        node("a", &[]),
        node("b", &["a"]),
        node("c", &["b"]),
        on(Condition::Failure, node("mend", &["b"])),
    ]));
    play.succeeds("a");
    play.fails("b");
    let ended = play.succeeds("mend");
    assert_eq!((play.states().as_str(), ended.finished), ("a:s b:f c:d mend:s", true));
    let first = play.progress().job(&play.graph, 2).expect("c");
    let follows = play.succeeds("b");
    assert_eq!(play.states(), "a:s b:s c:r mend:s", "what ran before does not run again");
    assert_eq!(play.workflow.status, WorkflowStatus::Running);
    let [(2, old, again)] = follows.renew[..] else { panic!("c is submitted again: {follows:?}") };
    assert_eq!((old, play.progress().job(&play.graph, 2)), (first, Some(again)));
    assert_ne!(old, again, "what was called off stays so");
    // The note of the job that was called off comes late, and says nothing any more.
    let mark = WorkflowMark { id: play.workflow.id, number: 2 };
    let late = EndNote { job: old, mark, end: NodeEnd::Canceled, again: false };
    let late = play.workflow.advance(Some(&play.graph), &[JobEnd { note: late, result: None }], NOW);
    assert!(late.is_empty() && !late.finished);
    let last = play.succeeds("c");
    assert_eq!(
        (play.workflow.status, last.finished, play.workflow.rounds),
        (WorkflowStatus::Succeeded, true, 2)
    );
    assert_eq!(&*last.callback.expect("each round calls").1.kind, "well");
}

#[test]
fn a_step_that_dies_again_after_it_was_driven_again_is_told_again() {
    // W4, F14
    let mut play = Play::new(&shape([node("a", &[]), on(Condition::Failure, node("mend", &["a"]))]));
    play.fails("a");
    let (first, _) = play.succeeds("mend").callback.expect("it has failed");
    let mut end = play.end_of(0, NodeEnd::Failed, Value::Null);
    end.note.again = true;
    let follows = play.workflow.advance(Some(&play.graph), &[end], NOW);
    let (second, callback) = follows.callback.expect("it has failed once more");
    assert_eq!((&*callback.kind, follows.finished, follows.release.len()), ("badly", true, 0));
    assert_ne!(first, second, "another round, another job");
    assert_eq!((play.workflow.status, play.workflow.rounds), (WorkflowStatus::Failed, 2));
    let mut end = play.end_of(1, NodeEnd::Failed, Value::Null);
    end.note.again = true;
    let follows = play.workflow.advance(Some(&play.graph), &[end], NOW);
    assert!(follows.is_empty() && !follows.finished, "what has succeeded does not die");
}

#[test]
fn one_that_is_held_back_while_a_dead_step_is_driven_again_has_not_ended_once_more() {
    // W4, F14
    let mut play = Play::new(&shape([node("a", &[]), node("b", &[]), node("c", &["a"])]));
    play.fails("a");
    assert!(play.fails("b").finished);
    for status in [WorkflowStatus::Paused, WorkflowStatus::Running] {
        (play.workflow.status, play.workflow.finished_at) = (status, None);
        let late = play.end_with("c", NodeEnd::Canceled, Value::Null);
        assert!(late.is_empty() && !late.finished, "what is said late of others does not end it");
        assert_eq!((play.workflow.status, play.workflow.finished_at), (status, None));
    }
    let follows = play.end_with("a", NodeEnd::Canceled, Value::Null);
    assert_eq!((play.states().as_str(), follows.callback), ("a:c b:f c:c", None), "b is as dead as before");
    let Workflow { status, finished_at, rounds, .. } = &play.workflow;
    assert_eq!((*status, *finished_at, *rounds), (WorkflowStatus::Failed, Some(NOW), 1));

    (play.workflow.status, play.workflow.finished_at) = (WorkflowStatus::Paused, None);
    let mut end = play.end_of(1, NodeEnd::Failed, Value::Null);
    end.note.again = true;
    let follows = play.workflow.advance(Some(&play.graph), &[end], NOW);
    assert!(follows.finished && follows.callback.is_some(), "it died again");
    assert_eq!((play.workflow.status, play.workflow.rounds), (WorkflowStatus::Failed, 2));
}

#[test]
fn what_a_step_decided_that_runs_after_all_is_decided_anew() {
    // W4
    let nodes = [
        node("a", &[]),
        node("b", &["a"]),
        node("c", &["b"]),
        on(Condition::Failure, node("notify", &["b"])),
        on(Condition::Always, node("tidy", &["b", "other"])),
        node("other", &[]),
    ];
    let mut play = Play::new(&shape(nodes));
    play.fails("a");
    assert_eq!(play.states(), "a:f b:d c:d notify:n tidy:w other:r");
    let follows = play.succeeds("a");
    assert_eq!(play.states(), "a:s b:r c:w notify:w tidy:w other:r", "all behind it is open again");
    assert_eq!((follows.renew.len(), follows.release.len()), (1, 0));
    play.succeeds("other");
    assert_eq!(play.states(), "a:s b:r c:w notify:w tidy:w other:s", "b has not ended");
    let follows = play.fails("b");
    assert_eq!(play.states(), "a:s b:f c:d notify:r tidy:r other:s", "its failure branch runs");
    assert_eq!((follows.renew.len(), follows.release.len(), follows.cancel.len()), (1, 1, 0));
    let stored: Workflow = serde_json::from_str(&serde_json::to_string(&play.workflow).unwrap()).unwrap();
    assert_eq!(stored, play.workflow);
}

#[test]
fn a_step_that_dies_and_succeeds_before_anybody_looks_has_called_nothing_off() {
    // W4
    let mut play = Play::new(&shape([node("a", &[]), node("b", &["a"])]));
    let ends = [NodeEnd::Failed, NodeEnd::Succeeded].map(|end| play.end_of(0, end, json!(null)));
    let follows = play.workflow.advance(Some(&play.graph), &ends, NOW);
    assert_eq!((follows.release.len(), follows.cancel.len(), follows.renew.len()), (1, 0, 0));
    assert_eq!(play.states(), "a:s b:r");
}

#[test]
fn an_end_counts_once() {
    // W3, W6
    let mut play = Play::new(&shape([node("a", &[]), node("b", &["a"])]));
    assert_eq!(play.succeeds("a").release.len(), 1);
    assert!(play.succeeds("a").is_empty(), "told twice");
    assert!(play.end_with("a", NodeEnd::Canceled, Value::Null).is_empty(), "what succeeded stays so");
}

#[test]
fn shapes_that_cannot_be_are_refused_by_name() {
    // W6
    let pointer = Condition::Result(ResultTest { pointer: "size".into(), equals: json!(1) });
    let mut first = shape([node("a", &[]), node("b", &[]), node("c", &["a", "b"])]);
    first.branches.insert("a".into(), Branching::FirstMatch);
    let mut nobody = shape([node("a", &[])]);
    nobody.branches.insert("z".into(), Branching::FirstMatch);
    let from = |from: &str, node| ShapeNode { payload_from: Some(from.into()), ..node };
    let table: Vec<(WorkflowShape, &str)> = vec![
        (shape([]), "a workflow has at least one node"),
        (shape([node("", &[])]), "cannot be the name of a node"),
        (shape([node("a\n", &[])]), "cannot be the name of a node"),
        (shape([node("a", &[]), node("a", &[])]), "two nodes are called `a`"),
        (shape([node("a", &["b"])]), "node `a` names `b`, and no node is called so"),
        (shape([node("a", &["a"])]), "in a circle: a"),
        (shape([node("x", &[]), node("a", &["x", "c"]), node("b", &["a"]), node("c", &["b"])]), "a, b, c"),
        (shape([on(Condition::Failure, node("a", &[]))]), "node `a` has a condition and follows no node"),
        (shape([node("a", &[]), on(pointer, node("b", &["a"]))]), "node `b` looks at `size`"),
        (first, "node `c` is one of the branches of `a`"),
        (nobody, "branches are given for `z`"),
        (shape([node("a", &[]), from("a", node("b", &[]))]), "node `b` takes its payload from `a`"),
        (
            shape([node("a", &[]), from("a", on(Condition::Failure, node("b", &["a"])))]),
            "node `b` takes its payload from `a`",
        ),
        (shape((0..=MOST_NODES).map(|n| node(&n.to_string(), &[])).collect::<Vec<_>>()), "20001 nodes"),
    ];
    for (shape, expected) in table {
        let said = graph(&shape).expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(graph(&shape([node("a", &["b"])])).expect_err("unknown").names(), ["a", "b"]);
}

#[test]
fn documents_read_back_as_they_were() {
    let mut shape = shape([
        node("a", &[]),
        on(result_is(json!([1, null])), any(node("b", &["a"]))),
        on(Condition::Predicate("p".into()), node("c", &["a"])),
    ]);
    shape.branches.insert("a".into(), Branching::FirstMatch);
    let mut play = Play::new(&shape);
    play.fails("a");
    play.succeeds("a");
    for round in 0..2 {
        let graph: Graph = serde_json::from_str(&serde_json::to_string(&play.graph).unwrap()).unwrap();
        assert_eq!(graph, play.graph, "{round}");
        let stored: Workflow = serde_json::from_str(&serde_json::to_string(&play.workflow).unwrap()).unwrap();
        assert_eq!(stored, play.workflow, "{round}");
        play.workflow.body = WorkflowBody::Batch(BatchProgress { total: 3, ..BatchProgress::default() });
    }
}

#[test]
fn batches_are_judged_by_their_rule() {
    // W3, W5
    let rule = |share, most| BatchRule { success_rate_at_least: share, failures_at_most: most };
    let table = [
        (rule(None, None), (10, 0, 0), true),
        (rule(None, None), (9, 1, 0), false),
        (rule(None, None), (9, 0, 1), false),
        (rule(Some(0.9), None), (9, 1, 0), true),
        (rule(Some(0.9), None), (8, 1, 1), false),
        (rule(None, Some(2)), (8, 1, 1), true),
        (rule(None, Some(1)), (8, 1, 1), false),
        (rule(Some(0.5), Some(1)), (8, 1, 1), false),
        (rule(Some(1.0), None), (0, 0, 0), true),
    ];
    for (rule, (succeeded, failed, canceled), expected) in table {
        let total = succeeded + failed + canceled;
        let counted = BatchProgress { total, succeeded, failed, canceled, ..BatchProgress::default() };
        let batch = BatchProgress { sealed: true, rule, ..counted };
        assert!(batch.is_over());
        assert_eq!(batch.has_succeeded(), expected, "{batch:?}");
    }
    for share in [-0.1, 1.1, f64::NAN] {
        assert!(rule(Some(share), None).check().is_err(), "{share}");
    }
}

#[test]
fn a_batch_ends_once() {
    // W3
    let mut workflow = workflow(WorkflowBody::Batch(BatchProgress { total: 2, ..BatchProgress::default() }));
    let end = |job, end, again| {
        let mark = WorkflowMark { id: WorkflowId::from_u128(7), number: 0 };
        let note = EndNote { job: JobId::from_u128(job), mark, end, again };
        JobEnd { note, result: None }
    };
    let ends = [end(1, NodeEnd::Succeeded, false), end(2, NodeEnd::Failed, false)];
    assert!(!workflow.advance(None, &ends, NOW).finished, "more may be added");
    let WorkflowBody::Batch(batch) = &mut workflow.body else { panic!("a batch") };
    batch.sealed = true;
    let follows = workflow.advance(None, &[], NOW);
    assert_eq!((follows.finished, workflow.status), (true, WorkflowStatus::Failed));
    let again = workflow.advance(None, &[end(2, NodeEnd::Succeeded, true)], NOW);
    assert!(!again.finished && again.callback.is_none(), "a batch completes once");
    let WorkflowBody::Batch(batch) = &workflow.body else { panic!("a batch") };
    assert_eq!((batch.succeeded, batch.failed), (2, 0), "its counts stay true");
}

#[test]
fn ends_of_parts_are_noted_and_no_others() {
    // W1, W3
    let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
    let mut part = PartOf {
        id: WorkflowId::from_u128(7),
        node: Some("b".into()),
        number: 3,
        follows: true,
        renewed: false,
        payload_from: None,
    };
    spec.provenance_mut().part_of = Some(part.clone());
    let job = StoredJob { spec: spec.clone(), created_at: NOW };
    let waiting = Record::new(&spec, NOW);
    assert_eq!(waiting.state, State::Waiting);
    let cancel = Operation::Cancel { reason: "no".into() };
    let mut canceled = waiting.clone();
    canceled.operate(&job, &cancel, NOW).expect("allowed");
    let note = EndNote::of(spec.id, Some(&waiting), &canceled).expect("a part has ended");
    assert_eq!((note.mark, note.end, note.again), (part.mark(), NodeEnd::Canceled, false));
    assert_eq!(EndNote::of(spec.id, Some(&canceled), &canceled), None, "it had ended before");

    let mut passed_by = waiting.clone();
    let operated = passed_by.operate(&job, &Operation::PassBy { cause: CancelCause::NotTaken }, NOW);
    assert!(operated.expect("allowed").changed);
    assert_eq!(passed_by.cancel_reason.as_deref(), Some("not_taken"));
    assert_eq!(EndNote::of(spec.id, Some(&waiting), &passed_by), None, "its workflow did it");

    let mut paused = waiting.clone();
    paused.operate(&job, &Operation::Pause, NOW).expect("allowed");
    assert_eq!(paused.paused_from, Some(PausedFrom::Waiting));
    paused.operate(&job, &Operation::Release, NOW).expect("what it waited for is there");
    assert_eq!((paused.state, paused.paused_from), (State::Paused, Some(PausedFrom::Pending)), "W4");
    let mut released = waiting;
    released.operate(&job, &Operation::Release, NOW).expect("what it waited for is there");
    assert_eq!(released.state, State::Pending);
    released.operate(&job, &Operation::Release, NOW).expect_err("it waits no more");

    part.renewed = true;
    spec.provenance_mut().part_of = Some(part);
    assert_eq!(Record::new(&spec, NOW).state, State::Pending);
    let plain = Spec::new(JobId::from_u128(2), "work", "{}");
    let before = Record::new(&plain, NOW);
    let mut after = before.clone();
    after.operate(&StoredJob { spec: plain.clone(), created_at: NOW }, &cancel, NOW).expect("allowed");
    assert_eq!(EndNote::of(plain.id, Some(&before), &after), None);
}

#[test]
fn notes_stand_under_the_moment_of_their_commit() {
    // W1, W3
    let note = |workflow, job| EndNote {
        job: JobId::from_u128(job),
        mark: WorkflowMark { id: WorkflowId::from_u128(workflow), number: 3 },
        end: NodeEnd::Failed,
        again: job == 2,
    };
    let notes = [note(7, 1), note(8, 4), note(7, 2)];
    let written = EndNote::documents(&notes);
    let read: Vec<_> = written.iter().map(|document| EndNote::read(&document.body)).collect();
    assert_eq!(read, [Some(vec![notes[0].clone(), notes[2].clone()]), Some(vec![notes[1].clone()])]);
    let (early, late) = (written[0].key(Timestamp::from_micros(9)), written[0].key(NOW));
    let (workflow, job) = (WorkflowId::from_u128(7), JobId::from_u128(1));
    assert_eq!(early, format!("{workflow}/0000000000000000009/{job}"));
    assert_eq!(late, format!("{workflow}/0001800000000000000/{job}"));
    assert!(early < late, "in the order of time");
    assert_eq!(written[0].key(Timestamp::MIN), format!("{workflow}/0000000000000000000/{job}"));

    // Earlier versions have written the moment into the note, and read none without one.
    let before = format!(
        r#"[{{"job":"{job}","mark":{{"id":"{workflow}","number":3}},"end":"failed","at":"2026-11-15T09:30:00Z"}}]"#
    );
    assert_eq!(EndNote::read(&before), Some(vec![notes[0].clone()]));
    assert!(written.iter().all(|document| document.body.contains(r#""at":"19"#)), "{written:?}");
}

#[test]
fn a_dead_part_that_is_put_aside_and_taken_back_has_not_ended_again() {
    // W4, L8
    let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
    spec.provenance_mut().part_of = Some(PartOf {
        id: WorkflowId::from_u128(7),
        node: Some("b".into()),
        number: 3,
        follows: false,
        renewed: false,
        payload_from: None,
    });
    let job = StoredJob { spec: spec.clone(), created_at: NOW };
    let mut paused = Record::new(&spec, NOW);
    (paused.state, paused.finished_at) = (State::Failed, Some(NOW));
    paused.operate(&job, &Operation::Pause, NOW).expect("a dead letter");
    let mut taken_back = paused.clone();
    taken_back.operate(&job, &Operation::Resume, NOW).expect("paused");
    assert_eq!(taken_back.state, State::Failed);
    assert_eq!(EndNote::of(spec.id, Some(&paused), &taken_back), None);
    let mut given_up = paused.clone();
    given_up.operate(&job, &Operation::Cancel { reason: "no".into() }, NOW).expect("allowed");
    let note = EndNote::of(spec.id, Some(&paused), &given_up).expect("it ended otherwise");
    assert_eq!((note.end, note.again), (NodeEnd::Canceled, true));
}
