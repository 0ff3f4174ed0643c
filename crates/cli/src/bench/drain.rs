//! Claim, run a handler that does nothing, complete with full history: jobs a second through a real worker.

use std::time::{Duration, Instant};

use backstop_sqlite::floor;

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, BenchGoal, Quantity};
use super::sizes::{BenchSizes, blocking, median, rate};
use super::workload;
use crate::problem::Problem;

/// Rows of one transaction of the floor.
const FLOOR_BATCH: usize = 500;
/// What a worker should do on two cores.
const JOBS_PER_SECOND: f64 = 50_000.0;

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    let jobs = sizes.jobs;
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    for round in 1..=sizes.rounds {
        step(&format!("claim, run, complete, round {round} of {}", sizes.rounds));
        let path = place.fresh();
        let file = path.clone();
        let (done, spent) = blocking(move || {
            floor::bulk_enqueue(&file, jobs, workload::BATCH)?;
            floor::claim_and_complete(&file, FLOOR_BATCH)
        })
        .await?;
        floors.push(rate(done, spent));
        remove(&path);

        let path = place.fresh();
        ours.push(rate(jobs, drained(&path, jobs).await?));
        remove(&path);
    }
    let measured = BenchFigure::new(
        "drain",
        "claim + run + complete, full history",
        Quantity::JobsPerSecond,
        median(&ours),
    );
    Ok(vec![measured.floor(median(&floors)).runs(ours).goal(BenchGoal::AtLeast(JOBS_PER_SECOND))])
}

/// How long a worker takes for `jobs` jobs, from its start until the last ending is durable.
async fn drained(path: &std::path::Path, jobs: usize) -> Result<Duration, Problem> {
    let engine = workload::open(path).await?;
    workload::fill(&engine, workload::QUEUE, jobs).await?;
    let tally = workload::RunCounter::until(jobs);
    let began = Instant::now();
    let worker = workload::worker(&engine, tally.clone()).await?;
    tally.reached().await?;
    workload::all_succeeded(&engine, workload::QUEUE, jobs, workload::LOOK).await?;
    let spent = began.elapsed();
    worker.stop().await;
    Ok(spent)
}
