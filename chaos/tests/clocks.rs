//! Workers, clients and servers whose clocks are wrong: the store's clock decides, so nothing changes.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backstop::Timestamp;
use backstop_chaos::checker;
use backstop_chaos::group::{drained, progressed};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::{Node, NodeStart};
use backstop_chaos::processes::{retract, serve_twice_with};
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::{rounds, seed};
use backstop_store::{JobFilter, PageRequest};
use backstop_testbed::{SteppedClock, find};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 600;
/// The shortest that a remote worker may ask for.
const REMOTE_LEASE_MS: u64 = 1_000;

/// What the clocks of the processes show.
const CLOCKS: [&str; 3] = ["-1h", "+1h", "2020-01-01 00:00:00"];

fn now() -> Timestamp {
    let micros = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// Variables of the environment of a process.
type Variables<'a> = Vec<(&'a str, &'a str)>;

/// Starts a program for each clock, or two servers and remote workers that share them.
async fn start_by(shape: CampaignShape, start: NodeStart<'_>, clocks: &[Variables<'_>; 5]) -> Vec<Node> {
    let [behind, ahead, old, stepped, right] = clocks;
    match shape {
        Workers => clocks.iter().map(|clock| start.go_with(clock)).collect(),
        RemoteWorkers => {
            let serve = NodeStart { mode: "serve-and-submit", ..start };
            let servers = serve_twice_with(serve, [stepped, ahead]).await;
            let remote = NodeStart { mode: "remote", ..start };
            let workers = [behind, ahead, old, right].map(|clock| remote.go_with(clock));
            servers.into_iter().chain(workers).collect()
        }
    }
}

/// Starts what finishes the rest, an hour ahead: a program that is asked to stop in the end, and a remote worker.
fn start_last(shape: CampaignShape, start: NodeStart<'_>, clock: &[(&str, &str)]) -> (Node, Option<Node>) {
    match shape {
        Workers => (NodeStart { mode: "work", ..start }.go_with(clock), None),
        RemoteWorkers => {
            (0..2).for_each(|slot| retract(start.folder, slot));
            let server = NodeStart { mode: "serve", ..start }.go_with(clock);
            (server, Some(NodeStart { mode: "remote", ..start }.go_with(clock)))
        }
    }
}

async fn wrong_clocks(kind: StoreKind, shape: CampaignShape) {
    let steps = rounds(if shape == Workers { 20 } else { 10 }, 600);
    let mut dice = fastrand::Rng::with_seed(seed());
    let library = find::faketime().expect("libfaketime is installed");
    let library = library.to_str().expect("a plain path");
    let location = StoreLocation::new(kind, "clocks");
    let engine = location.open().await;
    let (real, began) = (now(), Instant::now());
    let real_time = [("LD_PRELOAD", library), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    let fixed = |clock| vec![real_time[0], real_time[1], ("FAKETIME", clock)];
    let [behind, ahead, old] = CLOCKS.map(fixed);
    let stepped = SteppedClock::new(location.folder()).expect("the folder can be written");
    let variables = stepped.variables();
    let by_file = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    let node = location.node(NODE, if shape == Workers { LEASE_MS } else { REMOTE_LEASE_MS });
    let mut nodes = start_by(shape, node, &[behind, ahead, old, by_file, Vec::new()]).await;
    let mut succeeded = 0;
    for _ in 0..steps {
        tokio::time::sleep(Duration::from_millis(400)).await;
        succeeded = progressed(&engine, succeeded).await;
        stepped.step(dice.i64(-100_000..100_000)).expect("the clock can be set");
    }
    assert!(nodes.iter_mut().all(Node::is_alive), "a wrong clock ended a process");
    // The clients go at once; what the workers held is found by their leases, whose end the store decides.
    nodes.iter_mut().for_each(Node::kill);
    let (last, _remote) = start_last(shape, node, &fixed("+1h"));
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
        "{kind}, {shape}: clocks at {CLOCKS:?}, one stepped {steps} times and one right, for {:.0?}: {report}",
        began.elapsed()
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.runs >= steps, "the campaign did something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_wrong_change_nothing_on_postgres() {
    // L2, L15
    wrong_clocks(StoreKind::Postgres, Workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_wrong_change_nothing_on_mariadb() {
    // L2, L15
    wrong_clocks(StoreKind::Mariadb, Workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_of_servers_and_remote_workers_that_are_wrong_change_nothing_on_postgres() {
    // L2, L15, E7
    wrong_clocks(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_of_servers_and_remote_workers_that_are_wrong_change_nothing_on_mariadb() {
    // L2, L15, E7
    wrong_clocks(StoreKind::Mariadb, RemoteWorkers).await;
}
