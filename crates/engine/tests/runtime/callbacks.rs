//! Callbacks and hooks: around a run and after its final outcome, never changing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop::core::failure::Cause;
use backstop::core::job::State;
use backstop::prelude::*;
use backstop::store::{JobFilter, PageRequest};
use backstop::{Hook, HookFuture, JobId, RunInfo};

use crate::fixture::*;

async fn callbacks_of(engine: &Backstop, parent: JobId) -> Vec<(State, Vec<String>)> {
    let all =
        engine.jobs(JobFilter::default(), PageRequest::first(100)).await.expect("the model is there").items;
    all.iter()
        .filter(|view| view.job.spec.callback_of == Some(parent))
        .map(|view| {
            let act: Act = serde_json::from_str(&view.job.spec.payload).expect("ours");
            (view.state(), act.script)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_a_job_of_its_own_after_the_final_outcome_only() {
    // F14
    let engine = engine();
    let enqueue = engine.enqueue(act(&["error", "ok"])).policy(quick());
    let id =
        enqueue.on_success(act(&["ok"])).on_failure(act(&["panic"])).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
    assert_eq!(callbacks_of(&engine, id).await.len(), 1, "the failed run in between fired nothing");
}

#[tokio::test(start_paused = true)]
async fn a_failing_callback_is_retried_told_and_changes_nothing() {
    // F14
    let engine = engine();
    let mut events = engine.events();
    let enqueue = engine.enqueue(act(&["permanent"])).on_failure(act(&["error", "ok"]));
    let id = enqueue.submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    reach(&engine, id, State::Failed).await;
    let callback = id.callback("on_failure", 0);
    reach(&engine, callback, State::Succeeded).await;
    running.stop().await;
    assert_eq!(state(&engine, id).await, State::Failed);
    let told = std::iter::from_fn(|| events.try_next()).any(|event| {
        event.what.name() == "callback_failed" && event.job.as_ref().is_some_and(|j| j.id == callback)
    });
    assert!(told);
}

#[derive(Default)]
struct Grumpy {
    before: AtomicU32,
    after: AtomicU32,
}

struct Around(Arc<Grumpy>);

impl Hook for Around {
    fn before_run<'a>(&'a self, run: &'a RunInfo) -> HookFuture<'a> {
        Box::pin(async move {
            let calls = self.0.before.fetch_add(1, Ordering::SeqCst);
            if calls == 0 { Err(format!("not before {}", run.job.spec.kind).into()) } else { Ok(()) }
        })
    }

    fn after_run<'a>(&'a self, _: &'a RunInfo, _: Cause) -> HookFuture<'a> {
        self.0.after.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { panic!("after the fact, password=hunter2") })
    }
}

#[tokio::test(start_paused = true)]
async fn before_run_failing_is_a_failed_run_and_after_run_failing_is_swallowed() {
    // F14
    let engine = engine();
    let mut events = engine.events();
    let grumpy = Arc::new(Grumpy::default());
    let id = engine.enqueue(act(&["ok"])).policy(quick()).submit().await.expect("admitted").id;
    let running = worker(&engine).hook(Around(grumpy.clone())).start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
    let rows = ledger(&engine, id).await;
    assert_eq!(rows[0].cause, Cause::Error);
    assert_eq!(rows[0].failure.as_ref().expect("evidence").message, "not before act");
    assert_eq!((rows.len(), grumpy.after.load(Ordering::SeqCst)), (2, 2));
    let told: Vec<_> = std::iter::from_fn(|| events.try_next()).collect();
    let failed = told.iter().find(|event| event.what.name() == "hook_failed").expect("it is reported");
    let told = serde_json::to_string(&**failed).expect("plain");
    // F11
    assert!(told.contains("after the fact") && !told.contains("hunter2"), "{told}");
}
