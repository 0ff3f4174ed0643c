//! Bulk enqueue: jobs a second in batches of 1,000.

use std::time::Instant;

use backstop_sqlite::floor;

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, Quantity};
use super::sizes::{BenchSizes, blocking, median, rate};
use super::workload;
use crate::problem::Problem;

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    let jobs = sizes.jobs;
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    for round in 1..=sizes.rounds {
        step(&format!("bulk enqueue, round {round} of {}", sizes.rounds));
        let path = place.fresh();
        let file = path.clone();
        floors.push(rate(jobs, blocking(move || floor::bulk_enqueue(&file, jobs, workload::BATCH)).await?));
        remove(&path);

        let path = place.fresh();
        let engine = workload::open(&path).await?;
        let began = Instant::now();
        workload::fill(&engine, workload::QUEUE, jobs).await?;
        ours.push(rate(jobs, began.elapsed()));
        drop(engine);
        remove(&path);
    }
    let measured =
        BenchFigure::new("enqueue", "bulk enqueue, batches of 1,000", Quantity::JobsPerSecond, median(&ours));
    Ok(vec![measured.floor(median(&floors)).runs(ours)])
}
