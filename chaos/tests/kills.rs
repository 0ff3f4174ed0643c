//! Processes killed, stopped and starved: nothing lost, nothing twice, every stale write refused.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::{Cause, State};
use backstop_chaos::group::{NodeGroup, progressed};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::{Node, NodeStart};
use backstop_chaos::processes::serve_twice;
use backstop_chaos::work::{CampaignJob, policy};
use backstop_chaos::{CampaignFolder, rounds, seed};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 500;
/// The shortest that a remote worker may ask for.
const REMOTE_LEASE_MS: u64 = 1_000;

/// Four processes share a store; one of them is killed every 20 to 80 milliseconds, as long as jobs succeed in between.
async fn kill_workers(kind: StoreKind) {
    let kills = rounds(300, 10_000);
    let mut dice = fastrand::Rng::with_seed(seed());
    let location = StoreLocation::new(kind, "kills");
    let began = Instant::now();
    let engine = location.open().await;
    let mut group = NodeGroup::start(location.node(NODE, LEASE_MS), 4);
    let mut succeeded = 0;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(dice.u64(20..80))).await;
        succeeded = progressed(&engine, succeeded).await;
        group.replace_one(&mut dice);
    }
    let report = group.settle().await;
    println!("{kind}: {kills} kills in {:.0?}: {report}", began.elapsed());
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.jobs >= kills && report.crashes > 0, "the campaign did something");
}

