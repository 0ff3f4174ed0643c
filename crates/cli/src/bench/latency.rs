//! From the call of submit to the start of the handler, on an engine that has nothing else to do.

use std::time::{Duration, Instant};

use backstop::prelude::*;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, BenchGoal, Quantity};
use super::sizes::BenchSizes;
use super::workload;
use crate::problem::Problem;

/// Between two submits: long enough that each finds the engine idle.
const SPACING: Duration = Duration::from_millis(5);
/// Submits before those that count.
const WARM_UP: usize = 20;
/// What the slowest hundredth may take.
const P99_MS: f64 = 10.0;

/// A job that says when it started.
#[derive(Serialize, Deserialize)]
struct Ping {}

impl Job for Ping {
    const KIND: &'static str = "ping";
    type Context = UnboundedSender<Instant>;
    type Output = JobResult;
    async fn run(self, cx: JobContext<UnboundedSender<Instant>>) -> JobResult {
        cx.app().send(Instant::now())?;
        Ok(())
    }
}

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    step("submit to handler start");
    let path = place.fresh();
    let engine = workload::open(&path).await?;
    let (started, mut starts) = unbounded_channel();
    let worker = engine.worker(started).register::<Ping>().queue("default", 64).start().await?;
    let mut waits = Vec::with_capacity(sizes.latencies);
    for submit in 0..WARM_UP + sizes.latencies {
        tokio::time::sleep(SPACING).await;
        let began = Instant::now();
        engine.enqueue(Ping {}).submit().await?;
        let start =
            timeout(workload::PATIENCE, starts.recv()).await.ok().flatten().ok_or_else(workload::stalled)?;
        if submit >= WARM_UP {
            waits.push(start.duration_since(began));
        }
    }
    worker.stop().await;
    drop(engine);
    remove(&path);
    waits.sort_unstable();
    let at = |per_mille: usize| quantile(&waits, per_mille).as_secs_f64() * 1_000.0;
    let row = |name: &str, what: &str, value: f64| BenchFigure::new(name, what, Quantity::Millis, value);
    Ok(vec![
        row("latency_p50", "submit to handler start, p50", at(500)),
        row("latency_p99", "submit to handler start, p99", at(990)).goal(BenchGoal::Below(P99_MS)),
        row("latency_p999", "submit to handler start, p99.9", at(999)),
    ])
}

/// The wait that this share of all waits, in thousandths, does not exceed. Every wait is kept as it was measured.
fn quantile(sorted: &[Duration], per_mille: usize) -> Duration {
    let rank = (sorted.len() * per_mille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_is_shown_as_slow_as_it_was() {
        let mut waits = vec![Duration::from_millis(1); 980];
        waits.extend(vec![Duration::from_secs(7); 20]);
        let shown = [500, 980, 990, 999].map(|per_mille| quantile(&waits, per_mille).as_secs());
        assert_eq!(shown, [0, 0, 7, 7]);
        assert_eq!(quantile(&[], 500), Duration::ZERO);
    }
}
