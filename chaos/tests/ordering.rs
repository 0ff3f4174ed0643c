//! Many ordering keys, workers killed at random: no two jobs of a key at once, none before its turn, none left (L21).

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::Instant;

use backstop::Backstop;
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::shape::{CampaignNodes, meet_runs};
use backstop_chaos::work::{CampaignJob, policy};
use backstop_chaos::{journal_layer, rounds, seed};
use backstop_store::Submit;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// Each key gets so many jobs.
const DEPTH: u64 = 4;

/// Jobs of every key, one round after the other: what comes in a later round comes after it in its line.
async fn fill(engine: &Backstop, keys: u64) {
    for round in 0..DEPTH {
        let job = |key: u64| {
            // Some fail or snooze first, none is a dead letter.
            let number = if (key + round) % 10 == 2 { 3 } else { key + round };
            let job = engine.enqueue(CampaignJob { number }).policy(policy()).ordering_key(format!("o{key}"));
            job.into_new_job().expect("admitted")
        };
        let jobs: Vec<_> = (0..keys).map(job).collect();
        for batch in jobs.chunks(500) {
            let batch = Submit { jobs: batch.to_vec(), atomic: true };
            let answers = engine.store().submit(batch).await.expect("stored");
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
    }
}

async fn kill(kind: StoreKind, shape: CampaignShape) {
    let keys = u64::try_from(rounds(250, 1_000)).unwrap_or(250);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "ordering");
    let began = Instant::now();
    let engine = location.open().await;
    let journal = std::sync::Arc::new(Journal::create_in(location.folder()));
    let submitter = journal_layer::open(location.url(), journal).await.expect("the store opens");
    let mut nodes = CampaignNodes::start(shape, &location, NODE);
    fill(&submitter, keys).await;
    // A remote worker that was just started needs longer to get its first job.
    let pause_ms = if shape == Workers { 20..80 } else { 150..400 };
    let kills = nodes.kill_until(&engine, keys * DEPTH * 2 / 3, pause_ms, &mut dice).await;
    let jobs = keys * DEPTH + meet_runs(&submitter).await;
    let report = nodes.settle().await;
    println!("{kind}, {shape}: {keys} ordering keys, {kills} kills in {:.0?}: {report}", began.elapsed());
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert_eq!(report.jobs as u64, jobs, "nothing is lost");
    let queue = engine.queues().list().await.expect("readable").remove(0);
    assert_eq!(queue.succeeded, jobs, "every job has had its turn: {queue:?}");
    assert!(report.crashes > 0, "the campaign did something");
}

#[tokio::test]
async fn lines_go_on_while_workers_are_killed_on_sqlite() {
    // L21, L15, C1
    kill(StoreKind::Sqlite, Workers).await;
}

#[tokio::test]
async fn lines_go_on_while_workers_are_killed_on_postgres() {
    // L21, L15, C1
    kill(StoreKind::Postgres, Workers).await;
}

#[tokio::test]
async fn lines_go_on_while_workers_are_killed_on_mariadb() {
    // L21, L15, C1
    kill(StoreKind::Mariadb, Workers).await;
}

#[tokio::test]
async fn lines_go_on_while_remote_workers_are_killed_on_sqlite() {
    // L21, L15, C1, E7
    kill(StoreKind::Sqlite, RemoteWorkers).await;
}

#[tokio::test]
async fn lines_go_on_while_remote_workers_are_killed_on_postgres() {
    // L21, L15, C1, E7
    kill(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test]
async fn lines_go_on_while_remote_workers_are_killed_on_mariadb() {
    // L21, L15, C1, E7
    kill(StoreKind::Mariadb, RemoteWorkers).await;
}
