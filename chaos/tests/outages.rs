//! Servers killed, away and promoted: nothing acknowledged is lost, and everybody carries on by themselves.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop_chaos::group::{NodeGroup, progressed};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::NodeStart;
use backstop_chaos::replicas::Replicas;
use backstop_chaos::shape::CampaignNodes;
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_chaos::{rounds, seed};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 500;

/// The database server is killed under load and started again, over and over.
async fn kill_server(kind: StoreKind, shape: CampaignShape) {
    let kills = rounds(if shape == Workers { 20 } else { 8 }, 300);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::durable(kind, "server-kills");
    let engine = location.open().await;
    let mut nodes = CampaignNodes::submitting(shape, location.node(NODE, LEASE_MS));
    let (began, mut succeeded, mut longest) = (Instant::now(), 0, Duration::ZERO);
    for _ in 0..kills {
        succeeded = progressed(&engine, succeeded).await;
        tokio::time::sleep(Duration::from_millis(dice.u64(100..600))).await;
        location.kill();
        location.start_again();
        let back = Instant::now();
        succeeded = progressed(&engine, succeeded).await;
        longest = longest.max(back.elapsed());
    }
    assert!(nodes.all_alive(), "no process ended because the server did");
    let report = nodes.settle().await;
    // R7
    assert!(longest <= Duration::from_secs(5), "work went on {longest:?} after the server was back");
    println!(
        "{kind}, {shape}: the server was killed and started again {kills} times in {:.0?}, work went on {longest:.1?} \
         after a start at the latest: {report}",
        began.elapsed()
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_loses_nothing_on_postgres() {
    // L4, L5, F17
    kill_server(StoreKind::Postgres, Workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_loses_nothing_on_mariadb() {
    // L4, L5, F17
    kill_server(StoreKind::Mariadb, Workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_of_remote_workers_loses_nothing_on_postgres() {
    // L4, L5, F17, E7
    kill_server(StoreKind::Postgres, RemoteWorkers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_of_remote_workers_loses_nothing_on_mariadb() {
    // L4, L5, F17, E7
    kill_server(StoreKind::Mariadb, RemoteWorkers).await;
}

/// The lines that a process wrote into its log, counted by their text without the moment and the details.
fn complaints(location: &StoreLocation, from: usize) -> BTreeMap<String, usize> {
    let log = std::fs::read_to_string(location.folder().join("node.log")).unwrap_or_default();
    let mut lines = BTreeMap::new();
    for line in log.get(from..).unwrap_or_default().lines() {
        let text = line.split_once("backstop").map_or(line, |(_, text)| text);
        let text = text.split(" error=").next().unwrap_or(text);
        *lines.entry(text.to_owned()).or_default() += 1;
    }
    lines
}

/// The server is unavailable for a minute: no process ends, none spins, none floods its log.
async fn away(kind: StoreKind) {
    let seconds = rounds(60, 600);
    let location = StoreLocation::durable(kind, "away");
    let engine = location.open().await;
    let mut group = NodeGroup::start(location.node(NODE, LEASE_MS), 1);
    let before = progressed(&engine, 20).await;
    location.kill();
    // What was under way ends with the connection; what is counted is the minute behind it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let log = std::fs::metadata(location.folder().join("node.log")).map_or(0, |file| file.len());
    let cpu = group.nodes()[0].cpu_hundredths();
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    assert!(group.all_alive(), "the process ended because the server was unavailable");
    let cpu = group.nodes()[0].cpu_hundredths() - cpu;
    let lines = complaints(&location, usize::try_from(log).expect("a small file"));
    location.start_again();
    let back = Instant::now();
    progressed(&engine, before).await;
    let resumed = back.elapsed();
    let report = group.settle().await;
    println!(
        "{kind}: away for {seconds} s: {}.{:02} s of a core used, {} lines logged, work went on {resumed:.1?} after it \
         was back: {report}",
        cpu / 100,
        cpu % 100,
        lines.values().sum::<usize>()
    );
    // R13: a build without optimization needs several times as much for the same.
    let percent = if cfg!(debug_assertions) { 5 } else { 2 };
    assert!(cpu < percent * seconds as u64, "it spins: {cpu} hundredths of a second in {seconds} s");
    // One line in ten seconds for all loops together, and now and then one of the listener.
    let most = seconds / 10 + 1 + seconds.div_ceil(60) + 1;
    assert!(lines.values().sum::<usize>() <= most, "more than one line in ten seconds: {lines:#?}");
    assert!(resumed <= Duration::from_secs(5), "it took {resumed:?} to go on");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_without_a_server_is_sat_out() {
    // F17, H11: both servers in the same minute.
    tokio::join!(away(StoreKind::Postgres), away(StoreKind::Mariadb));
}

/// The primary is killed under load and its standby promoted, over and over.
async fn promote(shape: CampaignShape) {
    let times = rounds(if shape == Workers { 5 } else { 3 }, 100);
    let mut dice = fastrand::Rng::with_seed(seed());
    let mut replicas = Replicas::start("promotions").expect("two servers");
    let (url, folder) = (replicas.url(), replicas.folder().to_owned());
    let engine = Backstop::open(&url).await.expect("the store opens");
    let start =
        NodeStart { program: NODE, mode: "work-and-submit", url: &url, folder: &folder, lease_ms: LEASE_MS };
    let mut nodes = CampaignNodes::submitting(shape, start);
    let (began, mut succeeded, mut longest) = (Instant::now(), 0, Duration::ZERO);
    for _ in 0..times {
        succeeded = progressed(&engine, succeeded + 20).await;
        tokio::time::sleep(Duration::from_millis(dice.u64(100..500))).await;
        let failed = Instant::now();
        replicas.fail_over().expect("the standby takes over");
        succeeded = progressed(&engine, succeeded).await;
        longest = longest.max(failed.elapsed());
        replicas.restore().expect("the new primary gets a standby");
    }
    assert!(nodes.all_alive(), "no process ended because the primary did");
    let report = nodes.settle().await;
    // R8
    assert!(longest <= Duration::from_secs(10), "work went on {longest:?} after the kill of the primary");
    println!(
        "PostgreSQL, {shape}: {times} promotions of a synchronous standby in {:.0?}, work went on {longest:.1?} after \
         the kill at the latest: {report}",
        began.elapsed()
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promoting_a_synchronous_standby_loses_nothing() {
    // L4, L5, F17
    promote(Workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promoting_a_standby_behind_servers_of_remote_workers_loses_nothing() {
    // L4, L5, F17, E7
    promote(RemoteWorkers).await;
}
