//! Keys raced by 64 clients, through two stores as two processes would open them.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use backstop::prelude::*;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::work::CampaignJob;

const CLIENTS: usize = 64;
const KEYS: usize = 40;

/// Every client submits under every key; one job comes of each key, and everybody is told its id.
async fn race(kind: StoreKind, what: &str, submit: impl Fn(&Backstop, usize) -> backstop::Enqueue<u64>) {
    let location = StoreLocation::new(kind, "races");
    let stores = [location.open().await, location.open().await];
    for key in 0..KEYS {
        let racing: Vec<_> = (0..CLIENTS)
            .map(|client| tokio::spawn(submit(&stores[client % stores.len()], key).submit()))
            .collect();
        let (mut winners, mut ids) = (0, Vec::new());
        for client in racing {
            match client.await.expect("no panic") {
                Ok(submitted) => {
                    winners += usize::from(!submitted.deduplicated);
                    ids.push(submitted.id);
                }
                Err(error) => assert_eq!(error.code(), "business_key_conflict", "{error}"),
            }
        }
        ids.sort();
        ids.dedup();
        assert_eq!((winners, ids.len()), (1, 1), "one job, and everybody is told its id");
    }
    println!("{kind}: {KEYS} {what} keys raced by {CLIENTS} clients, one job each");
}

async fn race_all(kind: StoreKind) {
    race(kind, "idempotency", |engine, key| {
        engine.enqueue(CampaignJob { number: 3 }).idempotency_key(format!("key-{key}"))
    })
    .await;
    race(kind, "business", |engine, key| {
        engine.enqueue(CampaignJob { number: 3 }).business_key(format!("key-{key}"))
    })
    .await;
    replace(kind).await;
}

/// Every client replaces whoever holds the key; exactly one job is left.
async fn replace(kind: StoreKind) {
    let location = StoreLocation::new(kind, "replace");
    let engine = location.open().await;
    let racing: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let job = engine
                .enqueue(CampaignJob { number: 3 })
                .business_key("one")
                .on_conflict(OnConflict::Replace);
            tokio::spawn(job.submit())
        })
        .collect();
    for client in racing {
        client.await.expect("no panic").expect("nobody is refused");
    }
    let queue = engine.queues().list().await.expect("readable").remove(0);
    assert_eq!((queue.pending, queue.canceled), (1, CLIENTS as u64 - 1));
    println!("{kind}: one key replaced by {CLIENTS} clients, one job left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_raced_by_64_clients_on_sqlite() {
    // L10, L11, L22
    race_all(StoreKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_raced_by_64_clients_on_postgres() {
    // L10, L11, L22
    race_all(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_raced_by_64_clients_on_mariadb() {
    // L10, L11, L22
    race_all(StoreKind::Mariadb).await;
}
