//! The engine's own loops: a dead one is started again, a silent one turns readiness red; endings survive both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use backstop::Config;
use backstop::prelude::*;
use backstop_core as core;
use backstop_core::job::State;
use backstop_store as store;
use backstop_store::Error as StoreError;

use tokio::sync::Notify;

use crate::fixture::*;

/// A store whose verbs can be told to panic, to hang or to fail.
struct Troubled {
    inner: Arc<dyn store::Store>,
    panics: AtomicU32,
    hangs: AtomicBool,
    amends_hang: AtomicBool,
    failures: AtomicU32,
    /// Changes that wait to be added to the counts.
    left: AtomicUsize,
    /// Whether starts are held up until they may go on.
    starts_wait: AtomicBool,
    go_on: Notify,
}

impl Troubled {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: model(),
            panics: AtomicU32::new(0),
            hangs: AtomicBool::new(false),
            amends_hang: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            left: AtomicUsize::new(0),
            starts_wait: AtomicBool::new(false),
            go_on: Notify::new(),
        })
    }

    fn takes_one(counter: &AtomicU32) -> bool {
        counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

impl store::Layer for Troubled {
    fn below(&self) -> &dyn store::Store {
        &*self.inner
    }

    fn renew(
        &self,
        worker: backstop::WorkerId,
        lease: Duration,
        held: Vec<core::Lease>,
    ) -> store::Answer<'_, store::Renewed> {
        assert!(!Self::takes_one(&self.panics), "the heartbeat loop dies");
        if self.hangs.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.inner.renew(worker, lease, held)
    }

    fn start(&self, leases: Vec<core::Lease>) -> store::Answer<'_, Vec<Result<(), core::job::Stale>>> {
        Box::pin(async move {
            if self.starts_wait.load(Ordering::SeqCst) {
                self.go_on.notified().await;
            }
            self.inner.start(leases).await
        })
    }

    fn amend(&self, amend: store::Amend) -> store::Answer<'_, store::Amended> {
        if self.amends_hang.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.inner.amend(amend)
    }

    fn fold(&self, limit: usize) -> store::Answer<'_, usize> {
        let fewer = |left: usize| Some(left.saturating_sub(limit));
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).unwrap_or_default();
        Box::pin(std::future::ready(Ok(left.min(limit))))
    }

    fn finish(&self, endings: Vec<store::Finish>) -> store::Answer<'_, Vec<Result<State, core::job::Stale>>> {
        if Self::takes_one(&self.failures) {
            let problem = "the test took it away".to_owned();
            let error = StoreError::Unavailable { location: "here".into(), problem, source: None };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.inner.finish(endings)
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_dies_is_started_again() {
    // H11
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default());
    let running = worker(&engine).start().await.expect("started");
    assert!(running.health().ready);
    store.panics.store(2, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(60)).await;
    for _ in 0..60 {
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
    }
    let health = running.health();
    let heartbeat = health.loops.iter().find(|one| one.name == "heartbeat").expect("listed");
    assert_eq!(heartbeat.restarts, 2);
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_health_loop_hangs_goes_on_and_the_loop_is_started_again() {
    // H11, H1
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default().kind_dependency("act", "smtp"));
    let running = worker(&engine).start().await.expect("started");
    let of_health = || {
        let loops = running.health().loops;
        loops.into_iter().find(|one| one.name == "health").expect("listed")
    };
    assert!(of_health().ok);
    store.amends_hang.store(true, Ordering::SeqCst);
    let id = engine.enqueue(act(&["transient", "ok"])).policy(quick()).submit().await.expect("admitted").id;
    // Whoever tells the store that the dependency is red is held up there.
    pass(65).await;
    assert!(!of_health().ok && !running.health().ready, "{:?}", of_health());
    let other = engine.enqueue(act(&["ok"])).queue("default").submit().await.expect("admitted").id;
    pass(40).await;
    assert!(of_health().restarts >= 1, "{:?}", of_health());
    store.amends_hang.store(false, Ordering::SeqCst);
    reach(&engine, id, State::Succeeded).await;
    reach(&engine, other, State::Succeeded).await;
    pass(90).await;
    assert!(running.health().ready, "{:?}", running.health());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_tells_its_slots_and_how_long_its_jobs_had_waited() {
    let engine = engine();
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    tokio::time::advance(Duration::from_secs(20)).await;
    let running = worker(&engine).queue("mail", 2).start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    pass(12).await;
    let told = async || {
        let workers = engine.workers().await.expect("the model is there");
        let mut reports = engine.worker_reports(&workers).await.expect("the model is there");
        reports.remove(&running.id()).expect("it tells")
    };
    let report = told().await;
    assert_eq!(report.slots, BTreeMap::from([("default".to_owned(), 4), ("mail".to_owned(), 2)]));
    let wait = report.waits["default"].percentile(50).expect("one has waited");
    assert!((15..=60).contains(&wait.as_secs()), "{wait:?}");
    pass(75).await;
    assert!(told().await.waits.is_empty(), "waits older than a minute are dropped");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_piles_up_beside_the_counts_is_added_as_fast_as_it_comes() {
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default());
    store.left.store(4_300_000, Ordering::SeqCst);
    let maintenance = engine.maintenance().start();
    settle().await;
    settle().await;
    assert_eq!(store.left.load(Ordering::SeqCst), 0, "a batch that was full is followed by the next at once");
    // The rate at which a server was seen to write them, for a minute.
    for _ in 0..60 {
        store.left.fetch_add(38_000, Ordering::SeqCst);
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
        let left = store.left.load(Ordering::SeqCst);
        assert!(left <= 10 * 38_000, "{left} are left");
    }
    assert!(store.left.load(Ordering::SeqCst) <= 2 * 38_000, "while there is more, it looks every second");
    maintenance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_loop_is_started_again_and_counts_when_it_came_round() {
    // H11
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default());
    let running = worker(&engine).start().await.expect("started");
    store.hangs.store(true, Ordering::SeqCst);
    pass(100).await;
    let red = running.health();
    let heartbeat = red.loops.iter().find(|one| one.name == "heartbeat").expect("listed");
    assert!(!red.ready && !heartbeat.ok && heartbeat.restarts == 1, "{heartbeat:?}");
    store.hangs.store(false, Ordering::SeqCst);
    pass(90).await;
    assert!(running.health().ready, "{:?}", running.health());
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_loop_turns_readiness_red() {
    // H11
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default());
    let running = worker(&engine).lease(Duration::from_secs(30)).start().await.expect("started");
    store.hangs.store(true, Ordering::SeqCst);
    for _ in 0..75 {
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
    }
    let health = running.health();
    let heartbeat = health.loops.iter().find(|one| one.name == "heartbeat").expect("listed");
    assert!(!health.ready && !heartbeat.ok, "{health:?}");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_keep_its_lease_claims_nothing_until_it_can() {
    // H2
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default());
    let running = worker(&engine).lease(Duration::from_secs(30)).start().await.expect("started");
    let watch = running.watch();
    store.hangs.store(true, Ordering::SeqCst);
    for _ in 0..90 {
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
    }
    assert!(!watch.health().expect("it runs").ready);
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
    }
    assert_eq!(state(&engine, id).await, State::Pending, "another worker may take it");
    drop(running);
    assert_eq!(watch.health(), None, "a worker that has stopped raises no alarm");
}

