//! Queues: room, order, pauses, allow lists, and kinds that nobody knows.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::query::Level;
use backstop::{Cause, Config, QueueConfig, TerminalReason, Timestamp};
use backstop_core::job::{Stale, State};
use backstop_store::{Answer, Claim, Claimed, Finish, KnownKind, NewWorker, Store};
use tokio::sync::Semaphore;

use crate::fixture::*;

#[tokio::test(start_paused = true)]
async fn no_more_runs_at_once_than_the_queue_has_room_for() {
    // L4
    let engine = engine();
    for _ in 0..10 {
        engine.enqueue(act(&["hang"])).submit().await.expect("admitted");
    }
    let running = worker(&engine).start().await.expect("started");
    pass(5).await;
    let queue = engine.queues().list().await.expect("the model is there").remove(0);
    assert_eq!((queue.running, queue.pending, running.running()), (4, 6, 4));
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_gives_nothing_until_it_is_resumed() {
    // L13
    let engine = engine();
    engine.queues().pause("default").await.expect("the model is there");
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    pass(600).await;
    assert_eq!(state(&engine, id).await, State::Pending);
    let (_, why) = engine.explain(id).await.expect("the model is there").expect("it is there");
    assert!(why.because.contains("paused"), "{}", why.because);
    engine.queues().resume("default").await.expect("the model is there");
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_submit_wakes_an_idle_worker_at_once() {
    // L13: by the hint, long before the next poll.
    let engine = engine();
    let running = worker(&engine).poll(Duration::from_secs(3_600)).start().await.expect("started");
    settle().await;
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    settle().await;
    assert_eq!(state(&engine, id).await, State::Succeeded, "and no time has passed");
    running.stop().await;
}

/// How often a verb of the store was called.
fn calls(engine: &Backstop, verb: &str) -> u64 {
    let families = engine.figures().families();
    let times = families.iter().find(|family| family.name == "backstop_store_seconds").expect("it is kept");
    let of_verb = times.samples.iter().find(|sample| sample.labels.iter().any(|(_, value)| **value == *verb));
    of_verb.map_or(0, |sample| match sample.value {
        backstop::figures::FigureValue::Times { count, .. } => count,
        backstop::figures::FigureValue::Number(_) => 0,
    })
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_believed_until_it_was_for_somebody_else() {
    // L13: looking before taking costs every job a round trip; claiming for others costs them all.
    let engine = engine();
    let running = worker(&engine).poll(Duration::from_secs(3_600)).start().await.expect("started");
    settle().await;
    let (looks, claims) = (calls(&engine, "peek"), calls(&engine, "claim"));
    let counted = || (calls(&engine, "peek") - looks, calls(&engine, "claim") - claims);
    engine.enqueue(act(&["ok"])).submit().await.expect("admitted");
    settle().await;
    assert_eq!(counted(), (1, 1), "it takes, then looks whether there is more");
    for told in 1..=3 {
        engine.enqueue(act(&["ok"])).queue("other").submit().await.expect("admitted");
        settle().await;
        assert_eq!(counted(), (1 + told, 2), "one claim for nothing, then looks only");
    }
    engine.enqueue(act(&["ok"])).submit().await.expect("admitted");
    settle().await;
    assert_eq!(counted(), (6, 3), "it looked first");
    engine.enqueue(act(&["ok"])).submit().await.expect("admitted");
    settle().await;
    assert_eq!(counted(), (7, 4), "and believes again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn polling_finds_what_no_hint_told() {
    // L13: the observer is another engine's, as if another process had submitted.
    let store = model();
    let engine = Backstop::on(store.clone(), Config::default());
    let running = worker(&engine).poll(Duration::from_secs(2)).start().await.expect("started");
    settle().await;
    let other = Backstop::on(store, Config::default());
    let id = other.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    settle().await;
    assert_eq!(state(&engine, id).await, State::Pending, "no hint reached the worker");
    pass(3).await;
    assert_eq!(state(&engine, id).await, State::Succeeded, "one poll later");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_nobody_knows_waits_visibly_and_is_released_by_code() {
    // H10
    let engine = engine();
    let mut events = engine.events();
    let id = engine.enqueue_raw("from_the_future", "{}").submit().await.expect("admitted").id;
    let newer = engine.enqueue(act(&["ok"])).version(2).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    pass(60).await;
    assert_eq!((state(&engine, id).await, state(&engine, newer).await), (State::Waiting, State::Waiting));
    assert_eq!(detail(&engine, id).await.view.record.runs, 0, "it was never started");
    let (_, why) = engine.explain(id).await.expect("the model is there").expect("it is there");
    assert!(why.because.contains("waits for code"), "{}", why.because);
    assert!(std::iter::from_fn(|| events.try_next()).any(|event| event.what.name() == "waiting_for_code"));
    running.stop().await;
    assert_eq!(state(&engine, id).await, State::Pending, "without any worker it is simply pending");
}

#[tokio::test(start_paused = true)]
async fn a_queue_can_fail_kinds_that_nobody_knows() {
    // H10
    let config = Config::default().queue("default", QueueConfig::default().fail_unknown_kind());
    let engine = engine_with(config);
    let id =
        engine.enqueue_raw("mystery", "{}").policy(quick().retries(1)).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Failed).await;
    running.stop().await;
    let view = detail(&engine, id).await.view;
    assert_eq!((view.record.attempt, view.record.reason), (2, Some(TerminalReason::RetryExhausted)));
    assert!(view.last_failure.expect("evidence").message.contains("does not know kind `mystery`"));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_another_worker_knows_is_left_to_that_one() {
    // H10, F3: who does not know it may take any kind here, and must not use up the job's attempts.
    let config = Config::default().queue("default", QueueConfig::default().fail_unknown_kind());
    let engine = engine_with(config);
    let newer = NewWorker {
        id: backstop::worker_id(),
        name: "newer-1".to_owned(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: [KnownKind { kind: "mystery".into(), version: 1 }].into(),
        lease: Duration::from_secs(3_600),
    };
    let newer_id = newer.id;
    engine.store().enlist(newer).await.expect("the model is there");
    let id =
        engine.enqueue_raw("mystery", "{}").policy(quick().retries(0)).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    pass(20).await;
    let runs = ledger(&engine, id).await;
    assert!(!runs.is_empty() && runs.iter().all(|run| run.cause == Cause::UnknownKind), "{runs:?}");
    let record = detail(&engine, id).await.view.record;
    assert_eq!((record.state, record.attempt), (State::Pending, 0), "uncharged");
    engine.store().retire(newer_id).await.expect("the model is there");
    reach(&engine, id, State::Failed).await;
    let last = ledger(&engine, id).await.pop().expect("it ran");
    assert_eq!(last.cause, Cause::Error, "now nobody knows it");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_allow_list_is_asked_again_before_a_run() {
    // E8: the job was submitted by an engine with another configuration.
    let store = model();
    let lenient = Backstop::on(store.clone(), Config::default());
    let id = lenient.enqueue(act(&["ok"])).policy(quick().retries(0)).submit().await.expect("admitted").id;
    let strict = Config::default().queue("default", QueueConfig::default().allow(["other"]));
    let engine = Backstop::on(store, strict);
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Failed).await;
    running.stop().await;
    assert_eq!(ledger(&engine, id).await[0].cause, Cause::NotAllowed);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_start_in_time_fails_as_expired() {
    // L19: one on a served queue, one on a queue that nobody serves.
    let engine = engine();
    let served = engine.enqueue(act(&["ok"])).max_wait(Duration::from_secs(5));
    let served = served.submit().await.expect("admitted").id;
    let lonely = engine.enqueue(act(&["ok"])).queue("lonely").max_wait(Duration::from_secs(5));
    let lonely = lonely.submit().await.expect("admitted").id;
    tokio::time::advance(Duration::from_secs(6)).await;
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, served, State::Failed).await;
    reach(&engine, lonely, State::Failed).await;
    running.stop().await;
    let record = detail(&engine, lonely).await.view.record;
    assert_eq!((record.reason, record.runs), (Some(TerminalReason::Expired), 0));
}

/// A job with a queue of its own.
#[derive(Serialize, Deserialize)]
struct Report;

impl Job for Report {
    const KIND: &'static str = "report";
    type Context = std::sync::Arc<App>;
    type Output = JobResult;
    fn defaults() -> Defaults {
        Defaults::default().queue("reports")
    }
    async fn run(self, _: JobContext<Self::Context>) -> JobResult {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_knows_the_queues_of_its_kinds_that_it_does_not_serve() {
    let engine = engine();
    assert!(worker(&engine).unserved().is_empty());
    let unserved = worker(&engine).register::<Report>().unserved();
    let named: Vec<_> = unserved.iter().map(|(queue, kinds)| (*queue, kinds.len())).collect();
    assert_eq!(named, [("reports", 1)]);
    assert!(worker(&engine).register::<Report>().queue("reports", 1).unserved().is_empty());
    assert_eq!(worker(&engine).register::<Report>().queue("reports", 0).unserved().len(), 1);
}

/// A store in which somebody else has every due job in hand: a look sees them, a claim gets none.
struct HeldElsewhere {
    inner: Arc<dyn Store>,
    held: AtomicBool,
    claims: AtomicU32,
}

impl backstop_store::Layer for HeldElsewhere {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        if self.held.load(Ordering::SeqCst) {
            let nothing = Claimed::nothing(Timestamp::EPOCH);
            return Box::pin(std::future::ready(Ok(nothing)));
        }
        self.inner.claim(claim)
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_somebody_else_has_in_hand_is_asked_for_ever_more_seldom() {
    // L13
    let store =
        Arc::new(HeldElsewhere { inner: model(), held: AtomicBool::new(true), claims: AtomicU32::new(0) });
    let engine = Backstop::on(store.clone(), Config::default());
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    pass(60).await;
    let claims = store.claims.load(Ordering::SeqCst);
    assert!((2..100).contains(&claims), "{claims} claims in a minute");
    store.held.store(false, Ordering::SeqCst);
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
}

/// A job that ends when it is let go.
#[derive(Serialize, Deserialize)]
struct LetGo;

impl Job for LetGo {
    const KIND: &'static str = "let_go";
    type Context = Arc<Semaphore>;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Self::Context>) -> JobResult {
        cx.app().acquire().await?.forget();
        Ok(())
    }
}

/// A store that writes ends when it is let, and notes how many jobs claims have taken.
struct SlowEnds {
    inner: Arc<dyn Store>,
    writes: Semaphore,
    taken: Mutex<Vec<usize>>,
}

impl backstop_store::Layer for SlowEnds {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let claimed = self.inner.claim(claim).await?;
            self.taken.lock().expect("no panic").extend(Some(claimed.jobs.len()).filter(|jobs| *jobs > 0));
            Ok(claimed)
        })
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        Box::pin(async move {
            self.writes.acquire().await.expect("it is open").forget();
            self.inner.finish(endings).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_claim_waits_for_the_slots_whose_ends_are_being_written() {
    let store = SlowEnds { inner: model(), writes: Semaphore::new(0), taken: Mutex::default() };
    let store = Arc::new(store);
    let engine = Backstop::on(store.clone(), Config::default());
    for _ in 0..12 {
        engine.enqueue(LetGo).submit().await.expect("admitted");
    }
    let go = Arc::new(Semaphore::new(0));
    let worker = engine.worker(go.clone()).register::<LetGo>().queue("default", 4).without_maintenance();
    let running = worker.poll(Duration::from_secs(3_600)).start().await.expect("started");
    settle().await;
    // Two end and are being written; two end meanwhile; then the first two are durable.
    let first_two_of_four = async || {
        for _ in 0..2 {
            go.add_permits(2);
            settle().await;
        }
        store.writes.add_permits(1);
        settle().await;
    };
    let taken = || store.taken.lock().expect("no panic").clone();
    first_two_of_four().await;
    assert_eq!(taken(), [4], "two more are about to be free");
    store.writes.add_permits(1);
    settle().await;
    assert_eq!(taken(), [4, 4], "one claim fills them all");
    first_two_of_four().await;
    assert_eq!(taken(), [4, 4]);
    tokio::time::advance(Duration::from_millis(11)).await;
    settle().await;
    assert_eq!(taken(), [4, 4, 2], "a write that takes long holds up nobody");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn the_doctor_names_queues_that_nobody_serves() {
    let engine = engine();
    let queues = async || {
        let findings = engine.doctor().await.expect("the model is there");
        findings.into_iter().find(|finding| finding.subject == "queues").expect("it looks at them")
    };
    assert_eq!(queues().await.level, Level::Good);
    let blocked = engine.enqueue(act(&["until_canceled"])).submit().await.expect("admitted");
    engine.enqueue(act(&["ok"])).queue("lonely").submit().await.expect("admitted");
    let found = queues().await;
    assert_eq!(
        (found.level, found.message.as_str()),
        (Level::Warning, "no worker serves queue `default` (jobs to run: 1), `lonely` (jobs to run: 1)")
    );
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, blocked.id, State::Running).await;
    assert_eq!(queues().await.message, "no worker serves queue `lonely` (jobs to run: 1)");
    running.stop().await;
}
