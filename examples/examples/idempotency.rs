//! Submitting twice makes one job. Run it with: cargo run -p backstop-examples --example idempotency
//!
//! A client that got no answer does not know whether its job was stored. With an idempotency key it submits again
//! without a thought: the key belongs to the first job for ever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop::prelude::*;

#[job]
async fn charge(cx: JobContext<Arc<AtomicU32>>, order: u32) {
    cx.app().fetch_add(1, Ordering::SeqCst);
    println!("charging order {order}");
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;

    // L10: a crowd of clients, one order, one job.
    let clients: Vec<_> = (0..64)
        .map(|_| tokio::spawn(engine.enqueue(Charge { order: 17 }).idempotency_key("order-17").submit()))
        .collect();
    let (mut ids, mut stored) = (BTreeSet::new(), 0);
    for client in clients {
        let answer = client.await??;
        ids.insert(answer.id);
        stored += u32::from(!answer.deduplicated);
    }
    println!("64 clients submitted order 17: {stored} job was stored, and all know its id");
    assert_eq!((stored, ids.len()), (1, 1));

    let charges = Arc::new(AtomicU32::new(0));
    let worker = engine.worker(charges.clone()).register::<Charge>().queue("default", 4).inline()?;
    worker.drain(100).await?;

    // The key is not free when its job has ended.
    let late = engine.enqueue(Charge { order: 17 }).idempotency_key("order-17").submit().await?;
    worker.drain(100).await?;
    println!("a late client submits again: deduplicated is {}, the job is {}", late.deduplicated, late.state);
    println!("the customer was charged {} time", charges.load(Ordering::SeqCst));
    assert!(late.deduplicated && ids.contains(&late.id));
    assert_eq!(charges.load(Ordering::SeqCst), 1);
    Ok(())
}
