//! Every limit of `Config::limits` holds for whoever embeds the engine (L20).

use std::time::Duration;

use backstop::incident::IncidentFilter;
use backstop::prelude::*;
use backstop::query::{JobFilter, PageRequest};
use backstop::queue::QueueRange;
use backstop::{Config, Error, Limits};

use crate::fixture::engine_with;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Publishes and says what it is told.
#[job]
async fn speak(cx: JobContext<()>, name: String, words: String) -> JobResult<String> {
    cx.log(&words);
    cx.progress(50, words.as_str()).await?;
    if !name.is_empty() {
        cx.publish(name, serde_json::Value::String(words.clone())).await?;
    }
    Ok(words)
}

#[job(max_retries = 1)]
async fn give_up(cx: JobContext<()>) -> JobResult {
    match cx.run_number() {
        1 => Err(Outcome::retry_in(Duration::from_secs(3_600), "x".repeat(50)))?,
        _ => Err("y".repeat(50).into()),
    }
}

fn limited(change: impl FnOnce(&mut Limits)) -> Backstop {
    let mut config = Config::default();
    change(&mut config.limits);
    engine_with(config)
}

#[tokio::test(start_paused = true)]
async fn every_limit_of_a_submit_is_refused_by_its_name() {
    // L20
    type Change = fn(&mut Limits);
    type Offer = fn(&Backstop) -> backstop::Enqueue;
    let table: &[(&str, Change, Offer)] = &[
        ("payload", |to| to.payload_bytes = 10, |engine| engine.enqueue_raw("k", "[1,2,3,4,5,6]")),
        ("kind", |to| to.name_chars = 8, |engine| engine.enqueue_raw("a_long_kind", "{}")),
        ("queue", |to| to.name_chars = 8, |engine| engine.enqueue_raw("k", "{}").queue("a_long_queue")),
        (
            "idempotency_key",
            |to| to.key_chars = 3,
            |engine| engine.enqueue_raw("k", "{}").idempotency_key("four"),
        ),
        ("business_key", |to| to.key_chars = 3, |engine| engine.enqueue_raw("k", "{}").business_key("four")),
        (
            "correlation_id",
            |to| to.key_chars = 3,
            |engine| engine.enqueue_raw("k", "{}").correlation_id("four"),
        ),
        ("tags", |to| to.tags = 1, |engine| engine.enqueue_raw("k", "{}").tag("a").tag("b")),
        ("tags", |to| to.tag_chars = 1, |engine| engine.enqueue_raw("k", "{}").tag("ab")),
        (
            "params",
            |to| to.params_bytes = 5,
            |engine| engine.enqueue_raw("k", "{}").params(serde_json::json!({ "a": 1 })),
        ),
        ("max_retries", |to| to.retries = 2, |engine| engine.enqueue_raw("k", "{}").max_retries(3)),
        (
            "delay_ms",
            |to| to.delay = Duration::from_secs(60),
            |engine| engine.enqueue_raw("k", "{}").delay(Duration::from_secs(61)),
        ),
        (
            "payload",
            |to| to.payload_bytes = 30,
            |engine| {
                let job = engine.enqueue_raw("k", "{}").trace_parent(TRACE);
                job.on_success(Speak { name: "n".into(), words: "far too many words".into() })
            },
        ),
    ];
    for (field, change, offer) in table {
        let engine = limited(change);
        let refusal = offer(&engine).submit().await.expect_err(field).to_string();
        assert!(refusal.contains(field), "{field}: {refusal}");
        let answers = engine.submit_all(vec![offer(&engine)], false).await.expect("the model is there");
        assert!(answers[0].is_err(), "{field}: the same in a batch");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_run_leaves_is_bounded() {
    // L20, L6, F15
    let engine = limited(|to| {
        (to.result_bytes, to.output_bytes, to.error_chars, to.payload_bytes) = (20, 20, 20, 100);
        to.delay = Duration::from_secs(60);
    });
    let long = Speak { name: String::new(), words: "w".repeat(40) };
    let spoken = engine.enqueue(long).submit().await.expect("admitted");
    let event = engine.enqueue(Speak { name: "e".repeat(129), words: String::new() }).max_retries(0);
    let event = event.submit().await.expect_err("the payload is too large by now");
    assert_eq!(event.code(), "too_large");
    let failing = engine.enqueue(GiveUp {}).submit().await.expect("admitted");
    let worker = engine.worker(()).register::<Speak>().register::<GiveUp>().queue("default", 1);
    let worker = worker.inline().expect("complete");
    worker.drain(10).await.expect("the model is there");
    let view = spoken.wait().await.expect("there").expect("stored").view;
    assert!(view.result.is_none() && view.warning.is_some(), "a result over the limit is a warning");
    assert_eq!(view.record.progress.expect("kept").note.chars().count(), 20);
    let runs = engine.attempts(spoken.id, PageRequest::first(1)).await.expect("there").items;
    assert!(
        runs[0].output.as_deref().is_some_and(|output| output.starts_with("… 1 more")),
        "{:?}",
        runs[0].output
    );
    let view = engine.job(failing.id).await.expect("there").expect("stored").view;
    assert!(view.last_failure.expect("it failed").message.chars().count() <= 20);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(
        worker.drain(10).await.expect("the model is there").len(),
        1,
        "an hour was asked for, a minute is given"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_is_bounded_like_a_payload() {
    // L20, E6
    let engine = limited(|to| to.name_chars = 12);
    for (name, words, says) in
        [("a.long.event.name", "w", "name has 17 characters"), ("", "w", ""), ("short", "w", "")]
    {
        let job = engine.enqueue(Speak { name: name.into(), words: words.into() }).max_retries(0);
        let job = job.submit().await.expect("admitted");
        let worker = engine.worker(()).register::<Speak>().queue("default", 1).inline().expect("complete");
        worker.drain(1).await.expect("the model is there");
        match job.result().await {
            Ok(_) => assert_eq!(says, "", "{name}"),
            Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{name}: {error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_list_is_longer_than_a_page() {
    // L20
    let engine = limited(|to| to.page = 2);
    let (three, two) = (PageRequest::first(3), PageRequest::first(2));
    assert!(engine.jobs(JobFilter::default(), three).await.is_err());
    assert!(engine.jobs(JobFilter::default(), two).await.is_ok());
    assert!(engine.attempts(backstop::job_id(), PageRequest::first(3)).await.is_err());
    assert!(engine.archive().page(three).await.is_err());
    assert!(engine.archive().page(two).await.is_ok());
    assert!(engine.archive().export(JobFilter::default(), three).await.is_err());
    assert!(engine.archive().export(JobFilter::default(), two).await.is_ok());
    assert!(engine.incidents().list(3).await.is_err());
    assert!(engine.incidents().matching(IncidentFilter::default(), 3).await.is_err());
    assert!(engine.incidents().matching(IncidentFilter::default(), 2).await.is_ok());
    assert!(engine.incidents().alerts(None, 3).await.is_err());
    let range = |limit| QueueRange { limit: Some(limit), ..QueueRange::default() };
    assert!(engine.queues().page(range(3)).await.is_err());
    assert!(engine.queues().page(range(2)).await.is_ok());
}

#[tokio::test]
async fn a_limit_that_no_store_can_hold_is_refused_when_it_is_set() {
    // L20
    for (limit, change) in [
        ("key_chars", (|to| to.key_chars = 256) as fn(&mut Limits)),
        ("batch", |to| to.batch = 10_001),
        ("page", |to| to.page = 1_001),
        ("delay", |to| to.delay = Duration::MAX),
    ] {
        let mut config = Config::default();
        change(&mut config.limits);
        let refused = Backstop::open_with("memory:", config).await.map(drop).expect_err(limit);
        assert!(matches!(refused, Error::LimitTooHigh { limit: named, .. } if named == limit), "{refused}");
    }
}
