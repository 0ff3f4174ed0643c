//! A process that dies at every call to its store: nothing is lost, and nothing happens twice that must not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, Config, State};
use backstop_store::{Error, PageRequest};
use backstop_testing::{CrashAt, TestEngine, crash_everywhere};

#[derive(Serialize, Deserialize)]
struct Step {
    number: u32,
}

impl Job for Step {
    const KIND: &'static str = "step";
    type Context = Arc<AtomicU32>;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Arc<AtomicU32>>) -> JobResult {
        cx.app().fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Submits two jobs and runs what is due.
async fn scenario(engine: &Backstop, effects: &Arc<AtomicU32>) -> JobResult {
    for number in 1..=2 {
        engine.enqueue(Step { number }).idempotency_key(format!("step-{number}")).submit().await?;
    }
    engine.worker(effects.clone()).register::<Step>().queue("default", 1).inline()?.drain(2).await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_lost_wherever_the_process_dies() {
    // C6, L5, L10, L15
    let effects = Arc::new(AtomicU32::new(0));
    let crashes = crash_everywhere(
        async |engine: Backstop| {
            effects.store(0, Ordering::SeqCst);
            scenario(&engine, &effects).await
        },
        async |test, point| {
            // The client that saw an error submits again.
            for number in 1..=2 {
                let job = test.engine().enqueue(Step { number }).idempotency_key(format!("step-{number}"));
                job.submit().await.expect("the model is there");
            }
            test.run_to_end(effects.clone(), |worker| worker.register::<Step>()).await;
            let queue = test.engine().queues().list().await.expect("the model is there").remove(0);
            assert_eq!(
                (queue.succeeded, queue.pending, queue.running, queue.failed),
                (2, 0, 0, 0),
                "{point}"
            );
            assert!((2..=3).contains(&effects.load(Ordering::SeqCst)), "{point}");
        },
    )
    .await;
    // Two submits, then enlist, look at limits, claim, finish and retire for each job; every one of them twice.
    assert_eq!(crashes, 2 * (2 + 2 * 5));
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_the_write_is_there() {
    let test = TestEngine::new();
    let store = CrashAt::after(test.store(), 1);
    let doomed = Backstop::on(Arc::new(store.clone()), Config::default());
    let effects = Arc::new(AtomicU32::new(0));
    assert!(!store.has_crashed());
    let submit = |number| doomed.enqueue(Step { number }).submit();
    assert_eq!(submit(1).await.expect_err("the answer is lost").code(), "outcome_unknown");
    assert_eq!(submit(2).await.expect_err("the process is dead").code(), "store_unavailable");
    assert!(store.has_crashed() && store.calls() == 2);
    assert!(matches!(doomed.store().now().await, Err(Error::Unavailable { .. })));
    assert_eq!(test.drain(effects, |worker| worker.register::<Step>()).await.len(), 1);
}

#[tokio::test]
async fn a_call_that_is_not_made_leaves_nothing() {
    let test = TestEngine::new();
    let doomed = Backstop::on(Arc::new(CrashAt::new(test.store(), 1)), Config::default());
    doomed.enqueue(Step { number: 1 }).submit().await.expect_err("the process is dead");
    assert_eq!(test.advance_to_next().await, None);
}

#[tokio::test]
async fn a_run_whose_process_died_is_a_crash() {
    // C1, C5
    let mut test = TestEngine::new();
    let doomed = Backstop::on(Arc::new(CrashAt::new(test.store(), 5)), Config::default());
    let id = doomed.enqueue(Step { number: 1 }).submit().await.expect("call 1").id;
    let effects = Arc::new(AtomicU32::new(0));
    let worker = doomed.worker(effects.clone()).register::<Step>().queue("default", 1);
    worker.inline().expect("it has a queue").run_next().await.expect_err("finish is call 5");
    test.restart();
    test.maintain().await;
    assert_eq!(test.advance_to_next().await, None, "the lease has not run out yet");
    test.advance(Duration::from_secs(3_600));
    test.maintain().await;
    test.run_to_end(effects.clone(), |worker| worker.register::<Step>()).await;
    let ledger = test.engine().attempts(id, PageRequest::first(10)).await.expect("the model is there").items;
    let causes: Vec<_> = ledger.iter().rev().map(|run| run.cause).collect();
    assert_eq!(causes, [Cause::Crash, Cause::Succeeded]);
    assert_eq!(effects.load(Ordering::SeqCst), 2);
    let job = test.engine().job(id).await.expect("the model is there").expect("stored");
    assert_eq!(job.view.state(), State::Succeeded);
}
