//! Processes whose failures are compared (H8): one that fails far more often than the others stops itself and says why,
//! and nobody stops where all fail alike. The same of remote workers, which either of two servers may judge. On every
//! store at once: they mostly wait for each other's figures.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{JobHandle, State};
use backstop_chaos::fleet::{BROKEN, FleetJob, QUEUE};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::{Node, NodeStart};
use backstop_chaos::processes::serve_twice;
use backstop_chaos::shape::CampaignShape::{self, RemoteWorkers, Workers};
use backstop_core::health::WorkerReport;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const NAMES: [&str; 3] = ["one", "two", "three"];
/// More than a worker is judged by, and more than the others must have had.
const JOBS: usize = 40;
/// Longer than anything here takes on a busy machine: workers compare themselves every ten seconds.
const PATIENCE: Duration = Duration::from_secs(240);

/// A server may go for so long by what it has read of a worker that another one judges.
const READ: Duration = Duration::from_secs(3);

/// The processes of a campaign.
struct Fleet {
    workers: Vec<Node>,
    servers: Vec<Node>,
}

impl Fleet {
    /// Programs stop when they are asked to; remote workers are killed, and their servers stop.
    fn stop(mut self, what: &str) {
        let workers = std::mem::take(&mut self.workers);
        let asked = if self.servers.is_empty() {
            workers
        } else {
            drop(workers);
            self.servers
        };
        for node in asked {
            assert!(node.stop(), "{what}: it stops cleanly");
        }
    }
}

/// Starts a process for each name, of which these are broken.
async fn start(location: &StoreLocation, shape: CampaignShape, broken: &[&str]) -> Fleet {
    let mode = if shape == Workers { "fleet" } else { "remote-fleet" };
    let start = NodeStart { mode, ..location.node(NODE, 30_000) };
    let servers = match shape {
        Workers => Vec::new(),
        RemoteWorkers => serve_twice(NodeStart { mode: "serve", ..start }).await.into(),
    };
    let node = |name: &&str| {
        let mut variables = vec![(QUEUE, *name)];
        if broken.contains(name) {
            variables.push((BROKEN, "yes"));
        }
        start.go_with(&variables)
    };
    Fleet { workers: NAMES.iter().map(node).collect(), servers }
}

/// Submits one job to the queue of each.
async fn submit(engine: &Backstop) -> Vec<JobHandle<()>> {
    let mut jobs = Vec::new();
    for name in NAMES {
        let job = engine.enqueue(FleetJob::default()).queue(name).max_retries(0);
        jobs.push(job.submit().await.expect("the store is there"));
    }
    jobs
}

/// What each worker tells, by its name, once it is as wanted.
async fn told(
    engine: &Backstop,
    what: &str,
    wanted: impl Fn(&BTreeMap<String, WorkerReport>) -> bool,
) -> BTreeMap<String, WorkerReport> {
    let look = async {
        loop {
            let workers = engine.workers().await.expect("the store is there");
            let mut reports = engine.worker_reports(&workers).await.expect("the store is there");
            let by_name =
                |worker: backstop::query::WorkerView| Some((worker.name, reports.remove(&worker.id)?));
            let reports = workers.into_iter().filter_map(by_name).collect();
            if wanted(&reports) {
                return reports;
            }
            // Nobody tells anything more often than twice a second.
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, look).await;
    found.unwrap_or_else(|_| panic!("{what}: nobody told that within {PATIENCE:?}"))
}

fn runs(report: &WorkerReport) -> u64 {
    report.runs.get(FleetJob::KIND).map_or(0, |counts| counts.runs)
}

/// One of three is broken: it stops, says why, and its jobs wait for it or for another worker; the others go on.
async fn one_is_broken(kind: StoreKind, shape: CampaignShape) {
    let location = StoreLocation::new(kind, "fleet");
    let engine = location.open().await;
    let fleet = start(&location, shape, &["two"]).await;
    for _ in 0..JOBS {
        submit(&engine).await;
    }
    let what = format!("{kind}, {shape}, one is broken");
    let reports = told(&engine, &what, |told| told.values().any(|one| one.paused.is_some())).await;
    let paused: Vec<_> =
        reports.iter().filter_map(|(name, told)| Some((name, told.paused.as_ref()?))).collect();
    assert_eq!(paused.len(), 1, "{what}: {paused:?}");
    assert_eq!(paused[0].0, "two", "{what}");
    let why = paused[0].1.why.to_string();
    assert!(why.ends_with("runs failed here, 0 % of such runs elsewhere"), "{what}: {why}");
    if shape == RemoteWorkers {
        tokio::time::sleep(READ).await;
    }
    let jobs = submit(&engine).await;
    for job in [&jobs[0], &jobs[2]] {
        let ended = tokio::time::timeout(PATIENCE, job.result()).await;
        ended.expect("within its time").expect("the others go on");
    }
    let job = engine.job(jobs[1].id).await.expect("the store is there").expect("it is there").view;
    assert_eq!((job.record.runs, job.record.state), (0, State::Pending), "{what}: it claims nothing");
    let (_, why) = engine.explain(jobs[1].id).await.expect("the store is there").expect("it is there");
    assert!(why.because.contains("fails far more often than others"), "{what}: {}", why.because);
    fleet.stop(&what);
}

/// All of them are broken: what fails everywhere says nothing of a worker, and nobody stops.
async fn all_are_broken(kind: StoreKind, shape: CampaignShape) {
    let location = StoreLocation::new(kind, "fleet-alike");
    let engine = location.open().await;
    let fleet = start(&location, shape, &NAMES).await;
    let what = format!("{kind}, {shape}, all are broken");
    let mut sum = 0;
    // Whoever tells for the third time has compared itself with what all of them told before.
    for jobs in [JOBS, 1, 1] {
        for _ in 0..jobs {
            submit(&engine).await;
        }
        sum += u64::try_from(jobs).unwrap_or_default();
        let ran = |told: &BTreeMap<String, WorkerReport>| {
            told.len() == NAMES.len() && told.values().all(|one| runs(one) == sum)
        };
        let reports = told(&engine, &what, ran).await;
        assert!(reports.values().all(|one| one.paused.is_none()), "{what}: {reports:?}");
    }
    fleet.stop(&what);
}

async fn on_every_store(shape: CampaignShape) {
    let [sqlite, postgres, mariadb] = [StoreKind::Sqlite, StoreKind::Postgres, StoreKind::Mariadb];
    tokio::join!(
        one_is_broken(sqlite, shape),
        one_is_broken(postgres, shape),
        one_is_broken(mariadb, shape),
        all_are_broken(sqlite, shape),
        all_are_broken(postgres, shape),
        all_are_broken(mariadb, shape),
    );
}

#[tokio::test]
async fn only_the_broken_one_of_several_processes_stops() {
    // H8
    on_every_store(Workers).await;
}

#[tokio::test]
async fn only_the_broken_one_of_several_remote_workers_is_handed_nothing() {
    // H8, E7
    on_every_store(RemoteWorkers).await;
}
