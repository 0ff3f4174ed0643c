//! Backstop in `cargo xtask bench compare`, on whichever store the URL names, by its public interface only.
//!
//! Everything is as any program has it: full history, every acknowledged job durable, maintenance on.

use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::store::QueueView;
use backstop::{Config, WorkerHandle};
use backstop_contest::{
    Answer, Arguments, Failure, LOOK, Phase, Tally, filling, now_micros, schedule, shares,
};

/// As in the program `backstop`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs at once. Handlers that wait for nothing need no more than what one claim brings.
const CONCURRENCY: usize = 3_000;
const QUEUE: &str = "default";

/// The job of the contest: it does nothing but report that it ran.
#[derive(Serialize, Deserialize)]
struct Work {
    sent: u64,
    filling: String,
}

impl Job for Work {
    const KIND: &'static str = "work";
    type Context = Scene;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Scene>) -> JobResult {
        cx.app().tally.started(self.sent);
        match cx.app().mood {
            Mood::Well => Ok(()),
            Mood::Broken => Err(Outcome::permanent("the recipient does not exist").into()),
            Mood::Stumbling if cx.run_number() > 1 => Ok(()),
            Mood::Stumbling => Err(Outcome::retry_in(Duration::ZERO, "the connection was reset").into()),
        }
    }
}

/// What handlers do.
#[derive(Clone, Copy)]
enum Mood {
    /// They succeed.
    Well,
    /// They fail for good.
    Broken,
    /// They fail once.
    Stumbling,
}

/// What handlers share.
struct Scene {
    tally: Tally,
    mood: Mood,
}

fn work(sent: u64) -> Work {
    Work { sent, filling: filling() }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    if arguments.phase == Phase::Version {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let settings = format!("one worker, {CONCURRENCY} runs at once, full history, defaults otherwise");
        Answer::Version { version, settings }.print();
        return Ok(());
    }
    // A budget is there to hold retries back, and here they are what is measured.
    let engine = Backstop::open_with(&arguments.url, Config::default().retry_budget(None)).await?;
    let answer = match arguments.phase {
        Phase::Version | Phase::Setup => Answer::Done,
        Phase::EnqueueBulk => bulk(&engine, &arguments).await?,
        Phase::EnqueueSingle => single(&engine, &arguments).await?,
        Phase::Drain => drain(&engine, &arguments, Mood::Well, |queue| queue.succeeded).await?,
        Phase::Fail => drain(&engine, &arguments, Mood::Broken, |queue| queue.failed).await?,
        Phase::Retry => drain(&engine, &arguments, Mood::Stumbling, |queue| queue.succeeded).await?,
        Phase::Latency => latency(&engine, &arguments).await?,
    };
    answer.print();
    Ok(())
}

async fn bulk(engine: &Backstop, arguments: &Arguments) -> Result<Answer, Failure> {
    let began = Instant::now();
    let producers: Vec<_> = shares(arguments.jobs, arguments.clients)
        .into_iter()
        .map(|batches| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for batch in batches {
                    let jobs = (0..batch).map(|_| engine.enqueue(work(0))).collect();
                    for answer in engine.submit_all(jobs, true).await? {
                        answer?;
                    }
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(Answer::Rate { jobs: arguments.jobs, spent: began.elapsed() })
}

async fn single(engine: &Backstop, arguments: &Arguments) -> Result<Answer, Failure> {
    let each = arguments.jobs / arguments.clients;
    let began = Instant::now();
    let producers: Vec<_> = (0..arguments.clients)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    engine.enqueue(work(0)).submit().await?;
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(Answer::Rate { jobs: each * arguments.clients, spent: began.elapsed() })
}

async fn worker(engine: &Backstop, tally: &Tally, mood: Mood) -> Result<WorkerHandle, Failure> {
    Ok(engine
        .worker(Scene { tally: tally.clone(), mood })
        .register::<Work>()
        .queue(QUEUE, CONCURRENCY)
        .start()
        .await?)
}

/// Runs what is stored until so many jobs have ended, as `ended` counts them.
async fn drain(
    engine: &Backstop,
    arguments: &Arguments,
    mood: Mood,
    ended: fn(&QueueView) -> u64,
) -> Result<Answer, Failure> {
    let tally = Tally::default();
    let began = Instant::now();
    let worker = worker(engine, &tally, mood).await?;
    while tally.runs() < arguments.jobs && began.elapsed() < arguments.limit {
        tokio::time::sleep(LOOK).await;
    }
    let mut jobs = tally.runs().min(arguments.jobs);
    // The handlers have run; now the endings have to be stored. Whoever is stopped early is not waited for.
    while jobs == arguments.jobs && count(engine, ended).await? < jobs {
        if began.elapsed() > arguments.limit {
            jobs = count(engine, ended).await?;
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let spent = began.elapsed();
    worker.stop().await;
    Ok(Answer::Rate { jobs, spent })
}

async fn count(engine: &Backstop, ended: fn(&QueueView) -> u64) -> Result<usize, Failure> {
    let queues = engine.queues().await?;
    let queue = queues.iter().find(|queue| queue.name == QUEUE);
    Ok(queue.map_or(0, |queue| usize::try_from(ended(queue)).unwrap_or(0)))
}

async fn latency(engine: &Backstop, arguments: &Arguments) -> Result<Answer, Failure> {
    let tally = Tally::default();
    let worker = worker(engine, &tally, Mood::Well).await?;
    let mut producers = Vec::with_capacity(arguments.jobs);
    for moment in schedule(arguments.jobs, arguments.rate) {
        tokio::time::sleep_until(moment.into()).await;
        let late = u64::try_from(moment.elapsed().as_micros()).unwrap_or(0);
        let sent = now_micros().saturating_sub(late);
        let (job, tally) = (engine.enqueue(work(sent)), tally.clone());
        producers.push(tokio::spawn(async move {
            job.submit().await?;
            tally.acknowledged(sent);
            Ok::<(), Failure>(())
        }));
    }
    for producer in producers {
        producer.await??;
    }
    let ended = Instant::now();
    while tally.runs() < arguments.jobs && ended.elapsed() < arguments.limit {
        tokio::time::sleep(LOOK).await;
    }
    worker.stop().await;
    Ok(Answer::Waits(tally.waits()))
}
