//! How much work the measures do, and the figures they make of it.

use std::time::Duration;

use crate::problem::Problem;

/// How much work each measure does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BenchSizes {
    pub(crate) jobs: usize,
    pub(crate) singles: usize,
    pub(crate) latencies: usize,
    pub(crate) backlog: usize,
    /// Messages of a broker.
    pub(crate) messages: usize,
    pub(crate) rounds: usize,
}

impl BenchSizes {
    /// The sizes that the goals are stated for, or a tenth of them.
    pub(crate) const fn new(quick: bool) -> Self {
        if quick {
            Self {
                jobs: 10_000,
                singles: 3_200,
                latencies: 200,
                backlog: 100_000,
                messages: 1_000,
                rounds: 3,
            }
        } else {
            Self {
                jobs: 100_000,
                singles: 32_000,
                latencies: 500,
                backlog: 1_000_000,
                messages: 10_000,
                rounds: 3,
            }
        }
    }
}

/// Jobs, or messages, a second.
pub(super) fn rate(jobs: usize, spent: Duration) -> f64 {
    jobs as f64 / spent.as_secs_f64().max(f64::EPSILON)
}

/// The middle of some runs.
pub(super) fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs what blocks, such as the floor, away from the threads of the runtime.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, backstop_store::Error> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|problem| Problem::failed("bench", problem.to_string()))??)
}
