//! Hostile strings and extreme numbers on every store: stored or refused with a typed error, never a wedged job.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, Growth, Jitter, JobId, SubmitError, Timestamp};
use backstop_chaos::group::drained;
use backstop_chaos::hostile;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_core::job::State;

/// The payload of jobs whose hostile text is elsewhere.
const PLAIN: &str = "fine";

#[derive(Serialize, Deserialize)]
struct Echo {
    text: String,
}

impl Job for Echo {
    const KIND: &'static str = "echo";
    type Context = ();
    type Output = JobResult<String>;

    async fn run(self, cx: JobContext<()>) -> JobResult<String> {
        cx.log(&self.text);
        match cx.run_number() {
            // Its text is in another field: that it is read back and ends is all there is to see.
            _ if self.text == PLAIN => Ok(self.text),
            1 => {
                cx.progress(50, self.text.clone()).await?;
                Err(self.text.into())
            }
            2 => panic!("{}", self.text),
            3 => Err(Outcome::snooze(Duration::ZERO).into()),
            _ => Ok(self.text),
        }
    }
}

fn is_typed_refusal(error: &SubmitError) -> bool {
    matches!(error.code(), "invalid" | "too_large")
}

/// Each string in every field that takes text; each job runs four times and ends.
async fn hostile_strings(kind: StoreKind) {
    // The panics are part of the test; their raw texts do not belong on the terminal.
    std::panic::set_hook(Box::new(|_| ()));
    let strings = hostile::strings();
    assert!(strings.len() >= 1_000, "{}", strings.len());
    let location = StoreLocation::new(kind, "hostile");
    let engine = location.open().await;
    let policy = Policy::default().retries(3).backoff(Backoff::none());
    let mut stored = Vec::new();
    for text in &strings {
        stored.extend(submit_everywhere(&engine, &policy, text).await);
    }
    let worker = engine.worker(()).register::<Echo>().queue("default", 64).start().await.expect("started");
    drained(&engine).await;
    for some in stored.chunks(500) {
        for job in engine.store().jobs(some.to_vec()).await.expect("readable") {
            let job = job.expect("there").view;
            assert!(
                job.state().is_terminal(),
                "the job {} never ended: {}",
                job.job.spec.id,
                job.job.spec.payload
            );
            let error = job.last_failure.map_or_else(String::new, |failure| failure.message);
            let raw = error.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
            assert!(!raw, "raw control characters were stored for {}: {error:?}", job.job.spec.payload);
        }
    }
    worker.stop().await;
    println!("{kind}: {} strings, {} jobs, all ended", strings.len(), stored.len());
}

/// Submits jobs with the text in each field, and answers those that were taken.
async fn submit_everywhere(engine: &Backstop, policy: &Policy, text: &String) -> Vec<JobId> {
    let job = |text: &str| engine.enqueue(Echo { text: text.to_owned() }).policy(policy.clone());
    let jobs = vec![
        job(text),
        job(PLAIN).tag(text.clone()),
        job(PLAIN).business_key(format!("{text}{}", fastrand::u64(..))),
        job(PLAIN).idempotency_key(format!("{text}{}", fastrand::u64(..))),
        job(PLAIN).correlation_id(text.clone()),
        job(PLAIN).params(serde_json::json!({ "key": text })),
    ];
    let answers = engine.submit_all(jobs, false).await.expect("the store is there");
    assert!(answers[0].is_ok(), "a payload of 1 MiB holds any text: {:?}", answers[0]);
    let stored = answers.into_iter().filter_map(|answer| match answer {
        Ok(stored) => Some(stored.id),
        Err(refusal) => {
            assert!(matches!(refusal.code(), "invalid" | "too_large"), "{text:?}: {refusal}");
            None
        }
    });
    stored.collect()
}

#[tokio::test]
async fn a_thousand_hostile_strings_never_wedge_a_job_on_sqlite() {
    // L20, F11, E10, F1
    hostile_strings(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn a_thousand_hostile_strings_never_wedge_a_job_on_postgres() {
    // L20, F11, E10, F1
    hostile_strings(StoreKind::Postgres).await;
}

#[tokio::test]
async fn a_thousand_hostile_strings_never_wedge_a_job_on_mariadb() {
    // L20, F11, E10, F1
    hostile_strings(StoreKind::Mariadb).await;
}

/// Backoff and dates at their extremes neither panic nor overflow.
async fn extremes(kind: StoreKind) {
    let location = StoreLocation::new(kind, "extremes");
    let engine = location.open().await;
    let moments =
        ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2038-01-19T03:14:08Z", "9999-12-31T23:59:59Z"];
    for moment in moments {
        let moment: Timestamp = moment.parse().expect("a moment");
        engine.enqueue(Echo { text: String::new() }).run_at(moment).submit().await.expect("stored");
        engine.enqueue(Echo { text: String::new() }).expires_at(moment).submit().await.expect("stored");
    }
    for span in [Duration::ZERO, Duration::from_secs(u64::from(u32::MAX)), Duration::MAX] {
        let outcomes = [
            engine.enqueue(Echo { text: String::new() }).delay(span).submit().await,
            engine.enqueue(Echo { text: String::new() }).timeout(span).submit().await,
            engine.enqueue(Echo { text: String::new() }).max_wait(span).submit().await,
            engine.enqueue(Echo { text: String::new() }).backoff(Backoff::fixed(span)).submit().await,
        ];
        for outcome in outcomes {
            if let Err(error) = outcome {
                assert!(is_typed_refusal(&error), "{error}");
            }
        }
    }
    let mut backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(300_000_000));
    backoff.jitter = Jitter::None;
    for growth in [Growth::Exponential, Growth::Linear] {
        backoff.growth = growth;
        let job = engine.enqueue(Echo { text: "x".into() }).max_retries(1_000_000).backoff(backoff);
        job.queue("extreme").submit().await.expect("stored");
    }
    let worker = engine
        .worker(())
        .register::<Echo>()
        .queue("default", 4)
        .queue("extreme", 1)
        .inline()
        .expect("queues");
    let ran = worker.drain(1_000).await.expect("the store is there");
    assert!(ran.iter().all(|one| one.cause != Cause::EngineFault && one.state.is_some()));
    engine.maintain(backstop::worker_id(), Duration::from_secs(30)).await.expect("every duty is done");
    let failed = backstop_store::JobFilter { state: Some(State::Failed), ..Default::default() };
    let expired = engine.jobs(failed, backstop_store::PageRequest::first(100)).await.expect("readable").items;
    assert!(!expired.is_empty(), "what expired in the past is a dead letter");
}

#[tokio::test]
async fn extreme_numbers_neither_panic_nor_overflow_on_sqlite() {
    // F8, L19, L20
    extremes(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn extreme_numbers_neither_panic_nor_overflow_on_postgres() {
    // F8, L19, L20
    extremes(StoreKind::Postgres).await;
}

#[tokio::test]
async fn extreme_numbers_neither_panic_nor_overflow_on_mariadb() {
    // F8, L19, L20
    extremes(StoreKind::Mariadb).await;
}
