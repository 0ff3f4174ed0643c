//! Workflows and batches with durable steps, signals, rejects and schedules while workers are killed at random: every
//! step runs in its turn, every ending counts once, what follows at the end is submitted once, no durable step runs again
//! once it is stored, no signal and no reject is lost or counts twice, and every fire time has one job.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::schedules::{Misfire, ScheduleSettings};
use backstop::workflows::{NodeEnd, NodeState, Step, SubmittedWorkflow, WorkflowId, WorkflowStatus};
use backstop::{Backstop, Enqueue};
use backstop_chaos::errand::{REJECTS, SignalJob};
use backstop_chaos::group::PATIENCE;
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::shape::{CampaignNodes, meet_runs};
use backstop_chaos::work::{CampaignJob, policy};
use backstop_chaos::{journal_layer, rounds, seed};
use backstop_store::{JobFilter, PageRequest};
use serde_json::Value;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Batches of a campaign.
const BATCHES: u64 = 2;

/// Jobs of each batch.
fn children() -> u64 {
    u64::try_from(rounds(200, 10_000)).unwrap_or(200)
}

/// Numbers of the jobs that follow when all of a workflow has ended.
const CALLBACK: u64 = 500_000_000;

/// Numbers of the jobs that schedules submit, and of those that wait for signals.
const SCHEDULED: u64 = 600_000_000;
const ERRAND: u64 = 700_000_000;

/// Schedules that fire every second.
const SCHEDULES: u64 = 3;

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
    let errand = engine.enqueue(SignalJob { number: ERRAND + number }).policy(policy());
    flow.step("errand", errand).after(&made["a"]).add();
    let callback = CampaignJob { number: CALLBACK + number * 10 + 3 };
    flow.on_success(&callback).on_failure(&callback).submit().await.expect("stored")
}

