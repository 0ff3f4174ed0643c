//! A job that looks again later, at no cost. Run it with: cargo run -p backstop-examples --example snooze
//!
//! Waiting for something is no failure. A snooze costs no attempt, so a job that may not fail even once can wait as
//! long as it needs to.

use std::time::Duration;

use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop::{Cause, EventKind};

#[job(max_retries = 0)]
async fn await_payment(cx: JobContext<()>, invoice: u32) -> JobResult<String> {
    // A real one would ask the bank; this one pays at the third look.
    if cx.run_number() < 3 {
        println!("invoice {invoice} is not paid yet: look again in 200 ms");
        Err(Outcome::snooze(Duration::from_millis(200)))?;
    }
    println!("invoice {invoice} is paid");
    Ok(format!("invoice {invoice} paid"))
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let mut events = engine.events();
    let id = engine.enqueue(AwaitPayment { invoice: 7 }).submit().await?.id;
    let done = async {
        while let Some(event) = events.next().await {
            if matches!(event.what, EventKind::Succeeded { .. } | EventKind::Dead { .. }) {
                break;
            }
        }
    };
    engine.worker(()).register::<AwaitPayment>().queue("default", 1).run_until(done).await?;

    // F16, F3: three runs, none of them charged.
    let record = engine.job(id).await?.ok_or("a job is never lost")?.view.record;
    let mut runs = engine.attempts(id, PageRequest::first(10)).await?.items;
    runs.reverse();
    let causes: Vec<_> = runs.iter().map(|run| run.cause).collect();
    println!("{} runs {causes:?}, {} attempts charged", record.runs, record.attempt);
    assert_eq!(causes, [Cause::Snoozed, Cause::Snoozed, Cause::Succeeded]);
    assert_eq!(record.attempt, 0);
    Ok(())
}
