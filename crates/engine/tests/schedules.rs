//! Schedules on every store, by a clock that stands until it is moved (W11). What happens between two calls is played
//! on the model, in `runtime/schedules.rs`.
#![allow(missing_docs, reason = "a test")]

#[allow(dead_code, reason = "stores are opened here, with a clock")]
mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::schedules::{
    Backfilled, Misfire, Overlap, PassReason, PassedFire, ScheduleOwner, ScheduleProblem, ScheduleSettings,
    ScheduleView,
};
use backstop::{Config, Enqueue, JobId, QueueConfig, Refusal, Timestamp, WorkerId};
use backstop_store::{
    Amend, Amended, Answer, Clock, Error as StoreError, JobFilter, Layer, ManualClock, ModelStore,
    PageRequest, Store, Submit, Submitted,
};

struct Stage {
    clock: ManualClock,
    engine: Backstop,
    /// When it was set up: fire times are counted from here.
    begin: Timestamp,
}

fn every(seconds: u64) -> ScheduleSettings {
    ScheduleSettings::every(Duration::from_secs(seconds))
}

impl Stage {
    fn on(store: &Arc<dyn Store>, clock: &ManualClock) -> Self {
        Self::with(store, clock, Config::default())
    }

    fn with(store: &Arc<dyn Store>, clock: &ManualClock, config: Config) -> Self {
        let engine = Backstop::on(store.clone(), config);
        Self { clock: clock.clone(), engine, begin: clock.now() }
    }

    fn job(&self) -> Enqueue {
        self.engine.enqueue_raw("report", "{}")
    }

    async fn set(&self, name: &str, settings: ScheduleSettings) -> ScheduleView {
        self.set_job(name, settings, self.job()).await
    }

    async fn set_job(&self, name: &str, settings: ScheduleSettings, job: Enqueue) -> ScheduleView {
        self.engine.schedules().set(name, settings, job).await.expect("it is set")
    }

    /// What whoever leads does. It knows nothing of the round before, as a new leader does not.
    async fn round(&self) {
        let (node, term) = (WorkerId::from_u128(1), Duration::from_secs(15));
        self.engine.maintain(node, term).await.expect("the store is there");
    }

    /// Lets time pass, and does what is due then.
    async fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.round().await;
    }

    fn second(&self, seconds: u64) -> Timestamp {
        self.begin.after(Duration::from_secs(seconds))
    }

    async fn view(&self, name: &str) -> ScheduleView {
        self.engine.schedules().get(name).await.expect("the store is there").expect("it is there")
    }

    async fn passed(&self, name: &str) -> Option<PassedFire> {
        self.view(name).await.state.passed
    }

    /// The jobs of a schedule with their fire times in seconds, in the order of these.
    async fn jobs(&self, name: &str) -> Vec<(u64, JobId)> {
        let (mut jobs, mut page) = (Vec::new(), PageRequest::first(500));
        loop {
            let found = self.engine.jobs(JobFilter::default(), page).await.expect("the store is there");
            for view in &found.items {
                let fired = view.job.spec.schedule().filter(|fired| *fired.name == *name);
                jobs.extend(fired.map(|by| (by.fire_time.since(self.begin).as_secs(), view.job.spec.id)));
            }
            let Some(next) = found.next else { break };
            page = PageRequest { limit: 500, after: Some(next) };
        }
        jobs.sort_unstable();
        jobs
    }

    /// The fire times of a schedule's jobs; one that stands there twice was submitted twice.
    async fn fired(&self, name: &str) -> Vec<u64> {
        self.jobs(name).await.into_iter().map(|(second, _)| second).collect()
    }

    /// Ends the latest job of a schedule.
    async fn end_latest(&self, name: &str) {
        let (_, job) = self.jobs(name).await.pop().expect("it has fired");
        self.engine.cancel(job, "done").await.expect("it has not ended");
    }

    /// Leaves no schedule to the next case.
    async fn leave(self) {
        for view in self.engine.schedules().list().await.expect("the store is there") {
            self.engine.schedules().delete(&view.name, true).await.expect("it is there");
        }
        assert_eq!(self.engine.schedules().count().await.expect("the store is there"), 0);
    }
}

