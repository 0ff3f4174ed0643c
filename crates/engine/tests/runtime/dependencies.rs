//! Dependencies that are away: the job goes back uncharged, its kind is not claimed, everything else goes on (H1, H2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, DependencyHealth, DependencySettings, Error, EventKind, WorkerBuilder, WorkerHandle};
use backstop_core::health::DependencyResult;
use backstop_core::job::{State, WaitReason};
use backstop_store::{DocumentRange, Drawer, Duty};

use crate::fixture::*;

/// A kind that needs nothing.
#[derive(Serialize, Deserialize)]
struct Other {}

impl Job for Other {
    const KIND: &'static str = "other";
    type Context = Arc<App>;
    type Output = ();

    async fn run(self, _: JobContext<Arc<App>>) {}
}

fn needs_smtp() -> Config {
    Config::default().kind_dependency("act", "smtp")
}

/// A worker for a kind that needs `smtp` and one that does not.
fn both(engine: &Backstop) -> WorkerBuilder<Arc<App>> {
    worker(engine).register::<Other>()
}

/// The mail server, as its check sees it.
#[derive(Default)]
struct Smtp {
    up: AtomicBool,
    hangs: AtomicBool,
    checks: AtomicU32,
    under_way: AtomicU32,
    most_at_once: AtomicU32,
}

impl Smtp {
    async fn check(&self) -> JobResult {
        self.checks.fetch_add(1, Ordering::SeqCst);
        let at_once = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let _left = Left(&self.under_way);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.up.load(Ordering::SeqCst) { Ok(()) } else { Err("nobody answers, password=hunter2".into()) }
    }
}

struct Left<'a>(&'a AtomicU32);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn checked(worker: WorkerBuilder<Arc<App>>, smtp: &Arc<Smtp>) -> WorkerBuilder<Arc<App>> {
    let smtp = smtp.clone();
    worker.check("smtp", move |_| {
        let smtp = smtp.clone();
        async move { smtp.check().await }
    })
}

