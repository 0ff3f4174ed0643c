//! Clients that submit more than a queue has room for, while processes are killed at random: the queue never holds more
//! than it may, what was acknowledged is there, and the room of what has ended is all there again (H12).

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::{Backstop, Config, QueueConfig, Refusal, State, SubmitError};
use backstop_chaos::client::CROWD_DEPTH;
use backstop_chaos::group::progressed;
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::shape::CampaignNodes;
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::work::{CampaignJob, policy};
use backstop_chaos::{journal_layer, rounds, seed};
use backstop_core::Fence;
use backstop_core::job::JobView;
use backstop_store::{JobFilter, PageRequest};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Jobs that wait, due or not, and were never taken: those that go back into the queue are never refused, and come on top.
async fn new_ones(engine: &Backstop) -> u64 {
    let newest = engine.jobs(JobFilter::default(), PageRequest::first(500)).await.expect("readable").items;
    let waits = |view: &&JobView| matches!(view.record.state, State::Pending | State::Waiting);
    newest.iter().filter(waits).filter(|view| view.record.fence == Fence::default()).count() as u64
}

async fn kill_in_a_crowd(kind: StoreKind, shape: CampaignShape) {
    let kills = rounds(25, 500);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "admission");
    let began = Instant::now();
    let engine = location.open().await;
    let full = bounded(&location).await;
    fill(&full).await;
    let mut nodes = CampaignNodes::crowd(shape, &location, NODE);
    let (mut succeeded, mut most) = (0, 0);
    for _ in 0..kills {
        let until = Instant::now() + Duration::from_millis(dice.u64(50..250));
        while Instant::now() < until {
            most = most.max(new_ones(&engine).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        succeeded = progressed(&engine, succeeded).await;
        nodes.replace_one(&mut dice);
    }
    let report = nodes.settle().await;
    println!("{kind}, {shape}: {kills} kills in {:.0?}, {most} new ones at most; {report}", began.elapsed());
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.crashes > 0 && report.acked as u64 > CROWD_DEPTH, "the campaign did something");
    assert!(most <= CROWD_DEPTH, "{most} new ones waited, {CROWD_DEPTH} may");
    // Nobody works any more, and whoever died holding a place has left it.
    fill(&full).await;
}

/// A client that knows how many may wait.
async fn bounded(location: &StoreLocation) -> Backstop {
    let queue = QueueConfig::default().max_depth(CROWD_DEPTH);
    let journal = Arc::new(Journal::create_in(location.folder()));
    let config = Config::default().queue("default", queue);
    journal_layer::open_with(location.url(), journal, config).await.expect("the store opens")
}

/// Submits exactly as many jobs as the empty queue has room for, and is refused one more.
async fn fill(engine: &Backstop) {
    for number in 0..CROWD_DEPTH {
        let job = engine.enqueue(CampaignJob { number: 10 * number + 3 }).policy(policy());
        job.submit().await.unwrap_or_else(|error| panic!("{number} wait, {CROWD_DEPTH} may: {error}"));
    }
    let one_more = engine.enqueue(CampaignJob { number: 3 }).policy(policy()).submit().await;
    let Err(SubmitError::Refused(Refusal::QueueFull { .. })) = one_more else {
        panic!("the queue is full: {one_more:?}");
    };
}

#[tokio::test]
async fn a_queue_holds_what_it_may_while_workers_are_killed_on_sqlite() {
    // H12, L15, C1
    kill_in_a_crowd(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn a_queue_holds_what_it_may_while_workers_are_killed_on_postgres() {
    // H12, L15, C1
    kill_in_a_crowd(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn a_queue_holds_what_it_may_while_workers_are_killed_on_mariadb() {
    // H12, L15, C1
    kill_in_a_crowd(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn a_queue_holds_what_it_may_while_remote_workers_are_killed_on_sqlite() {
    // H12, L15, C1, E7
    kill_in_a_crowd(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn a_queue_holds_what_it_may_while_remote_workers_are_killed_on_postgres() {
    // H12, L15, C1, E7
    kill_in_a_crowd(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn a_queue_holds_what_it_may_while_remote_workers_are_killed_on_mariadb() {
    // H12, L15, C1, E7
    kill_in_a_crowd(StoreKind::Mariadb, RemoteWorkers).await;
}
