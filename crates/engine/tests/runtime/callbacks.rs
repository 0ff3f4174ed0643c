//! Callbacks and hooks: around a run and after its final outcome, never changing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop::prelude::*;
use backstop::{Hook, HookFuture, JobId, ParentEnd, RunEnd, RunInfo};
use backstop_core::failure::Cause;
use backstop_core::job::State;
use backstop_store::{JobFilter, PageRequest};

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

    fn after_run<'a>(&'a self, _: &'a RunInfo, _: &'a RunEnd) -> HookFuture<'a> {
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

/// How a run ended, and with which result.
type Seen = (Cause, Option<serde_json::Value>);

/// Refuses the first run of a kind at no cost, and keeps what it sees of every end.
#[derive(Clone, Default)]
struct Gate {
    refused: Arc<AtomicU32>,
    seen: Arc<std::sync::Mutex<Vec<Seen>>>,
}

impl Hook for Gate {
    fn before_run<'a>(&'a self, _: &'a RunInfo) -> HookFuture<'a> {
        Box::pin(async move {
            match self.refused.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Outcome::transient("licence server"))?,
                1 => Err(Outcome::snooze(std::time::Duration::from_millis(10)))?,
                _ => Ok(()),
            }
        })
    }

    fn after_run<'a>(&'a self, _: &'a RunInfo, end: &'a RunEnd) -> HookFuture<'a> {
        self.seen.lock().expect("no panic").push((end.cause, end.result.clone()));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A kind that the gate is not for.
#[derive(Serialize, Deserialize)]
struct Other;

impl Job for Other {
    const KIND: &'static str = "other";
    type Context = Arc<App>;
    type Output = JobResult;

    async fn run(self, _: JobContext<Arc<App>>) -> JobResult {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn before_run_can_refuse_at_no_cost_and_hooks_of_a_kind_see_the_result() {
    // F14, F16
    let engine = engine();
    let gate = Gate::default();
    let policy = quick().retries(0);
    let id = engine.enqueue(act(&["ok"])).policy(policy).submit().await.expect("admitted").id;
    let other = engine.enqueue(Other).submit().await.expect("admitted").id;
    let both = worker(&engine).register::<Other>().hook_for::<Act>(gate.clone());
    let running = both.start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    reach(&engine, other, State::Succeeded).await;
    running.stop().await;
    let view = detail(&engine, id).await;
    let causes: Vec<_> = ledger(&engine, id).await.iter().map(|run| run.cause).collect();
    assert_eq!(causes, [Cause::Rejected, Cause::Snoozed, Cause::Succeeded], "what an outcome says counts");
    assert_eq!(view.view.record.attempt, 0, "and costs nothing");
    let seen = gate.seen.lock().expect("no panic").clone();
    assert_eq!(seen.iter().map(|(cause, _)| *cause).collect::<Vec<_>>(), causes, "of its own kind only");
    let kept = view.view.result.map(|result| serde_json::from_str(&result).expect("JSON"));
    assert_eq!(seen[2].1, kept);
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_told_how_its_parent_ended() {
    // F14
    let engine = engine();
    let running = worker(&engine).start().await.expect("started");
    let fired = async |script: &[&str], role: &str| {
        let both =
            engine.enqueue(act(script)).policy(quick().retries(1)).params(serde_json::json!({ "shop": "a" }));
        let id = both.on_success(act(&["ok"])).on_failure(act(&["ok"])).submit().await.expect("admitted").id;
        let ended = if role == "on_success" { State::Succeeded } else { State::Failed };
        reach(&engine, id, ended).await;
        let view = detail(&engine, id.callback(role, 0)).await.view;
        let end: ParentEnd =
            serde_json::from_str(view.job.spec.params.as_deref().expect("params")).expect("an end");
        assert_eq!((end.id, end.kind.as_str(), end.role.as_str()), (id, "act", role));
        assert_eq!(end.params, Some(serde_json::json!({ "shop": "a" })));
        assert!(end.payload.is_some());
        (end, result(&engine, id).await)
    };
    let (end, kept) = fired(&["ok"], "on_success").await;
    assert_eq!((end.attempts, end.reason, end.result), (1, None, kept));
    let (end, _) = fired(&["error"], "on_failure").await;
    assert_eq!((end.attempts, end.reason.as_deref()), (2, Some("retry_exhausted")));
    let error = end.error.expect("the sanitized error");
    assert!(!error.message.is_empty() && !error.error_type.is_empty(), "{error:?}");
    running.stop().await;
}

async fn result(engine: &Backstop, id: JobId) -> Option<serde_json::Value> {
    detail(engine, id).await.view.result.map(|result| serde_json::from_str(&result).expect("JSON"))
}
