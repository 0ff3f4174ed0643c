//! Schedules (W11): each fire time is submitted once, whoever fires and whatever dies; and what people do with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::schedules::{
    Misfire, Overlap, PassReason, ScheduleOwner, ScheduleProblem, ScheduleSettings, ScheduleView,
};
use backstop::{Config, Enqueue, EventKind, Refusal, Timestamp, WorkerId};
use backstop_store::{Clock, JobFilter, ManualClock, ModelStore, PageRequest, Store};

use crate::fixture::{model, pass, settle};
use crate::frail::{Frail, Trouble};

const SECOND: Duration = Duration::from_secs(1);
const TERM: Duration = Duration::from_secs(15);

/// A store whose clock stands until it is moved.
struct Stage {
    clock: ManualClock,
    store: Arc<dyn Store>,
    engine: Backstop,
}

fn stage() -> Stage {
    stage_with(Config::default())
}

fn stage_with(config: Config) -> Stage {
    let clock = ManualClock::default();
    let store: Arc<dyn Store> = Arc::new(ModelStore::new(Arc::new(clock.clone())));
    let engine = Backstop::on(store.clone(), config);
    Stage { clock, store, engine }
}

fn node(number: u128) -> WorkerId {
    WorkerId::from_u128(number)
}

fn job(engine: &Backstop) -> Enqueue {
    engine.enqueue_raw("report", "{}")
}

impl Stage {
    async fn set(&self, name: &str, settings: ScheduleSettings) -> ScheduleView {
        self.engine.schedules().set(name, settings, job(&self.engine)).await.expect("it is set")
    }

    /// One round of maintenance by a node.
    async fn round(&self, number: u128) {
        self.engine.maintain(node(number), TERM).await.expect("the model is there");
    }

    async fn view(&self, name: &str) -> ScheduleView {
        self.engine.schedules().get(name).await.expect("the model is there").expect("it is there")
    }

    /// How many jobs there are of each fire time, in seconds since the beginning.
    async fn fired(&self, name: &str) -> BTreeMap<u64, usize> {
        let begin = ManualClock::default().now();
        let (mut fired, mut page) = (BTreeMap::new(), PageRequest::first(1_000));
        loop {
            let found = self.engine.jobs(JobFilter::default(), page).await.expect("the model is there");
            for view in &found.items {
                let fired_by = view.job.spec.schedule().expect("all jobs here are of schedules");
                if *fired_by.name == *name {
                    *fired.entry(fired_by.fire_time.since(begin).as_secs()).or_default() += 1;
                }
            }
            let Some(next) = found.next else { return fired };
            page = PageRequest { limit: 1_000, after: Some(next) };
        }
    }
}

