//! One process of a campaign: works, submits, or stands in for a worker that was stopped too long.

#![allow(clippy::print_stdout, reason = "its parent reads what it prints")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop_chaos::journal::{Entry, Journal};
use backstop_chaos::work::{Toil, policy};

#[path = "node/disk_full.rs"]
mod disk_full;
#[path = "node/stale.rs"]
mod stale;

#[tokio::main(worker_threads = 2)]
async fn main() -> JobResult {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().ok_or("which mode?")?;
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let lease = Duration::from_millis(arguments.next().map_or(Ok(1_000), |text| text.parse())?);
    match mode.as_str() {
        "open" => drop(open(&folder).await?),
        "work" => work(&folder, lease, false).await?,
        "work-and-submit" => work(&folder, lease, true).await?,
        "stale" => stale::run(&open(&folder).await?, lease).await?,
        "disk-full" => disk_full::run(&folder).await?,
        other => return Err(format!("no such mode: {other}").into()),
    }
    Ok(())
}

async fn open(folder: &std::path::Path) -> JobResult<Backstop> {
    Ok(Backstop::open(&format!("sqlite:{}", folder.join("jobs.db").display())).await?)
}

async fn work(folder: &std::path::Path, lease: Duration, submits: bool) -> JobResult {
    let engine = open(folder).await?;
    let name = format!("{}-{}.journal", std::process::id(), fastrand::u64(..));
    let journal = Arc::new(Journal::open(&folder.join(name)));
    if submits {
        for _ in 0..2 {
            tokio::spawn(submit(engine.clone(), journal.clone()));
        }
    }
    let worker = engine.worker(journal).register::<Toil>().queue("default", 8).prefetch(4);
    worker.lease(lease).poll(Duration::from_millis(50)).grace(Duration::from_secs(5)).run().await?;
    Ok(())
}

/// Submits for as long as the process lives; says what it tries before, and what was acknowledged after.
async fn submit(engine: Backstop, journal: Arc<Journal>) {
    loop {
        let job = engine.enqueue(Toil { number: fastrand::u64(..) }).policy(policy());
        let Ok(new) = job.into_new_job() else { return };
        let id = new.spec.id;
        journal.write(&Entry::Trying(id));
        let batch = backstop::store::Submit { jobs: vec![new], atomic: true };
        if engine.store().submit(batch).await.is_ok_and(|answers| answers.iter().all(Result::is_ok)) {
            journal.write(&Entry::Acked(id));
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..10))).await;
    }
}
