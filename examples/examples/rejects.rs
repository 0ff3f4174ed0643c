//! Items that a job cannot handle. Run it with: cargo run -p backstop-examples --example rejects
//!
//! One bad row neither fails the others nor disappears. A reject is not a failure: the run goes on and succeeds. Too
//! many fail it after all.

use backstop::prelude::*;
use backstop::rejects::{NewReject, RejectLimit};

#[job]
async fn import(cx: JobContext<()>, rows: Vec<String>) -> JobResult<u64> {
    // Half of them being bad says more about the file than about its rows.
    cx.limit_rejects(RejectLimit::NONE.percent(50.0)?);
    let mut sum = 0;
    for row in &rows {
        cx.saw(1);
        match row.parse::<u64>() {
            Ok(number) => sum += number,
            Err(error) => cx.reject_with(NewReject::new(row, error).keep_item()).await?,
        }
    }
    Ok(sum)
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let rows = ["17", "n/a", "25", "8 or 9", "3"].map(str::to_owned).to_vec();
    let job = engine.enqueue(Import { rows }).submit().await?;
    engine.worker(()).register::<Import>().queue("default", 1).inline()?.drain(5).await?;
    println!("the sum is {}", job.result().await?);
    for reject in engine.rejects().of_job(job.id, 10).await? {
        println!("{}: {}", reject.item.unwrap_or_default(), reject.error);
    }
    Ok(())
}
