//! A job that keeps what it has done. Run it with: cargo run -p backstop-examples --example steps
//!
//! A retry runs the handler from its beginning. What stands in a step is done once: later runs are answered from the
//! store. An effect also stores that it is about to happen, so nobody has to guess after a crash.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop::prelude::*;

#[derive(Default)]
struct Shop {
    charges: AtomicU32,
    mails: AtomicU32,
}

#[job(max_retries = 3)]
async fn checkout(cx: JobContext<Shop>, order: u32) -> JobResult<String> {
    let key = format!("order-{order}");
    let receipt = cx.effect("charge", &key, || charge(cx.app(), &key)).retry_safe().await?;
    println!("run {}: receipt `{receipt}`", cx.run_number());
    cx.step("mail", || mail(cx.app(), &receipt)).await?;
    Ok(receipt)
}

async fn charge(shop: &Shop, key: &str) -> JobResult<String> {
    shop.charges.fetch_add(1, Ordering::SeqCst);
    Ok(format!("paid {key}"))
}

/// The mail server is there at the third try.
async fn mail(shop: &Shop, _receipt: &str) -> JobResult {
    if shop.mails.fetch_add(1, Ordering::SeqCst) < 2 { Err("no mail server".into()) } else { Ok(()) }
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let quickly = Backoff::fixed(Duration::from_millis(20));
    let job = engine.enqueue(Checkout { order: 7 }).backoff(quickly).submit().await?;
    let worker = engine.worker(Shop::default()).register::<Checkout>().queue("default", 1);
    let worker = worker.poll(Duration::from_millis(10)).start().await?;
    println!("result: {}", job.result().await?);
    worker.stop().await;

    // W7, W8: three runs, one charge.
    let record = engine.job(job.id).await?.ok_or("a job is never lost")?.view.record;
    let steps: Vec<_> = record.steps().iter().map(|step| (step.name.as_str(), step.run)).collect();
    println!("{} runs, steps {steps:?}", record.runs);
    assert_eq!((record.runs, steps), (3, vec![("charge", 1), ("mail", 3)]));
    Ok(())
}
