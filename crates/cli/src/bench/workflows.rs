//! What it costs that jobs belong together: steps of chains and jobs of a batch beside jobs of their own, and steps
//! with ten thousand others before or behind them (W1, W3, W6).

use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::workflows::{Step, WorkflowId, WorkflowStatus};
use tokio::task::JoinSet;

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, BenchGoal, Quantity};
use super::sizes::{BenchSizes, median, rate};
use super::workload::{self, NoopJob, RunCounter};
use crate::problem::Problem;

/// Steps of one chain.
const CHAIN: usize = 3;
/// Steps before one, and behind one.
const FAN: usize = 10_000;
/// Chains that are submitted at a time.
const AT_ONCE: usize = 64;
/// What a step of a chain, and a job of a batch, should reach of a job of its own.
const CHAIN_SHARE: f64 = 0.25;
const BATCH_SHARE: f64 = 0.7;
/// How long a fan may take, in milliseconds.
const FAN_MS: f64 = 3_000.0;

pub(super) async fn measure(
    sizes: &BenchSizes,
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    let jobs = sizes.jobs / 2 / CHAIN * CHAIN;
    let [mut plain, mut chains, mut batches, mut many_to_one, mut one_to_many] = [const { Vec::new() }; 5];
    for round in 1..=sizes.rounds {
        step(&format!("workflows and batches, round {round} of {}", sizes.rounds));
        plain.push(rate(jobs, timed(place, jobs, Work::Plain).await?));
        chains.push(rate(jobs, timed(place, jobs, Work::Chains).await?));
        batches.push(rate(jobs, timed(place, jobs, Work::Batch).await?));
        many_to_one.push(timed(place, FAN + 1, Work::ManyToOne).await?.as_secs_f64() * 1_000.0);
        one_to_many.push(timed(place, FAN + 1, Work::OneToMany).await?.as_secs_f64() * 1_000.0);
    }
    let shares = |ours: &[f64]| ours.iter().zip(&plain).map(|(ours, plain)| ours / plain).collect::<Vec<_>>();
    let (chain_shares, batch_shares) = (shares(&chains), shares(&batches));
    let row = |name: &str, what: &str, unit, runs: Vec<f64>| {
        BenchFigure::new(name, what, unit, median(&runs)).runs(runs)
    };
    let jobs = Quantity::JobsPerSecond;
    Ok(vec![
        row("plain_drain", "jobs of their own", jobs, plain),
        row("chain_steps", "steps of chains of three", jobs, chains),
        row("chain_share", "the same, of jobs of their own", Quantity::Ratio, chain_shares)
            .goal(BenchGoal::AtLeast(CHAIN_SHARE)),
        row("batch_jobs", "jobs of one batch", jobs, batches),
        row("batch_share", "the same, of jobs of their own", Quantity::Ratio, batch_shares)
            .goal(BenchGoal::AtLeast(BATCH_SHARE)),
        row("many_to_one", "10,000 steps, then one", Quantity::Millis, many_to_one)
            .goal(BenchGoal::Below(FAN_MS)),
        row("one_to_many", "one step, then 10,000", Quantity::Millis, one_to_many)
            .goal(BenchGoal::Below(FAN_MS)),
    ])
}

/// What the jobs of a measure are part of.
#[derive(Debug, Clone, Copy)]
enum Work {
    Plain,
    Chains,
    Batch,
    ManyToOne,
    OneToMany,
}

/// How long a worker takes for all of it, from its start until the last end is durable and followed up.
async fn timed(place: &BenchFolder, jobs: usize, work: Work) -> Result<Duration, Problem> {
    let path = place.fresh();
    let engine = workload::open(&path).await?;
    let workflow = match work {
        Work::Plain => workload::fill(&engine, jobs).await.map(|()| None)?,
        Work::Chains => chains(&engine, jobs / CHAIN).await.map(|()| None)?,
        Work::Batch => {
            let batch = engine.batch("bench").for_each(0..jobs, |_| workload::job(&engine)).await;
            Some(batch.map_err(refused)?.id)
        }
        Work::ManyToOne | Work::OneToMany => Some(fan(&engine, matches!(work, Work::ManyToOne)).await?),
    };
    let tally = RunCounter::until(jobs);
    let began = Instant::now();
    let worker = workload::worker(&engine, tally.clone()).await?;
    tally.reached().await?;
    workload::all_succeeded(&engine, jobs).await?;
    if let Some(id) = workflow {
        over(&engine, id).await?;
    }
    let spent = began.elapsed();
    worker.stop().await;
    drop(engine);
    remove(&path);
    Ok(spent)
}

async fn chains(engine: &Backstop, chains: usize) -> Result<(), Problem> {
    let mut submits = JoinSet::new();
    for _ in 0..chains {
        if submits.len() == AT_ONCE {
            submitted(submits.join_next().await)?;
        }
        let chain = engine.chain("bench", workload::job(engine));
        let chain = (1..CHAIN).fold(chain, |chain, _| chain.then(workload::job(engine)));
        submits.spawn(async move { chain.submit().await.map(drop).map_err(refused) });
    }
    while let Some(done) = submits.join_next().await {
        submitted(Some(done))?;
    }
    Ok(())
}

fn submitted(done: Option<Result<Result<(), Problem>, tokio::task::JoinError>>) -> Result<(), Problem> {
    done.transpose().map_err(|error| Problem::failed("bench", error.to_string()))?.unwrap_or(Ok(()))
}

/// A graph with [`FAN`] steps before one, or behind one.
async fn fan(engine: &Backstop, many_to_one: bool) -> Result<WorkflowId, Problem> {
    let mut flow = engine.workflow("bench");
    if many_to_one {
        let before: Vec<Step<_>> =
            (0..FAN).map(|number| flow.step(number.to_string(), workload::job(engine)).add()).collect();
        flow.step("last", workload::job(engine)).after_all(&before).add();
    } else {
        let first = flow.step("first", workload::job(engine)).add();
        for number in 0..FAN {
            flow.step(number.to_string(), workload::job(engine)).after(&first).add();
        }
    }
    Ok(flow.submit().await.map_err(refused)?.id)
}

/// Waits until a workflow or a batch is known to be over.
async fn over(engine: &Backstop, id: WorkflowId) -> Result<(), Problem> {
    let deadline = Instant::now() + workload::PATIENCE;
    while Instant::now() < deadline {
        let view = engine.workflows().get(id).await?;
        match view.map(|view| view.status) {
            Some(WorkflowStatus::Succeeded) => return Ok(()),
            Some(WorkflowStatus::Running) => tokio::time::sleep(Duration::from_millis(1)).await,
            other => return Err(Problem::failed("bench", format!("the workflow is {other:?}"))),
        }
    }
    Err(workload::stalled())
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn refused(problem: backstop::workflows::WorkflowProblem) -> Problem {
    Problem::failed("bench", format!("{}: {problem}", NoopJob::KIND))
}