/// W11: a fire while the job of the last one has not ended is passed over, or waits for its end.
async fn overlap_looks_at_the_job_of_the_last_fire(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    stage.set("skips", every(10).overlap(Overlap::Skip)).await;
    stage.set("queues", every(10).overlap(Overlap::Queue)).await;
    for _ in 0..3 {
        stage.pass(10).await;
    }
    assert_eq!(stage.fired("skips").await, [10]);
    assert_eq!(stage.fired("queues").await, [10]);
    let over = PassedFire { fire_time: stage.second(30), reason: PassReason::Overlap };
    assert_eq!(stage.passed("skips").await, Some(over));
    assert_eq!(stage.view("queues").await.state.queued, [stage.second(20), stage.second(30)]);
    for expected in [vec![10, 20], vec![10, 20, 30]] {
        stage.end_latest("queues").await;
        stage.round().await;
        assert_eq!(stage.fired("queues").await, expected);
    }
    stage.end_latest("skips").await;
    stage.pass(10).await;
    assert_eq!(stage.fired("skips").await, [10, 40]);
    stage.leave().await;
}

/// W11: of fires that nobody was there for, the schedule says which are made up for.
async fn what_was_missed_is_made_up_for_as_the_schedule_says(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    stage.set("passes by", every(600).misfire(Misfire::Skip)).await;
    stage.set("once", every(600).misfire(Misfire::FireOnce)).await;
    stage.set("catches up", every(600).misfire(Misfire::CatchUp(3))).await;
    // Six fire times, the last of them 100 seconds ago.
    stage.pass(3_700).await;
    assert_eq!(stage.fired("passes by").await, [0; 0]);
    assert_eq!(stage.fired("once").await, [3_600]);
    assert_eq!(stage.fired("catches up").await, [2_400, 3_000, 3_600]);
    for (name, latest) in [("passes by", 3_600), ("once", 3_000), ("catches up", 1_800)] {
        let missed = PassedFire { fire_time: stage.second(latest), reason: PassReason::Missed };
        assert_eq!(stage.passed(name).await, Some(missed), "{name}");
    }
    stage.pass(500).await;
    assert_eq!(stage.fired("passes by").await, [4_200]);
    assert_eq!(stage.fired("once").await, [3_600, 4_200]);
    assert_eq!(stage.fired("catches up").await, [2_400, 3_000, 3_600, 4_200]);
    stage.leave().await;
}

/// Settings under which one job waits in the queue `narrow`.
fn narrow() -> Config {
    let mut narrow = QueueConfig::default();
    narrow.max_depth = Some(1);
    Config::default().queue("narrow", narrow)
}

/// W11, H12: fires whose queue is full are submitted when there is room, in order, and none twice.
async fn a_full_queue_delays_fires(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::with(store, clock, narrow());
    stage.set_job("delayed", every(10), stage.job().queue("narrow")).await;
    for _ in 0..4 {
        stage.pass(10).await;
    }
    assert_eq!(stage.fired("delayed").await, [10], "there is no room");
    for expected in [vec![10, 20], vec![10, 20, 30], vec![10, 20, 30, 40]] {
        stage.end_latest("delayed").await;
        stage.round().await;
        assert_eq!(stage.fired("delayed").await, expected);
    }
    stage.end_latest("delayed").await;
    stage.leave().await;
}

/// W11, H12: while a schedule is paused, its fires that wait for room wait on, whatever room there is, and none is
/// lost.
async fn a_pause_holds_fires_that_wait_for_room(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::with(store, clock, narrow());
    stage.set_job("held", every(10), stage.job().queue("narrow")).await;
    for _ in 0..3 {
        stage.pass(10).await;
    }
    stage.engine.schedules().pause("held", "ann").await.expect("it is there");
    stage.end_latest("held").await;
    for _ in 0..2 {
        stage.pass(10).await;
    }
    assert_eq!(stage.fired("held").await, [10], "nothing fires during a pause");
    stage.engine.schedules().resume("held").await.expect("it is there");
    stage.round().await;
    assert_eq!(stage.fired("held").await, [10, 20]);
    stage.end_latest("held").await;
    stage.round().await;
    assert_eq!(stage.fired("held").await, [10, 20, 30], "what came during the pause is passed over");
    stage.end_latest("held").await;
    stage.pass(10).await;
    assert_eq!(stage.fired("held").await, [10, 20, 30, 60]);
    stage.end_latest("held").await;
    stage.leave().await;
}

