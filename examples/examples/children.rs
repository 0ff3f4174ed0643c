//! Jobs that submit jobs, exactly once. Run it with: cargo run -p backstop-examples --example children
//!
//! What a handler submits with its completion is stored in the transaction that completes its run. A run that fails
//! submits nothing, so trying again doubles nothing.

use backstop::JobId;
use backstop::prelude::*;

#[job(max_retries = 3, backoff(none))]
async fn take_order(cx: JobContext<()>, order: u32) -> JobResult<JobId> {
    println!("order {order}, run {}", cx.run_number());
    let parcel = cx.submit_with_completion(cx.enqueue(PackParcel { order })).await?;
    if cx.run_number() < 3 {
        return Err("the till is jammed".into());
    }
    Ok(parcel)
}

#[job]
async fn pack_parcel(order: u32) {
    println!("  packing the parcel of order {order}");
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let worker = engine.worker(()).register_all().queue("default", 2).start().await?;

    // L23, F15: the handle answers in the type that the handler returns.
    let order = engine.enqueue(TakeOrder { order: 7 }).submit().await?;
    let parcel: JobId = order.result().await?;
    engine.result::<PackParcel>(parcel).await?;
    worker.stop().await;
    let queue = &engine.queues().list().await?[0];
    println!("{} jobs succeeded, {} failed", queue.succeeded, queue.failed);
    assert_eq!((queue.succeeded, queue.failed), (2, 0));
    Ok(())
}
