//! Eight jobs in one process, one of which kills it every time: that one is poisoned, and the others succeed.

use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, JobHandle, State, TerminalReason};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::NodeStart;
use backstop_chaos::processes::serve_twice;
use backstop_chaos::suspects::Bystander;
use backstop_core::job::Record;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const OF: usize = 8;
/// How often the guilty one may crash: it is started once more than that.
const FORGIVEN: u32 = 4;
/// The shortest that a remote worker may ask for.
const LEASE_MS: u64 = 1_000;

/// Submits the eight, the guilty one among them.
async fn submit(engine: &Backstop, spare: u32) -> Vec<JobHandle<usize>> {
    let mut jobs = Vec::new();
    for number in 0..OF {
        let guilty = number == OF / 2;
        let crashes = if guilty { FORGIVEN } else { spare };
        let job = engine.enqueue(Bystander { guilty, of: OF }).max_crashes(crashes).max_retries(0);
        jobs.push(job.backoff(Backoff::fixed(Duration::from_millis(10))).submit().await.expect("admitted"));
    }
    jobs
}

/// Starts the worker again whenever it has died, until all jobs have ended; answers how often it died.
async fn work_off(start: NodeStart<'_>, jobs: &[JobHandle<usize>]) -> usize {
    let mut deaths = 0;
    loop {
        let mut node = start.go();
        let died = async {
            while node.is_alive() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ended = async {
            for job in jobs {
                let _ = job.result().await;
            }
        };
        tokio::select! {
            () = ended => return deaths,
            () = died => deaths += 1,
        }
    }
}

/// Checks how the eight ended, and answers the records of the innocent ones.
async fn check(engine: &Backstop, jobs: &[JobHandle<usize>], what: &str) -> Vec<Record> {
    let mut innocent = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let detail = engine.job(job.id).await.expect("read").expect("a job");
        let record = detail.view.record;
        assert_eq!(record.attempt, 0, "{what}: no attempt is charged");
        if number == OF / 2 {
            assert_eq!(
                (record.state, record.reason),
                (State::Failed, Some(TerminalReason::Poisoned)),
                "{what}"
            );
            assert_eq!((record.runs, record.crashes), (FORGIVEN + 1, FORGIVEN + 1), "{what}");
        } else {
            assert_eq!(record.state, State::Succeeded, "{what}: {record:?}");
            assert_eq!(detail.counters.get(&Cause::Succeeded), Some(&1), "{what}");
            innocent.push(record);
        }
    }
    assert_eq!(innocent.len(), OF - 1);
    innocent
}

/// Checks that each of the innocent ones died once, beside the guilty one, and then ran with nothing else.
async fn each_ran_alone(engine: &Backstop, jobs: &[JobHandle<usize>], deaths: usize, what: &str) {
    for record in check(engine, jobs, what).await {
        assert_eq!((record.crashes, record.runs), (1, 2), "{what}");
    }
    for (number, job) in jobs.iter().enumerate().filter(|(number, _)| *number != OF / 2) {
        assert_eq!(job.result().await.expect("it succeeded"), 1, "{what}: job {number} ran alone");
    }
    assert_eq!(deaths, FORGIVEN as usize + 1, "{what}");
}

/// Jobs that have one crash to spare stand beside one death and no more: they run alone from then on.
async fn one_kills_its_worker(kind: StoreKind) {
    let location = StoreLocation::new(kind, "suspects");
    let engine = location.open().await;
    let jobs = submit(&engine, 1).await;
    let start = NodeStart { mode: "suspects", ..location.node(NODE, 400) };
    let caretaker = engine.maintenance().lease(Duration::from_millis(400)).start();
    let deaths = work_off(start, &jobs).await;
    caretaker.stop().await;
    let what = kind.to_string();
    each_ran_alone(&engine, &jobs, deaths, &what).await;
}

#[tokio::test]
async fn one_of_eight_kills_its_worker_on_sqlite() {
    // C3, C1, C2, C5
    one_kills_its_worker(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn one_of_eight_kills_its_worker_on_postgres() {
    // C3, C1, C2, C5
    one_kills_its_worker(StoreKind::Postgres).await;
}

#[tokio::test]
async fn one_of_eight_kills_its_worker_on_mariadb() {
    // C3, C1, C2, C5
    one_kills_its_worker(StoreKind::Mariadb).await;
}

#[tokio::test]
async fn by_default_nobody_comes_near_to_being_poisoned_for_another() {
    // C3: each success clears those that died beside it, so the guilty one may kill a few of them again.
    let location = StoreLocation::new(StoreKind::Sqlite, "suspects");
    let engine = location.open().await;
    let jobs = submit(&engine, 10).await;
    let start = NodeStart { mode: "suspects", ..location.node(NODE, 400) };
    let caretaker = engine.maintenance().lease(Duration::from_millis(400)).start();
    work_off(start, &jobs).await;
    caretaker.stop().await;
    for record in check(&engine, &jobs, "by default").await {
        assert!(record.crashes <= 4, "twice as many have to be cleared each time: {record:?}");
    }
}

/// The same with a remote worker and two servers that run none.
async fn one_kills_its_remote_worker(kind: StoreKind) {
    let location = StoreLocation::new(kind, "suspects");
    let engine = location.open().await;
    let jobs = submit(&engine, 1).await;
    let start = location.node(NODE, LEASE_MS);
    let _servers = serve_twice(NodeStart { mode: "serve", ..start }).await;
    let deaths = work_off(NodeStart { mode: "remote-suspects", ..start }, &jobs).await;
    let what = format!("remote, {kind}");
    each_ran_alone(&engine, &jobs, deaths, &what).await;
}

#[tokio::test]
async fn one_of_eight_kills_its_remote_worker_on_sqlite() {
    // C3, E7
    one_kills_its_remote_worker(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn one_of_eight_kills_its_remote_worker_on_postgres() {
    // C3, E7
    one_kills_its_remote_worker(StoreKind::Postgres).await;
}

#[tokio::test]
async fn one_of_eight_kills_its_remote_worker_on_mariadb() {
    // C3, E7
    one_kills_its_remote_worker(StoreKind::Mariadb).await;
}
