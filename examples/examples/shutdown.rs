//! A worker that stops in time and loses nothing. Run it with: cargo run -p backstop-examples --example shutdown
//!
//! At a stop a worker claims no more, lets running work finish within its grace period, and hands the rest back as
//! interrupted, which is not a failure. `WorkerBuilder::run` does this at SIGTERM and SIGINT.

use std::time::Duration;

use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop::{Cause, JobId, State};
use backstop_examples::Scratch;
use tokio::sync::mpsc::UnboundedSender;

/// Takes `millis` the first time; what was interrupted goes quickly the next time.
#[job]
async fn export(cx: JobContext<UnboundedSender<String>>, name: String, millis: u64) -> JobResult {
    println!("  {name}: run {} begins", cx.run_number());
    cx.app().send(name.clone())?;
    if cx.run_number() == 1 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
    println!("  {name}: done");
    Ok(())
}

/// The causes that the job's runs ended by, in order.
async fn causes(engine: &Backstop, job: JobId) -> JobResult<Vec<Cause>> {
    let runs = engine.attempts(job, PageRequest::first(10)).await?.items;
    Ok(runs.iter().rev().map(|run| run.cause).collect())
}

#[tokio::main]
async fn main() -> JobResult {
    let scratch = Scratch::new("shutdown")?;
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (short, long);
    {
        println!("the first process has two exports to do, and then is told to stop");
        let engine = Backstop::open(&scratch.store()).await?;
        short = engine.enqueue(Export { name: "short".into(), millis: 300 }).submit().await?.id;
        long = engine.enqueue(Export { name: "long".into(), millis: 3_600_000 }).submit().await?.id;
        let worker = engine.worker(begun.clone()).register::<Export>().queue("default", 2);
        let both = async {
            begins.recv().await;
            begins.recv().await;
        };
        let stopped = worker.grace(Duration::from_millis(1_500)).run_until(both).await?;
        println!("stopped: {} handed back, clean is {}", stopped.interrupted, stopped.clean);
        // L18: the short one could finish, the long one could not.
        assert_eq!((stopped.interrupted, stopped.clean), (1, true));
        assert_eq!(causes(&engine, short).await?, [Cause::Succeeded]);
    }

    println!("the next process finds the rest in the file");
    let engine = Backstop::open(&scratch.store()).await?;
    engine.worker(begun).register::<Export>().queue("default", 2).inline()?.drain(10).await?;
    let view = engine.job(long).await?.ok_or("a job is never lost")?.view;
    println!(
        "long: {} after {:?}, {} attempts charged",
        view.state(),
        causes(&engine, long).await?,
        view.record.attempt
    );
    assert_eq!(causes(&engine, long).await?, [Cause::Interrupted, Cause::Succeeded]);
    assert_eq!((view.state(), view.record.attempt), (State::Succeeded, 0));
    Ok(())
}
