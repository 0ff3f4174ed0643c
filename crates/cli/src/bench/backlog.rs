//! A large backlog against a small one: the rate of the first jobs, and peak memory.
//!
//! Each runs in a child process of the same program, so that its memory is its own.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, BenchGoal, Quantity};
use super::sizes::{BenchSizes, blocking, median, rate};
use super::workload;
use crate::problem::Problem;

const SMALL: usize = 10_000;
/// Jobs whose rate counts.
const FIRST: usize = 100_000;
const AT_LEAST: f64 = 0.8;
const MEMORY_MB: f64 = 200.0;

/// What a child measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DrainReport {
    rate: f64,
    peak_bytes: Option<u64>,
}

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    let mut small = Vec::new();
    for round in 1..=sizes.rounds {
        step(&format!("a backlog of {SMALL}, round {round} of {}", sizes.rounds));
        small.push(in_child(place, SMALL).await?.rate);
    }
    step(&format!("a backlog of {}", sizes.backlog));
    let large = in_child(place, sizes.backlog).await?;
    let named =
        |text: &str| format!("{text} of {} jobs", crate::output::figures::grouped(sizes.backlog as u64));
    let mut rows = vec![
        BenchFigure::new(
            "backlog_small",
            "drain rate of a backlog of 10,000",
            Quantity::JobsPerSecond,
            median(&small),
        )
        .runs(small.clone()),
        BenchFigure::new(
            "backlog_large",
            &named("drain rate of a backlog"),
            Quantity::JobsPerSecond,
            large.rate,
        ),
        BenchFigure::new(
            "backlog_ratio",
            "large backlog against small",
            Quantity::Ratio,
            large.rate / median(&small),
        )
        .goal(BenchGoal::AtLeast(AT_LEAST)),
    ];
    if let Some(peak) = large.peak_bytes {
        let megabytes = peak as f64 / 1_000_000.0;
        let row = BenchFigure::new(
            "backlog_memory",
            &named("peak memory with a backlog"),
            Quantity::Megabytes,
            megabytes,
        );
        rows.push(row.goal(BenchGoal::Below(MEMORY_MB)));
    }
    Ok(rows)
}

/// Runs the measure of one backlog in a process of its own.
async fn in_child(place: &BenchFolder, backlog: usize) -> Result<DrainReport, Problem> {
    let path = place.fresh();
    let file = path.clone();
    let failed =
        |problem: String| Problem::failed("bench_child", format!("the measuring process failed: {problem}"));
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = blocking(move || {
        Ok(std::process::Command::new(program)
            .args(["bench", "--child-backlog", &backlog.to_string(), "--dir"])
            .arg(file)
            .env_remove("BACKSTOP_CONFIG")
            .output())
    })
    .await?
    .map_err(|error| failed(error.to_string()))?;
    remove(&path);
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// The child: fills the file at `path`, drains the first jobs, and looks at its own memory.
pub(crate) async fn child(path: &Path, backlog: usize) -> Result<DrainReport, Problem> {
    let engine = workload::open(path).await?;
    workload::fill(&engine, workload::QUEUE, backlog).await?;
    let first = backlog.min(FIRST);
    let tally = workload::RunCounter::until(first);
    let began = Instant::now();
    let worker = workload::worker(&engine, tally.clone()).await?;
    tally.reached().await?;
    workload::all_succeeded(&engine, workload::QUEUE, first, workload::LOOK).await?;
    let spent = began.elapsed();
    worker.stop().await;
    Ok(DrainReport { rate: rate(first, spent), peak_bytes: peak_bytes() })
}

/// The most memory this process has held, where the system tells.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}
