//! Single submits from 64 tasks, each acknowledged before the next: what group commit is for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::Backstop;
use backstop_sqlite::floor;

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, Quantity};
use super::sizes::{BenchSizes, blocking, median, rate};
use super::workload;
use crate::problem::Problem;

const TASKS: usize = 64;

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    let total = sizes.singles / TASKS * TASKS;
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    for round in 1..=sizes.rounds {
        step(&format!("single submits, round {round} of {}", sizes.rounds));
        let path = place.fresh();
        let file = path.clone();
        floors.push(rate(total, blocking(move || floor::group_commit_submits(&file, TASKS, total)).await?));
        remove(&path);

        let path = place.fresh();
        let engine = workload::open(&path).await?;
        ours.push(rate(total, submitted(&engine, total / TASKS).await?));
        drop(engine);
        remove(&path);
    }
    let measured =
        BenchFigure::new("single", "single submits from 64 tasks", Quantity::JobsPerSecond, median(&ours));
    Ok(vec![measured.floor(median(&floors)).runs(ours)])
}

async fn submitted(engine: &Backstop, each: usize) -> Result<Duration, Problem> {
    let payload: Arc<str> = floor::payload().into();
    let began = Instant::now();
    let tasks: Vec<_> =
        (0..TASKS).map(|_| tokio::spawn(submit_each(engine.clone(), payload.clone(), each))).collect();
    for task in tasks {
        task.await.map_err(|problem| Problem::failed("bench", problem.to_string()))??;
    }
    Ok(began.elapsed())
}

async fn submit_each(engine: Backstop, payload: Arc<str>, each: usize) -> Result<(), Problem> {
    for _ in 0..each {
        engine.enqueue_raw("work", payload.clone()).submit().await?;
    }
    Ok(())
}
