//! Hostile strings and extreme numbers on a real file: stored or refused with a typed error, never a wedged job.

use std::time::Duration;

use backstop::core::job::State;
use backstop::prelude::*;
use backstop::{Cause, Growth, Jitter, SubmitError, Timestamp};
use backstop_chaos::{Folder, hostile};

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
        cx.progress(50, self.text.clone()).await?;
        match cx.run_number() {
            1 => Err(self.text.into()),
            2 => panic!("{}", self.text),
            3 => Err(Outcome::snooze(Duration::ZERO).into()),
            _ => Ok(self.text),
        }
    }
}

async fn engine(folder: &Folder) -> Backstop {
    Backstop::open(&format!("sqlite:{}", folder.join("jobs.db").display())).await.expect("a fresh store")
}

fn is_typed_refusal(error: &SubmitError) -> bool {
    matches!(error.code(), "invalid" | "too_large")
}

#[tokio::test]
async fn a_thousand_hostile_strings_never_wedge_a_job() {
    // L20, F11, E10, F1
    // The panics are part of the test; their raw texts do not belong on the terminal.
    std::panic::set_hook(Box::new(|_| ()));
    let strings = hostile::strings();
    assert!(strings.len() >= 1_000, "{}", strings.len());
    let folder = Folder::new("hostile");
    let engine = engine(&folder).await;
    let policy = Policy::default().retries(3).backoff(Backoff::none());
    let mut stored = Vec::new();
    for text in &strings {
        let job = |text: &str| engine.enqueue(Echo { text: text.to_owned() }).policy(policy.clone());
        let plain = job(text).submit().await;
        stored.push((text, plain.expect("a payload of 1 MiB holds any text").id));
        let changes: [&dyn Fn(backstop::Enqueue) -> backstop::Enqueue; 5] = [
            &|job| job.tag(text.clone()),
            &|job| job.business_key(format!("{text}{}", fastrand::u64(..))),
            &|job| job.idempotency_key(format!("{text}{}", fastrand::u64(..))),
            &|job| job.correlation_id(text.clone()),
            &|job| job.params(serde_json::json!({ "key": text })),
        ];
        for change in changes {
            match change(job("fine")).submit().await {
                Ok(submitted) => stored.push((text, submitted.id)),
                Err(error) => assert!(is_typed_refusal(&error), "{text:?}: {error}"),
            }
        }
    }
    let worker = engine.worker(()).register::<Echo>().queue("default", 64).start().await.expect("started");
    for (text, id) in &stored {
        ended(&engine, *id, text).await;
    }
    worker.stop().await;
    println!("{} strings, {} jobs, all ended", strings.len(), stored.len());
}

async fn ended(engine: &Backstop, id: backstop::JobId, text: &str) {
    for _ in 0..6_000 {
        let job = engine.job(id).await.expect("readable").expect("there").view;
        if job.state().is_terminal() {
            let error = job.last_failure.map_or_else(String::new, |failure| failure.message);
            let raw = error.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
            assert!(!raw, "raw control characters were stored for {text:?}: {error:?}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the job for {text:?} never ended");
}

#[tokio::test]
async fn backoff_and_dates_at_their_extremes_neither_panic_nor_overflow() {
    // F8, L19, L20
    let folder = Folder::new("extremes");
    let engine = engine(&folder).await;
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
    let failed = backstop::store::JobFilter { state: Some(State::Failed), ..Default::default() };
    let expired =
        engine.jobs(failed, backstop::store::PageRequest::first(100)).await.expect("readable").items;
    assert!(!expired.is_empty(), "what expired in the past is a dead letter");
}
