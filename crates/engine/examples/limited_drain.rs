//! What limits cost on any store: `cargo run --release --features postgres --example limited_drain -- URL [JOBS]`.
//!
//! The same jobs (30,000 unless told otherwise) without a limit, in a queue of which no more run at once than a limit
//! says, and under a hundred keys with a limit for each. Each kind is stored first and then run by one worker; all take
//! turns, three times. Give it a store of its own.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::time::{Duration, Instant};

use backstop::Config;
use backstop::limits::{CountBy, RunLimit};
use backstop::prelude::*;

/// Times that each is measured.
const ROUNDS: usize = 3;
/// Jobs that are stored at a time.
const AT_ONCE: usize = 1_000;
/// Slots of the worker, and how many of them limits let it use: those of the queue, and those of each key.
const SLOTS: usize = 500;
const OF_QUEUE: u64 = 400;
const KEYS: usize = 100;
const OF_KEY: u64 = 5;

#[job]
async fn noop() {}

#[tokio::main(worker_threads = 2)]
async fn main() -> JobResult {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store, such as postgres://…")?;
    let jobs: usize = arguments.next().map_or(Ok(30_000), |text| text.parse())?;
    let jobs = jobs / AT_ONCE * AT_ONCE;
    let of_queue = RunLimit { concurrency: Some(OF_QUEUE), ..RunLimit::of_queue("limited") };
    let by_key = RunLimit {
        by: CountBy::Key,
        concurrency: Some(OF_KEY),
        queue: Some("keyed".into()),
        ..RunLimit::new("customers")
    };
    let engine = Backstop::open_with(&url, Config::default().run_limit(of_queue).run_limit(by_key)).await?;
    let mut figures = [("plain", false), ("limited", false), ("keyed", true)].map(|of| (of, Vec::new()));
    for _ in 0..ROUNDS {
        for ((queue, keys), rates) in &mut figures {
            fill(&engine, queue, *keys, jobs).await?;
            rates.push(jobs as f64 / drained(&engine, queue, jobs).await?);
        }
    }
    let [plain, limited, keyed] = figures.map(|(_, mut rates)| median(&mut rates));
    println!("medians of {ROUNDS}: {plain:.0} jobs/s without a limit");
    println!("{OF_QUEUE} of a queue at once: {limited:.0} jobs/s, {:.2}", limited / plain);
    println!("{OF_KEY} of each of {KEYS} keys at once: {keyed:.0} jobs/s, {:.2}", keyed / plain);
    Ok(())
}

async fn fill(engine: &Backstop, queue: &str, keys: bool, jobs: usize) -> JobResult {
    let job = |number: usize| {
        let job = engine.enqueue(Noop {}).queue(queue);
        if keys { job.limit_key(format!("customer {}", number % KEYS)) } else { job }
    };
    for _ in 0..jobs / AT_ONCE {
        let some = (0..AT_ONCE).map(|number| job(number).untyped()).collect();
        engine.submit_all(some, true).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    Ok(())
}

/// How many seconds a worker takes for so many jobs.
async fn drained(engine: &Backstop, queue: &str, jobs: usize) -> JobResult<f64> {
    let wanted = succeeded(engine).await? + jobs as u64;
    let began = Instant::now();
    let worker = engine.worker(()).register::<Noop>().queue(queue, SLOTS).start().await?;
    while succeeded(engine).await? < wanted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let spent = began.elapsed().as_secs_f64();
    worker.stop().await;
    Ok(spent)
}

async fn succeeded(engine: &Backstop) -> JobResult<u64> {
    Ok(engine.queues().list().await?.iter().map(|queue| queue.succeeded).sum())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
