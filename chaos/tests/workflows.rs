//! Workflows and batches with durable steps, effects, bulk handlers, signals, rejects and schedules while workers are
//! killed at random, and while people hold workflows back, call them off and drive dead steps again: every step runs in
//! its turn, every ending counts once, what follows at the end is submitted once, no durable step and no effect runs
//! again once it is stored, no signal and no reject is lost or counts twice, and every fire time has one job, which
//! waits for the one before it where its schedule says so.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

#[path = "workflows/batches.rs"]
mod batches;
#[path = "workflows/branches.rs"]
mod branches;
#[path = "workflows/canceled.rs"]
mod canceled;
#[path = "workflows/driven.rs"]
mod driven;
#[path = "workflows/graphs.rs"]
mod graphs;
#[path = "workflows/joins.rs"]
mod joins;
#[path = "workflows/paused.rs"]
mod paused;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::schedules::{Misfire, Overlap, ScheduleSettings};
use backstop::workflows::{SubmittedWorkflow, WorkflowId, WorkflowStatus, WorkflowView};
use backstop::{Backstop, Enqueue, Job, JobId};
use backstop_chaos::group::PATIENCE;
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::shape::{CampaignNodes, meet_runs};
use backstop_chaos::work::{CampaignJob, SLOW, policy};
use backstop_chaos::{journal_layer, seed};
use backstop_core::job::JobView;
use backstop_store::{JobFilter, PageRequest};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// A schedule, and the job of its fires.
struct CampaignSchedule {
    every_s: u64,
    overlap: Overlap,
    /// What becomes of its jobs; no others have this number.
    number: u64,
    /// How long its jobs wait before they may start.
    delay_ms: u64,
}

/// Numbers of the jobs that schedules submit.
const SCHEDULED: u64 = 600_000_000;

/// One whose jobs do not wait for each other.
const ALLOWED: CampaignSchedule =
    CampaignSchedule { every_s: 1, overlap: Overlap::Allow, number: SCHEDULED + 3, delay_ms: 0 };

/// One whose jobs take their time, and now and then are not ready when the next fire comes: when their worker has died,
/// or whoever leads, and many fires come at once.
const QUEUED: CampaignSchedule =
    CampaignSchedule { every_s: 1, overlap: Overlap::Queue, number: SLOW + SCHEDULED, delay_ms: 500 };

/// All of them. What is queued fails first and then succeeds, or never works. What may be skipped goes on for longer
/// than until the next fire.
const SCHEDULES: [CampaignSchedule; 6] = [
    ALLOWED,
    CampaignSchedule { number: SCHEDULED + 13, ..ALLOWED },
    CampaignSchedule { number: SCHEDULED + 23, ..ALLOWED },
    QUEUED,
    CampaignSchedule { number: SLOW + SCHEDULED + 2, ..QUEUED },
    CampaignSchedule { every_s: 2, overlap: Overlap::Skip, number: SLOW + SCHEDULED + 3, delay_ms: 2_000 },
];

impl CampaignSchedule {
    fn name(&self) -> String {
        format!("schedule {}", self.number)
    }
}

/// How many workers are killed while only dead steps are driven again.
const LAST_KILLS: usize = 4;

/// Where a campaign takes place.
struct CampaignStage {
    /// Looks.
    engine: Backstop,
    /// Submits and operates, and writes it into a journal.
    submitter: Backstop,
    shape: CampaignShape,
    folder: PathBuf,
}

impl CampaignStage {
    async fn on(location: &StoreLocation, shape: CampaignShape) -> Self {
        let journal = Arc::new(Journal::create_in(location.folder()));
        Self {
            engine: location.open().await,
            submitter: journal_layer::open(location.url(), journal).await.expect("the store opens"),
            shape,
            folder: location.folder().to_owned(),
        }
    }

    async fn workflow(&self, id: WorkflowId) -> WorkflowView {
        self.engine.workflows().get(id).await.expect("readable").expect("it is stored")
    }

    async fn job(&self, id: JobId) -> JobView {
        self.engine.job(id).await.expect("readable").expect("it is stored").view
    }
}

