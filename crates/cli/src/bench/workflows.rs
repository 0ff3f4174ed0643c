//! What it costs that jobs belong together: steps of chains and jobs of a batch beside jobs of their own, and steps
//! with ten thousand others before or behind them (W1, W3, W6).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use backstop::Enqueue;
use backstop::prelude::*;
use backstop::workflows::{Step, WorkflowId, WorkflowStatus};
use tokio::task::JoinSet;

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, BenchGoal, Quantity};
use super::server::BenchServer;
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

/// How often the end of what other processes run is looked for.
const LOOK_APART: Duration = Duration::from_millis(10);

/// Where workflows are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorkflowPlace<'a> {
    /// In fresh files, by this process.
    Files(&'a BenchFolder),
    /// On a server, by processes of their own.
    Server(&'a BenchServer),
}

/// The store of one run, and the queue of its jobs.
struct StagedRun {
    engine: Backstop,
    queue: String,
    path: Option<PathBuf>,
}

impl WorkflowPlace<'_> {
    /// How many processes run the jobs.
    const fn processes(self) -> u16 {
        match self {
            Self::Files(_) => 1,
            Self::Server(server) => server.processes(),
        }
    }

    async fn open(self) -> Result<StagedRun, Problem> {
        Ok(match self {
            Self::Files(place) => {
                let path = place.fresh();
                let engine = workload::open(&path).await?;
                StagedRun { engine, queue: workload::QUEUE.to_owned(), path: Some(path) }
            }
            Self::Server(server) => {
                let queue = format!("bench-{}", backstop::job_id());
                StagedRun { engine: server.open().await?, queue, path: None }
            }
        })
    }

    /// How long workers take for all that is stored, from their start until the last end is durable and followed up.
    async fn run(
        self,
        staged: &StagedRun,
        jobs: usize,
        workflow: Option<WorkflowId>,
    ) -> Result<Duration, Problem> {
        let StagedRun { engine, queue, .. } = staged;
        let began = Instant::now();
        Ok(match self {
            Self::Files(_) => {
                let tally = RunCounter::until(jobs);
                let worker = workload::worker(engine, tally.clone()).await?;
                tally.reached().await?;
                workload::all_succeeded(engine, queue, jobs, workload::LOOK).await?;
                over(engine, workflow).await?;
                let spent = began.elapsed();
                worker.stop().await;
                spent
            }
            Self::Server(server) => {
                let processes = server.start(queue)?;
                workload::all_succeeded(engine, queue, jobs, LOOK_APART).await?;
                over(engine, workflow).await?;
                let spent = began.elapsed();
                processes.stop().await?;
                spent
            }
        })
    }
}

impl StagedRun {
    /// One job, not submitted.
    fn job(&self) -> Enqueue {
        workload::job(&self.engine).queue(&*self.queue)
    }
}

/// Measures them.
pub(crate) async fn measure(
    sizes: &BenchSizes,
    place: WorkflowPlace<'_>,
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
    // Many processes are measured for what they share; the other goals are stated for one.
    let is_alone = place.processes() == 1;
    let row = |name: &str, what: &str, unit, runs: Vec<f64>, goal: Option<BenchGoal>| {
        let row = BenchFigure::new(name, what, unit, median(&runs)).runs(runs);
        goal.into_iter().fold(row, BenchFigure::goal)
    };
    let if_alone = |goal| is_alone.then_some(goal);
    let (jobs, millis, same) = (Quantity::JobsPerSecond, Quantity::Millis, "the same, of jobs of their own");
    Ok(vec![
        row("plain_drain", "jobs of their own", jobs, plain, None),
        row("chain_steps", "steps of chains of three", jobs, chains, None),
        row("chain_share", same, Quantity::Ratio, chain_shares, if_alone(BenchGoal::AtLeast(CHAIN_SHARE))),
        row("batch_jobs", "jobs of one batch", jobs, batches, None),
        row("batch_share", same, Quantity::Ratio, batch_shares, Some(BenchGoal::AtLeast(BATCH_SHARE))),
        row("many_to_one", "10,000 steps, then one", millis, many_to_one, if_alone(BenchGoal::Below(FAN_MS))),
        row("one_to_many", "one step, then 10,000", millis, one_to_many, if_alone(BenchGoal::Below(FAN_MS))),
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

/// How long all of it takes.
async fn timed(place: WorkflowPlace<'_>, jobs: usize, work: Work) -> Result<Duration, Problem> {
    let staged = place.open().await?;
    let workflow = match work {
        Work::Plain => workload::fill(&staged.engine, &staged.queue, jobs).await.map(|()| None)?,
        Work::Chains => chains(&staged, jobs / CHAIN).await.map(|()| None)?,
        Work::Batch => {
            let batch = staged.engine.batch("bench").for_each(0..jobs, |_| staged.job()).await;
            Some(batch.map_err(refused)?.id)
        }
        Work::ManyToOne | Work::OneToMany => Some(fan(&staged, matches!(work, Work::ManyToOne)).await?),
    };
    let spent = place.run(&staged, jobs, workflow).await?;
    let StagedRun { engine, path, .. } = staged;
    drop(engine);
    path.iter().for_each(|path| remove(path));
    Ok(spent)
}

async fn chains(staged: &StagedRun, chains: usize) -> Result<(), Problem> {
    let mut submits = JoinSet::new();
    for _ in 0..chains {
        if submits.len() == AT_ONCE {
            submitted(submits.join_next().await)?;
        }
        let chain = staged.engine.chain("bench", staged.job());
        let chain = (1..CHAIN).fold(chain, |chain, _| chain.then(staged.job()));
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
async fn fan(staged: &StagedRun, many_to_one: bool) -> Result<WorkflowId, Problem> {
    let mut flow = staged.engine.workflow("bench");
    if many_to_one {
        let before: Vec<Step<_>> =
            (0..FAN).map(|number| flow.step(number.to_string(), staged.job()).add()).collect();
        flow.step("last", staged.job()).after_all(&before).add();
    } else {
        let first = flow.step("first", staged.job()).add();
        for number in 0..FAN {
            flow.step(number.to_string(), staged.job()).after(&first).add();
        }
    }
    Ok(flow.submit().await.map_err(refused)?.id)
}

/// Waits until a workflow or a batch is known to be over.
async fn over(engine: &Backstop, workflow: Option<WorkflowId>) -> Result<(), Problem> {
    let Some(id) = workflow else { return Ok(()) };
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
