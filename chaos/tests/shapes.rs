//! API-only servers with remote workers, killed at random: every acknowledged job ends all the same.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::{Duration, Instant};

use backstop_chaos::group::progressed;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::NodeStart;
use backstop_chaos::processes::ServersAndWorkers;
use backstop_chaos::{rounds, seed};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// The shortest that a remote worker may ask for.
const LEASE_MS: u64 = 1_000;

/// Worker kills for each server kill.
const PER_SERVER: usize = 20;

/// Two servers without a worker and four remote workers; a worker is killed every 20 to 80 milliseconds, as long as
/// jobs succeed in between, and now and then a server.
async fn kill_remote_workers(kind: StoreKind) {
    let kills = rounds(200, 10_000);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "shapes");
    let engine = location.open().await;
    let began = Instant::now();
    let start = NodeStart { mode: "serve-and-submit", ..location.node(NODE, LEASE_MS) };
    let mut processes = ServersAndWorkers::open(start, 2, 4, PER_SERVER);
    let mut succeeded = 0;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(dice.u64(20..80))).await;
        succeeded = progressed(&engine, succeeded).await;
        processes.replace_one(&mut dice);
    }
    let report = processes.settle().await;
    println!(
        "{kind}: {kills} kills of remote workers and {} of API-only servers in {:.0?}: {report}",
        kills / PER_SERVER,
        began.elapsed()
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.jobs >= kills && report.crashes > 0, "the campaign did something");
}

#[tokio::test]
async fn remote_workers_of_api_only_servers_killed_at_random_on_sqlite() {
    // L15, L17, C1, E7
    kill_remote_workers(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn remote_workers_of_api_only_servers_killed_at_random_on_postgres() {
    // L15, L17, C1, E7
    kill_remote_workers(StoreKind::Postgres).await;
}

#[tokio::test]
async fn remote_workers_of_api_only_servers_killed_at_random_on_mariadb() {
    // L15, L17, C1, E7
    kill_remote_workers(StoreKind::Mariadb).await;
}
