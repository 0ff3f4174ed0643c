//! Stopping: finish within the grace period, hand the rest back without blame.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, Config, worker_id};
use backstop_core::job::State;
use backstop_store::Duty;

use tokio::sync::Notify;

use crate::fixture::*;
use crate::frail::{Before, Frail, Trouble};

#[tokio::test(start_paused = true)]
async fn running_work_may_finish_within_the_grace_period() {
    // L18
    let engine = engine();
    let id = engine.enqueue(act(&["until_canceled"])).submit().await.expect("admitted").id;
    let running = worker(&engine).grace(Duration::from_secs(60)).start().await.expect("started");
    reach(&engine, id, State::Running).await;
    let late = engine.enqueue(act(&["ok"]));
    let stopping = tokio::spawn(running.stop());
    settle().await;
    let late = late.submit().await.expect("admitted").id;
    pass(59).await;
    assert!(!stopping.is_finished(), "it waits for the run");
    assert_eq!(state(&engine, late).await, State::Pending, "and claims nothing more");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(stopping.await.expect("no panic").interrupted, 1);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_finish_is_handed_back_and_costs_no_attempt() {
    // L18
    let engine = engine();
    let policy = quick().retries(0);
    let id = engine.enqueue(act(&["hang", "ok"])).policy(policy).submit().await.expect("admitted").id;
    let first = worker(&engine).grace(Duration::from_secs(1)).start().await.expect("started");
    reach(&engine, id, State::Running).await;
    let stopped = first.stop().await;
    assert!(stopped.clean && stopped.interrupted == 1);
    assert_eq!(state(&engine, id).await, State::Pending);
    assert_eq!(ledger(&engine, id).await[0].cause, Cause::Interrupted);
    assert!(engine.workers().await.expect("the model is there").is_empty(), "it leaves nothing behind");
    let second = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    second.stop().await;
    assert_eq!(detail(&engine, id).await.view.record.attempt, 0);
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_the_grace_period_at_once() {
    // L18
    let engine = engine();
    let id = engine.enqueue(act(&["hang"])).submit().await.expect("admitted").id;
    let running = worker(&engine).grace(Duration::from_secs(3_600)).start().await.expect("started");
    reach(&engine, id, State::Running).await;
    let hurry = running.hurry();
    let asked = tokio::time::Instant::now();
    let stopping = tokio::spawn(running.stop());
    settle().await;
    hurry.cancel();
    assert_eq!(stopping.await.expect("no panic").interrupted, 1);
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(state(&engine, id).await, State::Pending);
}

#[tokio::test(start_paused = true)]
async fn prefetched_jobs_go_back_without_a_trace() {
    // L18, C2
    let engine = engine();
    for _ in 0..3 {
        engine.enqueue(act(&["hang"])).submit().await.expect("admitted");
    }
    let app = std::sync::Arc::new(App::default());
    let building = engine.worker(app).register::<Act>().queue("default", 1).prefetch(2);
    let running = building.grace(Duration::from_secs(1)).start().await.expect("started");
    pass(1).await;
    let queue = engine.queues().list().await.expect("the model is there").remove(0);
    assert_eq!((queue.running, running.running()), (3, 1), "three are held, one runs");
    running.stop().await;
    let queue = engine.queues().list().await.expect("the model is there").remove(0);
    assert_eq!((queue.running, queue.pending), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_lets_others_lead_at_once() {
    // L17, L18
    let store = model();
    let engine = Backstop::on(store.clone(), Config::default());
    let running = worker(&engine).start().await.expect("started");
    settle().await;
    let node = worker_id();
    let leads = async || {
        let terms = store.lead(node, vec![Duty::Rescue], Duration::from_secs(1)).await;
        terms.expect("the model is there")[0].is_some()
    };
    assert!(!leads().await, "the worker does");
    running.stop().await;
    assert!(leads().await);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_claim_that_is_under_way() {
    // L18: its jobs would be left to the lease, and count as crashed.
    let (store, gate) = (model(), Arc::new(Notify::new()));
    let engine = Backstop::on(store.clone(), Config::default());
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let opened = gate.clone();
    let before: Before = Box::new(move || {
        let gate = opened.clone();
        Box::pin(async move { gate.notified().await })
    });
    // The worker enlists, looks, and claims.
    let slow = Frail::new(store, 3, Trouble::Overtaken(before));
    let slow_engine = Backstop::on(slow.clone(), Config::default());
    let running = worker(&slow_engine).without_maintenance().start().await.expect("started");
    settle().await;
    assert!(slow.has_struck(), "it claims");
    let stopping = tokio::spawn(running.stop());
    settle().await;
    assert!(!stopping.is_finished(), "the claim is under way");
    gate.notify_one();
    assert!(stopping.await.expect("no panic").clean);
    assert_eq!(state(&engine, id).await, State::Succeeded);
}