async fn submit_batch(engine: &Backstop, number: u64) -> WorkflowId {
    let children = children();
    let callback = || CampaignJob { number: CALLBACK * 2 - 10 * (number + 1) + 3 };
    // A tenth of the jobs never works.
    let batch = engine.batch(format!("batch {number}")).failures_at_most(children / 10);
    let batch = batch.then_on_success(callback()).then_on_failure(callback());
    batch.for_each(0..children, |child| job(engine, 10 * children * number + child)).await.expect("stored").id
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

/// Every step ended as it should; that none began too early is the checker's to see.
async fn check_graph(engine: &Backstop, number: u64, submitted: &SubmittedWorkflow) {
    let dead = number % 2 == 1;
    let view = engine.workflows().get(submitted.id).await.expect("readable").expect("it is stored");
    let status = if dead { WorkflowStatus::Failed } else { WorkflowStatus::Succeeded };
    assert_eq!(view.status, status, "graph {number}: {view:?}");
    for node in &view.nodes {
        let expected = match &*node.name {
            "dead" => NodeEnd::Failed,
            "never" => NodeEnd::NotTaken,
            "lost" => NodeEnd::DependencyFailed,
            _ => NodeEnd::Succeeded,
        };
        assert_eq!(node.state, NodeState::Ended(expected), "step {} of graph {number}", node.name);
    }
}

/// What was sent has arrived, once, and what was rejected is kept, once (W9, W10).
async fn check_errand(engine: &Backstop, number: u64, submitted: &SubmittedWorkflow) {
    let (_, id) = submitted.nodes.iter().find(|(name, _)| &**name == "errand").expect("every graph has one");
    let job = engine.job(*id).await.expect("readable").expect("it is stored").view;
    assert_eq!(job.result.as_deref(), Some(&*number.to_string()), "what came with the signal");
    let rejects = engine.rejects().of_job(*id, 100).await.expect("readable");
    assert_eq!(rejects.len() as u64, REJECTS, "items that graph {number} rejects");
}

/// Sends what the errands of some graphs wait for, each signal twice: with an id it is one.
async fn send(engine: &Backstop, graphs: impl Iterator<Item = u64>) {
    for number in graphs {
        let signal = SignalJob { number: ERRAND + number }.signal();
        for _ in 0..2 {
            engine.signals().send(&signal, &number).id("once").await.expect("sent");
        }
    }
}

async fn set_schedules(engine: &Backstop) {
    for number in 0..SCHEDULES {
        let settings = ScheduleSettings::every(Duration::from_secs(1)).misfire(Misfire::CatchUp(100));
        let job = job(engine, SCHEDULED + number * 10 + 3);
        engine.schedules().set(&format!("schedule {number}"), settings, job).await.expect("it is set");
    }
}

/// No more fires once each schedule had one; those that were decided are submitted by whoever leads.
async fn pause_schedules(engine: &Backstop) {
    let began = Instant::now();
    loop {
        let submitted = numbers(engine).await;
        if (0..SCHEDULES).all(|number| submitted.contains_key(&(SCHEDULED + number * 10 + 3))) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "a schedule does not fire");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for number in 0..SCHEDULES {
        engine.schedules().pause(&format!("schedule {number}"), "the campaign").await.expect("it is set");
    }
}

async fn kill_workflows(kind: StoreKind, shape: CampaignShape) {
    let graphs = u64::try_from(rounds(24, 600)).unwrap_or(24);
    let (batches, children) = (BATCHES, children());
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "workflows");
    let began = Instant::now();
    let engine = location.open().await;
    let journal = Arc::new(Journal::create_in(location.folder()));
    let submitter = journal_layer::open(location.url(), journal).await.expect("the store opens");
    let mut nodes = CampaignNodes::start(shape, &location, NODE);
    let (mut submitted, mut bunches) = (Vec::new(), Vec::new());
    set_schedules(&submitter).await;
    // A third is sent before anybody waits for it.
    send(&submitter, (0..graphs).filter(|number| number % 3 == 0)).await;
    for number in 0..graphs {
        submitted.push(submit_graph(&submitter, number).await);
    }
    for number in 0..batches {
        bunches.push(submit_batch(&submitter, number).await);
    }
    let pause_ms = if shape == Workers { 50..250 } else { 400..1_200 };
    let wanted = graphs * 5 + batches * children * 9 / 10;
    let mut kills = nodes.kill_until(&engine, wanted / 3, pause_ms.clone(), &mut dice).await;
    send(&submitter, (0..graphs).filter(|number| number % 3 == 1)).await;
    kills += nodes.kill_until(&engine, wanted * 2 / 3, pause_ms, &mut dice).await;
    send(&submitter, (0..graphs).filter(|number| number % 3 == 2)).await;
    pause_schedules(&engine).await;
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
        check_errand(&engine, number, workflow).await;
    }
    let counts = numbers(&engine).await;
    for (number, id) in (0..).zip(&bunches) {
        let view = engine.workflows().get(*id).await.expect("readable").expect("it is stored");
        let progress = view.batch.expect("a batch");
        let ended = [progress.total, progress.succeeded, progress.failed, progress.canceled];
        assert_eq!(ended, [children, children * 9 / 10, children / 10, 0], "batch {number}");
        assert_eq!(view.status, WorkflowStatus::Succeeded, "batch {number}");
        assert_eq!(
            counts.get(&(CALLBACK * 2 - 10 * (number + 1) + 3)),
            Some(&1),
            "what follows batch {number}"
        );
    }
    for number in 0..SCHEDULES {
        assert!(counts.contains_key(&(SCHEDULED + number * 10 + 3)), "schedule {number} has fired");
    }
    for number in 0..graphs {
        assert_eq!(counts.get(&(CALLBACK + number * 10 + 3)), Some(&1), "what follows graph {number}");
    }
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_sqlite() {
    // W1, W2, W3, W4, W6, W7, W9, W10, W11, L15, C1
    kill_workflows(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_postgres() {
    // W1, W2, W3, W4, W6, W7, W9, W10, W11, L15, C1
    kill_workflows(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_mariadb() {
    // W1, W2, W3, W4, W6, W7, W9, W10, W11, L15, C1
    kill_workflows(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_sqlite() {
    // W1, W2, W3, W4, W6, W7, W9, W10, W11, L15, C1, E7
    kill_workflows(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_postgres() {
    // W1, W2, W3, W4, W6, W7, W9, W10, W11, L15, C1, E7
    kill_workflows(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_mariadb() {
    // W1, W2, W3, W4, W6, W7, W9, W10, W11, L15, C1, E7
    kill_workflows(StoreKind::Mariadb, RemoteWorkers).await;
}
