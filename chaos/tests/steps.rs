//! Processes killed at random in the middle of jobs with durable steps: no step runs again once its success is stored.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::SubmitError;
use backstop::prelude::*;
use backstop_chaos::group::progressed;
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::shape::{CampaignNodes, meet_runs};
use backstop_chaos::steps::SteppingJob;
use backstop_chaos::work::policy;
use backstop_chaos::{journal_layer, rounds, seed};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
/// Long enough that a busy machine takes no live process for a dead one.
const LEASE_MS: u64 = 2_000;

/// Jobs that are submitted before each kill.
const JOBS: u64 = 8;

/// Submits a job; one whose submit failed because the store was busy may be there, and another one takes its place.
async fn submit(engine: &Backstop, number: u64) {
    loop {
        match engine.enqueue(SteppingJob { number }).policy(policy()).submit().await {
            Ok(_) => return,
            Err(SubmitError::Store(error)) if error.is_transient() => {}
            Err(error) => panic!("a submit was refused: {error}"),
        }
    }
}

/// One process after the other is killed, as long as jobs succeed in between.
async fn kill_between_steps(kind: StoreKind, shape: CampaignShape) {
    // A remote worker that was just started needs longer to get its first job.
    let (kills, pause_ms) = match shape {
        Workers => (rounds(30, 5_000), 20..120),
        RemoteWorkers => (rounds(12, 1_500), 150..400),
    };
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "steps");
    let began = Instant::now();
    let engine = location.open().await;
    let submits = journal_layer::open(location.url(), Arc::new(Journal::create_in(location.folder())));
    let submits = submits.await.expect("the store opens");
    let mut nodes = CampaignNodes::start_with(shape, location.node(NODE, LEASE_MS));
    let mut succeeded = 0;
    for _ in 0..kills {
        for _ in 0..JOBS {
            submit(&submits, dice.u64(..1_000)).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.u64(pause_ms.clone()))).await;
        succeeded = progressed(&engine, succeeded).await;
        nodes.replace_one(&mut dice);
    }
    meet_runs(&submits).await;
    let report = nodes.settle().await;
    println!("{kind}, {shape}: {kills} kills in {:.0?}: {report}", began.elapsed());
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.jobs as u64 >= JOBS * kills as u64 && report.crashes > 0, "the campaign did something");
}

#[tokio::test]
async fn no_step_runs_again_after_its_success_was_stored_on_sqlite() {
    // W7, W8, L15
    kill_between_steps(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn no_step_runs_again_after_its_success_was_stored_on_postgres() {
    // W7, W8, L15
    kill_between_steps(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn no_step_runs_again_after_its_success_was_stored_on_mariadb() {
    // W7, W8, L15
    kill_between_steps(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn no_step_of_a_remote_worker_runs_again_after_its_success_was_stored_on_sqlite() {
    // W7, W8, L15, E7
    kill_between_steps(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn no_step_of_a_remote_worker_runs_again_after_its_success_was_stored_on_postgres() {
    // W7, W8, L15, E7
    kill_between_steps(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn no_step_of_a_remote_worker_runs_again_after_its_success_was_stored_on_mariadb() {
    // W7, W8, L15, E7
    kill_between_steps(StoreKind::Mariadb, RemoteWorkers).await;
}
