//! What a process of its own costs a run that does nothing: the same jobs one after the other, with and without (E2).

use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::{Config, Isolation, IsolationSettings};

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, BenchGoal, Quantity};
use super::sizes::{BenchSizes, median};
use super::workload;
use crate::problem::Problem;

/// Runs before those that count: the first one starts the process.
const WARM_UP: usize = 20;
/// What a warm process may cost.
const MOST_MS: f64 = 2.0;

/// A job that does nothing.
#[derive(Serialize, Deserialize)]
struct IsolatedNoop {}

impl Job for IsolatedNoop {
    const KIND: &'static str = "isolated-noop";
    type Context = ();
    type Output = JobResult;
    async fn run(self, _: JobContext<()>) -> JobResult {
        Ok(())
    }
}

async fn open(url: &str, isolation: Isolation) -> Result<Backstop, Problem> {
    let settings = IsolationSettings::default().isolate(isolation);
    Ok(Backstop::open_with(url, Config::default().isolation(IsolatedNoop::KIND, settings)).await?)
}

/// Runs the jobs that the measure in the parent hands over, and ends with it.
pub(crate) async fn serve() -> Result<(), Problem> {
    let engine = open("memory:", Isolation::Always).await?;
    engine.worker(()).register::<IsolatedNoop>().queue("default", 1).start().await?;
    Ok(())
}

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    let (mut inside, mut apart) = (Vec::new(), Vec::new());
    for round in 1..=sizes.rounds {
        step(&format!("runs in a process of their own, round {round} of {}", sizes.rounds));
        inside.push(each(place, sizes.latencies, Isolation::Never).await?);
        apart.push(each(place, sizes.latencies, Isolation::Always).await?);
    }
    let row = |name: &str, what: &str, value: f64| BenchFigure::new(name, what, Quantity::Millis, value);
    let costs: Vec<f64> =
        apart.iter().zip(&inside).map(|(apart, inside)| (apart - inside).max(0.0)).collect();
    Ok(vec![
        row("run_inside", "submit to durable end, in the worker", median(&inside)).runs(inside),
        row("run_isolated", "the same, in a warm process of its own", median(&apart)).runs(apart),
        row("isolation_cost", "what the process costs", median(&costs))
            .runs(costs)
            .goal(BenchGoal::Below(MOST_MS)),
    ])
}

/// How long one job takes from its submit to its durable end, in milliseconds, when they come one by one.
async fn each(place: &BenchFolder, runs: usize, isolation: Isolation) -> Result<f64, Problem> {
    let path = place.fresh();
    let engine = open(&format!("sqlite:{}", path.display()), isolation).await?;
    let worker = engine.worker(()).register::<IsolatedNoop>().queue("default", 1).start().await?;
    let mut spent = Duration::ZERO;
    for run in 0..WARM_UP + runs {
        let began = Instant::now();
        let job = engine.enqueue(IsolatedNoop {}).submit().await?;
        let ended = tokio::time::timeout(workload::PATIENCE, job.result()).await;
        ended
            .map_err(|_| workload::stalled())?
            .map_err(|error| Problem::failed("bench", error.to_string()))?;
        if run >= WARM_UP {
            spent += began.elapsed();
        }
    }
    worker.stop().await;
    drop(engine);
    remove(&path);
    Ok(spent.as_secs_f64() * 1_000.0 / runs.max(1) as f64)
}
