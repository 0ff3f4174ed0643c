//! Fifty thousand jobs fail together for five simulated minutes: the retry budget keeps what follows within bounds.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::sqlite::{Options, SqliteStore};
use backstop::{Config, Timestamp};
use backstop_chaos::stall::StallGuard;
use backstop_core::failure::BudgetSettings;
use backstop_store::{Clock, ManualClock, Store};
use backstop_testbed::Folder;

const JOBS: usize = 50_000;
const OUTAGE: Duration = Duration::from_secs(300);
/// No test hangs: when nothing changes for so long, it is a fault.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the outside world does, and who knocked on its door when.
struct World {
    clock: ManualClock,
    back_at: Timestamp,
    /// Retries by second since the beginning.
    retries: Mutex<BTreeMap<u64, u32>>,
    began: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Call {}

impl Job for Call {
    const KIND: &'static str = "call";
    type Context = Arc<World>;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Arc<World>>) -> JobResult {
        let world = cx.app();
        let now = world.clock.now();
        if cx.run_number() > 1 {
            let second = now.since(world.began).as_secs();
            *world.retries.lock().expect("nobody panics").entry(second).or_default() += 1;
        }
        if now < world.back_at { Err("connection refused".into()) } else { Ok(()) }
    }
}

/// Waits until nothing is due and nothing runs at this moment of the simulated clock.
async fn settled(engine: &Backstop, store: &dyn Store, now: Timestamp) {
    let mut stall = StallGuard::new(PATIENCE);
    loop {
        // A pause of a queue nobody uses, and its end: whatever waits for work looks again.
        store.pause_queue("nudge", true, None).await.expect("pause");
        store.pause_queue("nudge", false, None).await.expect("resume");
        let queues = engine.queues().list().await.expect("queues");
        let queue = queues.iter().find(|queue| queue.name == "default").expect("it has jobs");
        if queue.running == 0 && queue.oldest_due.is_none_or(|due| due > now) {
            return;
        }
        let far = (queue.pending, queue.running, queue.succeeded);
        assert!(!stall.is_over(far), "stuck at {now}: {queue:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_thousand_jobs_that_fail_together_make_no_storm() {
    // F19
    let folder = Folder::new("storm").expect("a folder");
    let clock = ManualClock::default();
    let began = clock.now();
    let mut options = Options::default();
    options.clock = Arc::new(clock.clone());
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(folder.join("storm.db"), options).expect("a store"));
    let settings = BudgetSettings::default();
    let engine = Backstop::on(store.clone(), Config::default().retry_budget(Some(settings)));
    for _ in 0..JOBS / 1_000 {
        let batch = (0..1_000).map(|_| engine.enqueue(Call {})).collect();
        engine.submit_all(batch, true).await.expect("stored");
    }
    let world = Arc::new(World {
        clock: clock.clone(),
        back_at: began.after(OUTAGE),
        retries: Mutex::default(),
        began,
    });
    let worker = engine.worker(world.clone()).register::<Call>().queue("default", 256);
    // The simulated clock outruns every ordinary lease.
    let worker = worker.lease(Duration::from_secs(86_400)).start().await.expect("started");
    // Looked at with the last microsecond of each second: then what runs at once was planned for the same second.
    clock.advance(Duration::from_micros(999_999));
    let mut seconds = 0;
    loop {
        settled(&engine, &*store, clock.now()).await;
        let queue =
            engine.queues().list().await.expect("queues").into_iter().find(|queue| queue.name == "default");
        let queue = queue.expect("it has jobs");
        assert_eq!(queue.failed, 0, "no job is lost");
        if queue.succeeded == JOBS as u64 {
            break;
        }
        assert!(seconds < 3_600, "after an hour {} jobs wait", queue.pending);
        clock.advance(Duration::from_secs(1));
        seconds += 1;
    }
    worker.stop().await;
    let retries = world.retries.lock().expect("nobody panics").clone();
    report(&retries, seconds, settings);
}

fn report(retries: &BTreeMap<u64, u32>, seconds: u64, settings: BudgetSettings) {
    let total: u32 = retries.values().sum();
    let peak = retries.values().copied().max().expect("there were retries");
    let first = *retries.keys().next().expect("there were retries");
    let last = *retries.keys().next_back().expect("there were retries");
    let span = u32::try_from(last - first + 1).expect("an hour at most");
    let mean = f64::from(total) / f64::from(span);
    // The share of 50,000 first runs over five minutes, and the floor.
    let allowed = f64::from(settings.floor) + (settings.share * JOBS as f64 / 300.0).ceil();
    println!(
        "{total} retries in {span} s of {seconds} s: peak {peak}, mean {mean:.1}, allowed {allowed} a second"
    );
    assert!(f64::from(peak) <= allowed, "within the budget in every second");
    assert!(f64::from(peak) / mean <= 2.0, "peak {peak} to mean {mean:.1}");
}