/// W11, L11: a fire whose job is refused is passed over for good, and the schedule says why.
async fn a_refused_fire_is_passed_over(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    stage.set_job("refused", every(10), stage.job().business_key("one report")).await;
    stage.pass(10).await;
    stage.pass(10).await;
    assert_eq!(stage.fired("refused").await, [10]);
    let state = stage.view("refused").await.state;
    let refused = PassedFire { fire_time: stage.second(20), reason: PassReason::Refused };
    assert_eq!((state.passed, state.fires.len()), (Some(refused), 0));
    assert!(state.problem.as_deref().is_some_and(|why| why.contains("one report")), "{:?}", state.problem);
    stage.end_latest("refused").await;
    stage.round().await;
    assert_eq!(stage.fired("refused").await, [10], "its time is over");
    stage.pass(10).await;
    assert_eq!(stage.fired("refused").await, [10, 30]);
    assert_eq!(stage.view("refused").await.state.problem, None);
    stage.end_latest("refused").await;
    stage.leave().await;
}

/// W11, L11: a fire that is skipped because another job holds its business key stays skipped when that job has ended,
/// whoever leads then and whoever has changed the schedule; and one that was submitted is not taken for skipped.
async fn a_fire_that_was_skipped_for_a_business_key_stays_so(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    let schedules = stage.engine.schedules();
    let holder = stage.job().business_key("a report").submit().await.expect("stored");
    let job = || stage.job().business_key("a report").on_conflict(OnConflict::Skip);
    stage.set_job("gives way", every(10), job()).await;
    stage.pass(10).await;
    assert_eq!(stage.fired("gives way").await, [0; 0]);
    let state = stage.view("gives way").await.state;
    let skipped = PassedFire { fire_time: stage.second(10), reason: PassReason::Refused };
    assert_eq!((state.passed, state.fires.len()), (Some(skipped), 0));
    assert_eq!(state.problem, None, "it is as the schedule says");
    stage.engine.cancel(holder.id, "room").await.expect("it waits");
    stage.round().await;
    schedules.pause("gives way", "ann").await.expect("it is there");
    stage.round().await;
    schedules.resume("gives way").await.expect("it is there");
    stage.round().await;
    stage.set_job("gives way", every(10), job().tag("changed")).await;
    stage.round().await;
    assert_eq!(stage.fired("gives way").await, [0; 0], "it does not come back");
    stage.pass(10).await;
    assert_eq!(stage.fired("gives way").await, [20]);
    // Its own job holds the key now, and is answered once more to each new leader.
    stage.round().await;
    let last = stage.view("gives way").await.state.last();
    assert_eq!(
        last.map(|fire| (fire.fire_time, fire.job)),
        Some((stage.second(20), stage.jobs("gives way").await[0].1))
    );
    stage.pass(10).await;
    assert_eq!(stage.fired("gives way").await, [20]);
    assert_eq!(stage.passed("gives way").await.map(|passed| passed.fire_time), Some(stage.second(30)));
    stage.end_latest("gives way").await;
    stage.round().await;
    assert_eq!(stage.fired("gives way").await, [20]);
    stage.leave().await;
}

/// A leader that dies as soon as it is told that another job holds a business key: it writes nothing more.
struct DyingLeader {
    below: Arc<dyn Store>,
    is_told: AtomicBool,
}

impl DyingLeader {
    fn hears<'s>(&self, answers: impl IntoIterator<Item = &'s Submitted>) {
        if answers.into_iter().any(|answer| answer.deduplicated) {
            self.is_told.store(true, Ordering::SeqCst);
        }
    }
}

impl Layer for DyingLeader {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        Box::pin(async move {
            let answers = self.below.submit(submit).await?;
            self.hears(answers.iter().flatten());
            Ok(answers)
        })
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move {
            if self.is_told.load(Ordering::SeqCst) {
                let problem = "it is dead".to_owned();
                return Err(StoreError::Unavailable { location: "here".to_owned(), problem, source: None });
            }
            let amended = self.below.amend(amend).await?;
            if let Amended::Done { submitted, .. } = &amended {
                self.hears(submitted);
            }
            Ok(amended)
        })
    }
}

