//! How long a tick of many due schedules takes: `cargo run --release --example schedules_tick -- URL [COUNT]`.
//!
//! Declares COUNT schedules (10,000 unless told otherwise) that all fire every ten seconds, and prints how long after
//! their fire time the jobs of all of them are stored. Give it a store of its own.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::time::{Duration, Instant};

use backstop::Timestamp;
use backstop::prelude::*;
use backstop::schedules::{ScheduleOwner, ScheduleSettings};

/// Ticks that are measured.
const TICKS: u64 = 4;

#[tokio::main]
async fn main() -> JobResult {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store, such as sqlite:schedules.db")?;
    let count: u64 = arguments.next().map_or(Ok(10_000), |text| text.parse())?;
    let engine = Backstop::open(&url).await?;
    let names: Vec<String> = (0..count).map(|number| format!("schedule {number:05}")).collect();
    let began = Instant::now();
    let every = ScheduleSettings::cron("*/10 * * * * *");
    let declared = names.iter().map(|name| (&**name, (every.clone(), engine.enqueue_raw("tick", "{}"))));
    engine.schedules().declare(ScheduleOwner::Code("tick".into()), declared).await?;
    println!("{count} schedules declared in {:.2} s", began.elapsed().as_secs_f64());
    let before = stored(&engine).await?.1;
    let maintenance = engine.maintenance().start();
    for tick in 1..=TICKS {
        let (at, jobs) = loop {
            let (now, jobs) = stored(&engine).await?;
            if jobs >= before + tick * count {
                break (now, jobs);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let late = Duration::from_micros(at.as_micros().rem_euclid(10_000_000).unsigned_abs());
        println!(
            "tick {tick}: {} jobs, all stored {:.3} s after their fire time",
            jobs - before,
            late.as_secs_f64()
        );
    }
    maintenance.stop().await;
    Ok(())
}

/// The store's clock, and how many jobs wait.
async fn stored(engine: &Backstop) -> JobResult<(Timestamp, u64)> {
    let now = engine.store().now().await?;
    Ok((now, engine.queues().list().await?.iter().map(|queue| queue.pending).sum()))
}
