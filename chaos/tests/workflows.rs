//! Workflows and batches while workers are killed at random: every step runs in its turn, every ending counts once, and
//! what follows at the end is submitted once (W1-W6).

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use backstop::workflows::{Step, SubmittedWorkflow, WorkflowId, WorkflowStatus};
use backstop::{Backstop, Enqueue, State, Timestamp};
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::shape::{CampaignNodes, meet_runs};
use backstop_chaos::work::{CampaignJob, policy};
use backstop_chaos::{journal_layer, rounds, seed};
use backstop_store::{JobFilter, PageRequest};
use serde_json::Value;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Jobs of each batch.
const CHILDREN: u64 = 200;

/// Numbers of the jobs that follow when all of a workflow has ended.
const CALLBACK: u64 = 500_000_000;

/// What a step follows, and how its job ends: the number of a job decides it.
type Plan = [(&'static str, &'static [&'static str], u64)];

/// The steps of a graph; `cured` runs after a failure, all others after a success.
const STEPS: &Plan = &[
    ("a", &[], 0),
    ("b", &["a"], 1),
    ("c", &["a"], 3),
    ("d", &["b", "c"], 4),
    ("first", &["b", "c"], 5),
    ("never", &["a"], 6),
];

/// What odd graphs have beside them: a step that never works.
const DEAD: &Plan = &[("dead", &["d"], 2), ("cured", &["dead"], 7), ("lost", &["dead"], 8)];

fn job(engine: &Backstop, number: u64) -> Enqueue {
    engine.enqueue(CampaignJob { number }).policy(policy()).untyped()
}

/// True for a step that does not run in graphs that go well or badly.
fn is_passed_by(name: &str) -> bool {
    matches!(name, "never" | "lost")
}

async fn submit_graph(engine: &Backstop, number: u64) -> SubmittedWorkflow {
    let mut flow = engine.workflow(format!("graph {number}")).key(format!("graph {number}"));
    let dead = number % 2 == 1;
    let steps = STEPS.iter().chain(DEAD.iter().filter(|_| dead));
    let mut made: BTreeMap<&str, Step<Value>> = BTreeMap::new();
    for (name, after, ends) in steps {
        let mut step = flow.step(*name, job(engine, number * 100 + ends));
        for before in *after {
            step = step.after(&made[before]);
        }
        step = match *name {
            "never" | "cured" => step.on_failure(),
            "first" => step.join_any(),
            _ => step,
        };
        made.insert(name, step.add());
    }
    let callback = CampaignJob { number: CALLBACK + number * 10 + 3 };
    flow.on_success(&callback).on_failure(&callback).submit().await.expect("stored")
}

async fn submit_batch(engine: &Backstop, number: u64) -> WorkflowId {
    let callback = || CampaignJob { number: CALLBACK * 2 - 10 * (number + 1) + 3 };
    // A tenth of the jobs never works.
    let batch = engine.batch(format!("batch {number}")).failures_at_most(CHILDREN / 10);
    let batch = batch.then_on_success(callback()).then_on_failure(callback());
    batch.for_each(0..CHILDREN, |child| job(engine, 10 * CHILDREN * number + child)).await.expect("stored").id
}

/// How often each number was submitted.
async fn numbers(engine: &Backstop) -> BTreeMap<u64, u64> {
    let (mut counts, mut after) = (BTreeMap::new(), None);
    loop {
        let page =
            engine.jobs(JobFilter::default(), PageRequest { limit: 500, after }).await.expect("readable");
        for view in &page.items {
            let read: Result<CampaignJob, _> = serde_json::from_str(&view.job.spec.payload);
            *counts.entry(read.expect("a payload").number).or_default() += 1;
        }
        after = page.next;
        if after.is_none() {
            return counts;
        }
    }
}

/// When a job began to run for the first time, and when it ended.
async fn began_and_ended(
    engine: &Backstop,
    id: backstop::JobId,
) -> (State, Option<Timestamp>, Option<Timestamp>) {
    let view = engine.job(id).await.expect("readable").expect("it is stored").view;
    let runs = engine.attempts(id, PageRequest::first(500)).await.expect("readable");
    let began = runs.items.iter().map(|row| row.started_at).min();
    (view.state(), began, view.record.finished_at)
}

/// Every step ran once for good, and none before what it follows had ended.
async fn check_graph(engine: &Backstop, number: u64, submitted: &SubmittedWorkflow) {
    let dead = number % 2 == 1;
    let view = engine.workflows().get(submitted.id).await.expect("readable").expect("it is stored");
    let status = if dead { WorkflowStatus::Failed } else { WorkflowStatus::Succeeded };
    assert_eq!(view.status, status, "graph {number}: {view:?}");
    let mut seen = BTreeMap::new();
    for (name, id) in &submitted.nodes {
        seen.insert(&**name, began_and_ended(engine, *id).await);
    }
    for (name, after, _) in STEPS.iter().chain(DEAD.iter().filter(|_| dead)) {
        let (state, began, _) = seen[name];
        let expected = match *name {
            "dead" => State::Failed,
            name if is_passed_by(name) => State::Canceled,
            _ => State::Succeeded,
        };
        assert_eq!(state, expected, "step {name} of graph {number}");
        let Some(began) = began else { continue };
        let ends = after.iter().filter_map(|before| seen[before].2);
        let (first, last) = (ends.clone().min(), ends.max());
        let waited_for = if *name == "first" { first } else { last };
        assert!(waited_for.is_none_or(|end| end <= began), "step {name} of graph {number} began too early");
    }
}

async fn kill_workflows(kind: StoreKind, shape: CampaignShape) {
    let graphs = u64::try_from(rounds(24, 600)).unwrap_or(24);
    let batches = graphs / 12;
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "workflows");
    let began = Instant::now();
    let engine = location.open().await;
    let journal = Arc::new(Journal::create_in(location.folder()));
    let submitter = journal_layer::open(location.url(), journal).await.expect("the store opens");
    let mut nodes = CampaignNodes::start(shape, &location, NODE);
    let (mut submitted, mut bunches) = (Vec::new(), Vec::new());
    for number in 0..graphs {
        submitted.push(submit_graph(&submitter, number).await);
    }
    for number in 0..batches {
        bunches.push(submit_batch(&submitter, number).await);
    }
    let pause_ms = if shape == Workers { 50..250 } else { 400..1_200 };
    let wanted = graphs * 5 + batches * CHILDREN * 9 / 10;
    let kills = nodes.kill_until(&engine, wanted * 2 / 3, pause_ms, &mut dice).await;
    meet_runs(&submitter).await;
    let report = nodes.settle().await;
    println!(
        "{kind}, {shape}: {graphs} graphs, {batches} batches, {kills} kills in {:.0?}: {report}",
        began.elapsed()
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.crashes > 0, "the campaign did something");
    for (number, workflow) in (0..).zip(&submitted) {
        check_graph(&engine, number, workflow).await;
    }
    let counts = numbers(&engine).await;
    for (number, id) in (0..).zip(&bunches) {
        let view = engine.workflows().get(*id).await.expect("readable").expect("it is stored");
        let progress = view.batch.expect("a batch");
        let ended = [progress.total, progress.succeeded, progress.failed, progress.canceled];
        assert_eq!(ended, [CHILDREN, CHILDREN * 9 / 10, CHILDREN / 10, 0], "batch {number}");
        assert_eq!(view.status, WorkflowStatus::Succeeded, "batch {number}");
        assert_eq!(
            counts.get(&(CALLBACK * 2 - 10 * (number + 1) + 3)),
            Some(&1),
            "what follows batch {number}"
        );
    }
    for number in 0..graphs {
        assert_eq!(counts.get(&(CALLBACK + number * 10 + 3)), Some(&1), "what follows graph {number}");
    }
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_sqlite() {
    // W1, W2, W3, W4, W6, L15, C1
    kill_workflows(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_postgres() {
    // W1, W2, W3, W4, W6, L15, C1
    kill_workflows(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_mariadb() {
    // W1, W2, W3, W4, W6, L15, C1
    kill_workflows(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_sqlite() {
    // W1, W2, W3, W4, W6, L15, C1, E7
    kill_workflows(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_postgres() {
    // W1, W2, W3, W4, W6, L15, C1, E7
    kill_workflows(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_mariadb() {
    // W1, W2, W3, W4, W6, L15, C1, E7
    kill_workflows(StoreKind::Mariadb, RemoteWorkers).await;
}
