//! Processes killed, stopped and starved: nothing lost, nothing twice, every stale write refused.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use backstop::Cause;
use backstop::core::job::State;
use backstop::prelude::*;
use backstop_chaos::node::{Node, store_url};
use backstop_chaos::work::{Toil, policy};
use backstop_chaos::{Folder, checker, rounds, seed};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 1_000;

#[tokio::test]
async fn workers_killed_at_random_lose_nothing_and_do_nothing_twice() {
    // L4, L5, L15, C1, C2, C5, F2: 200 kills while four processes share the file.
    let kills = rounds(200, 10_000);
    let mut dice = fastrand::Rng::with_seed(seed());
    let folder = Folder::new("kills");
    let start = |mode| Node::start(NODE, mode, folder.path(), LEASE_MS);
    let mut nodes: Vec<Node> = (0..4).map(|_| start("work-and-submit")).collect();
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(dice.u64(20..100))).await;
        let victim = dice.usize(..nodes.len());
        nodes[victim].kill();
        nodes[victim] = start("work-and-submit");
    }
    nodes.iter_mut().for_each(Node::kill);
    nodes = (0..4).map(|_| start("work")).collect();

    let engine = Backstop::open(&store_url(folder.path())).await.expect("the store opens after every kill");
    let faults_over = Instant::now();
    // Two leases, and a few seconds for four processes to start on a busy machine.
    let bound = Duration::from_millis(2 * LEASE_MS) + Duration::from_secs(5);
    while !engine.store().orphans(1).await.expect("readable").is_empty() {
        assert!(faults_over.elapsed() < bound, "jobs of dead workers are stuck after two leases");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let patience = Duration::from_secs(60);
    while live_jobs(&engine).await > 0 && faults_over.elapsed() < patience {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for node in nodes {
        assert!(node.stop(), "a node ends well when it is asked to");
    }
    let report = checker::check(&engine, folder.path()).await.expect("the store can be read");
    println!(
        "{kills} kills: {} jobs, {} acknowledged, {} runs, {} crashes",
        report.jobs, report.acked, report.runs, report.crashes
    );
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.acked > kills && report.crashes > 0, "the campaign did something");
}

async fn live_jobs(engine: &Backstop) -> u64 {
    let queues = engine.queues().await.expect("the store can be read");
    queues.iter().map(|queue| queue.pending + queue.running + queue.waiting).sum()
}

#[tokio::test]
async fn a_worker_stopped_past_its_lease_is_refused_everything() {
    // L5, L15: SIGSTOP, another worker takes over, SIGCONT.
    let pauses = rounds(10, 500);
    let folder = Folder::new("stops");
    let engine = Backstop::open(&store_url(folder.path())).await.expect("a fresh store");
    for _ in 0..pauses {
        let id = engine.enqueue(Toil { number: 3 }).policy(policy()).submit().await.expect("admitted").id;
        let mut stopped = Node::start(NODE, "stale", folder.path(), 300);
        let mut said = BufReader::new(stopped.child.stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it speaks");
        assert_eq!(line.trim(), format!("claimed {id}"));
        stopped.signal("STOP");
        let other = Node::start(NODE, "work", folder.path(), 300);
        reach(&engine, id, State::Succeeded).await;
        assert!(other.stop());
        stopped.signal("CONT");
        stopped.child.stdin.take().expect("piped").write_all(b"go\n").expect("it listens");
        let answers: Vec<String> = said.lines().map(|line| line.expect("it speaks")).collect();
        assert_eq!(answers, ["finish refused", "start refused", "progress refused", "renew refused"]);
        let rows =
            engine.attempts(id, backstop::store::PageRequest::first(10)).await.expect("readable").items;
        let causes: Vec<Cause> = rows.iter().rev().map(|row| row.cause).collect();
        assert_eq!(causes, [Cause::Crash, Cause::Succeeded], "the stale write changed nothing");
    }
    println!("{pauses} pauses, {} stale writes, all refused", pauses * 4);
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
    let folder = Folder::new("disk");
    let inside = format!(
        "mount -t tmpfs -o size=64m tmpfs '{0}' && exec '{NODE}' disk-full '{0}'",
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

#[tokio::test]
async fn a_store_killed_while_it_is_made_opens_afterwards() {
    // L17: migrations survive a kill at any moment.
    let kills = rounds(40, 1_000);
    let mut dice = fastrand::Rng::with_seed(seed());
    for _ in 0..kills {
        let folder = Folder::new("migrate");
        let mut makers: Vec<Node> =
            (0..2).map(|_| Node::start(NODE, "open", folder.path(), LEASE_MS)).collect();
        tokio::time::sleep(Duration::from_micros(dice.u64(0..30_000))).await;
        makers.iter_mut().for_each(Node::kill);
        let engine = Backstop::open(&store_url(folder.path())).await.expect("it opens, made or half made");
        engine.enqueue(Toil { number: 3 }).submit().await.expect("and works");
    }
}
