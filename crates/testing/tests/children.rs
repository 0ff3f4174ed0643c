//! Jobs that a handler submits: at once, with its completion, and in the transaction that completes it.

use backstop::prelude::*;
use backstop::{Cause, Config, JobId, State};
use backstop_store::{JobFilter, PageRequest};
use backstop_testing::{TestEngine, crash_everywhere};

/// Submits a note with its completion, and then does what it is told.
#[job]
async fn parent(cx: JobContext<()>, does: String) -> JobResult<Option<JobId>> {
    let note = cx.enqueue(Note { of: does.clone() });
    let child = match does.as_str() {
        "at once" => note.submit().await?.id,
        "with a key" => cx.submit_with_completion(note.idempotency_key("k")).await?,
        "with a business key" => cx.submit_with_completion(note.business_key("k")).await?,
        "replacing" => cx.submit_with_completion(note.replaces(cx.id())).await?,
        "too many" => {
            cx.submit_with_completion(note).await?;
            cx.submit_with_completion(cx.enqueue(Note { of: "2".into() })).await?;
            cx.submit_with_completion(cx.enqueue(Note { of: "3".into() })).await?
        }
        _ => cx.submit_with_completion(note).await?,
    };
    match (does.as_str(), cx.run_number()) {
        ("fail once", 1) => Err("not yet".into()),
        ("cancel itself", _) => {
            cx.engine().cancel(cx.id(), "changed my mind").await?;
            Ok(None)
        }
        ("give up", _) => Err(Outcome::failure("no"))?,
        ("snooze once", 1) => Err(Outcome::snooze(std::time::Duration::from_secs(60)))?,
        _ => Ok(Some(child)),
    }
}

#[job]
async fn note(cx: JobContext<()>, of: String) {
    cx.log(of);
}

async fn notes(engine: &Backstop) -> usize {
    let filter = JobFilter { kind: Some("note".into()), ..JobFilter::default() };
    engine.jobs(filter, PageRequest::first(100)).await.expect("memory is there").items.len()
}

async fn play(test: &TestEngine, does: &str) -> usize {
    let parent = test.engine().enqueue(Parent { does: does.to_owned() }).max_retries(2);
    parent.correlation_id("request 7").submit().await.expect("admitted");
    test.run_to_end((), |worker| worker.register::<Parent>().register::<Note>()).await;
    notes(test.engine()).await
}

#[tokio::test]
async fn a_child_comes_with_the_completion_and_with_nothing_else() {
    // L23
    for (does, expected) in [
        ("finish", 1),
        ("fail once", 1),
        ("snooze once", 1),
        ("at once", 1),
        ("give up", 0),
        ("cancel itself", 0),
    ] {
        assert_eq!(play(&TestEngine::new(), does).await, expected, "{does}");
    }
}

#[tokio::test]
async fn a_child_carries_the_marks_of_its_parent() {
    // L23
    let test = TestEngine::new();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let parent =
        test.engine().enqueue(Parent { does: "finish".into() }).correlation_id("c").trace_parent(trace);
    let parent = parent.submit().await.expect("admitted");
    test.run_to_end((), |worker| worker.register::<Parent>().register::<Note>()).await;
    let child = parent.result().await.expect("it succeeded").expect("it submits one");
    let spec = test.engine().job(child).await.expect("there").expect("stored").view.job.spec;
    assert_eq!(spec.correlation_id.as_deref(), Some("c"));
    assert_eq!(spec.trace().map(|trace| &**trace), Some(trace));
    assert_eq!(spec.callback_of, None, "a child is not a callback");
}

#[tokio::test]
async fn what_could_be_refused_later_is_refused_at_once() {
    // L23, L20
    let mut config = Config::default();
    config.limits.batch = 2;
    for (does, says) in [
        ("with a key", "idempotency_key is invalid"),
        ("with a business key", "business_key is invalid"),
        ("replacing", "replaces is invalid"),
        ("too many", "completion has 3 jobs, the limit is 2"),
    ] {
        let test = TestEngine::with_config(config.clone());
        let run = test.run_job((), Parent { does: does.to_owned() }).await;
        assert_eq!(run.cause, Cause::Error, "{does}");
        let error = run.error.unwrap_or_default();
        assert!(error.contains(says), "{does}: {error}");
    }
}

#[tokio::test]
async fn wherever_the_process_dies_there_is_one_child() {
    // L23, C6
    let crashes = crash_everywhere(
        async |engine: Backstop| -> JobResult {
            engine.enqueue(Parent { does: "finish".into() }).idempotency_key("once").submit().await?;
            let worker = engine.worker(()).register::<Parent>().register::<Note>();
            worker.queue("default", 1).inline()?.drain(5).await?;
            Ok(())
        },
        async |test, point| {
            let parent = test.engine().enqueue(Parent { does: "finish".into() }).idempotency_key("once");
            let parent = parent.submit().await.expect("admitted");
            test.run_to_end((), |worker| worker.register::<Parent>().register::<Note>()).await;
            let state = test.engine().job(parent.id).await.expect("there").expect("stored").view.state();
            assert_eq!((state, notes(test.engine()).await), (State::Succeeded, 1), "{point}");
        },
    )
    .await;
    assert!(crashes >= 10, "{crashes}");
}