/// Workflows that tell of their end by a job.
#[derive(Clone, Copy)]
enum Family {
    Graphs,
    Batches,
    Branches,
    Joins,
    Canceled,
    /// Driven ones, when they have failed and when they have succeeded.
    Dead,
    Driven,
}

impl Family {
    /// All of them, with how many workflows there are of each.
    fn all() -> [(Self, u64); 7] {
        let driven = driven::count();
        [
            (Self::Graphs, graphs::count()),
            (Self::Batches, batches::COUNT),
            (Self::Branches, branches::count()),
            (Self::Joins, 1),
            (Self::Canceled, canceled::count()),
            (Self::Dead, driven),
            (Self::Driven, driven),
        ]
    }
}

/// The job that follows when all of a workflow has ended; no other has its number.
fn callback(family: Family, number: u64) -> CampaignJob {
    CampaignJob { number: 500_000_000 + 1_000_000 * family as u64 + 10 * number + 3 }
}

fn job(engine: &Backstop, number: u64) -> Enqueue {
    engine.enqueue(CampaignJob { number }).policy(policy()).untyped()
}

/// How often each number was submitted.
async fn numbers(engine: &Backstop) -> BTreeMap<u64, u64> {
    let (mut counts, mut after) = (BTreeMap::new(), None);
    let filter = JobFilter { kind: Some(CampaignJob::KIND.to_owned()), ..JobFilter::default() };
    loop {
        let page = engine.jobs(filter.clone(), PageRequest { limit: 500, after }).await.expect("readable");
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

async fn set_schedules(engine: &Backstop) {
    for schedule in SCHEDULES {
        let settings = ScheduleSettings::every(Duration::from_secs(schedule.every_s));
        let settings = settings.misfire(Misfire::CatchUp(100)).overlap(schedule.overlap);
        let job = job(engine, schedule.number).delay(Duration::from_millis(schedule.delay_ms));
        engine.schedules().set(&schedule.name(), settings, job).await.expect("it is set");
    }
}

/// No more fires once each schedule had one; those that were decided are submitted by whoever leads.
async fn pause_schedules(engine: &Backstop) {
    let began = Instant::now();
    loop {
        let submitted = numbers(engine).await;
        if SCHEDULES.iter().all(|schedule| submitted.contains_key(&schedule.number)) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "a schedule does not fire");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for schedule in SCHEDULES {
        engine.schedules().pause(&schedule.name(), "the campaign").await.expect("it is set");
    }
}

/// Everything that a campaign submits.
struct SubmittedWork {
    graphs: Vec<SubmittedWorkflow>,
    branches: Vec<SubmittedWorkflow>,
    driven: Vec<SubmittedWorkflow>,
    canceled: Vec<SubmittedWorkflow>,
    join: SubmittedWorkflow,
    batches: Vec<WorkflowId>,
}

impl SubmittedWork {
    async fn submit(stage: &CampaignStage) -> Self {
        let mut work = Self {
            graphs: graphs::submit_all(stage).await,
            branches: branches::submit_all(stage).await,
            driven: driven::submit_all(stage).await,
            canceled: canceled::submit_all(stage).await,
            join: joins::submit(stage).await,
            batches: Vec::new(),
        };
        for number in 0..batches::COUNT {
            work.batches.push(batches::submit(stage, number).await);
        }
        work
    }

    /// How many of the jobs succeed without anybody doing anything, at least.
    fn successes() -> u64 {
        let graphs = graphs::successes() + branches::successes() + driven::successes();
        graphs + joins::successes() + batches::successes()
    }

    async fn check(&self, stage: &CampaignStage) {
        graphs::check_all(stage, &self.graphs).await;
        branches::check_all(stage, &self.branches).await;
        joins::check(stage, &self.join).await;
        batches::check_all(stage, &self.batches).await;
        let counts = numbers(&stage.engine).await;
        for CampaignSchedule { number, .. } in SCHEDULES {
            assert!(counts.contains_key(&number), "schedule {number} has fired");
        }
        for (family, count) in Family::all() {
            for number in 0..count {
                let follows = callback(family, number).number;
                assert_eq!(counts.get(&follows), Some(&1), "what follows a workflow: job {follows}");
            }
        }
    }
}

async fn kill_workflows(kind: StoreKind, shape: CampaignShape) {
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "workflows");
    let began = Instant::now();
    let stage = CampaignStage::on(&location, shape).await;
    let mut nodes = CampaignNodes::start(shape, &location, NODE);
    let sender = location.node(NODE, 500);
    let third = |rest| (0..graphs::count()).filter(move |number| number % 3 == rest);
    set_schedules(&stage.submitter).await;
    // A third is sent before anybody waits for it.
    graphs::send(sender, third(0), &mut dice).await;
    let work = SubmittedWork::submit(&stage).await;
    let (mut held, mut ends) = (paused::HeldJobs::default(), canceled::Ends::new());
    held.pause_batch(&stage, work.batches[1]).await;
    let (wanted, pause_ms) =
        (SubmittedWork::successes(), if shape == Workers { 50..250 } else { 400..1_200 });
    let mut kills = nodes.kill_until(&stage.engine, wanted / 4, pause_ms.clone(), &mut dice).await;
    held.pause_graphs(&stage, &work.graphs).await;
    let (early, late): (Vec<usize>, Vec<usize>) =
        (0..work.canceled.len()).partition(|number| number % 3 == 0);
    canceled::cancel(&stage, &work.canceled, &early, &mut ends).await;
    kills += nodes.kill_until(&stage.engine, wanted / 2, pause_ms.clone(), &mut dice).await;
    let held = held.resume(&stage).await;
    canceled::cancel(&stage, &work.canceled, &late, &mut ends).await;
    let plan = driven::mend(&stage, &work.driven).await;
    graphs::send(sender, third(1), &mut dice).await;
    kills += nodes.kill_until(&stage.engine, wanted * 3 / 4, pause_ms.clone(), &mut dice).await;
    graphs::send(sender, third(2), &mut dice).await;
    // Whoever drives them dies a few times more, and is not killed faster than it comes to anything.
    let mut left = LAST_KILLS;
    driven::reach(&stage, &work.driven, WorkflowStatus::Succeeded, async || {
        tokio::time::sleep(Duration::from_millis(dice.u64(pause_ms.clone()))).await;
        if left > 0 {
            nodes.replace_one(&mut dice);
            (left, kills) = (left - 1, kills + 1);
        }
    })
    .await;
    plan.reach_its_end(&stage).await;
    pause_schedules(&stage.engine).await;
    meet_runs(&stage.submitter).await;
    let report = nodes.settle().await;
    println!("{kind}, {shape}: {kills} kills in {:.0?}, {held} jobs held back: {report}", began.elapsed());
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.crashes > 0, "the campaign did something");
    work.check(&stage).await;
    canceled::check_all(&stage, &work.canceled, &ends).await;
    plan.check(&stage, &work.driven).await;
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_sqlite() {
    // W1, W2, W3, W4, W6, W7, W8, W9, W10, W11, W12, D4, L15, C1
    kill_workflows(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_postgres() {
    // W1, W2, W3, W4, W6, W7, W8, W9, W10, W11, W12, D4, L15, C1
    kill_workflows(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_workers_are_killed_on_mariadb() {
    // W1, W2, W3, W4, W6, W7, W8, W9, W10, W11, W12, D4, L15, C1
    kill_workflows(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_sqlite() {
    // W1, W2, W3, W4, W6, W7, W8, W9, W10, W11, D4, L15, C1, E7
    kill_workflows(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_postgres() {
    // W1, W2, W3, W4, W6, W7, W8, W9, W10, W11, D4, L15, C1, E7
    kill_workflows(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn workflows_go_on_while_remote_workers_are_killed_on_mariadb() {
    // W1, W2, W3, W4, W6, W7, W8, W9, W10, W11, D4, L15, C1, E7
    kill_workflows(StoreKind::Mariadb, RemoteWorkers).await;
}
