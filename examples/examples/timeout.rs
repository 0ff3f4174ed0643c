//! A run that takes too long is stopped. Run it with: cargo run -p backstop-examples --example timeout
//!
//! The handler is canceled, its slot is free again, and the job goes on by the normal rules: here it is tried once
//! more, and then kept as a dead letter.

use std::time::Duration;

use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop::{Cause, EventKind, TerminalReason};

#[job(timeout = "300ms", max_retries = 1)]
async fn call_slow_service(cx: JobContext<()>, seconds: u64) -> JobResult {
    println!("attempt {}: asking for {seconds} s of patience", cx.attempt());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let mut events = engine.events();
    // One slot: a handler that kept it would keep every other job from running.
    let worker = engine.worker(()).register::<CallSlowService>().queue("default", 1).start().await?;
    let slow = engine.enqueue(CallSlowService { seconds: 3_600 }).backoff(Backoff::none()).submit().await?.id;
    let quick = engine.enqueue(CallSlowService { seconds: 0 }).submit().await?.id;

    let mut ended = Vec::new();
    while ended.len() < 2 {
        let event = events.next().await.ok_or("the engine has gone")?;
        // An event without a job is about the incident that the failures belong to.
        let Some(job) = event.job.as_ref().map(|job| job.id) else { continue };
        match &event.what {
            // F10: a warning at 80 % of the time.
            EventKind::TimeoutNear { run } => println!("  run {run} has used most of its time"),
            EventKind::TimedOut => println!("  stopped after 300 ms"),
            EventKind::Dead { reason, .. } => {
                println!("  a dead letter: {reason}");
                assert_eq!((job, *reason), (slow, TerminalReason::RetryExhausted));
                ended.push(job);
            }
            EventKind::Succeeded { .. } => {
                println!("  the quick one is done");
                assert_eq!(job, quick);
                ended.push(job);
            }
            _ => {}
        }
    }
    worker.stop().await;

    // F3: a timeout is charged to the attempts, and the ledger says so.
    let runs = engine.attempts(slow, PageRequest::first(10)).await?.items;
    let causes: Vec<_> = runs.iter().map(|run| run.cause).collect();
    println!("the ledger of the slow one: {causes:?}");
    assert_eq!(causes, [Cause::Timeout, Cause::Timeout]);
    Ok(())
}
