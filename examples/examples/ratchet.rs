//! A service that came from Ratchet. Run it with: cargo run -p backstop-examples --example ratchet
//!
//! Above each part stands what it was there. The table of names, and what is different: docs/migrate/ratchet.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::schedules::{Misfire, ScheduleOwner, ScheduleSettings};
use backstop::{JobId, State};

/// Whether card 13 was renewed.
type Cards = AtomicBool;

// @DoNotRetry class ExpiredCardException
#[derive(Debug, thiserror::Error, JobError)]
enum PaymentError {
    #[error("card {0} is expired")]
    #[job(permanent = "an expired card stays expired")]
    Expired(u32),
}

// PaymentService.process(id)
#[job]
async fn process(cx: JobContext<Cards>, id: u32) -> Result<u32, PaymentError> {
    if id == 13 && !cx.app().load(Ordering::SeqCst) {
        return Err(PaymentError::Expired(id));
    }
    Ok(id * 100)
}

#[job]
async fn receipt(cx: JobContext<Cards>) -> JobResult {
    println!("receipt over {} cents", cx.input::<u32>("process")?);
    Ok(())
}

#[job]
async fn apologize() {
    println!("write to the customer");
}

#[job]
async fn report() {
    println!("the report of the night");
}

async fn state(engine: &Backstop, job: JobId) -> JobResult<State> {
    Ok(engine.job(job).await?.ok_or("a job is never lost")?.view.state())
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let cards = Arc::new(Cards::new(false));
    let worker = engine.worker_sharing(cards.clone()).register_all().queue("default", 4).inline()?;

    // scheduler.enqueue(() -> payments.process(7)).withIdempotencyKey("request-1").withBusinessKey("payment-7")
    //     .withMaxRetries(3).withBackoff(EXPONENTIAL, ofSeconds(1)).withPriority(HIGH).withTags("eu").submit();
    let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(30));
    let payment = || {
        let job = engine.enqueue(Process { id: 7 }).idempotency_key("request-1").business_key("payment-7");
        job.max_retries(3).backoff(backoff).priority(Priority::High).tag("eu").submit()
    };
    let (first, again) = (payment().await?, payment().await?);
    println!("request-1 again: the same job, {}", again.deduplicated && again.id == first.id);
    let other = engine.enqueue(Process { id: 7 }).business_key("payment-7").submit().await;
    println!("payment-7 again: refused, {}", other.is_err());

    // scheduler.pauseJob(id); scheduler.resumeJob(id);
    engine.pause(first.id).await?;
    worker.drain(10).await?;
    let paused = state(&engine, first.id).await?;
    engine.resume(first.id).await?;
    worker.drain(10).await?;
    println!("payment 7: {paused}, then {}", state(&engine, first.id).await?);

    // scheduler.enqueue(() -> payments.process(13)).then(receipt).thenOnFailure(apologize).submit();
    let order = engine
        .chain("order-13", engine.enqueue(Process { id: 13 }))
        .then_on_failure(engine.enqueue(Apologize {}))
        .then(engine.enqueue(Receipt {}))
        .submit()
        .await?;
    worker.drain(10).await?;
    let (_, dead) = order.nodes.iter().find(|(name, _)| &**name == "process").ok_or("it has this step")?;
    let record = engine.job(*dead).await?.ok_or("a dead letter is never lost")?.view.record;
    let reason = record.reason.ok_or("it has failed for good")?;
    println!("payment 13: {} after {} run, {reason}", record.state, record.runs);

    // scheduler.retryJob(id);
    cards.store(true, Ordering::SeqCst);
    engine.retry(*dead).await?;
    worker.drain(10).await?;
    println!("payment 13: {}", state(&engine, *dead).await?);

    // scheduler.enqueueBatch(ids, payments::process).submit();
    let batch = engine.batch("payments").for_each(1..=3, |id| engine.enqueue(Process { id })).await?;
    worker.drain(10).await?;
    let seen = engine.workflows().get(batch.id).await?.ok_or("it is stored")?;
    println!("batch: {}, {} of {}", seen.status, seen.counts.succeeded, seen.counts.total);

    // @Recurring(cron = "0 30 2 * * MON-FRI", zone = "Europe/Berlin", misfire = SKIP)
    let nightly =
        ScheduleSettings::cron("0 30 2 * * MON-FRI").time_zone("Europe/Berlin").misfire(Misfire::Skip);
    let schedules = [("nightly", (nightly, engine.enqueue(Report {})))];
    engine.schedules().declare(ScheduleOwner::Code("shop".into()), schedules).await?;
    engine.schedules().run("nightly").await?;
    worker.drain(10).await?;
    Ok(())
}
