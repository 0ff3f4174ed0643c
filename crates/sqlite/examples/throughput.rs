//! Measures the store against hand-written SQL on the same tables.
//!
//! `cargo run --release -p backstop-sqlite --features floor --example throughput -- [JOBS] [ROUNDS]`
//!
//! Floor and store take turns, each on a fresh file, and the best of the rounds counts: on a shared machine the
//! best run is the one that was disturbed least.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, Spec};
use backstop_core::{JobId, WorkerId};
use backstop_sqlite::{Options, SqliteStore, floor};
use backstop_store::{Claim, ClaimQueue, Finish, KnownKind, NewWorker, Submit, WorkStore};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const ENQUEUE_BATCH: usize = 1_000;
const WORK_BATCH: usize = 500;
const TASKS: usize = 64;
const WORKER: WorkerId = WorkerId::from_u128(7);

/// The best rate of floor and store, in jobs a second.
#[derive(Default)]
struct Best {
    floor: f64,
    store: f64,
}

impl Best {
    fn print(&self, what: &str) {
        let ratio = self.store / self.floor;
        println!("{what:<34} floor {:>9.0}/s   store {:>9.0}/s   ratio {ratio:.2}", self.floor, self.store);
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let jobs = arguments.next().transpose()?.unwrap_or(100_000);
    let rounds = arguments.next().transpose()?.unwrap_or(3);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut enqueue, mut work, mut single) = (Best::default(), Best::default(), Best::default());
    for _ in 0..rounds {
        let dir = Directory::new()?;
        let path = dir.0.join("floor.db");
        enqueue.floor = enqueue.floor.max(rate(jobs, floor::bulk_enqueue(&path, jobs, ENQUEUE_BATCH)?));
        let (done, spent) = floor::claim_and_complete(&path, WORK_BATCH)?;
        work.floor = work.floor.max(rate(done, spent));
        let path = dir.0.join("store.db");
        let (stored, worked) = runtime.block_on(store_round(&path, jobs))?;
        enqueue.store = enqueue.store.max(rate(jobs, stored));
        work.store = work.store.max(rate(jobs, worked));
        let path = dir.0.join("single-floor.db");
        single.floor = single.floor.max(rate(jobs, floor::group_commit_submits(&path, TASKS, jobs)?));
        let path = dir.0.join("single-store.db");
        let spent = runtime.block_on(single_submits(&path, jobs))?;
        single.store = single.store.max(rate(jobs, spent));
    }
    println!("{jobs} jobs, payload {} bytes, synchronous=FULL, best of {rounds}", floor::payload().len());
    enqueue.print("bulk enqueue, batches of 1,000");
    work.print("claim + finish, batches of 500");
    single.print("single submits from 64 tasks");
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(jobs: usize, spent: Duration) -> f64 {
    jobs as f64 / spent.as_secs_f64()
}

async fn store_round(path: &Path, jobs: usize) -> Outcome<(Duration, Duration)> {
    let store = SqliteStore::open(path, Options::default())?;
    let batches: Vec<Submit> = (0..jobs / ENQUEUE_BATCH)
        .map(|_| Submit { jobs: (0..ENQUEUE_BATCH).map(|_| new_job()).collect(), atomic: true })
        .collect();
    let start = Instant::now();
    for submit in batches {
        assert!(store.submit(submit).await?.iter().all(Result::is_ok));
    }
    let stored = start.elapsed();
    Ok((stored, work(&store, jobs).await?))
}

async fn work(store: &SqliteStore, jobs: usize) -> Outcome<Duration> {
    let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
    let worker = NewWorker {
        id: WORKER,
        name: "bench".into(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds.clone(),
        lease: Duration::from_secs(600),
    };
    store.enlist(worker).await?;
    let room = ClaimQueue { queue: "default".into(), limit: WORK_BATCH, start: WORK_BATCH, any_kind: false };
    let claim = Claim {
        worker: WORKER,
        queues: vec![room],
        kinds,
        aging: Aging::default(),
        limits: Default::default(),
    };
    let start = Instant::now();
    let mut done = 0;
    loop {
        let claimed = store.claim(claim.clone()).await?;
        if claimed.jobs.is_empty() {
            break;
        }
        let endings: Vec<_> = claimed
            .jobs
            .iter()
            .map(|taken| Finish {
                lease: taken.lease,
                ending: Ending::plain(taken.job.spec.header(), Cause::Succeeded, Decision::succeeded()),
            })
            .collect();
        done += endings.len();
        assert!(store.finish(endings).await?.iter().all(Result::is_ok));
    }
    assert_eq!(done, jobs, "every job is done once");
    Ok(start.elapsed())
}

async fn single_submits(path: &Path, jobs: usize) -> Outcome<Duration> {
    let store = Arc::new(SqliteStore::open(path, Options::default())?);
    let each = jobs / TASKS;
    let start = Instant::now();
    let submit_all = |store: Arc<SqliteStore>| async move {
        for _ in 0..each {
            let answer = store.submit(Submit { jobs: vec![new_job()], atomic: true }).await;
            assert!(answer.is_ok_and(|answers| answers[0].is_ok()));
        }
    };
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(submit_all(store.clone()))).collect();
    for task in tasks {
        task.await?;
    }
    let spent = start.elapsed();
    println!("    {} commits for {} single submits", store.commits(), each * TASKS);
    Ok(spent)
}

/// A job whose id sorts after those made before it, as ids of version 7 do.
fn new_job() -> NewJob {
    static MADE: AtomicU64 = AtomicU64::new(1);
    let number = u128::from(MADE.fetch_add(1, Ordering::Relaxed));
    let id = JobId::from_u128((0x0190_0000_0000 << 80) | (0x7 << 76) | number);
    NewJob::new(Spec::new(id, "work", floor::payload()))
}

/// A directory that is removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("backstop-throughput-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
