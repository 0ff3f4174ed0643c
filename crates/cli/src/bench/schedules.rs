//! Ten thousand schedules that are due at the same second: how long until the last job is stored (W11).

use std::time::{Duration, Instant};

use backstop::schedules::{ScheduleOwner, ScheduleSettings};

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, BenchGoal, Quantity};
use super::sizes::{BenchSizes, median};
use super::workload;
use crate::problem::Problem;

/// Schedules that are due at once.
const SCHEDULES: usize = 10_000;
/// How long their tick may take, in milliseconds.
const TICK_MS: f64 = 1_000.0;
/// How long they take to be declared, at most: they are due behind it.
const AHEAD: i64 = 8;
/// A second, in what time stamps count.
const SECOND: i64 = 1_000_000;
/// The queue of their jobs, which nobody serves.
const QUEUE: &str = "scheduled";

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    let mut ticks = Vec::new();
    for round in 1..=sizes.rounds {
        step(&format!("a tick of 10,000 schedules, round {round} of {}", sizes.rounds));
        ticks.push(tick(place).await?);
    }
    let what = "10,000 schedules due at once, until the last job is stored";
    let figure = BenchFigure::new("schedule_tick", what, Quantity::Millis, median(&ticks)).runs(ticks);
    Ok(vec![figure.goal(BenchGoal::Below(TICK_MS))])
}

/// From the second at which all are due until all their jobs are stored, in milliseconds.
async fn tick(place: &BenchFolder) -> Result<f64, Problem> {
    let path = place.fresh();
    let engine = workload::open(&path).await?;
    // Whoever has a worker looks after schedules; this one has nothing to run.
    let worker = workload::worker(&engine, workload::RunCounter::until(1)).await?;
    let now = engine.store().now().await?.as_micros();
    let due = now / SECOND + AHEAD;
    let (hours, minutes, seconds) = (due / 3_600 % 24, due / 60 % 60, due % 60);
    let cron = format!("{seconds} {minutes} {hours} * * *");
    let names: Vec<String> = (0..SCHEDULES).map(|number| format!("bench-{number}")).collect();
    let schedules = names.iter().map(|name| {
        let job = workload::job(&engine).queue(QUEUE);
        (name.as_str(), (ScheduleSettings::cron(cron.clone()), job))
    });
    let declared = engine.schedules().declare(ScheduleOwner::Code("bench".into()), schedules).await;
    declared.map_err(|problem| Problem::failed("bench", problem.to_string()))?;
    let late = engine.store().now().await?.as_micros() > due * SECOND;
    if late {
        let text = format!("10,000 schedules were not declared within {AHEAD} s");
        return Err(Problem::failed("bench", text));
    }
    let deadline = Instant::now() + workload::PATIENCE;
    loop {
        if Instant::now() > deadline {
            return Err(workload::stalled());
        }
        let queues = engine.queues().list().await?;
        let stored = queues.iter().find(|queue| queue.name == QUEUE).map_or(0, |queue| queue.pending);
        if stored >= SCHEDULES as u64 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let spent = engine.store().now().await?.as_micros() - due * SECOND;
    worker.stop().await;
    drop(engine);
    remove(&path);
    Ok(spent as f64 / 1_000.0)
}