/// W11, L11: that a fire is skipped is decided once: a leader that dies behind the answer leaves nothing to decide, and
/// the next one submits none of it, although the key is free by then.
async fn a_skipped_fire_is_decided_once(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    let holder = stage.job().business_key("one at a time").submit().await.expect("stored");
    let job = stage.job().business_key("one at a time").on_conflict(OnConflict::Skip);
    stage.set_job("given up", every(10), job).await;
    let dying = Arc::new(DyingLeader { below: store.clone(), is_told: AtomicBool::new(false) });
    let layer: Arc<dyn Store> = dying.clone();
    let died = Stage { engine: Backstop::on(layer, Config::default()), ..Stage::on(store, clock) };
    clock.advance(Duration::from_secs(10));
    let (node, term) = (WorkerId::from_u128(1), Duration::from_secs(15));
    assert!(died.engine.maintain(node, term).await.is_err() && dying.is_told.load(Ordering::SeqCst));
    stage.engine.cancel(holder.id, "room").await.expect("it waits");
    stage.round().await;
    assert_eq!(stage.fired("given up").await, [0; 0], "it was skipped");
    stage.pass(10).await;
    assert_eq!(stage.fired("given up").await, [20]);
    stage.end_latest("given up").await;
    stage.leave().await;
}

/// W11, L11: a backfill tells fires that it submitted, those that were, and those that gave way to another job.
async fn a_backfill_tells_what_it_skipped(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    let job = stage.job().business_key("one of many").on_conflict(OnConflict::Skip);
    stage.set_job("filled", every(10).paused(true), job).await;
    clock.advance(Duration::from_secs(35));
    let backfill = async || {
        let schedules = stage.engine.schedules();
        schedules.backfill("filled", stage.begin, stage.clock.now()).await.expect("it is over")
    };
    assert_eq!(backfill().await, Backfilled { submitted: 1, known: 0, skipped: 2 });
    assert_eq!(backfill().await, Backfilled { submitted: 0, known: 1, skipped: 2 });
    stage.end_latest("filled").await;
    assert_eq!(backfill().await, Backfilled { submitted: 1, known: 1, skipped: 1 });
    stage.end_latest("filled").await;
    stage.leave().await;
}

/// W11: pause, resume, run, backfill and delete do what they say.
async fn people_pause_run_backfill_and_delete(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    let schedules = stage.engine.schedules();
    let set = stage.set("hourly", every(3_600).paused(true)).await;
    assert!(set.state.paused.is_some());
    stage.pass(3 * 3_600 + 10).await;
    assert_eq!(stage.fired("hourly").await, [0; 0], "it is paused");
    assert_eq!(schedules.resume("hourly").await.expect("it is there").state.paused, None);
    stage.round().await;
    assert_eq!(stage.fired("hourly").await, [0; 0], "what a pause passed over is not made up for");
    stage.pass(3_590).await;
    assert_eq!(stage.fired("hourly").await, [14_400]);
    for (submitted, known) in [(3, 1), (0, 4)] {
        let done = schedules.backfill("hourly", stage.begin, stage.clock.now()).await.expect("it is over");
        assert_eq!(done, Backfilled { submitted, known, skipped: 0 });
    }
    stage.round().await;
    assert_eq!(stage.fired("hourly").await, [3_600, 7_200, 10_800, 14_400]);
    stage.clock.advance(Duration::from_secs(5));
    let ran = schedules.run("hourly").await.expect("it is there");
    assert!(stage.jobs("hourly").await.contains(&(14_405, ran)));
    let deleted = schedules.delete("hourly", false).await.expect("it is there");
    assert_eq!(deleted.name, "hourly");
    assert!(matches!(schedules.pause("hourly", "ann").await, Err(ScheduleProblem::Unknown(_))));
    stage.pass(3_600).await;
    assert_eq!(stage.fired("hourly").await.len(), 5, "its jobs stay, and no more come");
    stage.leave().await;
}

