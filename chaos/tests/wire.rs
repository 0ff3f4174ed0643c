//! Connections cut, stalled and half open, by a proxy between the clients and their server.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop_chaos::group::{NodeGroup, progressed};
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::NodeStart;
use backstop_chaos::work::{CampaignJob, policy};
use backstop_chaos::{journal_layer, rounds, seed};
use backstop_store::Submit;
use backstop_testbed::Proxy;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 500;

fn proxy_of(location: &StoreLocation) -> Proxy {
    Proxy::start(location.address()).expect("a proxy")
}

/// Submits under keys of its own until `wanted` answers of all clients together were lost; each key until it is
/// answered.
async fn submit_through_cuts(engine: Backstop, lost: Arc<AtomicUsize>, wanted: usize) -> usize {
    let mut keys = 0;
    while lost.load(Ordering::SeqCst) < wanted {
        keys += 1;
        let job = engine.enqueue(CampaignJob { number: 3 }).policy(policy());
        let job = job.idempotency_key(format!("cut-{:016x}", fastrand::u64(..)));
        let mut job = job.into_new_job().expect("admitted");
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            // A client that was started again knows its key, and no id.
            job.spec.id = backstop::job_id();
            match engine.store().submit(Submit { jobs: vec![job.clone()], atomic: true }).await {
                Ok(answers) => {
                    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    break;
                }
                Err(error) => {
                    assert!(error.is_transient(), "{error}");
                    lost.fetch_add(usize::from(error.is_unknown()), Ordering::SeqCst);
                    assert!(Instant::now() < limit, "the key was never answered: {error}");
                }
            }
        }
    }
    keys
}

/// Arms the proxy again whenever its trap was sprung, until told to stop.
async fn keep_cutting(proxy: &Proxy, stop: impl Fn() -> bool) {
    while !stop() {
        let before = proxy.cuts();
        proxy.cut_after(b"COMMIT", 1);
        while proxy.cuts() == before && !stop() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn cut_submits(kind: StoreKind) {
    let wanted = rounds(250, 10_000);
    let location = StoreLocation::new(kind, "cuts");
    drop(location.open().await);
    let proxy = proxy_of(&location);
    let journal = Arc::new(Journal::create_in(location.folder()));
    let engine = journal_layer::open(&proxy.url(location.url()), journal).await.expect("the store opens");
    let (lost, began) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let clients: Vec<_> =
        (0..8).map(|_| tokio::spawn(submit_through_cuts(engine.clone(), lost.clone(), wanted))).collect();
    keep_cutting(&proxy, || lost.load(Ordering::SeqCst) >= wanted).await;
    let mut keys = 0;
    for client in clients {
        keys += client.await.expect("no client gives up");
    }
    let seconds = began.elapsed();
    let (cuts, unknown) = (proxy.cuts(), lost.load(Ordering::SeqCst));
    drop((engine, proxy));
    let engine = location.open().await;
    let queues = engine.queues().list().await.expect("readable");
    let stored: u64 = queues.iter().map(|queue| queue.pending).sum();
    assert_eq!(stored, keys as u64, "one job for each key");
    let report = NodeGroup::start(location.node(NODE, LEASE_MS), 1).settle().await;
    println!(
        "{kind}: {cuts} connections cut behind COMMIT in {seconds:.0?}, {unknown} submits with unknown outcome \
         repeated, {keys} keys: {report}"
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submits_cut_behind_commit_are_one_job_for_each_key_on_postgres() {
    // L10
    cut_submits(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submits_cut_behind_commit_are_one_job_for_each_key_on_mariadb() {
    // L10
    cut_submits(StoreKind::Mariadb).await;
}

/// Workers whose connections are cut behind COMMIT, before it, and all at once.
async fn cut_workers(kind: StoreKind) {
    let wanted = rounds(100, 2_000);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "cut-workers");
    let engine = location.open().await;
    let proxy = proxy_of(&location);
    let (url, began) = (proxy.url(location.url()), Instant::now());
    let mut group = NodeGroup::start(NodeStart { url: &url, ..location.node(NODE, LEASE_MS) }, 2);
    // A process whose very first call fails says so and ends; what is tested is one that is at work.
    progressed(&engine, 20).await;
    let mut all_at_once = 0;
    while proxy.cuts() < wanted {
        let (before, armed) = (proxy.cuts(), Instant::now());
        if dice.bool() {
            proxy.cut_after(b"COMMIT", 1)
        } else {
            proxy.cut_before(b"COMMIT")
        }
        while proxy.cuts() == before {
            assert!(armed.elapsed() < Duration::from_secs(60), "nothing is committed any more");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if dice.u32(..10) == 0 {
            all_at_once += 1;
            proxy.cut();
        }
    }
    assert!(group.all_alive(), "no process ended because its connection was cut");
    let cuts = proxy.cuts();
    let report = group.settle().await;
    println!(
        "{kind}: {cuts} connections of workers cut at COMMIT, {all_at_once} times all at once, in {:.0?}: {report}",
        began.elapsed()
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.runs > 0, "the campaign did something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_whose_commits_are_cut_lose_nothing_on_postgres() {
    // L5, F17
    cut_workers(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_whose_commits_are_cut_lose_nothing_on_mariadb() {
    // L5, F17
    cut_workers(StoreKind::Mariadb).await;
}
