//! The phases of the contest for any engine that says how to set up, store, run and count.

use std::future::Future;
use std::time::Instant;

use contest::{
    DriverAnswer, DriverCall, DriverError, DriverPhase, LOOK, RunCount, filling, now_micros, schedule, shares,
};
use serde::{Deserialize, Serialize};

/// The payload of the contest: about 200 bytes of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// When it was due to be sent, in microseconds.
    pub sent: u64,
    /// What makes it long enough.
    pub filling: String,
}

impl Work {
    fn due_at(sent: u64) -> Self {
        Self { sent, filling: filling() }
    }
}

/// A job engine with its store open.
pub trait Engine: Clone + Send + Sync + 'static {
    /// Makes the tables. It runs on the main thread only: some engines' own futures cannot leave it.
    fn setup(&self) -> impl Future<Output = Result<(), DriverError>>;
    /// Stores jobs through the engine's own call for many.
    fn add_many(&self, all: Vec<Work>) -> impl Future<Output = Result<(), DriverError>> + Send;
    /// Stores one job.
    fn add_one(&self, one: Work) -> impl Future<Output = Result<(), DriverError>> + Send;
    /// Starts the worker, whose handlers report to the tally; it runs until the process ends.
    fn start_worker(&self, tally: RunCount) -> impl Future<Output = Result<(), DriverError>> + Send;
    /// Whether a job is stored that is not done.
    fn has_unfinished(&self) -> impl Future<Output = Result<bool, DriverError>> + Send;
}

/// Runs the phase that the command line asks for, and prints the answer.
pub async fn contend<E: Engine, O: Future<Output = Result<E, DriverError>>>(
    version: &str,
    settings: &str,
    open: impl FnOnce(DriverCall) -> O,
) -> Result<(), DriverError> {
    let arguments = DriverCall::read()?;
    if arguments.phase == DriverPhase::Version {
        DriverAnswer::Version { version: version.to_owned(), settings: settings.to_owned() }.print();
        return Ok(());
    }
    let engine = open(arguments.clone()).await?;
    let answer = match arguments.phase {
        DriverPhase::Version => DriverAnswer::Done,
        DriverPhase::Setup => engine.setup().await.map(|()| DriverAnswer::Done)?,
        DriverPhase::EnqueueBulk => bulk(&engine, &arguments).await?,
        DriverPhase::EnqueueSingle => single(&engine, &arguments).await?,
        DriverPhase::Drain => drain(&engine, &arguments).await?,
        DriverPhase::Latency => latency(&engine, &arguments).await?,
        DriverPhase::Fail | DriverPhase::Retry | DriverPhase::Redrive | DriverPhase::Storm | DriverPhase::Idle => {
            return Err("only Backstop is asked this".into());
        }
    };
    answer.print();
    // Some workers take seconds to stop, and nothing is measured any more.
    std::process::exit(0)
}

async fn bulk<E: Engine>(engine: &E, arguments: &DriverCall) -> Result<DriverAnswer, DriverError> {
    let began = Instant::now();
    let producers: Vec<_> = shares(arguments.jobs, arguments.clients)
        .into_iter()
        .map(|batches| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for batch in batches {
                    engine.add_many((0..batch).map(|_| Work::due_at(0)).collect()).await?;
                }
                Ok::<(), DriverError>(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(DriverAnswer::Rate { jobs: arguments.jobs, spent: began.elapsed() })
}

async fn single<E: Engine>(engine: &E, arguments: &DriverCall) -> Result<DriverAnswer, DriverError> {
    let each = arguments.jobs / arguments.clients;
    let began = Instant::now();
    let producers: Vec<_> = (0..arguments.clients)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    engine.add_one(Work::due_at(0)).await?;
                }
                Ok::<(), DriverError>(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(DriverAnswer::Rate { jobs: each * arguments.clients, spent: began.elapsed() })
}

async fn drain<E: Engine>(engine: &E, arguments: &DriverCall) -> Result<DriverAnswer, DriverError> {
    let tally = RunCount::default();
    let began = Instant::now();
    engine.start_worker(tally.clone()).await?;
    while tally.runs() < arguments.jobs && began.elapsed() < arguments.limit {
        tokio::time::sleep(LOOK).await;
    }
    let ran = tally.runs();
    let mut spent = began.elapsed();
    // The handlers have run; now the endings have to be stored. Whoever is stopped early is not waited for.
    while ran == arguments.jobs && engine.has_unfinished().await? {
        tokio::time::sleep(LOOK).await;
        // The time of the look that finds nothing is ours: it grows with what the engine keeps.
        spent = began.elapsed();
    }
    Ok(DriverAnswer::Rate { jobs: ran, spent })
}

async fn latency<E: Engine>(engine: &E, arguments: &DriverCall) -> Result<DriverAnswer, DriverError> {
    let tally = RunCount::default();
    engine.start_worker(tally.clone()).await?;
    let mut producers = Vec::with_capacity(arguments.jobs);
    for moment in schedule(arguments.jobs, arguments.rate) {
        tokio::time::sleep_until(moment.into()).await;
        let late = u64::try_from(moment.elapsed().as_micros()).unwrap_or(0);
        let sent = now_micros().saturating_sub(late);
        let (engine, tally) = (engine.clone(), tally.clone());
        producers.push(tokio::spawn(async move {
            engine.add_one(Work::due_at(sent)).await?;
            tally.acknowledged(sent);
            Ok::<(), DriverError>(())
        }));
    }
    for producer in producers {
        producer.await??;
    }
    let ended = Instant::now();
    while tally.runs() < arguments.jobs && ended.elapsed() < arguments.limit {
        tokio::time::sleep(LOOK).await;
    }
    Ok(DriverAnswer::Waits(tally.waits()))
}