/// W11: a declaration replaces what its owner declared before, removes the rest of that, and touches nothing of others.
async fn a_declaration_replaces_and_removes(store: &Arc<dyn Store>, clock: &ManualClock) {
    let stage = Stage::on(store, clock);
    let schedules = stage.engine.schedules();
    let entry = |seconds| (every(seconds), stage.job());
    let billing = || ScheduleOwner::Code("billing".into());
    schedules.declare(billing(), [("a", entry(10)), ("b", entry(10))]).await.expect("declared");
    schedules.declare(ScheduleOwner::Settings, [("c", entry(10))]).await.expect("declared");
    stage.pass(10).await;
    schedules.declare(billing(), [("a", entry(20)), ("d", entry(10))]).await.expect("declared");
    stage.pass(10).await;
    stage.pass(10).await;
    let names: Vec<String> =
        schedules.list().await.expect("the store is there").into_iter().map(|view| view.name).collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert_eq!(schedules.count().await.expect("the store is there"), 3);
    for (name, fired) in [("a", vec![10, 30]), ("b", vec![10]), ("c", vec![10, 20, 30]), ("d", vec![20, 30])]
    {
        assert_eq!(stage.fired(name).await, fired, "{name}");
    }
    let taken = schedules.declare(ScheduleOwner::Settings, [("a", entry(10))]).await;
    assert!(matches!(taken, Err(ScheduleProblem::Owned { .. })), "{taken:?}");
    assert_eq!(schedules.count().await.expect("the store is there"), 3, "and nothing of it is written");
    schedules.declare(billing(), Vec::<(&str, (ScheduleSettings, Enqueue))>::new()).await.expect("declared");
    assert_eq!(schedules.count().await.expect("the store is there"), 1, "of an empty list all are removed");
    stage.leave().await;
}

/// Every case, on one store.
async fn everything(store: Arc<dyn Store>, clock: ManualClock) {
    overlap_looks_at_the_job_of_the_last_fire(&store, &clock).await;
    what_was_missed_is_made_up_for_as_the_schedule_says(&store, &clock).await;
    a_full_queue_delays_fires(&store, &clock).await;
    a_pause_holds_fires_that_wait_for_room(&store, &clock).await;
    a_refused_fire_is_passed_over(&store, &clock).await;
    a_fire_that_was_skipped_for_a_business_key_stays_so(&store, &clock).await;
    a_skipped_fire_is_decided_once(&store, &clock).await;
    a_backfill_tells_what_it_skipped(&store, &clock).await;
    people_pause_run_backfill_and_delete(&store, &clock).await;
    a_declaration_replaces_and_removes(&store, &clock).await;
}

#[tokio::test]
async fn in_memory() {
    // W11
    let clock = ManualClock::default();
    everything(Arc::new(ModelStore::new(Arc::new(clock.clone()))), clock).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn on_sqlite() {
    // W11
    use backstop::sqlite::{Options, SqliteStore};

    let (folder, clock) =
        (backstop_testbed::Folder::new("schedules").expect("a folder"), ManualClock::default());
    let mut options = Options::default();
    options.clock = Arc::new(clock.clone());
    let store = SqliteStore::open(folder.path().join("jobs.db"), options).expect("it can be opened");
    everything(Arc::new(store), clock).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // W11
    use backstop::postgres::{Options, PostgresStore};

    let clock = ManualClock::default();
    let mut options = Options::default();
    options.clock = Some(Arc::new(clock.clone()));
    let store = PostgresStore::open(&stores::postgres("schedules"), options).await.expect("a server");
    everything(Arc::new(store), clock).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // W11
    use backstop::mysql::{MysqlStore, Options};

    // The store that is opened there goes by the server's clock: what is wanted of it is its database.
    stores::on_mysql("schedules", async |_: Arc<dyn Store>| {
        let server = backstop_testbed::shared::mariadb();
        let (place, _) = server.rsplit_once('/').expect("a URL with a database");
        let clock = ManualClock::default();
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock.clone()));
        let url = format!("{place}/schedules_{}", std::process::id());
        let store = MysqlStore::open(&url, options).await.expect("a server");
        everything(Arc::new(store), clock).await;
    })
    .await;
}
