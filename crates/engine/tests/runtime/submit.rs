//! The submit builder: every option arrives, every refusal is typed and leaves nothing behind.

use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, Jitter, JobDefaults, QueueConfig, SubmitError, Timestamp};
use backstop_core::job::State;
use backstop_store::{JobFilter, PageRequest};

use crate::fixture::*;

async fn count(engine: &Backstop) -> usize {
    engine.jobs(JobFilter::default(), PageRequest::first(100)).await.expect("the model is there").items.len()
}

#[tokio::test(start_paused = true)]
async fn every_option_arrives() {
    // L19, L20, E1
    let engine = engine();
    let moment: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a moment");
    let id = engine
        .enqueue(act(&["ok"]))
        .queue("mail")
        .priority(Priority::High)
        .run_at(moment)
        .expires_at(moment.after(Duration::from_secs(60)))
        .max_retries(7)
        .max_crashes(2)
        .backoff(Backoff::fixed(Duration::from_secs(9)).with_jitter(Jitter::Equal))
        .timeout(Duration::from_secs(3))
        .idempotency_key("i")
        .business_key("b")
        .correlation_id("c")
        .tag("t1")
        .tag("t2")
        .params(serde_json::json!({ "a": 1 }))
        .on_success(act(&["ok"]))
        .on_failure(act(&["ok"]))
        .submit()
        .await
        .expect("admitted")
        .id;
    let view = detail(&engine, id).await.view;
    let (spec, record) = (&view.job.spec, &view.record);
    assert_eq!((&*spec.queue, spec.priority, record.run_at), ("mail", Priority::High, moment));
    assert_eq!(record.expires_at, Some(moment.after(Duration::from_secs(60))));
    assert_eq!((spec.policy.max_retries, spec.policy.max_crashes), (7, 2));
    assert_eq!(spec.policy.timeout, Some(Duration::from_secs(3)));
    assert_eq!(spec.tags, ["t1", "t2"]);
    assert_eq!(spec.params.as_deref(), Some(r#"{"a":1}"#));
    assert!(spec.on_success.is_some() && spec.on_failure.is_some());
    assert_eq!(spec.correlation_id.as_deref(), Some("c"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_submit_leaves_nothing_behind() {
    // L20, E10, L12
    let config = Config::default().queue("mail", QueueConfig::default().allow(["send_email"]));
    let engine = engine_with(config);
    let refused = |result: Result<backstop::JobHandle, SubmitError>| result.expect_err("refused").code();
    assert_eq!(refused(engine.enqueue_raw("act", "{").submit().await), "invalid");
    assert_eq!(refused(engine.enqueue_raw("", "{}").submit().await), "invalid");
    assert_eq!(refused(engine.enqueue(act(&["ok"])).queue("mail").submit().await), "kind_not_allowed");
    assert_eq!(refused(engine.enqueue(act(&["ok"])).tag("").submit().await), "invalid");
    assert_eq!(refused(engine.enqueue(act(&["ok"])).params(7).submit().await), "invalid");
    assert_eq!(count(&engine).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_all_or_nothing_unless_asked_otherwise() {
    // L20
    let engine = engine();
    let batch =
        || vec![engine.enqueue(act(&["ok"])), engine.enqueue_raw("", "{}"), engine.enqueue(act(&["ok"]))];
    let answers = engine.submit_all(batch(), true).await.expect("the model is there");
    let codes: Vec<_> = answers.iter().map(|a| a.as_ref().expect_err("refused").code()).collect();
    assert_eq!(codes, ["batch_refused", "invalid", "batch_refused"]);
    assert_eq!(count(&engine).await, 0);
    let answers = engine.submit_all(batch(), false).await.expect("the model is there");
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(count(&engine).await, 2);
}

#[tokio::test(start_paused = true)]
async fn the_limits_of_an_engine_hold_below_those_of_its_store() {
    // L20
    let mut config = Config::default();
    (config.limits.batch, config.limits.page) = (2, 2);
    let engine = engine_with(config);
    let batch = |jobs: usize| (0..jobs).map(|_| engine.enqueue(act(&["ok"]))).collect();
    assert_eq!(engine.submit_all(batch(3), false).await.expect_err("too many").code(), "too_large");
    assert_eq!(engine.submit_all(batch(2), false).await.expect("two").len(), 2);
    assert!(engine.jobs(JobFilter::default(), PageRequest::first(3)).await.is_err());
    assert_eq!(engine.jobs(JobFilter::default(), PageRequest::first(2)).await.expect("two").items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn defaults_come_from_kind_code_and_queue_in_this_order() {
    // L19
    let by_queue = Policy::default().retries(3);
    let by_kind = Policy::default().retries(4);
    let config =
        Config::default().queue("slow", QueueConfig::default().policy(by_queue)).kind("picked", by_kind);
    let engine = engine_with(config);
    let retries = async |enqueue: backstop::Enqueue| {
        let id = enqueue.submit().await.expect("admitted").id;
        detail(&engine, id).await.view.job.spec.policy.max_retries
    };
    assert_eq!(retries(engine.enqueue_raw("plain", "{}")).await, 5);
    assert_eq!(retries(engine.enqueue_raw("plain", "{}").queue("slow")).await, 3);
    assert_eq!(retries(engine.enqueue_raw("picked", "{}").queue("slow")).await, 4);
    assert_eq!(retries(engine.enqueue_raw("picked", "{}").max_retries(9).queue("slow")).await, 9);
}

#[tokio::test(start_paused = true)]
async fn every_default_is_merged_by_itself() {
    // L19: job over kind over queue over engine.
    let secs = Duration::from_secs;
    let queue = JobDefaults::default().retries(3).timeout(secs(60)).delay(secs(5)).expires_in(secs(100));
    let kind =
        JobDefaults { base: Some(secs(9)), ..JobDefaults::default() }.max_wait(secs(30)).delay(secs(7));
    let config = Config::default().queue("slow", QueueConfig::default().policy(queue)).kind("picked", kind);
    let engine = engine_with(config);
    let stored = async |enqueue: backstop::Enqueue| {
        let id = enqueue.queue("slow").submit().await.expect("admitted").id;
        detail(&engine, id).await.view
    };
    let view = stored(engine.enqueue_raw("picked", "{}").max_crashes(1)).await;
    let policy = &view.job.spec.policy;
    assert_eq!((policy.max_retries, policy.max_crashes, policy.timeout), (3, 1, Some(secs(60))));
    assert_eq!(
        (policy.backoff.base, policy.backoff.cap, policy.max_wait),
        (secs(9), secs(30), Some(secs(30)))
    );
    assert_eq!(view.job.created_at.until(view.record.run_at), secs(7), "the kind's delay");
    assert_eq!(view.job.spec.expires_at, Some(view.record.run_at.after(secs(100))), "the queue's expiry");
    let moment: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a moment");
    let own = engine.enqueue_raw("picked", "{}").run_at(moment).expires_at(moment.after(secs(1)));
    let view = stored(own).await;
    assert_eq!((view.record.run_at, view.job.spec.expires_at), (moment, Some(moment.after(secs(1)))));
    let whole = stored(engine.enqueue_raw("picked", "{}").policy(Policy::default().retries(1))).await;
    assert_eq!(whole.job.spec.policy, Policy::default().retries(1), "a policy is brought as a whole");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_store_is_one_clear_sentence() {
    // E10
    let message = |url: &str| {
        let url = url.to_owned();
        async move { Backstop::open(&url).await.expect_err("no such store").to_string() }
    };
    assert!(message("jobs.db").await.contains("write sqlite:FILE"));
    let text = message("oracle://joe:secret@db/jobs").await;
    assert!(text.contains("is not the URL of a store") && !text.contains("secret"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_is_refused_and_leaves_nothing_behind() {
    // E10, L20
    let engine = engine();
    for name in ["", " ", "a\u{0}b", &"q".repeat(129)] {
        assert!(engine.queues().pause(name).await.expect_err(name).refusal().is_some(), "{name:?}");
        assert!(engine.queues().resume(name).await.is_err(), "{name:?}");
    }
    assert!(engine.queues().list().await.expect("the model is there").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_cancel_is_sanitized_and_bounded() {
    // F11, L20
    let engine = engine();
    let id = engine.enqueue(act(&["ok"])).submit().await.expect("admitted").id;
    let reason = format!("password=hunter2 \u{1b}[2J {}", "x".repeat(5_000));
    engine.cancel(id, reason).await.expect("pending");
    let kept = detail(&engine, id).await.view.record.cancel_reason.expect("kept");
    assert!(!kept.contains("hunter2") && !kept.contains('\u{1b}') && kept.chars().count() <= 2_000, "{kept}");
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_for_its_time() {
    // L2, L19
    let engine = engine();
    let id =
        engine.enqueue(act(&["ok"])).delay(Duration::from_secs(3_600)).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("started");
    tokio::time::advance(Duration::from_secs(3_599)).await;
    settle().await;
    assert_eq!(state(&engine, id).await, State::Pending);
    reach(&engine, id, State::Succeeded).await;
    let row = ledger(&engine, id).await.remove(0);
    assert!(row.started_at.since(row.due_at) < Duration::from_millis(100), "it starts when it is due");
    running.stop().await;
}
