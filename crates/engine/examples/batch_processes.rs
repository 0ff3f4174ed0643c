//! What one batch costs when many processes finish its jobs: `cargo run --release --features postgres --example
//! batch_processes -- URL [JOBS] [PROCESSES]`.
//!
//! Stores JOBS jobs (60,000 unless told otherwise), lets PROCESSES processes (16) run them, and prints jobs a second;
//! then the same with jobs that all belong to one batch, until the batch is over. Both take turns, three times. Give it
//! a store of its own.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use backstop::prelude::*;

/// Times that both are measured.
const ROUNDS: usize = 3;
/// Slots of each process.
const SLOTS: usize = 500;
/// Tells a process that it is one of those that work.
const WORKER: &str = "BACKSTOP_BATCH_WORKER";

#[job]
async fn noop() {}

#[tokio::main(worker_threads = 2)]
async fn main() -> JobResult {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store, such as postgres://…")?;
    let jobs: u64 = arguments.next().map_or(Ok(60_000), |text| text.parse())?;
    let processes: usize = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let engine = Backstop::open(&url).await?;
    if std::env::var_os(WORKER).is_some() {
        engine.worker(()).register::<Noop>().queue("default", SLOTS).run().await?;
        return Ok(());
    }
    let (mut plain, mut batched) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(measure(&engine, &url, jobs, processes, false).await?);
        batched.push(measure(&engine, &url, jobs, processes, true).await?);
    }
    let (plain, batched) = (median(&mut plain), median(&mut batched));
    println!(
        "{processes} processes, medians of {ROUNDS}: {plain:.0} jobs/s of their own, {batched:.0} of one batch"
    );
    println!("ratio {:.2}", batched / plain);
    Ok(())
}

/// Jobs a second, from the start of the processes until all jobs have ended, and their batch with them. The processes
/// take the same time to start in both.
async fn measure(engine: &Backstop, url: &str, jobs: u64, processes: usize, batch: bool) -> JobResult<f64> {
    let before = succeeded(engine).await?;
    let stored = if batch {
        Some(engine.batch("measured").for_each(0..jobs, |_| engine.enqueue(Noop {})).await?)
    } else {
        for _ in 0..jobs.div_ceil(1_000) {
            let some = (0..1_000).map(|_| engine.enqueue(Noop {}).untyped()).collect();
            engine.submit_all(some, true).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
        }
        None
    };
    let began = Instant::now();
    let mut working = Vec::new();
    for _ in 0..processes {
        working
            .push(WorkerProcess(Command::new(std::env::current_exe()?).arg(url).env(WORKER, "1").spawn()?));
    }
    while succeeded(engine).await? < before + jobs {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if let Some(batch) = stored {
        while !batch.view().await?.status.is_over() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let rate = jobs as f64 / began.elapsed().as_secs_f64();
    println!("{} {rate:.0} jobs/s", if batch { "of one batch:     " } else { "jobs of their own:" });
    Ok(rate)
}

async fn succeeded(engine: &Backstop) -> JobResult<u64> {
    Ok(engine.queues().list().await?.iter().map(|queue| queue.succeeded).sum())
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// A process that is gone when it is not needed any more.
struct WorkerProcess(Child);

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
