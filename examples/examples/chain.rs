//! Steps one after another. Run it with: cargo run -p backstop-examples --example chain
//!
//! All steps are stored at once, and each waits for the one before it, through crashes and deploys. A step reads what
//! an earlier one returned. A step that fails for good calls off what follows it and runs its failure branch; driven
//! again, the chain goes on from there and nothing before it runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop::prelude::*;

/// Whether the bank answers.
type Bank = AtomicBool;

#[job]
async fn reserve(order: u32) -> JobResult<String> {
    println!("reserve order {order}");
    Ok(format!("place {}", order * 6))
}

#[job(max_retries = 0)]
async fn charge(cx: JobContext<Bank>, cents: u32) -> JobResult<u32> {
    let place: String = cx.input("reserve")?;
    if !cx.app().load(Ordering::SeqCst) {
        return Err("the bank does not answer".into());
    }
    println!("charge {cents} cents for {place}");
    Ok(cents)
}

#[job]
async fn ship(cx: JobContext<Bank>) -> JobResult {
    println!("ship: {} cents are paid", cx.input::<u32>("charge")?);
    Ok(())
}

#[job]
async fn apologize() {
    println!("write to the customer");
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let order = engine
        .chain("order", engine.enqueue(Reserve { order: 7 }))
        .then(engine.enqueue(Charge { cents: 990 }))
        .then_on_failure(engine.enqueue(Apologize {}))
        .then(engine.enqueue(Ship {}))
        .key("order-7")
        .submit()
        .await?;

    let bank = Arc::new(Bank::new(false));
    let worker = engine.worker_sharing(bank.clone()).register_all().queue("default", 4).inline()?;
    worker.drain(10).await?;
    let seen = engine.workflows().get(order.id).await?.ok_or("it is stored")?;
    println!("{}: {} dead, {} canceled", seen.status, seen.counts.failed, seen.counts.canceled);

    bank.store(true, Ordering::SeqCst);
    let (_, dead) = order.nodes.iter().find(|(name, _)| &**name == "charge").ok_or("it has this step")?;
    engine.retry(*dead).await?;
    worker.drain(10).await?;
    println!("{}", engine.workflows().get(order.id).await?.ok_or("it is stored")?.status);
    Ok(())
}