#[tokio::test(start_paused = true)]
async fn an_ending_the_store_refuses_is_kept_with_its_slot_and_tried_again() {
    // F17
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default());
    store.failures.store(5, Ordering::SeqCst);
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let second = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let app = Arc::new(App::default());
    let running =
        engine.worker(app.clone()).register::<Act>().queue("default", 1).start().await.expect("started");
    settle().await;
    assert_eq!(
        app.starts.load(Ordering::SeqCst),
        1,
        "the slot is not reused while its ending is not durable"
    );
    assert_eq!(state(&engine, id).await, State::Running);
    reach(&engine, second, State::Succeeded).await;
    assert_eq!(state(&engine, id).await, State::Succeeded);
    assert_eq!(app.starts.load(Ordering::SeqCst), 2, "and no run was repeated");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_comes_back_while_another_job_is_started_is_not_forgotten() {
    // L13: what was claimed ahead starts as soon as there is room, whatever the loop is doing at that moment.
    let store = Troubled::new();
    let engine = Backstop::on(store.clone(), Config::default());
    let submit = async |queue: &str, word: &str| {
        let job = engine.enqueue(act(&[word])).queue(queue).policy(quick());
        job.submit().await.expect("admitted").id
    };
    let (first, ahead) = (submit("a", "until_canceled").await, submit("a", "ok").await);
    let others = [submit("b", "until_canceled").await, submit("b", "until_canceled").await];
    let hangs = submit("b", "hang").await;
    let worker = engine.worker(Arc::new(App::default())).register::<Act>();
    let worker = worker.queue("a", 1).prefetch(2).queue("b", 2).prefetch(2).start().await.expect("started");
    for held in [first, ahead, others[0], others[1], hangs] {
        reach(&engine, held, State::Running).await;
    }
    // The loop starts the next job of `b`, and is held up. Meanwhile there is room in `a`.
    store.starts_wait.store(true, Ordering::SeqCst);
    for other in others {
        engine.cancel(other, "make room").await.expect("it runs");
    }
    pass(15).await;
    engine.cancel(first, "make room").await.expect("it runs");
    pass(15).await;
    store.starts_wait.store(false, Ordering::SeqCst);
    store.go_on.notify_one();
    reach(&engine, ahead, State::Succeeded).await;
    drop(worker);
}
