//! What a submit's handle answers: the result in its own type, or what became of the job.

use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, JobHandle, ResultError, State, TerminalReason};

use crate::fixture::{engine, engine_with};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    cents: u32,
}

#[job]
async fn total(cents: Vec<u32>) -> JobResult<Sum> {
    match cents.iter().sum() {
        0 => Err(Outcome::permanent("an empty cart has no total"))?,
        13 => Err(Outcome::failure(Sum { cents: 13 }))?,
        cents => Ok(Sum { cents }),
    }
}

#[job]
async fn log_out(cx: JobContext<()>) {
    cx.log("bye");
}

#[job]
async fn verbose() -> JobResult<String> {
    Ok("x".repeat(100))
}

async fn run(engine: &Backstop) {
    let worker = engine.worker(()).register::<Total>().register::<LogOut>().register::<Verbose>();
    worker.queue("default", 1).inline().expect("complete").drain(10).await.expect("memory is there");
}

async fn submitted(cents: &[u32]) -> (Backstop, JobHandle<Sum>) {
    let engine = engine();
    let job = engine.enqueue(Total { cents: cents.to_vec() }).submit().await.expect("admitted");
    (engine, job)
}

#[tokio::test(start_paused = true)]
async fn a_result_has_the_type_that_its_handler_returns() {
    // L6, F15
    let (engine, job) = submitted(&[990, 10]).await;
    assert_eq!((job.state, job.deduplicated), (State::Pending, false));
    run(&engine).await;
    assert_eq!(job.result().await.expect("it succeeded"), Sum { cents: 1_000 });
    assert_eq!(engine.result::<Total>(job.id).await.expect("by its id alone"), Sum { cents: 1_000 });
    let nothing = engine.enqueue(LogOut {}).submit().await.expect("admitted");
    let by_name = engine.enqueue_raw("total", r#"{"cents":[5]}"#).submit().await.expect("admitted");
    run(&engine).await;
    let () = nothing.result().await.expect("a handler that returns nothing");
    assert_eq!(by_name.result().await.expect("it succeeded"), serde_json::json!({ "cents": 5 }));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_did_not_succeed_says_why() {
    // F13, F16, L7
    let (engine, job) = submitted(&[]).await;
    run(&engine).await;
    let Err(ResultError::Failed { reason, error, value: None, .. }) = job.result().await else {
        panic!("a dead letter has no result")
    };
    assert_eq!((reason, error.as_str()), (TerminalReason::NonRetryable, "an empty cart has no total"));
    let (engine, job) = submitted(&[13]).await;
    run(&engine).await;
    let Err(ResultError::Failed { reason, value, .. }) = job.result().await else { panic!("reported") };
    let reported = Some(serde_json::json!({ "cents": 13 }));
    assert_eq!((reason, value), (TerminalReason::ReportedFailure, reported));
    let (_, job) = submitted(&[1]).await;
    assert!(job.cancel("sold out").await.expect("there").changed);
    let error = job.result().await.expect_err("canceled");
    assert_eq!(error.to_string(), format!("job {} was canceled: sold out", job.id));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_job_does_or_when_its_time_is_up() {
    let (engine, job) = submitted(&[7]).await;
    let early = job.result_within(Duration::from_secs(5)).await;
    assert!(matches!(early, Err(ResultError::NotYet { .. })), "{early:?}");
    let worker = engine.worker(()).register::<Total>().queue("default", 1).start().await.expect("started");
    assert_eq!(job.result_within(Duration::from_secs(5)).await.expect("in time"), Sum { cents: 7 });
    assert_eq!(job.wait().await.expect("there").expect("stored").view.state(), State::Succeeded);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_not_kept_or_has_another_shape_is_said_to_be_so() {
    // L6, L20
    let mut config = Config::default();
    config.limits.result_bytes = 50;
    let engine = engine_with(config);
    let large = engine.enqueue(Verbose {}).submit().await.expect("admitted");
    let other = engine.enqueue(LogOut {}).submit().await.expect("admitted");
    run(&engine).await;
    let problem = large.result().await.expect_err("too large").to_string();
    assert!(problem.ends_with("it has 102 bytes, the limit is 50"), "{problem}");
    let problem = engine.result::<Total>(other.id).await.expect_err("another kind").to_string();
    assert!(problem.contains("cannot be read"), "{problem}");
    let unknown = engine.result::<Total>(backstop::job_id()).await;
    assert!(matches!(unknown, Err(ResultError::NoSuchJob { .. })), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn the_result_of_an_archived_job_is_still_there() {
    // L16
    let config = Config::default().retention(backstop::Retention::default().succeeded(Some(Duration::ZERO)));
    let engine = engine_with(config);
    let job = engine.enqueue(Total { cents: vec![4] }).submit().await.expect("admitted");
    run(&engine).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    engine.maintain(backstop::worker_id(), Duration::from_secs(30)).await.expect("maintained");
    assert!(engine.job(job.id).await.expect("memory is there").is_none(), "it has left the hot tables");
    assert_eq!(job.result().await.expect("from the archive"), Sum { cents: 4 });
}