#[tokio::test]
async fn workers_killed_at_random_on_sqlite() {
    // L4, L5, L15, C1, C2, C5, F2
    kill_workers(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn workers_killed_at_random_on_postgres() {
    // L4, L5, L15, C1, C2, C5, F2
    kill_workers(StoreKind::Postgres).await;
}

#[tokio::test]
async fn workers_killed_at_random_on_mariadb() {
    // L4, L5, L15, C1, C2, C5, F2
    kill_workers(StoreKind::Mariadb).await;
}

/// SIGSTOP, another worker takes over, SIGCONT: everything that the first one tries is refused.
async fn stop_past_the_lease(kind: StoreKind) {
    let pauses = rounds(10, 500);
    let location = StoreLocation::new(kind, "stops");
    let engine = location.open().await;
    let node = |mode, lease_ms| NodeStart { mode, ..location.node(NODE, lease_ms) }.go();
    for _ in 0..pauses {
        let id =
            engine.enqueue(CampaignJob { number: 3 }).policy(policy()).submit().await.expect("admitted").id;
        let mut stopped = node("stale", 300);
        let mut said = BufReader::new(stopped.child.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it speaks");
        assert_eq!(line.trim(), format!("claimed {id}"));
        stopped.signal("STOP");
        // It must not be taken for dead itself when the machine is busy.
        let other = node("work", 1_500);
        reach(&engine, id, State::Succeeded).await;
        assert!(other.stop());
        stopped.signal("CONT");
        stopped.child.stdin.take().expect("piped").write_all(b"go\n").expect("it listens");
        let answers: Vec<String> = said.lines().map(|line| line.expect("it speaks")).collect();
        assert_eq!(answers, ["finish refused", "start refused", "progress refused", "renew refused"]);
        assert_eq!(
            causes(&engine, id).await,
            [Cause::Crash, Cause::Succeeded],
            "the stale write changed nothing"
        );
    }
    println!("{kind}: {pauses} pauses past the lease, {} stale writes, all refused", pauses * 4);
}

/// How the runs of a job ended, in their order.
async fn causes(engine: &Backstop, id: backstop::JobId) -> Vec<Cause> {
    let rows = engine.attempts(id, backstop_store::PageRequest::first(10)).await.expect("readable").items;
    rows.iter().rev().map(|row| row.cause).collect()
}

/// The same of a remote worker: both servers refuse everything that it tries, whichever has handed the job out.
async fn stop_remote_past_the_lease(kind: StoreKind) {
    let pauses = rounds(2, 200);
    let location = StoreLocation::new(kind, "remote-stops");
    let engine = location.open().await;
    let node = |mode, lease_ms| NodeStart { mode, ..location.node(NODE, lease_ms) };
    let _servers = serve_twice(node("serve", REMOTE_LEASE_MS)).await;
    for _ in 0..pauses {
        let id =
            engine.enqueue(CampaignJob { number: 3 }).policy(policy()).submit().await.expect("admitted").id;
        let mut stopped = node("remote-stale", REMOTE_LEASE_MS).go();
        let mut said = BufReader::new(stopped.child.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it speaks");
        assert_eq!(line.trim(), format!("claimed {id}"));
        stopped.signal("STOP");
        let other = node("remote", 5_000).go();
        reach(&engine, id, State::Succeeded).await;
        drop(other);
        // What it last asked for waits in a server for as long as it asked, and takes no job of the next round.
        tokio::time::sleep(Duration::from_millis(500)).await;
        stopped.signal("CONT");
        stopped.child.stdin.take().expect("piped").write_all(b"go\n").expect("it listens");
        let answers: Vec<String> = said.lines().map(|line| line.expect("it speaks")).collect();
        let refused =
            ["finish", "progress", "log", "step", "heartbeat"].map(|verb| format!("{verb} refused"));
        assert_eq!(answers, [refused.clone(), refused].concat());
        assert_eq!(
            causes(&engine, id).await,
            [Cause::Crash, Cause::Succeeded],
            "the stale write changed nothing"
        );
    }
    println!(
        "{kind}: {pauses} pauses of a remote worker past its lease, {} stale calls, all refused",
        pauses * 10
    );
}

#[tokio::test]
async fn a_remote_worker_stopped_past_its_lease_is_refused_everything_on_sqlite() {
    // L5, L15, E7
    stop_remote_past_the_lease(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn a_remote_worker_stopped_past_its_lease_is_refused_everything_on_postgres() {
    // L5, L15, E7
    stop_remote_past_the_lease(StoreKind::Postgres).await;
}

#[tokio::test]
async fn a_remote_worker_stopped_past_its_lease_is_refused_everything_on_mariadb() {
    // L5, L15, E7
    stop_remote_past_the_lease(StoreKind::Mariadb).await;
}

#[tokio::test]
async fn a_worker_stopped_past_its_lease_is_refused_everything_on_sqlite() {
    // L5, L15
    stop_past_the_lease(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn a_worker_stopped_past_its_lease_is_refused_everything_on_postgres() {
    // L5, L15
    stop_past_the_lease(StoreKind::Postgres).await;
}

#[tokio::test]
async fn a_worker_stopped_past_its_lease_is_refused_everything_on_mariadb() {
    // L5, L15
    stop_past_the_lease(StoreKind::Mariadb).await;
}

async fn reach(engine: &Backstop, id: backstop::JobId, wanted: State) {
    let began = Instant::now();
    loop {
        let job = engine.job(id).await.expect("the store can be read").expect("the job is there");
        if job.view.state() == wanted {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "job {id} is {} and not {wanted}",
            job.view.state()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_full_disk_is_a_clear_error_and_nothing_is_lost() {
    // F17, L20: a tmpfs of 64 MiB in a mount namespace of its own.
    let folder = CampaignFolder::new("disk");
    let inside = format!(
        "mount -t tmpfs -o size=64m tmpfs '{0}' && exec '{NODE}' disk-full 'sqlite:{0}/jobs.db' '{0}'",
        folder.path().display()
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &inside])
        .output()
        .expect("util-linux is installed");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}{err}");
    assert!(output.status.success(), "the node says why");
    assert!(out.contains("acknowledged jobs ran once"));
}

/// Two processes make the tables at once and are killed on the way.
async fn kill_makers(kind: StoreKind, kills: usize) {
    let mut dice = fastrand::Rng::with_seed(seed());
    for _ in 0..kills {
        let location = StoreLocation::new(kind, "migrate");
        let start = NodeStart { mode: "open", ..location.node(NODE, LEASE_MS) };
        let mut makers: Vec<Node> = (0..2).map(|_| start.go()).collect();
        tokio::time::sleep(Duration::from_micros(dice.u64(0..60_000))).await;
        makers.iter_mut().for_each(Node::kill);
        let engine = location.open().await;
        engine.enqueue(CampaignJob { number: 3 }).submit().await.expect("it works, made or half made");
    }
    println!("{kind}: {kills} kills while the tables were made");
}

#[tokio::test]
async fn a_store_killed_while_it_is_made_opens_afterwards_on_sqlite() {
    // L17: migrations survive a kill at any moment.
    kill_makers(StoreKind::Sqlite, rounds(40, 1_000)).await;
}

#[tokio::test]
async fn a_store_killed_while_it_is_made_opens_afterwards_on_postgres() {
    // L17: migrations survive a kill at any moment.
    kill_makers(StoreKind::Postgres, rounds(20, 500)).await;
}

#[tokio::test]
async fn a_store_killed_while_it_is_made_opens_afterwards_on_mariadb() {
    // L17: migrations survive a kill at any moment.
    kill_makers(StoreKind::Mariadb, rounds(20, 500)).await;
}