fn smtp_of(running: &WorkerHandle) -> DependencyHealth {
    running.health().dependencies.into_iter().find(|one| one.name == "smtp").expect("it is listed")
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_claimed_when_the_check_of_its_dependency_passes() {
    // H1, H2
    let (engine, smtp) = (engine_with(needs_smtp()), Arc::new(Smtp::default()));
    let waits = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let running = checked(both(&engine), &smtp).start().await.expect("started");
    let unchecked = smtp_of(&running);
    assert_eq!((unchecked.ok, unchecked.problem), (false, Some("unchecked")), "nothing is known yet");
    let goes_on = engine.enqueue(Other {}).submit().await.expect("admitted").id;
    reach(&engine, goes_on, State::Succeeded).await;
    pass(5).await;
    assert_eq!(state(&engine, waits).await, State::Waiting, "its dependency is red");
    let red = smtp_of(&running);
    assert_eq!((red.ok, red.problem, running.health().ready), (false, Some("failed"), false));
    let workers = engine.workers().await.expect("the model is there");
    let told = engine.worker_reports(&workers).await.expect("the model is there");
    let report = &told[&running.id()].dependencies[0];
    let last = report.last.as_ref().expect("it was checked");
    assert_eq!((&*report.dependency, report.ok, last.result), ("smtp", false, DependencyResult::Failed));
    assert_eq!(report.kinds, ["act"]);
    let problem = last.problem.as_deref().expect("it says why");
    assert!(problem.starts_with("nobody answers") && !problem.contains("hunter2"), "{problem}");
    let seen = engine.job(waits).await.expect("the model is there").expect("it is there");
    let waiting = seen.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, waiting.key.as_str()), (WaitReason::Dependency, "smtp"));
    let (_, explained) = engine.explain(waits).await.expect("the model is there").expect("it is there");
    assert!(explained.because.starts_with("it waits for its dependency `smtp`"), "{}", explained.because);
    assert!(explained.checks.iter().any(|check| check.check == "health"), "{:?}", explained.checks);
    smtp.up.store(true, Ordering::SeqCst);
    pass(11).await;
    assert_eq!(state(&engine, waits).await, State::Succeeded);
    assert!(running.health().ready && smtp_of(&running).ok);
    let (checks, at_once) = (&smtp.checks, &smtp.most_at_once);
    assert_eq!((checks.load(Ordering::SeqCst), at_once.load(Ordering::SeqCst)), (2, 1), "every 10 seconds");
    let id = running.id();
    running.stop().await;
    let left = engine.worker_reports(&workers).await.expect("the model is there");
    assert!(!left.contains_key(&id), "a worker that stopped takes back what it told");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_finds_it_away_goes_back_uncharged_and_its_kind_waits_for_the_check() {
    // H1
    let (engine, smtp) = (engine_with(needs_smtp()), Arc::new(Smtp::default()));
    smtp.up.store(true, Ordering::SeqCst);
    let running = checked(both(&engine), &smtp).start().await.expect("started");
    let mut events = engine.events();
    settle().await;
    let policy = Policy::default().retries(0);
    let failing =
        engine.enqueue(act(&["transient", "ok"])).policy(policy).submit().await.expect("admitted").id;
    smtp.up.store(false, Ordering::SeqCst);
    settle().await;
    let red = smtp_of(&running);
    assert_eq!((red.ok, red.problem), (false, Some("run_failed")));
    let behind = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let goes_on = engine.enqueue(Other {}).submit().await.expect("admitted").id;
    // Soon after the run, and then as often as usual.
    pass(60).await;
    assert_eq!(smtp_of(&running).problem, Some("failed"));
    assert_eq!(
        (state(&engine, behind).await, state(&engine, goes_on).await),
        (State::Waiting, State::Succeeded)
    );
    assert_eq!(state(&engine, failing).await, State::Waiting, "with no retries at all");
    smtp.up.store(true, Ordering::SeqCst);
    reach(&engine, failing, State::Succeeded).await;
    reach(&engine, behind, State::Succeeded).await;
    let record = detail(&engine, failing).await.view.record;
    assert_eq!((record.runs, record.deferrals), (2, 1), "one run while it was away");
    let mut told = Vec::new();
    while let Some(event) = events.try_next() {
        if let EventKind::WorkerHealth { dependency, ok, .. } = &event.what {
            told.push((dependency.clone(), *ok));
        }
    }
    let smtp = || Some("smtp".to_owned());
    assert_eq!(told, [(smtp(), true), (smtp(), false), (smtp(), true)], "checked, away, back");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_check_it_is_tried_again_and_again() {
    // H1
    let engine = engine_with(needs_smtp());
    let running = both(&engine).start().await.expect("started");
    assert!(running.health().ready, "nothing is wrong until a run says so");
    let script: Vec<&str> = std::iter::repeat_n("transient", 20).chain(["ok"]).collect();
    let id = engine.enqueue(act(&script)).policy(quick().retries(0)).submit().await.expect("admitted").id;
    settle().await;
    assert_eq!(smtp_of(&running).problem, Some("run_failed"));
    reach(&engine, id, State::Succeeded).await;
    let record = detail(&engine, id).await.view.record;
    assert_eq!((record.runs, record.deferrals), (21, 20), "retried without end");
    assert!(smtp_of(&running).ok);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_counts_as_failed_and_holds_nobody_up() {
    // H1, H11
    let (engine, smtp) = (engine_with(needs_smtp()), Arc::new(Smtp::default()));
    smtp.hangs.store(true, Ordering::SeqCst);
    let running = checked(both(&engine), &smtp).start().await.expect("started");
    let waits = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    for _ in 0..10 {
        let goes_on = engine.enqueue(Other {}).submit().await.expect("admitted").id;
        reach(&engine, goes_on, State::Succeeded).await;
        pass(10).await;
    }
    let health = running.health();
    assert_eq!(smtp_of(&running).problem, Some("timed_out"));
    assert!(health.loops.iter().all(|one| one.ok && one.restarts == 0), "{health:?}");
    assert_eq!(smtp.most_at_once.load(Ordering::SeqCst), 1, "never two at once");
    assert_eq!(state(&engine, waits).await, State::Waiting);
    smtp.hangs.store(false, Ordering::SeqCst);
    smtp.up.store(true, Ordering::SeqCst);
    reach(&engine, waits, State::Succeeded).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_panics_has_failed() {
    // H1
    let engine = engine_with(needs_smtp());
    let panics = Arc::new(AtomicBool::new(true));
    let told = panics.clone();
    let check = move |_: Arc<Arc<App>>| {
        let panics = told.load(Ordering::SeqCst);
        async move {
            assert!(!panics, "as it was told");
            Ok(())
        }
    };
    let running = both(&engine).check("smtp", check).start().await.expect("started");
    pass(1).await;
    assert_eq!(smtp_of(&running).problem, Some("failed"));
    panics.store(false, Ordering::SeqCst);
    pass(10).await;
    assert!(smtp_of(&running).ok);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_ahead_goes_back_when_its_dependency_turns_red() {
    // H1, C2
    let (engine, smtp) = (engine_with(needs_smtp()), Arc::new(Smtp::default()));
    smtp.up.store(true, Ordering::SeqCst);
    let worker = engine.worker(Arc::new(App::default())).register::<Act>().register::<Other>();
    let running = checked(worker.queue("default", 1).prefetch(5), &smtp).start().await.expect("started");
    settle().await;
    let first = engine.enqueue(act(&["until_canceled", "ok"])).submit().await.expect("admitted").id;
    settle().await;
    let mut ahead = Vec::new();
    for _ in 0..3 {
        ahead.push(engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id);
    }
    pass(2).await;
    for id in &ahead {
        assert_eq!(state(&engine, *id).await, State::Running, "claimed ahead");
    }
    smtp.up.store(false, Ordering::SeqCst);
    pass(11).await;
    engine.cancel(first, "enough").await.expect("canceled");
    pass(3).await;
    for id in &ahead {
        let view = detail(&engine, *id).await.view;
        assert_eq!((view.state(), view.record.runs), (State::Waiting, 0), "others may be able to run it");
    }
    smtp.up.store(true, Ordering::SeqCst);
    for id in ahead {
        reach(&engine, id, State::Succeeded).await;
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_unknown_kinds_does_not_let_a_red_one_through() {
    // H1, H10
    let queue = backstop::QueueConfig::default().fail_unknown_kind();
    let (engine, smtp) = (engine_with(needs_smtp().queue("default", queue)), Arc::new(Smtp::default()));
    let running = checked(both(&engine), &smtp).start().await.expect("started");
    let waits = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    pass(5).await;
    assert_eq!(detail(&engine, waits).await.view.record.runs, 0);
    smtp.up.store(true, Ordering::SeqCst);
    reach(&engine, waits, State::Succeeded).await;
    let unknown = engine.enqueue_raw("nobody-knows", "{}").policy(quick().retries(0)).submit().await;
    reach(&engine, unknown.expect("admitted").id, State::Failed).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_no_kind_needs_is_no_reason_to_stop_and_its_check_is_refused() {
    // H1
    let running = both(&engine()).start().await.expect("started");
    running.stop().await;
    let engine = engine();
    let id = engine.enqueue(act(&["transient", "ok"])).policy(quick()).submit().await.expect("admitted").id;
    let running = both(&engine).start().await.expect("started");
    settle().await;
    assert!(running.health().ready && running.health().dependencies.is_empty());
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
    let refused = both(&engine).check("smpt", |_| async { Ok(()) }).start().await.err().expect("refused");
    assert!(matches!(&refused, Error::UnusedDependency { dependency } if dependency == "smpt"), "{refused}");
    let settings = DependencySettings::default().check("tcp://mail:25".parse().expect("an address"));
    let engine = engine_with(needs_smtp().dependency("smpt", settings.every(Duration::from_secs(1))));
    let refused = both(&engine).start().await.err().expect("refused").to_string();
    let told =
        "no kind needs dependency `smpt`, which has a check or a circuit: correct its name, or remove them";
    assert_eq!(refused, told);
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_told_that_died_is_removed_with_it() {
    // H1, L16
    let engine = engine_with(needs_smtp());
    let doomed = both(&engine).without_maintenance().start().await.expect("started");
    pass(2).await;
    let told = || async {
        let range = DocumentRange::first(Drawer::WorkerReports, 10);
        engine.store().documents(range).await.expect("the model is there").items.len()
    };
    assert_eq!(told().await, 1);
    drop(doomed);
    settle().await;
    for (hours, left) in [(0, 1), (2, 0)] {
        tokio::time::advance(Duration::from_secs(hours * 3_600)).await;
        let node = backstop::worker_id();
        engine.maintain(node, Duration::from_secs(15)).await.expect("the model is there");
        assert_eq!(told().await, left, "after {hours} hours");
        engine.store().lead(node, Duty::ALL.to_vec(), Duration::ZERO).await.expect("it resigns");
    }
}
