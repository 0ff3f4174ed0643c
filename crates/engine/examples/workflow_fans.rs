//! What workflows cost on any store: `cargo run --release --features postgres --example workflow_fans -- URL [JOBS]`.
//!
//! Jobs of their own (30,000 unless told otherwise), the same in chains of three, then one step after 10,000 and 10,000
//! after one: each stored first and then run by one worker until the last end has been followed up. All take turns,
//! three times. Give it a store of its own.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::workflows::{Step, WorkflowId};
use tokio::task::JoinSet;

/// Times that each is measured.
const ROUNDS: usize = 3;
/// Steps of a chain.
const CHAIN: usize = 3;
/// Steps before one, and behind one.
const FAN: usize = 10_000;
/// Jobs that are stored at a time, and chains.
const AT_ONCE: usize = 1_000;
const CHAINS_AT_ONCE: usize = 64;
/// Slots of the worker.
const SLOTS: usize = 500;

#[job]
async fn noop() {}

#[tokio::main(worker_threads = 2)]
async fn main() -> JobResult {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store, such as postgres://…")?;
    let jobs: usize = arguments.next().map_or(Ok(30_000), |text| text.parse())?;
    let jobs = jobs / AT_ONCE / CHAIN * AT_ONCE * CHAIN;
    let engine = Backstop::open(&url).await?;
    let [mut plain, mut chains, mut many_to_one, mut one_to_many] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        plain_jobs(&engine, jobs).await?;
        plain.push(jobs as f64 / drained(&engine, jobs, None).await?);
        chains_of(&engine, jobs / CHAIN).await?;
        chains.push(jobs as f64 / drained(&engine, jobs, None).await?);
        let flow = fan(&engine, true).await?;
        many_to_one.push(drained(&engine, FAN + 1, Some(flow)).await?);
        let flow = fan(&engine, false).await?;
        one_to_many.push(drained(&engine, FAN + 1, Some(flow)).await?);
    }
    let (plain, chains) = (median(&mut plain), median(&mut chains));
    println!("medians of {ROUNDS}: {plain:.0} jobs/s of their own, {chains:.0} steps/s of chains of {CHAIN}");
    println!("ratio {:.2}", chains / plain);
    println!("{FAN} steps, then one: {:.2} s", median(&mut many_to_one));
    println!("one step, then {FAN}: {:.2} s", median(&mut one_to_many));
    Ok(())
}

async fn plain_jobs(engine: &Backstop, jobs: usize) -> JobResult {
    for _ in 0..jobs / AT_ONCE {
        let some = (0..AT_ONCE).map(|_| engine.enqueue(Noop {}).untyped()).collect();
        engine.submit_all(some, true).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    Ok(())
}

async fn chains_of(engine: &Backstop, chains: usize) -> JobResult {
    let mut submits = JoinSet::new();
    for _ in 0..chains {
        if submits.len() == CHAINS_AT_ONCE {
            submits.join_next().await.transpose()?.transpose()?;
        }
        let chain = engine.chain("measured", engine.enqueue(Noop {}));
        submits.spawn((1..CHAIN).fold(chain, |chain, _| chain.then(engine.enqueue(Noop {}))).submit());
    }
    while let Some(submitted) = submits.join_next().await {
        submitted??;
    }
    Ok(())
}

/// A graph with [`FAN`] steps before one, or behind one.
async fn fan(engine: &Backstop, many_to_one: bool) -> JobResult<WorkflowId> {
    let mut flow = engine.workflow("measured");
    if many_to_one {
        let before: Vec<Step<_>> =
            (0..FAN).map(|number| flow.step(number.to_string(), engine.enqueue(Noop {})).add()).collect();
        flow.step("last", engine.enqueue(Noop {})).after_all(&before).add();
    } else {
        let first = flow.step("first", engine.enqueue(Noop {})).add();
        for number in 0..FAN {
            flow.step(number.to_string(), engine.enqueue(Noop {})).after(&first).add();
        }
    }
    Ok(flow.submit().await?.id)
}

/// How many seconds a worker takes for so many jobs, and until the workflow is over.
async fn drained(engine: &Backstop, jobs: usize, flow: Option<WorkflowId>) -> JobResult<f64> {
    let wanted = succeeded(engine).await? + jobs as u64;
    let began = Instant::now();
    let worker = engine.worker(()).register::<Noop>().queue("default", SLOTS).start().await?;
    while succeeded(engine).await? < wanted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if let Some(id) = flow {
        while engine.workflows().get(id).await?.is_some_and(|view| !view.status.is_over()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
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
