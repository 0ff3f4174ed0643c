//! Leases: cancels that reach running handlers, workers that go silent, endings that come too late.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, Config};
use backstop_core::job::State;

use crate::fixture::*;
use crate::frail::{Frail, Trouble};

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_running_handler_and_its_result_is_discarded() {
    // L7
    let engine = engine();
    let id = engine.enqueue(act(&["until_canceled"])).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Running).await;
    assert!(engine.cancel(id, "changed my mind").await.expect("it runs").changed);
    assert_eq!(state(&engine, id).await, State::Canceled, "at once in the store");
    settle().await;
    assert_eq!(running.running(), 0, "the handler saw its token");
    running.stop().await;
    let rows = ledger(&engine, id).await;
    assert_eq!((rows.len(), rows[0].cause), (1, Cause::Canceled));
    assert!(!engine.cancel(id, "again").await.expect("it is there").changed);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_from_elsewhere_is_seen_within_a_second() {
    // L7
    let store = model();
    let engine = Backstop::on(store.clone(), Config::default());
    let id = engine.enqueue(act(&["until_canceled"])).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Running).await;
    let operation = backstop_core::job::Operation::Cancel { reason: "from another node".into() };
    store.operate(vec![id], operation).await.expect("the model is there");
    tokio::time::advance(Duration::from_millis(1_100)).await;
    settle().await;
    assert_eq!(running.running(), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_workers_run_is_a_crash_found_within_one_lease_by_another() {
    // L15, C1, C5
    let engine = engine();
    let id =
        engine.enqueue(act(&["hang", "ok"])).policy(quick().retries(0)).submit().await.expect("admitted").id;
    let doomed =
        worker(&engine).without_maintenance().lease(Duration::from_secs(30)).start().await.expect("started");
    reach(&engine, id, State::Running).await;
    let other = worker(&engine).lease(Duration::from_secs(30)).start().await.expect("started");
    let died = tokio::time::Instant::now();
    drop(doomed);
    reach(&engine, id, State::Succeeded).await;
    assert!(died.elapsed() <= Duration::from_secs(30 + 2), "{:?}", died.elapsed());
    other.stop().await;
    let rows = ledger(&engine, id).await;
    assert_eq!(rows.iter().map(|row| row.cause).collect::<Vec<_>>(), [Cause::Crash, Cause::Succeeded]);
    let record = detail(&engine, id).await.view.record;
    assert_eq!((record.crashes, record.attempt, record.runs), (1, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn prefetched_jobs_of_a_dead_worker_return_with_no_blame() {
    // L15, C2
    let engine = engine();
    let mut ids = Vec::new();
    for script in [&["hang", "ok"][..], &["ok"], &["ok"]] {
        ids.push(engine.enqueue(act(script)).policy(quick()).submit().await.expect("admitted").id);
    }
    let app = Arc::new(App::default());
    let building = engine.worker(app.clone()).register::<Act>().queue("default", 1).prefetch(2);
    let doomed = building.without_maintenance().start().await.expect("started");
    pass(1).await;
    assert_eq!(app.starts.load(Ordering::SeqCst), 1);
    drop(doomed);
    let other = worker(&engine).start().await.expect("started");
    reach(&engine, ids[0], State::Succeeded).await;
    pass(1).await;
    let crashes: Vec<u32> = {
        let mut crashes = Vec::new();
        for id in &ids {
            crashes.push(detail(&engine, *id).await.view.record.crashes);
        }
        crashes
    };
    assert_eq!(crashes, [1, 0, 0], "only the one that had started is a suspect");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_job_dies_after_exactly_its_crash_budget() {
    // C1: ten crashes are forgiven by default, so eleven starts.
    let engine = engine();
    let id = engine.enqueue(act(&["hang"])).policy(quick()).submit().await.expect("admitted").id;
    let caretaker = engine.worker(Arc::new(App::default())).register::<Act>().queue("elsewhere", 1);
    let caretaker = caretaker.lease(Duration::from_secs(3)).start().await.expect("started");
    let mut starts = 0;
    while state(&engine, id).await != State::Failed {
        let doomed = worker(&engine)
            .without_maintenance()
            .lease(Duration::from_secs(3))
            .start()
            .await
            .expect("started");
        reach(&engine, id, State::Running).await;
        starts += 1;
        drop(doomed);
        for _ in 0..1_000 {
            if state(&engine, id).await != State::Running {
                break;
            }
            tokio::time::advance(Duration::from_millis(100)).await;
            settle().await;
        }
    }
    caretaker.stop().await;
    let record = detail(&engine, id).await.view.record;
    assert_eq!((starts, record.runs, record.crashes), (11, 11, 11));
    assert_eq!(record.reason, Some(backstop::TerminalReason::Poisoned));
}

#[tokio::test(start_paused = true)]
async fn what_a_claim_took_whose_answer_was_lost_is_handed_back() {
    // L15, F17: the worker renews its lease, so nobody else would ever take it.
    let store = model();
    let engine = Backstop::on(store.clone(), Config::default());
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    // The worker enlists, looks, reads who takes messages, and claims.
    let forgetful = Frail::new(store, 4, Trouble::Forgotten);
    let forgetful_engine = Backstop::on(forgetful.clone(), Config::default());
    let running = worker(&forgetful_engine).without_maintenance().start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    assert!(forgetful.has_struck());
    running.stop().await;
    let causes: Vec<Cause> = ledger(&engine, id).await.iter().map(|run| run.cause).collect();
    assert_eq!(causes, [Cause::Interrupted, Cause::Succeeded]);
    let record = detail(&engine, id).await.view.record;
    assert_eq!((record.attempt, record.crashes), (0, 0), "nobody is to blame");
}
