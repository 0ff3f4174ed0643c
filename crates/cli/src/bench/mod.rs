//! The measures of `backstop bench`: what hand-written SQL can do on this machine, and how near Backstop comes.
//!
//! Every figure is measured when it is asked for, on fresh files with synchronous=FULL. Floor and Backstop take turns,
//! so that a machine that slows down slows both.
//! - [`enqueue`], [`drain`], [`single`], [`latency`], [`backlog`]: one measure each.
//! - [`workload`]: the job that does nothing. [`report`]: the table. [`folder`]: the directory of the files.

mod backlog;
mod drain;
mod enqueue;
mod folder;
mod latency;
mod report;
mod single;
mod workload;

use clap::ValueEnum;

pub(crate) use backlog::child;
pub(crate) use folder::BenchFolder;
pub(crate) use report::{BenchFigure, table};

use crate::problem::Problem;

/// The measures by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchMeasure {
    /// Bulk enqueue in batches.
    Enqueue,
    /// Claim, run and complete with full history.
    Drain,
    /// Single submits from many tasks, each acknowledged.
    Single,
    /// From submit to the start of the handler on an idle engine.
    Latency,
    /// A large backlog against a small one, and peak memory.
    Backlog,
}

/// How much work each measure does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchSizes {
    pub(crate) jobs: usize,
    pub(crate) singles: usize,
    pub(crate) latencies: usize,
    pub(crate) backlog: usize,
    pub(crate) rounds: usize,
}

impl BenchSizes {
    /// The sizes that the goals are stated for, or a tenth of them.
    pub(crate) const fn new(quick: bool) -> Self {
        if quick {
            Self { jobs: 10_000, singles: 3_200, latencies: 200, backlog: 100_000, rounds: 3 }
        } else {
            Self { jobs: 100_000, singles: 32_000, latencies: 500, backlog: 1_000_000, rounds: 3 }
        }
    }
}

impl BenchMeasure {
    /// Measures, calling `step` with what it is about to do.
    pub(crate) async fn take(
        self,
        sizes: &BenchSizes,
        place: &BenchFolder,
        step: &dyn Fn(&str),
    ) -> Result<Vec<BenchFigure>, Problem> {
        match self {
            Self::Enqueue => enqueue::measure(sizes, place, step).await,
            Self::Drain => drain::measure(sizes, place, step).await,
            Self::Single => single::measure(sizes, place, step).await,
            Self::Latency => latency::measure(sizes, place, step).await,
            Self::Backlog => backlog::measure(sizes, place, step).await,
        }
    }
}

/// Jobs a second.
fn rate(jobs: usize, spent: std::time::Duration) -> f64 {
    jobs as f64 / spent.as_secs_f64().max(f64::EPSILON)
}

/// The middle of some runs.
fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs what blocks, such as the floor, away from the threads of the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, backstop_store::Error> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|problem| Problem::failed("bench", problem.to_string()))??)
}
