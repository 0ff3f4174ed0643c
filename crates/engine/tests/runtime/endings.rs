//! Each way a run can end, through the whole worker.

use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, TerminalReason};
use backstop_core::job::State;

use crate::fixture::*;

async fn causes(engine: &Backstop, job: backstop::JobId) -> Vec<Cause> {
    ledger(engine, job).await.iter().map(|row| row.cause).collect()
}

#[tokio::test(start_paused = true)]
async fn a_success_keeps_its_result_times_and_output() {
    // L6, F15, E1
    let engine = engine();
    let id = play(&engine, &["ok"], quick(), State::Succeeded).await;
    let job = detail(&engine, id).await;
    assert_eq!(job.view.result.as_deref(), Some(r#"{"done":true}"#));
    let rows = ledger(&engine, id).await;
    assert_eq!((rows.len(), rows[0].cause, rows[0].number), (1, Cause::Succeeded, 1));
    assert!(rows[0].started_at >= rows[0].due_at && rows[0].finished_at >= rows[0].started_at);
    assert_eq!(rows[0].output.as_deref(), Some("run 1 does ok\n"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_leaves_the_job_succeeded_with_a_warning() {
    // L6
    let engine = engine();
    let id = play(&engine, &["huge"], quick(), State::Succeeded).await;
    let view = detail(&engine, id).await.view;
    assert_eq!(view.result, None);
    assert!(view.warning.expect("a warning").contains("the limit is 65536"));
}

#[tokio::test(start_paused = true)]
async fn an_error_is_retried_until_it_succeeds() {
    // F4
    let engine = engine();
    let id = play(&engine, &["error", "error", "ok"], quick(), State::Succeeded).await;
    assert_eq!(causes(&engine, id).await, [Cause::Error, Cause::Error, Cause::Succeeded]);
    assert_eq!(detail(&engine, id).await.view.record.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn n_retries_are_n_plus_one_runs() {
    // F5
    for retries in [0, 3] {
        let engine = engine();
        let id = play(&engine, &["error"], quick().retries(retries), State::Failed).await;
        let view = detail(&engine, id).await.view;
        assert_eq!(ledger(&engine, id).await.len(), retries as usize + 1);
        assert_eq!(view.record.reason, Some(TerminalReason::RetryExhausted));
        assert_eq!(view.last_failure.expect("evidence").message, "plain trouble");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failed_run_and_the_worker_goes_on() {
    // F1
    let engine = engine();
    let id = play(&engine, &["panic", "ok"], quick(), State::Succeeded).await;
    let rows = ledger(&engine, id).await;
    assert_eq!(rows[0].cause, Cause::Panic);
    assert_eq!(rows[0].failure.as_ref().expect("evidence").message, "out of cheese");
}

#[tokio::test(start_paused = true)]
async fn permanent_and_invalid_are_dead_at_once() {
    // F6, F16, E11: the fourth point is the handler itself.
    for (script, cause, reason) in [
        ("permanent", Cause::Permanent, TerminalReason::NonRetryable),
        ("invalid", Cause::Invalid, TerminalReason::Invalid),
    ] {
        let engine = engine();
        let id = play(&engine, &[script], quick().retries(9), State::Failed).await;
        assert_eq!(causes(&engine, id).await, [cause]);
        assert_eq!(detail(&engine, id).await.view.record.reason, Some(reason));
    }
}

#[tokio::test(start_paused = true)]
async fn snooze_and_transient_cost_no_attempt() {
    // F3, F16
    let engine = engine();
    let script = ["snooze", "transient", "snooze", "ok"];
    let id = play(&engine, &script, quick().retries(0), State::Succeeded).await;
    assert_eq!(
        causes(&engine, id).await,
        [Cause::Snoozed, Cause::Rejected, Cause::Snoozed, Cause::Succeeded]
    );
    let record = detail(&engine, id).await.view.record;
    assert_eq!((record.attempt, record.deferrals), (0, 3));
    let rows = ledger(&engine, id).await;
    assert_eq!(rows[1].due_at.since(rows[0].finished_at), Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn retry_in_wins_over_the_backoff() {
    // F9
    let engine = engine();
    let id = play(&engine, &["retry_in", "ok"], quick(), State::Succeeded).await;
    let rows = ledger(&engine, id).await;
    assert_eq!(rows[1].due_at.since(rows[0].finished_at), Duration::from_secs(1_234));
    assert_eq!(rows[0].cause, Cause::Error, "it costs an attempt");
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_call_its_own_job_off() {
    // F16
    let engine = engine();
    let id = play(&engine, &["cancel"], quick(), State::Canceled).await;
    assert_eq!(detail(&engine, id).await.view.record.cancel_reason.as_deref(), Some("no longer needed"));
}

#[tokio::test(start_paused = true)]
async fn a_reported_failure_is_a_result_and_no_incident() {
    // F16
    let engine = engine();
    let id = play(&engine, &["failure"], quick().retries(9), State::Failed).await;
    let view = detail(&engine, id).await.view;
    assert_eq!(view.record.reason, Some(TerminalReason::ReportedFailure));
    assert_eq!(view.result.as_deref(), Some(r#"{"declined":51}"#));
    assert!(engine.incidents().list(10).await.expect("the model is there").is_empty());
}

#[tokio::test(start_paused = true)]
async fn secrets_are_gone_before_anything_is_stored_or_told() {
    // F11
    let engine = engine();
    let mut events = engine.events();
    let id = play(&engine, &["leak", "leak_by_panic"], quick().retries(1), State::Failed).await;
    let rows = serde_json::to_string(&ledger(&engine, id).await).expect("plain");
    let told: Vec<_> = std::iter::from_fn(|| events.try_next()).collect();
    let told = serde_json::to_string(&told.iter().map(|event| &**event).collect::<Vec<_>>()).expect("plain");
    let incidents = serde_json::to_string(&engine.incidents().list(10).await.expect("the model is there"))
        .expect("plain");
    for text in [&rows, &told, &incidents] {
        assert!(!text.contains("hunter2") && !text.contains("sk_live"), "{text}");
        assert!(text.contains("db.example.com"), "the host stays readable: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_over_its_time_is_canceled_and_charged() {
    // F10
    let engine = engine();
    let mut events = engine.events();
    let policy = quick().timeout(Duration::from_secs(10));
    let id = play(&engine, &["hang", "ok"], policy, State::Succeeded).await;
    let rows = ledger(&engine, id).await;
    assert_eq!(rows[0].cause, Cause::Timeout);
    assert_eq!(rows[0].finished_at.since(rows[0].started_at).as_secs(), 10);
    // Longer than a handler may take to let go: one that was not canceled would be reported now.
    pass(60).await;
    let mut told = Vec::new();
    while let Some(event) = events.try_next() {
        told.push((event.what.name(), event.at.since(rows[0].started_at).as_secs()));
    }
    let of_time: Vec<_> = told.iter().filter(|(name, _)| name.contains("time") || *name == "stuck").collect();
    assert_eq!(
        of_time,
        [&("timeout_near", 8), &("timed_out", 10)],
        "a warning at 80 %, and the end: {told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_group_into_incidents_as_they_are_written() {
    // F12
    let engine = engine();
    play(&engine, &["error"], quick().retries(2), State::Failed).await;
    let incidents = engine.incidents().list(10).await.expect("the model is there");
    assert_eq!((incidents.len(), incidents[0].failures, incidents[0].dead), (1, 3, 1));
    assert_eq!(incidents[0].kind, "act");
}

#[derive(Serialize, Deserialize)]
struct Picky {
    amount: i64,
}

impl Job for Picky {
    const KIND: &'static str = "picky";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        Ok(())
    }

    fn validate(&self) -> Result<(), String> {
        if self.amount < 0 { Err("amount is negative".into()) } else { Ok(()) }
    }

    fn should_retry(_: u32, _: &backstop::Failure) -> bool {
        panic!("a policy that panics counts as yes")
    }
}

async fn picky(payload: &str) -> (Cause, State, String) {
    let engine = engine();
    let id = engine.enqueue_raw("picky", payload).submit().await.expect("it is JSON").id;
    let ran = engine.worker(()).register::<Picky>().queue("default", 1).inline().expect("a queue");
    ran.drain(10).await.expect("the model is there");
    let row = ledger(&engine, id).await.remove(0);
    (row.cause, state(&engine, id).await, row.failure.map_or_else(String::new, |failure| failure.message))
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_does_not_decode_or_validate_is_invalid() {
    // E11: the second and the third point.
    let (cause, state, message) = picky(r#"{"amount":"many"}"#).await;
    assert_eq!((cause, state), (Cause::Invalid, State::Failed));
    assert!(message.contains("the payload does not decode as picky"), "{message}");
    let (cause, state, message) = picky(r#"{"amount":-1}"#).await;
    assert_eq!((cause, state, message.as_str()), (Cause::Invalid, State::Failed, "amount is negative"));
    assert_eq!(picky(r#"{"amount":1}"#).await.1, State::Succeeded);
}

#[derive(Serialize, Deserialize)]
struct Stubborn;

impl Job for Stubborn {
    const KIND: &'static str = "stubborn";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        Err(Plain.into())
    }

    fn should_retry(attempt: u32, failure: &backstop::Failure) -> bool {
        assert_eq!(failure.message, "plain trouble");
        attempt < 3
    }

    fn delay(attempt: u32, _: &backstop::Failure) -> Option<Duration> {
        Some(Duration::from_secs(u64::from(attempt) * 100))
    }
}

#[tokio::test(start_paused = true)]
async fn the_retry_policy_decides_whether_and_when() {
    // F7
    let engine = engine();
    let id = engine.enqueue(Stubborn).max_retries(50).submit().await.expect("admitted").id;
    let running =
        engine.worker(()).register::<Stubborn>().queue("default", 1).start().await.expect("started");
    reach(&engine, id, State::Failed).await;
    running.stop().await;
    let rows = ledger(&engine, id).await;
    let waits: Vec<_> = rows.windows(2).map(|w| w[1].due_at.since(w[0].finished_at).as_secs()).collect();
    assert_eq!(waits, [100, 200]);
    assert_eq!(detail(&engine, id).await.view.record.reason, Some(TerminalReason::PolicyRejected));
}
