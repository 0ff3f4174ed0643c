//! Failed work is tried again, with waits that grow. Run it with: cargo run -p backstop-examples --example retry
//!
//! A plain `?` on any error means "try again by the job's backoff". n retries are n + 1 runs; then the job is a dead
//! letter that keeps its error, and a person can drive it again.

use std::time::Duration;

use backstop::Growth;
use backstop::prelude::*;
use backstop::{EventKind, Events, Jitter, JobId, TerminalReason};

/// Fetches a page from a server that has a bad day.
#[job(kind = "fetch")]
async fn fetch(cx: JobContext<()>, page: String, good_from: u32) -> JobResult<String> {
    println!("attempt {} at {page}", cx.attempt());
    if cx.attempt() < good_from {
        return Err(format!("{page} answered 503").into());
    }
    Ok(format!("the text of {page}"))
}

/// Waits until the job has ended, and tells what happens on the way.
async fn follow(events: &mut Events, job: JobId) -> Option<TerminalReason> {
    loop {
        let event = events.next().await.expect("the engine lives as long as its program");
        if event.job.as_ref().is_none_or(|header| header.id != job) {
            continue;
        }
        match &event.what {
            EventKind::Retrying { error, next, .. } => {
                println!("  {error}: tried again in {:?}", event.at.until(*next));
            }
            EventKind::Dead { attempts, reason, .. } => {
                println!("  given up after {attempts} attempts: {reason}");
                return Some(*reason);
            }
            EventKind::Succeeded { .. } => {
                println!("  done");
                return None;
            }
            _ => {}
        }
    }
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let mut events = engine.events();
    let worker = engine.worker(()).register::<Fetch>().queue("default", 4).start().await?;

    // F4, F8: 100 ms, then 200 ms. Real jobs keep the jitter, so that they do not all come back at once.
    let backoff = Backoff {
        growth: Growth::Exponential,
        base: Duration::from_millis(100),
        cap: Duration::from_secs(30),
        jitter: Jitter::None,
    };
    let index = Fetch { page: "index.html".into(), good_from: 3 };
    let index = engine.enqueue(index).backoff(backoff).submit().await?.id;
    assert_eq!(follow(&mut events, index).await, None);

    // F5: two retries are three runs, and never a fourth.
    let lost = Fetch { page: "lost.html".into(), good_from: 1_000 };
    let lost = engine.enqueue(lost).max_retries(2).backoff(backoff).submit().await?.id;
    assert_eq!(follow(&mut events, lost).await, Some(TerminalReason::RetryExhausted));

    worker.stop().await;
    let dead = engine.job(lost).await?.ok_or("a dead letter is never lost")?.view;
    println!("the dead letter keeps its error: {}", dead.last_failure.ok_or("no error was kept")?.message);
    assert_eq!((dead.record.runs, dead.record.attempt), (3, 3));
    Ok(())
}
