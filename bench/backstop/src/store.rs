//! Storing jobs: many in one call, or one at a time from many producers.

use std::time::Instant;

use backstop::Enqueue;
use backstop::prelude::*;
use backstop_contest::{BATCH, DriverAnswer, DriverCall, DriverError, shares};

use crate::served::ServedQueues;
use crate::work::Work;

/// Stores jobs in batches from several producers.
pub(crate) async fn bulk(
    engine: &Backstop,
    arguments: &DriverCall,
    served: &ServedQueues,
) -> Result<DriverAnswer, DriverError> {
    let queues: Vec<String> = (0..arguments.filled).map(|at| served.queue_of(at).to_owned()).collect();
    let began = Instant::now();
    let producers: Vec<_> = shares(arguments.jobs, arguments.clients)
        .into_iter()
        .map(|batches| {
            let (engine, queues) = (engine.clone(), queues.clone());
            tokio::spawn(async move {
                for (at, batch) in batches.into_iter().enumerate() {
                    let numbers = at * BATCH..at * BATCH + batch;
                    let queue = |number: usize| queues[number % queues.len()].as_str();
                    let job = |number| engine.enqueue(Work::due_at(0)).queue(queue(number));
                    together(&engine, numbers.map(job).collect()).await?;
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

/// Stores these jobs in one transaction.
pub(crate) async fn together(engine: &Backstop, jobs: Vec<Enqueue<()>>) -> Result<(), DriverError> {
    for answer in engine.submit_all(jobs, true).await? {
        answer?;
    }
    Ok(())
}

/// Stores jobs one at a time; every producer waits for the acknowledgement of its job.
pub(crate) async fn single(engine: &Backstop, arguments: &DriverCall) -> Result<DriverAnswer, DriverError> {
    let each = arguments.jobs / arguments.clients;
    let began = Instant::now();
    let producers: Vec<_> = (0..arguments.clients)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    engine.enqueue(Work::due_at(0)).submit().await?;
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
