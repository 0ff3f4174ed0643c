//! A job that waits for a person. Run it with: cargo run -p backstop-examples --example approval
//!
//! While it waits it has no worker, no slot and no lease. Whoever sends the signal lets it go on, also before it waits
//! and however often. What it did before is in steps and is not done again.

use std::time::Duration;

use backstop::Signaled;
use backstop::prelude::*;

#[job]
async fn refund(cx: JobContext<()>, order: u32) -> JobResult<String> {
    let cents: u32 = cx
        .step("compute", || async {
            println!("compute what order {order} is worth");
            JobResult::Ok(990)
        })
        .await?;
    match cx.signal::<String>(format!("refund-{order}")).timeout(Duration::from_secs(86_400)).await? {
        Signaled::Received(who) => Ok(format!("{cents} cents paid back, approved by {who}")),
        Signaled::TimedOut => Ok("nobody approved it".to_owned()),
    }
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let worker = engine.worker(()).register::<Refund>().queue("default", 1).inline()?;
    let job = engine.enqueue(Refund { order: 7 }).submit().await?;
    worker.drain(5).await?;
    let (view, told) = engine.explain(job.id).await?.ok_or("a job is never lost")?;
    println!("{}: {}", view.state(), told.because);

    // From anywhere: the library, the command line, HTTP, or a signed link in a mail.
    for _ in 0..2 {
        let sent = engine.signals().send("refund-7", &"ann").id("mail-4711").await?;
        println!("delivered to {}", sent.delivered);
    }
    worker.drain(5).await?;
    println!("{}", job.result().await?);
    Ok(())
}
