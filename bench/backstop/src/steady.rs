//! Jobs that come one by one at a steady rate: beside an idle worker, or beside a storm of failures.

use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop_contest::{BATCH, DriverAnswer, DriverCall, DriverError, LOOK, RunCount, now_micros, schedule};

use crate::served::{CONCURRENCY, QUEUE, ServedQueues};
use crate::store::together;
use crate::work::{HandlerBehaviour, HandlerState, StormJob, Work};

/// The queue of the storm.
const FAILING: &str = "failing";

/// Sends jobs beside an idle worker, and tells how long each waited.
pub(crate) async fn latency(
    engine: &Backstop,
    arguments: &DriverCall,
    served: &ServedQueues,
) -> Result<DriverAnswer, DriverError> {
    let tally = RunCount::default();
    let worker = served.worker(engine, &tally, HandlerBehaviour::Well).await?;
    send(engine, arguments, &tally).await?;
    worker.stop().await;
    Ok(DriverAnswer::Waits(tally.waits()))
}

/// The same, while the same worker serves a queue beside it whose jobs all fail.
pub(crate) async fn storm(engine: &Backstop, arguments: &DriverCall) -> Result<DriverAnswer, DriverError> {
    for begin in (0..arguments.beside).step_by(BATCH) {
        let count = BATCH.min(arguments.beside - begin);
        together(engine, (0..count).map(|_| engine.enqueue(StormJob::one()).queue(FAILING)).collect())
            .await?;
    }
    let (tally, each) = (RunCount::default(), CONCURRENCY / 2);
    let scene = HandlerState::new(&tally, HandlerBehaviour::Well);
    let failures = scene.failures.clone();
    let worker = engine.worker(scene).register::<Work>().register::<StormJob>();
    let worker = worker.queue(QUEUE, each).queue(FAILING, each).start().await?;
    let spent = send(engine, arguments, &tally).await?;
    let answer = DriverAnswer::Steady {
        jobs: tally.runs().min(arguments.jobs),
        spent,
        waits: tally.waits(),
        failures: failures.runs(),
    };
    worker.stop().await;
    Ok(answer)
}

/// Sends jobs evenly without waiting for what was sent before, then waits until all have run; answers the time from the
/// first that was due.
async fn send(engine: &Backstop, arguments: &DriverCall, tally: &RunCount) -> Result<Duration, DriverError> {
    let mut producers = Vec::with_capacity(arguments.jobs);
    let mut began = None;
    for moment in schedule(arguments.jobs, arguments.rate) {
        began = began.or(Some(moment));
        tokio::time::sleep_until(moment.into()).await;
        let late = u64::try_from(moment.elapsed().as_micros()).unwrap_or(0);
        let sent = now_micros().saturating_sub(late);
        let (job, tally) = (engine.enqueue(Work::due_at(sent)).queue(QUEUE), tally.clone());
        producers.push(tokio::spawn(async move {
            job.submit().await?;
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
    Ok(began.map_or(Duration::ZERO, |began| began.elapsed()))
}
