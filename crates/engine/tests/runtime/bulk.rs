//! Bulk kinds in a running worker, in paused time: who is called together, and what becomes of calls that fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop::bulk::{BulkContext, BulkItem, BulkJob};
use backstop::limits::RunLimit;
use backstop::prelude::*;
use backstop::{Cause, Config, EventKind, Isolation, IsolationSettings, JobId, WorkerBuilder};
use backstop_core::job::State;
use tokio::sync::Notify;

use crate::fixture::{detail, engine, engine_with, ledger, pass, quick, reach, settle, state};
use crate::post::{Desk, Post, post};

fn worker(engine: &Backstop, desk: &Arc<Desk>, slots: usize) -> WorkerBuilder<Desk> {
    engine.worker_sharing(desk.clone()).register::<Post>().queue("default", slots)
}

async fn submit(engine: &Backstop, does: &[&[&str]], policy: Policy) -> Vec<JobId> {
    let mut ids = Vec::new();
    for (place, does) in does.iter().enumerate() {
        let job = engine.enqueue(post(place, does)).policy(policy.clone());
        ids.push(job.submit().await.expect("admitted").id);
    }
    ids
}

/// What each job has come to: its state, its causes, and what it was charged.
async fn ends(engine: &Backstop, ids: &[JobId]) -> Vec<(State, Vec<Cause>, u32)> {
    let mut ends = Vec::new();
    for id in ids {
        let record = detail(engine, *id).await.view.record;
        let causes = ledger(engine, *id).await.iter().map(|run| run.cause).collect();
        ends.push((record.state, causes, record.attempt));
    }
    ends
}

fn done() -> (State, Vec<Cause>, u32) {
    (State::Succeeded, vec![Cause::Succeeded], 0)
}

#[tokio::test(start_paused = true)]
async fn a_full_call_begins_at_once_and_the_others_wait_for_more() {
    // W12
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let ids = submit(&engine, &[&["ok"][..]; 20], quick()).await;
    let running = worker(&engine, &desk, 100).start().await.expect("started");
    settle().await;
    assert_eq!(desk.sizes(), [16], "nobody waits for a call that is full");
    tokio::time::advance(Duration::from_millis(100)).await;
    settle().await;
    let late = engine.enqueue(post("late", &["ok"])).submit().await.expect("admitted").id;
    settle().await;
    assert_eq!(desk.sizes(), [16], "the rest waits for others");
    tokio::time::advance(Duration::from_millis(101)).await;
    settle().await;
    assert_eq!(desk.sizes(), [16, 5], "one came, and 200 ms after the first of them they were called");
    reach(&engine, late, State::Succeeded).await;
    running.stop().await;
    for (place, end) in ends(&engine, &ids).await.into_iter().enumerate() {
        assert_eq!(end, done(), "{place}");
    }
    let run = ledger(&engine, ids[7]).await.remove(0);
    assert_eq!(run.output.as_deref(), Some("run 1 does ok\n"), "what is said of a job is kept with its run");
    assert_eq!(detail(&engine, ids[7]).await.view.result.as_deref(), Some("\"7\""));
}

#[tokio::test(start_paused = true)]
async fn a_call_has_no_more_jobs_than_there_are_slots_and_limits_allow_and_nobody_waits_for_them() {
    // W12, H5
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    submit(&engine, &[&["waits"][..]; 10], quick()).await;
    let running = worker(&engine, &desk, 4).start().await.expect("started");
    settle().await;
    assert_eq!((desk.sizes(), running.running()), (vec![4], 4));
    desk.permits.add_permits(1_000);
    pass(3).await;
    running.stop().await;
    assert_eq!(desk.sizes(), [4, 4, 2]);

    let (engine, desk) = (engine_with(Config::default()), Arc::new(Desk::default()));
    let limit = RunLimit { concurrency: Some(3), ..RunLimit::of_queue("default") };
    engine.limits().set(limit).await.expect("a limit");
    submit(&engine, &[&["waits"][..]; 7], quick()).await;
    let running = worker(&engine, &desk, 100).start().await.expect("started");
    pass(3).await;
    assert_eq!((desk.sizes(), running.running()), (vec![3], 3), "a limit of three runs at once");
    desk.permits.add_permits(1_000);
    pass(10).await;
    running.stop().await;
    assert!(desk.sizes().iter().all(|size| *size <= 3), "{:?}", desk.sizes());
    assert_eq!(desk.sizes().iter().sum::<usize>(), 7);
}

