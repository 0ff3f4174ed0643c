//! The re-drive of 5,000 dead letters on real stores: it halts at its canary while the bug is there, drives all of them
//! after the fix, and never touches 40 others.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

#[path = "../../crates/engine/tests/redrive/scenario.rs"]
mod scenario;

use std::time::{Duration, Instant};

use backstop_chaos::location::{StoreKind, StoreLocation};

async fn redrive(kind: StoreKind) {
    let location = StoreLocation::new(kind, "redrive");
    let engine = location.open().await;
    let began = Instant::now();
    scenario::five_thousand_and_forty(engine.store().clone(), async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
    })
    .await;
    println!("{kind}: 5,040 jobs died, 5,000 were driven again and 40 were not, in {:.1?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_are_driven_and_forty_are_not_on_sqlite() {
    // D4
    redrive(StoreKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_are_driven_and_forty_are_not_on_postgres() {
    // D4
    redrive(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_are_driven_and_forty_are_not_on_mariadb() {
    // D4
    redrive(StoreKind::Mariadb).await;
}
