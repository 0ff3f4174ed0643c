//! Workers and clients whose clocks are wrong: the store's clock decides, so nothing changes.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backstop::Timestamp;
use backstop_chaos::checker;
use backstop_chaos::group::{drained, progressed};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::Node;
use backstop_chaos::{rounds, seed};
use backstop_store::{JobFilter, PageRequest};
use backstop_testbed::{SteppedClock, find};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 600;

/// What the clocks of the processes show.
const CLOCKS: [&str; 3] = ["-1h", "+1h", "2020-01-01 00:00:00"];

fn now() -> Timestamp {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

async fn wrong_clocks(kind: StoreKind) {
    let steps = rounds(20, 600);
    let mut dice = fastrand::Rng::with_seed(seed());
    let library = find::faketime().expect("libfaketime is installed");
    let library = library.to_str().expect("a plain path");
    let location = StoreLocation::new(kind, "clocks");
    let engine = location.open().await;
    let (real, began) = (now(), Instant::now());
    let real_time = [("LD_PRELOAD", library), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    let fixed = |clock: &'static str| {
        let variables = [real_time[0], real_time[1], ("FAKETIME", clock)];
        location.node(NODE, LEASE_MS).go_with(&variables)
    };
    let mut nodes: Vec<Node> = CLOCKS.iter().map(|clock| fixed(clock)).collect();
    let stepped = SteppedClock::new(location.folder()).expect("the folder can be written");
    let variables = stepped.variables();
    let variables = variables.each_ref().map(|(name, value)| (*name, &**value));
    nodes.push(location.node(NODE, LEASE_MS).go_with(&variables));
    nodes.push(location.node(NODE, LEASE_MS).go());
    let mut succeeded = 0;
    for _ in 0..steps {
        tokio::time::sleep(Duration::from_millis(400)).await;
        succeeded = progressed(&engine, succeeded).await;
        stepped.step(dice.i64(-100_000..100_000)).expect("the clock can be set");
    }
    assert!(nodes.iter_mut().all(Node::is_alive), "a wrong clock ended a process");
    // The clients go at once; what the workers held is found by their leases, whose end the store decides.
    nodes.iter_mut().for_each(Node::kill);
    let work = backstop_chaos::node::NodeStart { mode: "work", ..location.node(NODE, LEASE_MS) };
    let variables = [real_time[0], real_time[1], ("FAKETIME", "+1h")];
    let last = work.go_with(&variables);
    drained(&engine).await;
    assert!(last.stop(), "a node stops cleanly when it is asked to");
    let report = checker::check(&engine, location.folder()).await.expect("the store can be read");
    let slack = Duration::from_secs(5);
    let newest = engine.jobs(JobFilter::default(), PageRequest::first(1_000)).await.expect("readable").items;
    for view in &newest {
        let (created, end) = (view.job.created_at, view.record.finished_at.unwrap_or(Timestamp::MAX));
        let honest = created.after(slack) > real && end < now().after(slack);
        assert!(honest, "job {} lived from {created} to {end}", view.job.spec.id);
    }
    println!(
        "{kind}: clocks at {CLOCKS:?}, one stepped {steps} times and one right, for {:.0?}: {report}",
        began.elapsed()
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.runs >= steps, "the campaign did something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_wrong_change_nothing_on_postgres() {
    // L2, L15
    wrong_clocks(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_wrong_change_nothing_on_mariadb() {
    // L2, L15
    wrong_clocks(StoreKind::Mariadb).await;
}