#[tokio::test(start_paused = true)]
async fn other_kinds_of_the_queue_have_their_turn() {
    // W12, L3
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let bulk = submit(&engine, &[&["ok"][..]; 40], quick()).await;
    let building = engine.worker_sharing(desk.clone()).register::<Post>();
    let building = building.register_without_context::<Other>().queue("default", 4);
    let other = engine.enqueue(Other {}).submit().await.expect("admitted").id;
    let last = submit(&engine, &[&["ok"][..]; 40], quick()).await;
    let running = building.start().await.expect("started");
    reach(&engine, other, State::Succeeded).await;
    let before = desk.sizes().iter().sum::<usize>();
    assert!((36..=44).contains(&before), "in the order of the claims: after {before} of 80");
    reach(&engine, last[39], State::Succeeded).await;
    running.stop().await;
    assert_eq!(ends(&engine, &bulk).await, vec![done(); 40]);
}

#[derive(Serialize, Deserialize)]
struct Other {}

impl Job for Other {
    const KIND: &'static str = "other";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_is_split_until_the_bad_job_is_alone() {
    // W12, F3: whichever way a call fails, whichever of its jobs is to blame.
    let timed = quick().retries(0).timeout(Duration::from_secs(30));
    for (word, cause) in [("breaks", Cause::Error), ("panics", Cause::Panic), ("hangs", Cause::Timeout)] {
        for bad in [0, 6, 15] {
            let (engine, desk) = (engine(), Arc::new(Desk::default()));
            let mut does = [&["ok"][..]; 16];
            let bad_does = [word];
            does[bad] = &bad_does;
            let ids = submit(&engine, &does, timed.clone()).await;
            let running = worker(&engine, &desk, 16).start().await.expect("started");
            reach(&engine, ids[bad], State::Failed).await;
            for id in &ids {
                if *id != ids[bad] {
                    reach(&engine, *id, State::Succeeded).await;
                }
            }
            running.stop().await;
            let sizes = desk.sizes();
            assert!(sizes.len() <= 1 + 2 * 4, "{word} {bad}: {sizes:?}");
            for (place, end) in ends(&engine, &ids).await.into_iter().enumerate() {
                let expected = if place == bad { (State::Failed, vec![cause], 1) } else { done() };
                assert_eq!(end, expected, "{word}: job {place}, {bad} is bad");
            }
            let alone = desk.calls().into_iter().filter(|call| call.len() == 1 && call[0] == bad.to_string());
            assert_eq!(alone.count(), 1, "it is blamed for what it did alone, once");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_before_a_call_failed_is_not_called_again() {
    // W12
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let does = [
        &["early"][..],
        &["ok"],
        &["breaks", "ok"],
        &["early"],
        &["ok"],
        &["breaks", "ok"],
        &["error", "ok"],
    ];
    let ids = submit(&engine, &does, quick()).await;
    let running = worker(&engine, &desk, 7).start().await.expect("started");
    for id in &ids {
        reach(&engine, *id, State::Succeeded).await;
    }
    running.stop().await;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    desk.calls().into_iter().flatten().for_each(|name| *seen.entry(name).or_default() += 1);
    assert_eq!((seen["0"], seen["3"]), (1, 1), "{:?}", desk.calls());
    let twice = (State::Succeeded, vec![Cause::Error, Cause::Succeeded], 1);
    let ends = ends(&engine, &ids).await;
    assert_eq!(ends, [done(), done(), twice.clone(), done(), done(), twice.clone(), twice]);
    let failure = ledger(&engine, ids[2]).await.remove(0).failure.expect("it failed");
    assert_eq!(failure.message, "a bad row");
}

#[tokio::test(start_paused = true)]
async fn a_job_without_an_answer_has_failed_alone() {
    // W12
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let does = [&["ok"][..], &["silent"], &["ok"], &["silent", "ok"]];
    let ids = submit(&engine, &does, quick().retries(1)).await;
    let running = worker(&engine, &desk, 4).start().await.expect("started");
    reach(&engine, ids[1], State::Failed).await;
    reach(&engine, ids[3], State::Succeeded).await;
    running.stop().await;
    let ends = ends(&engine, &ids).await;
    assert_eq!((&ends[0], &ends[2]), (&done(), &done()));
    assert_eq!(ends[1].1, [Cause::Error, Cause::Error]);
    assert_eq!(ends[3].1, [Cause::Error, Cause::Succeeded]);
    let failure = ledger(&engine, ids[1]).await.remove(0).failure.expect("it failed");
    assert_eq!(failure.error_type, "Unanswered");
    assert_eq!(failure.message, "the bulk handler returned without an answer for this job");
    assert_eq!(desk.sizes()[0], 4, "and nothing was called again for it");
    assert_eq!(desk.sizes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_is_away_is_no_jobs_fault() {
    // W12, H1
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let ids = submit(&engine, &[&["early"][..], &["ok"], &["away", "ok"], &["ok"]], quick().retries(0)).await;
    let running = worker(&engine, &desk, 4).start().await.expect("started");
    for id in &ids {
        reach(&engine, *id, State::Succeeded).await;
    }
    running.stop().await;
    assert_eq!(desk.sizes()[0], 4);
    assert_eq!(desk.sizes().iter().sum::<usize>(), 4 + 3, "one call found it out, and it was not made again");
    for (place, end) in ends(&engine, &ids).await.into_iter().enumerate() {
        let causes =
            if place == 0 { vec![Cause::Succeeded] } else { vec![Cause::Rejected, Cause::Succeeded] };
        assert_eq!(end, (State::Succeeded, causes, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_handled_is_in_no_call() {
    // W12, E11
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let good = submit(&engine, &[&["ok"][..]; 2], quick()).await;
    let nameless = engine.enqueue(post("", &["ok"])).submit().await.expect("admitted").id;
    let broken = engine.enqueue_raw("post", r#"{"name":7}"#).submit().await.expect("admitted").id;
    let running = worker(&engine, &desk, 4).start().await.expect("started");
    for id in [nameless, broken] {
        reach(&engine, id, State::Failed).await;
        assert_eq!(ledger(&engine, id).await[0].cause, Cause::Invalid);
    }
    running.stop().await;
    assert_eq!(desk.calls(), [["0", "1"]]);
    assert_eq!(ends(&engine, &good).await, [done(), done()]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_one_job_reaches_that_job_and_no_other() {
    // W12, L7
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let ids = submit(&engine, &[&["ok"][..], &["waits"], &["ok"]], quick()).await;
    let running = worker(&engine, &desk, 3).start().await.expect("started");
    settle().await;
    assert_eq!(desk.sizes(), [3]);
    assert!(engine.cancel(ids[0], "changed my mind").await.expect("it runs").changed);
    pass(3).await;
    assert_eq!(running.running(), 2, "the others go on");
    let more = engine.enqueue(post("more", &["ok"])).submit().await.expect("admitted").id;
    pass(3).await;
    assert_eq!(state(&engine, more).await, State::Pending, "its call still has its slot");
    desk.permits.add_permits(1);
    reach(&engine, more, State::Succeeded).await;
    running.stop().await;
    assert_eq!(*desk.told.lock().expect("no panic"), ["0"]);
    let ends = ends(&engine, &ids).await;
    assert_eq!(ends, [(State::Canceled, vec![Cause::Canceled], 0), done(), done()]);
    assert_eq!(desk.calls(), [vec!["0", "1", "2"], vec!["more"]]);
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_for_as_long_as_a_call_takes_and_each_call_has_the_whole_time() {
    // W12, L15, F10: a call of 90 s, 9 leases; twice in one run, since the first call fails after it.
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let mut events = engine.events();
    let policy = quick().retries(0).timeout(Duration::from_secs(100));
    let ids = submit(&engine, &[&["waits"][..], &["breaks"]], policy).await;
    let running = worker(&engine, &desk, 2).lease(Duration::from_secs(10)).start().await.expect("started");
    for _ in 0..2 {
        pass(90).await;
        desk.permits.add_permits(1);
    }
    reach(&engine, ids[0], State::Succeeded).await;
    reach(&engine, ids[1], State::Failed).await;
    running.stop().await;
    assert_eq!(desk.calls(), [vec!["0", "1"], vec!["0"], vec!["1"]]);
    assert_eq!(ends(&engine, &ids).await, [done(), (State::Failed, vec![Cause::Error], 1)]);
    let mut near = 0;
    while let Some(event) = events.try_next() {
        near += usize::from(matches!(event.what, EventKind::TimeoutNear { .. }));
    }
    assert_eq!(near, 3, "both jobs of the first call, and the one that took long alone");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_lets_calls_finish_and_hands_the_rest_back() {
    // W12, L18
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let ids = submit(&engine, &[&["waits"][..], &["ok"]], quick()).await;
    let running = worker(&engine, &desk, 2).grace(Duration::from_secs(60)).start().await.expect("started");
    settle().await;
    let stopping = tokio::spawn(running.stop());
    pass(30).await;
    assert!(!stopping.is_finished(), "it waits for the call");
    desk.permits.add_permits(1);
    let stopped = stopping.await.expect("no panic");
    assert!(stopped.clean && stopped.interrupted == 0);
    assert_eq!(ends(&engine, &ids).await, [done(), done()]);

    let ids = submit(&engine, &[&["early"][..], &["hangs", "ok"], &["ok"]], quick().retries(0)).await;
    let running = worker(&engine, &desk, 3).grace(Duration::from_secs(1)).start().await.expect("started");
    settle().await;
    let stopped = running.stop().await;
    assert!(stopped.clean && stopped.interrupted == 2, "{stopped:?}");
    assert_eq!(desk.dropped.load(Ordering::SeqCst), 1, "the call is not left behind");
    let ends = ends(&engine, &ids).await;
    let back = (State::Pending, vec![Cause::Interrupted], 0);
    assert_eq!(ends, [done(), back.clone(), back]);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_jobs_of_a_call_run_alone_until_the_one_that_kills_is_known() {
    // W12, C3, C1: what dies with the worker here is a call that hangs when the worker is dropped.
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let ids = submit(&engine, &[&["ok"][..], &["hangs"], &["ok"], &["ok"]], quick().crashes(1)).await;
    let start = || worker(&engine, &desk, 4).without_maintenance().lease(Duration::from_secs(30)).start();
    let caretaker = engine.maintenance().start();
    let mut workers = 0;
    while state(&engine, ids[1]).await != State::Failed {
        let doomed = start().await.expect("started");
        workers += 1;
        assert!(workers <= 8, "{:?}", desk.calls());
        // Until it does nothing but hang.
        pass(10).await;
        drop(doomed);
        pass(40).await;
    }
    let last = start().await.expect("started");
    for id in [ids[0], ids[2], ids[3]] {
        reach(&engine, id, State::Succeeded).await;
    }
    last.stop().await;
    caretaker.stop().await;
    assert_eq!(desk.sizes()[0], 4, "they died together");
    assert!(desk.sizes()[1..].iter().all(|size| *size == 1), "and ran alone: {:?}", desk.calls());
    for id in [ids[0], ids[2], ids[3]] {
        let record = detail(&engine, id).await.view.record;
        assert_eq!((record.crashes, record.attempt), (1, 0), "none is charged for the second death");
    }
    assert_eq!(detail(&engine, ids[1]).await.view.record.crashes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_bulk_kind_that_is_to_be_isolated_is_refused_at_the_start() {
    // W12, E2
    let isolated = IsolationSettings::default().isolate(Isolation::AfterCrash);
    let engine = engine_with(Config::default().isolation("post", isolated));
    let started = worker(&engine, &Arc::new(Desk::default()), 4).start().await;
    let said = started.err().expect("refused").to_string();
    let expected = "kind `post` cannot be isolated: one call handles many of its jobs: remove `isolate`, or handle \
                    them one by one";
    assert_eq!(said, expected);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_waits_for_is_dropped_and_one_that_has_answered_all_is_not() {
    // W12, L7
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let ids = submit(&engine, &[&["hangs"][..], &["ok"]], quick()).await;
    let running = worker(&engine, &desk, 2).start().await.expect("started");
    settle().await;
    engine.cancel(ids[0], "changed my mind").await.expect("it runs");
    pass(5).await;
    assert_eq!((desk.dropped.load(Ordering::SeqCst), running.running()), (0, 1), "one is still waited for");
    engine.cancel(ids[1], "changed my mind").await.expect("it runs");
    pass(2).await;
    assert_eq!((desk.dropped.load(Ordering::SeqCst), running.running()), (1, 0));
    let ids = submit(&engine, &[&["tail"][..], &["ok"]], quick()).await;
    pass(1).await;
    assert_eq!(ends(&engine, &ids).await, [done(), done()], "answers count at once");
    assert_eq!(desk.tails.load(Ordering::SeqCst), 0);
    desk.permits.add_permits(1);
    pass(1).await;
    assert_eq!(desk.tails.load(Ordering::SeqCst), 1, "and the call goes on");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_may_take_as_long_as_the_shortest_timeout_in_it() {
    // W12, F10
    let (engine, desk) = (engine(), Arc::new(Desk::default()));
    let timed = |seconds| quick().retries(0).timeout(Duration::from_secs(seconds));
    let job = engine.enqueue(post("short", &["hangs"])).policy(timed(10));
    let short = job.submit().await.expect("admitted").id;
    let job = engine.enqueue(post("long", &["ok"])).policy(timed(1_000));
    let long = job.submit().await.expect("admitted").id;
    let running = worker(&engine, &desk, 2).start().await.expect("started");
    pass(25).await;
    running.stop().await;
    assert_eq!(ends(&engine, &[short, long]).await, [(State::Failed, vec![Cause::Timeout], 1), done()]);
    let failure = ledger(&engine, short).await.remove(0).failure.expect("it failed");
    assert_eq!(failure.message, "the run took longer than 10s");
}

/// Its first call leaves its jobs to a task, which answers them when a later call has them.
#[derive(Serialize, Deserialize)]
struct Stray {}

#[derive(Default)]
struct Strays {
    calls: AtomicUsize,
    later: Notify,
    answered: Notify,
}

impl BulkJob for Stray {
    const KIND: &'static str = "stray";
    type Context = Arc<Strays>;
    type Output = JobResult<&'static str>;

    async fn run(jobs: Vec<BulkItem<Self>>, cx: BulkContext<Arc<Strays>>) -> JobResult {
        let app = cx.app().clone();
        if app.calls.fetch_add(1, Ordering::SeqCst) == 0 {
            tokio::spawn(async move {
                app.later.notified().await;
                jobs.into_iter().for_each(|item| item.answer(Ok("too late")));
                app.answered.notify_waiters();
            });
            return Err("the first call fails".into());
        }
        let answered = app.answered.notified();
        app.later.notify_one();
        if app.calls.load(Ordering::SeqCst) == 2 {
            answered.await;
        }
        jobs.into_iter().for_each(|item| item.answer(Ok("in time")));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_call_answers_comes_too_late() {
    // W12, L5
    let (engine, app) = (engine(), Arc::new(Strays::default()));
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(engine.enqueue(Stray {}).submit().await.expect("admitted").id);
    }
    let running = engine.worker(app.clone()).register::<Stray>().queue("default", 2);
    let running = running.start().await.expect("started");
    for id in &ids {
        reach(&engine, *id, State::Succeeded).await;
        assert_eq!(detail(&engine, *id).await.view.result.as_deref(), Some("\"in time\""));
    }
    running.stop().await;
    assert_eq!(app.calls.load(Ordering::SeqCst), 3);
}