/// Numbers that look random and are the same in every run.
fn dice(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[tokio::test]
async fn leaders_that_take_turns_fire_each_time_once_and_none_is_missing() {
    // W11
    let stage = stage();
    stage.set("often", ScheduleSettings::every(SECOND).misfire(Misfire::Skip)).await;
    stage.set("cron", ScheduleSettings::cron("*/5 * * * * *").misfire(Misfire::Skip)).await;
    let mut seed = 7;
    for _ in 0..120 {
        stage.clock.advance(Duration::from_millis(dice(&mut seed) % 40_000));
        stage.round(u128::from(1 + dice(&mut seed) % 3)).await;
    }
    let passed = stage.clock.now().since(ManualClock::default().now()).as_secs();
    // A node that does not lead fires nothing; whoever leads at the end has fired all.
    stage.clock.advance(TERM);
    stage.round(9).await;
    let (often, cron) = (stage.fired("often").await, stage.fired("cron").await);
    assert!(often.values().chain(cron.values()).all(|count| *count == 1));
    for second in 1..=passed {
        assert!(often.contains_key(&second), "{second} of {passed} is missing");
        assert_eq!(cron.contains_key(&second), second % 5 == 0, "{second}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_and_forth_fires_no_time_twice_and_goes_on() {
    // W11
    let stage = stage();
    stage.set("often", ScheduleSettings::cron("*/10 * * * * *").misfire(Misfire::CatchUp(20))).await;
    let mut seed = 11;
    let begin = stage.clock.now();
    for _ in 0..200 {
        let now = stage.clock.now();
        stage.clock.set(match dice(&mut seed) % 8 {
            0 => now.before(Duration::from_secs(dice(&mut seed) % 7_200)).max(begin),
            1 => now.after(Duration::from_secs(dice(&mut seed) % 7_200)),
            _ => now.after(Duration::from_secs(dice(&mut seed) % 30)),
        });
        stage.round(u128::from(1 + dice(&mut seed) % 2)).await;
    }
    assert!(stage.fired("often").await.values().all(|count| *count == 1));
    // A clock that was ten years ahead for a while does not keep it silent.
    let now = stage.clock.now();
    stage.clock.advance(Duration::from_secs(10 * 365 * 86_400));
    stage.round(3).await;
    stage.clock.set(now.after(Duration::from_secs(86_400)));
    let before = stage.fired("often").await.len();
    // The term of the leader runs for ten years more: a new store of terms is not what is tested here.
    stage.engine.maintain(node(3), TERM).await.expect("it leads on");
    stage.clock.advance(Duration::from_secs(30));
    stage.engine.maintain(node(3), TERM).await.expect("it leads on");
    assert_eq!(stage.fired("often").await.len(), before + 3);
}

/// What happens to a leader at one call of its round, and what the next leader makes of it.
async fn troubled(call: usize, trouble: fn(Elsewhere) -> Trouble) -> bool {
    let stage = stage();
    stage.set("one", ScheduleSettings::every(10 * SECOND).misfire(Misfire::Skip)).await;
    stage
        .set("two", ScheduleSettings::every(10 * SECOND).misfire(Misfire::Skip).overlap(Overlap::Queue))
        .await;
    stage.clock.advance(10 * SECOND);
    let other = (stage.clock.clone(), stage.engine.clone());
    let frail = Frail::new(stage.store.clone(), call, trouble(other));
    let first = Backstop::on(frail.clone(), Config::default());
    let _ = first.maintain(node(1), TERM).await;
    // Far later than a minute: what was decided is submitted however late it is.
    stage.clock.advance(TERM);
    stage.round(2).await;
    let _ = first.maintain(node(1), TERM).await;
    stage.clock.advance(3_600 * SECOND + 5 * SECOND);
    stage.round(3).await;
    for name in ["one", "two"] {
        let fired = stage.fired(name).await;
        assert!(fired.values().all(|count| *count == 1), "{name} at call {call}: {fired:?}");
        assert!(fired.contains_key(&10), "{name} at call {call}: {fired:?}");
    }
    frail.has_struck()
}

type Elsewhere = (ManualClock, Backstop);

#[tokio::test]
async fn a_leader_that_dies_or_is_overtaken_at_any_call_leaves_each_fire_once() {
    // W11
    let troubles: [fn(Elsewhere) -> Trouble; 4] = [
        |_| Trouble::DieBefore,
        |_| Trouble::DieAfter,
        |_| Trouble::Forgotten,
        // It is stopped for longer than its term, and goes on when another has fired.
        |(clock, engine)| {
            Trouble::Overtaken(Box::new(move || {
                let (clock, engine) = (clock.clone(), engine.clone());
                Box::pin(async move {
                    clock.advance(2 * TERM);
                    engine.maintain(node(2), TERM).await.expect("it takes over");
                })
            }))
        },
    ];
    for trouble in troubles {
        let mut call = 1;
        while troubled(call, trouble).await {
            call += 1;
        }
        assert!(call > 20, "a round has more calls than {call}");
    }
}

#[tokio::test]
async fn a_person_who_pauses_or_deletes_between_a_look_and_a_fire_is_heeded() {
    // W11
    for call in 1..60 {
        let stage = stage();
        stage.set("one", ScheduleSettings::every(10 * SECOND)).await;
        stage.set("two", ScheduleSettings::every(10 * SECOND)).await;
        stage.clock.advance(10 * SECOND);
        let engine = stage.engine.clone();
        let paused = Arc::new(std::sync::OnceLock::new());
        let noted = paused.clone();
        let overtaken = Trouble::Overtaken(Box::new(move || {
            let (engine, noted) = (engine.clone(), noted.clone());
            Box::pin(async move {
                let view = engine.schedules().pause("one", "ann").await.expect("it is there");
                noted.set(!view.state.fires.is_empty()).expect("once");
                engine.schedules().delete("two", false).await.expect("it is there");
            })
        }));
        let frail = Frail::new(stage.store.clone(), call, overtaken);
        let first = Backstop::on(frail.clone(), Config::default());
        for _ in 0..3 {
            first.maintain(node(1), TERM).await.expect("the model is there");
        }
        // It fired if that was decided before the pause, and never after it.
        let Some(decided) = paused.get() else { continue };
        assert_eq!(stage.fired("one").await.len(), usize::from(*decided), "at call {call}");
    }
}

/// A leader dies at one call, a person pauses the schedule, and others lead; answers whether the trouble came.
async fn paused_after(call: usize, trouble: Trouble) -> bool {
    let stage = stage();
    stage.set("one", ScheduleSettings::every(10 * SECOND)).await;
    stage.clock.advance(10 * SECOND);
    let frail = Frail::new(stage.store.clone(), call, trouble);
    let _ = Backstop::on(frail.clone(), Config::default()).maintain(node(1), TERM).await;
    let before = stage.fired("one").await;
    let paused = stage.engine.schedules().pause("one", "ann").await.expect("it is there");
    stage.clock.advance(TERM);
    stage.round(2).await;
    assert_eq!(stage.fired("one").await, before, "at call {call}: nothing fires during a pause");
    stage.engine.schedules().resume("one").await.expect("it is there");
    stage.round(2).await;
    let decided = paused.state.fires.len();
    assert_eq!(stage.fired("one").await.into_values().sum::<usize>(), decided, "at call {call}");
    frail.has_struck()
}

#[tokio::test]
async fn a_fire_that_was_decided_before_a_pause_waits_for_its_end_and_is_not_lost() {
    // W11
    let troubles: [fn() -> Trouble; 2] = [|| Trouble::DieBefore, || Trouble::DieAfter];
    for trouble in troubles {
        let mut call = 1;
        while paused_after(call, trouble()).await {
            call += 1;
        }
        assert!(call > 20, "a round has more calls than {call}");
    }
}

#[tokio::test]
async fn overlap_looks_at_the_job_of_the_last_fire() {
    // W11
    let stage = stage();
    stage.set("skips", ScheduleSettings::every(10 * SECOND).overlap(Overlap::Skip)).await;
    stage.set("queues", ScheduleSettings::every(10 * SECOND).overlap(Overlap::Queue)).await;
    let mut events = stage.engine.events();
    for _ in 0..3 {
        stage.clock.advance(10 * SECOND);
        stage.round(1).await;
    }
    let told = loop {
        let event = events.next().await.expect("it goes on");
        if let EventKind::FirePassed { schedule, fire_time, reason } = &event.what {
            break (schedule.clone(), *fire_time, *reason);
        }
    };
    let second = ManualClock::default().now().after(20 * SECOND);
    assert_eq!(told, ("skips".to_owned(), second, PassReason::Overlap));
    assert_eq!(stage.fired("skips").await.keys().copied().collect::<Vec<_>>(), [10]);
    assert_eq!(stage.fired("queues").await.keys().copied().collect::<Vec<_>>(), [10]);
    let (skips, queues) = (stage.view("skips").await.state, stage.view("queues").await.state);
    assert_eq!(skips.passed.map(|passed| passed.reason), Some(PassReason::Overlap));
    assert_eq!(queues.queued.len(), 2);
    // The job of the last fire ends: one that waited is submitted, in order.
    for expected in [vec![10, 20], vec![10, 20, 30]] {
        let last = stage.view("queues").await.state.last().expect("it has fired").job;
        stage.engine.cancel(last, "done").await.expect("it can be");
        stage.round(1).await;
        assert_eq!(stage.fired("queues").await.keys().copied().collect::<Vec<_>>(), expected);
    }
    let last = stage.view("skips").await.state.last().expect("it has fired").job;
    stage.engine.cancel(last, "done").await.expect("it can be");
    stage.clock.advance(10 * SECOND);
    stage.round(1).await;
    assert_eq!(stage.fired("skips").await.keys().copied().collect::<Vec<_>>(), [10, 40]);
}

#[tokio::test]
async fn a_full_queue_delays_a_fire_and_a_refusal_is_told() {
    // W11, H12
    let mut full = backstop::QueueConfig::default();
    full.max_depth = Some(1);
    let stage = stage_with(Config::default().queue("small", full));
    let small = || job(&stage.engine).queue("small");
    let settings = ScheduleSettings::every(10 * SECOND);
    stage.engine.schedules().set("small", settings.clone(), small()).await.expect("set");
    let unique = job(&stage.engine).business_key("only one");
    stage.engine.schedules().set("unique", settings, unique).await.expect("set");
    for _ in 0..4 {
        stage.clock.advance(10 * SECOND);
        stage.round(1).await;
    }
    assert_eq!(stage.fired("small").await.len(), 1, "there is no room");
    let first = JobFilter { queue: Some("small".into()), ..JobFilter::default() };
    for fires in [10, 20, 30] {
        let jobs = stage.engine.jobs(first.clone(), PageRequest::first(1)).await.expect("the model is there");
        let schedule = jobs.items[0].job.spec.schedule().expect("of a schedule").fire_time;
        assert_eq!(schedule.since(ManualClock::default().now()).as_secs(), fires, "in order");
        stage.engine.cancel(jobs.items[0].job.spec.id, "room").await.expect("it can be");
        // Another node goes on where this one was.
        stage.clock.advance(TERM);
        stage.round(2).await;
    }
    let fired = stage.fired("small").await.into_keys().filter(|second| *second <= 40).collect::<Vec<_>>();
    assert_eq!(fired, [10, 20, 30, 40], "none was lost");
    assert_eq!(stage.fired("unique").await.len(), 1);
    let state = stage.view("unique").await.state;
    assert_eq!(state.passed.map(|passed| passed.reason), Some(PassReason::Refused));
    assert!(state.problem.expect("why").contains("only one"));
}

#[tokio::test]
async fn pause_run_backfill_and_delete_do_what_they_say() {
    // W11
    let stage = stage();
    let schedules = stage.engine.schedules();
    let set = stage.set("hourly", ScheduleSettings::cron("0 * * * *").paused(true)).await;
    assert!(set.state.paused.is_some());
    assert_eq!(set.upcoming.len(), 5);
    stage.clock.advance(3 * 3_600 * SECOND);
    stage.round(1).await;
    assert_eq!(stage.fired("hourly").await.len(), 0, "it is paused");
    let resumed = schedules.resume("hourly").await.expect("it is there");
    assert_eq!(resumed.state.paused, None);
    stage.round(1).await;
    assert_eq!(stage.fired("hourly").await.len(), 0, "what a pause passed over is not made up for");
    stage.clock.advance(3_600 * SECOND);
    stage.round(1).await;
    let begin = ManualClock::default().now();
    let done = schedules.backfill("hourly", begin, stage.clock.now()).await.expect("it is over");
    assert_eq!((done.submitted, done.known), (4, 1), "midnight, and the three of the pause");
    let again = schedules.backfill("hourly", begin, stage.clock.now()).await.expect("it is over");
    assert_eq!((again.submitted, again.known), (0, 5));
    let ran = schedules.run("hourly").await.expect("it is there");
    let found = stage.engine.job(ran).await.expect("the model is there").expect("it is there");
    assert_eq!(found.view.job.spec.schedule().map(|fired| fired.fire_time), Some(stage.clock.now()));
    let invalid = |answer: Result<_, ScheduleProblem>| matches!(answer, Err(ScheduleProblem::Invalid(_)));
    let ahead = stage.clock.now().after(SECOND);
    assert!(invalid(schedules.backfill("hourly", begin, ahead).await), "what is to come");
    assert!(invalid(schedules.backfill("hourly", ahead, begin).await), "it ends before it begins");
    stage.set("often", ScheduleSettings::every(SECOND)).await;
    stage.clock.advance(1_001 * SECOND);
    let long = schedules.backfill("often", begin, stage.clock.now()).await;
    assert!(long.expect_err("too many").to_string().contains("more than 1000 fire times"));
    schedules.delete("hourly", false).await.expect("it is there");
    for answer in [schedules.delete("hourly", false).await, schedules.pause("hourly", "ann").await] {
        assert!(matches!(answer, Err(ScheduleProblem::Unknown(_))));
    }
    assert_eq!(schedules.count().await.expect("the model is there"), 1);
    let cut = stage.set("often", ScheduleSettings::every(SECOND)).await;
    let moved = stage.set("often", ScheduleSettings::every(2 * SECOND)).await;
    assert!(cut.state.anchor < moved.state.anchor, "another interval begins again, the same one goes on");
}

#[tokio::test]
async fn what_one_owner_declares_no_other_changes() {
    // W11
    let stage = stage();
    let schedules = stage.engine.schedules();
    let entry = |cron: &str| (ScheduleSettings::cron(cron), job(&stage.engine));
    let billing = || ScheduleOwner::Code("billing".into());
    schedules.declare(billing(), [("a", entry("@daily")), ("b", entry("@daily"))]).await.expect("declared");
    schedules.declare(ScheduleOwner::Settings, [("c", entry("@daily"))]).await.expect("declared");
    stage.set("d", ScheduleSettings::cron("@daily")).await;
    let owned = |answer: Result<(), ScheduleProblem>| {
        assert!(matches!(&answer, Err(ScheduleProblem::Owned { .. })), "{answer:?}");
        answer.expect_err("it is another's").to_string()
    };
    let taken = schedules.set("a", ScheduleSettings::cron("@hourly"), job(&stage.engine)).await.map(drop);
    assert_eq!(
        owned(taken),
        "schedule `a` belongs to the code of billing: change it there, or choose another name"
    );
    owned(schedules.delete("c", false).await.map(drop));
    owned(schedules.declare(billing(), [("a", entry("@hourly")), ("d", entry("@daily"))]).await);
    assert_eq!(stage.view("a").await.schedule.timing.to_string(), "@daily UTC", "nothing of it was written");
    // A pause by a person stays over a restart, and what is the same is left as it is.
    schedules.pause("a", "ann").await.expect("anybody may");
    let before = stage.view("a").await;
    stage.clock.advance(SECOND);
    schedules.declare(billing(), [("a", entry("@daily")), ("b", entry("@daily"))]).await.expect("declared");
    assert_eq!(stage.view("a").await.state, before.state);
    // What is not declared any more goes, and nothing of others.
    schedules.declare(billing(), [("a", entry("@weekly"))]).await.expect("declared");
    let names: Vec<String> =
        schedules.list().await.expect("the model is there").into_iter().map(|view| view.name).collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert!(stage.view("a").await.state.paused.is_some());
    schedules.delete("c", true).await.expect("by force");
    assert_eq!(schedules.count().await.expect("the model is there"), 2);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_and_nothing_is_stored() {
    // W11
    let stage = stage();
    let refused = async |name: &str, settings: ScheduleSettings, job: Enqueue| match stage
        .engine
        .schedules()
        .set(name, settings, job)
        .await
    {
        Err(ScheduleProblem::Invalid(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let daily = || ScheduleSettings::cron("@daily");
    let plain = || job(&stage.engine);
    let refusals = [
        (refused("a/b", daily(), plain()).await, "schedule"),
        (refused("a", ScheduleSettings::cron("nonsense"), plain()).await, "cron"),
        (refused("a", daily().time_zone("Moon/Base"), plain()).await, "time_zone"),
        (refused("a", ScheduleSettings::every(Duration::ZERO), plain()).await, "every_ms"),
        (refused("a", daily(), plain().idempotency_key("k")).await, "idempotency_key"),
        (refused("a", daily(), plain().run_at(Timestamp::EPOCH)).await, "run_at"),
        (refused("a", daily(), stage.engine.enqueue_raw("", "{}")).await, "kind"),
        (refused("a", daily(), stage.engine.enqueue_raw("report", "no json")).await, "payload"),
    ];
    for (refusal, expected) in refusals {
        assert!(matches!(&refusal, Refusal::Invalid { field, .. } if *field == expected), "{refusal:?}");
    }
    assert_eq!(stage.engine.schedules().count().await.expect("the model is there"), 0);
}

#[job]
async fn tell(cx: JobContext<()>) -> JobResult<Option<String>> {
    Ok(cx.schedule().map(|fired| format!("{} at {}", fired.name, fired.fire_time)))
}

#[tokio::test(start_paused = true)]
async fn maintenance_fires_by_itself_and_handlers_know_their_fire() {
    // W11
    let engine = Backstop::on(model(), Config::default());
    let maintenance = engine.maintenance().start();
    settle().await;
    let every = ScheduleSettings::every(5 * SECOND);
    engine.schedules().set("tell", every, engine.enqueue(Tell {})).await.expect("set");
    pass(6).await;
    let found = engine.jobs(JobFilter::default(), PageRequest::first(5)).await.expect("the model is there");
    assert_eq!(found.items.len(), 1, "it fires without a worker");
    engine
        .worker(())
        .register::<Tell>()
        .queue("default", 1)
        .inline()
        .expect("fine")
        .drain(1)
        .await
        .expect("ran");
    let done = engine.job(found.items[0].job.spec.id).await.expect("the model is there").expect("there");
    let (result, fired) =
        (done.view.result.clone().expect("it succeeded"), done.reads().schedule.expect("of it"));
    assert_eq!(*result, format!("\"tell at {}\"", fired.fire_time));
    maintenance.stop().await;
}
