//! Backstop in `cargo xtask bench compare`, on whichever store the URL names, by its public interface only.
//!
//! Everything is as any program has it: full history, every acknowledged job durable, maintenance on.

use std::sync::Arc;
use std::time::Instant;

use backstop::WorkerHandle;
use backstop::prelude::*;
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
    type Context = Tally;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Tally>) -> JobResult {
        cx.app().started(self.sent);
        Ok(())
    }
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
    let engine = Backstop::open(&arguments.url).await?;
    let answer = match arguments.phase {
        Phase::Version | Phase::Setup => Answer::Done,
        Phase::EnqueueBulk => bulk(&engine, &arguments).await?,
        Phase::EnqueueSingle => single(&engine, &arguments).await?,
        Phase::Drain => drain(&engine, &arguments).await?,
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

async fn worker(engine: &Backstop, tally: &Tally) -> Result<WorkerHandle, Failure> {
    Ok(engine
        .worker_sharing(Arc::new(tally.clone()))
        .register::<Work>()
        .queue(QUEUE, CONCURRENCY)
        .start()
        .await?)
}

async fn drain(engine: &Backstop, arguments: &Arguments) -> Result<Answer, Failure> {
    let tally = Tally::default();
    let began = Instant::now();
    let worker = worker(engine, &tally).await?;
    while tally.runs() < arguments.jobs && began.elapsed() < arguments.limit {
        tokio::time::sleep(LOOK).await;
    }
    let ran = tally.runs();
    // The handlers have run; now the endings have to be stored. Whoever is stopped early is not waited for.
    while ran == arguments.jobs && succeeded(engine).await? < ran {
        tokio::time::sleep(LOOK).await;
    }
    let spent = began.elapsed();
    worker.stop().await;
    Ok(Answer::Rate { jobs: ran, spent })
}

async fn succeeded(engine: &Backstop) -> Result<usize, Failure> {
    let queues = engine.queues().await?;
    let queue = queues.iter().find(|queue| queue.name == QUEUE);
    Ok(queue.map_or(0, |queue| usize::try_from(queue.succeeded).unwrap_or(0)))
}

async fn latency(engine: &Backstop, arguments: &Arguments) -> Result<Answer, Failure> {
    let tally = Tally::default();
    let worker = worker(engine, &tally).await?;
    let mut producers = Vec::with_capacity(arguments.jobs);
    for moment in schedule(arguments.jobs, arguments.rate) {
        tokio::time::sleep_until(moment.into()).await;
        // What the producer itself is late counts as waiting: a slow enqueue must not slow the clock down.
        let late = u64::try_from(moment.elapsed().as_micros()).unwrap_or(0);
        let job = engine.enqueue(work(now_micros().saturating_sub(late)));
        producers.push(tokio::spawn(job.submit()));
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
