//! One call for many jobs. Run it with: cargo run -p backstop-examples --example bulk
//!
//! Some work costs little more for a hundred than for one, such as the rows of one statement. When one row is bad, the
//! whole statement fails: the jobs are split until the bad one stands alone, and no other is charged.

use std::time::Duration;

use backstop::bulk::{BulkContext, BulkItem, BulkJob, BulkSettings};
use backstop::prelude::*;

/// A table that takes whole lists of rows, or nothing of them.
struct Table;

impl Table {
    async fn insert(&self, rows: &[u32]) -> JobResult {
        if rows.contains(&6) {
            println!("{} rows: refused", rows.len());
            return Err("row 6 is too heavy".into());
        }
        println!("{} rows: stored", rows.len());
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct StoreRow {
    row: u32,
}

impl BulkJob for StoreRow {
    const KIND: &'static str = "store_row";
    type Context = Table;
    type Output = JobResult<String>;

    async fn run(jobs: Vec<BulkItem<Self>>, cx: BulkContext<Table>) -> JobResult {
        let rows: Vec<u32> = jobs.iter().map(|item| item.job().row).collect();
        cx.app().insert(&rows).await?;
        for item in jobs {
            let row = item.job().row;
            item.answer(Ok(format!("row {row} is stored")));
        }
        Ok(())
    }

    /// A call begins when it is full, or a second after its first job has come.
    fn bulk() -> BulkSettings {
        BulkSettings::default().most(8).wait(Duration::from_secs(1))
    }
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let mut jobs = Vec::new();
    for row in 1..=8 {
        jobs.push(engine.enqueue(StoreRow { row }).max_retries(0).submit().await?);
    }
    let worker = engine.worker(Table).register::<StoreRow>().queue("default", 8).start().await?;

    // W12: eight verdicts, one of them a failure.
    let mut stored = 0;
    for job in &jobs {
        match job.result().await {
            Ok(_) => stored += 1,
            Err(error) => println!("{error}"),
        }
    }
    worker.stop().await;
    println!("{stored} of {} stored", jobs.len());
    assert_eq!(stored, 7);
    Ok(())
}
