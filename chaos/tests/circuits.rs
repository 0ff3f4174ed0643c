//! A partner that fails and comes back while the processes that call it are killed at random: they leave it alone
//! together, no more runs try it than may, and every job has its turn in the end (H3).

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::circuits::{CircuitState, CircuitView};
use backstop::{Backstop, Cause, Timestamp};
use backstop_chaos::checker::JournalSummary;
use backstop_chaos::group::progressed;
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::partner::{self, CallingJob, PARTNER, PROBES};
use backstop_chaos::shape::CampaignNodes;
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::{journal_layer, rounds, seed};
use backstop_store::{JobFilter, PageRequest};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Jobs that are submitted before each outage, and in it.
const JOBS: u64 = 60;
/// Kills in each outage.
const KILLS: usize = 6;
/// A process may know of a circuit what was true a second ago; what it lets through then has its turn a moment later.
const HEARD: Duration = Duration::from_millis(1_500);
/// How long to wait for a circuit. A run that tries the partner and is killed gives its try back with its job, long
/// before the minute after which any try is given up.
const PATIENCE: Duration = Duration::from_secs(50);

/// An outage of the partner, by the store's clock.
#[derive(Debug)]
struct Outage {
    opened: Timestamp,
    mended: Timestamp,
    /// Times that the circuit was half open in it.
    tried: u64,
}

async fn circuit(engine: &Backstop) -> Option<CircuitView> {
    engine.circuits().get(PARTNER).await.expect("readable")
}

/// Waits until the circuit is closed, or is not.
async fn reach(engine: &Backstop, closed: bool) -> CircuitView {
    let began = Instant::now();
    loop {
        match circuit(engine).await {
            Some(view) if (view.circuit.state == CircuitState::Closed) == closed => return view,
            view => assert!(began.elapsed() < PATIENCE, "the circuit stays as it is: {view:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn submit(engine: &Backstop, folder: &Path) {
    let job = |number| {
        let job = CallingJob { number, sign: CallingJob::sign_in(folder) };
        engine.enqueue(job).policy(CallingJob::policy())
    };
    let answers = engine.submit_all((0..JOBS).map(job).collect(), true).await.expect("stored");
    assert!(answers.iter().all(Result::is_ok), "all are admitted");
}

/// The partner goes down, the circuit opens, processes are killed, and it comes back.
async fn outage(
    engine: &Backstop,
    submitter: &Backstop,
    (nodes, folder): (&mut CampaignNodes<'_>, &Path),
    dice: &mut fastrand::Rng,
) -> Outage {
    let sign = CallingJob::sign_in(folder);
    std::fs::write(&sign, "").expect("the folder can be written");
    submit(submitter, folder).await;
    let open = reach(engine, false).await.circuit;
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(dice.u64(300..900))).await;
        nodes.replace_one(dice);
    }
    std::fs::remove_file(sign).expect("it is there");
    let mended = engine.store().now().await.expect("readable");
    let last = circuit(engine).await.expect("it is there").circuit;
    reach(engine, true).await;
    let tried = (last.generation - open.generation).div_ceil(2);
    Outage { opened: open.since.expect("it has changed"), mended, tried }
}

/// Calls of the partner, of all jobs: when each of them began.
async fn calls(engine: &Backstop, folder: &Path) -> Vec<Timestamp> {
    let (mut calls, journals) = (Vec::new(), JournalSummary::read(folder));
    let mut page = PageRequest::first(1_000);
    loop {
        let jobs = engine.jobs(JobFilter::default(), page).await.expect("readable");
        for view in &jobs.items {
            let job = view.job.spec.id;
            let rows = engine.attempts(job, PageRequest::first(1_000)).await.expect("readable").items;
            calls.extend(rows.iter().filter(|row| journals.began(job, row.number)).map(|row| row.started_at));
            let errors = rows.iter().filter(|row| row.cause == Cause::Error).count();
            assert_eq!(
                view.record.attempt as usize, errors,
                "a call that failed is charged, nothing else is"
            );
        }
        page = PageRequest { after: jobs.next, ..PageRequest::first(1_000) };
        if page.after.is_none() {
            return calls;
        }
    }
}

async fn kill_with_a_failing_partner(kind: StoreKind, shape: CampaignShape) {
    let outages = rounds(2, 30);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "circuits");
    let began = Instant::now();
    let engine = location.open().await;
    let journal = Arc::new(Journal::create_in(location.folder()));
    let submitter = journal_layer::open_with(location.url(), journal, partner::config()).await;
    let submitter = submitter.expect("the store opens");
    let mut nodes = CampaignNodes::start(shape, &location, NODE);
    let (mut succeeded, mut seen) = (0, Vec::new());
    for _ in 0..outages {
        submit(&submitter, location.folder()).await;
        succeeded = progressed(&engine, succeeded).await;
        seen.push(outage(&engine, &submitter, (&mut nodes, location.folder()), &mut dice).await);
    }
    let report = nodes.settle().await;
    println!("{kind}, {shape}: {outages} outages, {} kills in {:.0?}", outages * KILLS, began.elapsed());
    println!("{report}; {seen:?}");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    let queue = engine.queues().list().await.expect("readable").remove(0);
    assert_eq!(queue.succeeded, 2 * JOBS * outages as u64, "every job has had its turn: {queue:?}");
    let calls = calls(&engine, location.folder()).await;
    for outage in &seen {
        let during = |start: &&Timestamp| **start > outage.opened.after(HEARD) && **start < outage.mended;
        let (during, may) = (calls.iter().filter(during).count() as u64, PROBES * outage.tried);
        println!("{during} calls while it was left alone, {may} may be");
        assert!(during <= may, "{during} runs called a partner that was left alone, {may} may: {outage:?}");
    }
}

#[tokio::test]
async fn a_failing_partner_is_left_alone_while_workers_are_killed_on_sqlite() {
    // H3, L15, C1
    kill_with_a_failing_partner(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn a_failing_partner_is_left_alone_while_workers_are_killed_on_postgres() {
    // H3, L15, C1
    kill_with_a_failing_partner(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn a_failing_partner_is_left_alone_while_workers_are_killed_on_mariadb() {
    // H3, L15, C1
    kill_with_a_failing_partner(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn a_failing_partner_is_left_alone_while_remote_workers_are_killed_on_sqlite() {
    // H3, L15, C1, E7
    kill_with_a_failing_partner(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn a_failing_partner_is_left_alone_while_remote_workers_are_killed_on_postgres() {
    // H3, L15, C1, E7
    kill_with_a_failing_partner(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn a_failing_partner_is_left_alone_while_remote_workers_are_killed_on_mariadb() {
    // H3, L15, C1, E7
    kill_with_a_failing_partner(StoreKind::Mariadb, RemoteWorkers).await;
}
