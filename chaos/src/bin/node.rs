//! One process of a campaign: works, submits, or stands in for a worker that was stopped too long.

#![allow(clippy::print_stdout, reason = "its parent reads what it prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop_chaos::client::{self, Habits};
use backstop_chaos::journal::Journal;
use backstop_chaos::witness;
use backstop_chaos::work::Toil;

#[path = "node/disk_full.rs"]
mod disk_full;
#[path = "node/retire.rs"]
mod retire;
#[path = "node/stale.rs"]
mod stale;

#[tokio::main(worker_threads = 2)]
async fn main() -> JobResult {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().ok_or("which mode?")?;
    let url = arguments.next().ok_or("which store?")?;
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let lease = Duration::from_millis(arguments.next().map_or(Ok(1_000), |text| text.parse())?);
    match mode.as_str() {
        "open" => drop(Backstop::open(&url).await?),
        "work" => work(&url, &folder, lease, false).await?,
        "work-and-submit" => work(&url, &folder, lease, true).await?,
        "stale" => stale::run(&Backstop::open(&url).await?, lease).await?,
        "retire" => retire::run(&Backstop::open(&url).await?, &folder, lease).await?,
        "disk-full" => disk_full::run(&url, &folder).await?,
        other => return Err(format!("no such mode: {other}").into()),
    }
    Ok(())
}

async fn work(url: &str, folder: &Path, lease: Duration, submits: bool) -> JobResult {
    let journal = Arc::new(Journal::create_in(folder));
    let engine = witness::open(url, journal.clone()).await?;
    if submits {
        for _ in 0..2 {
            tokio::spawn(client::submit(engine.clone(), Habits::default()));
        }
        tokio::spawn(client::watch(engine.clone(), journal.clone()));
    }
    let worker = engine.worker(journal).register::<Toil>().queue("default", 8).prefetch(4);
    worker.lease(lease).poll(Duration::from_millis(50)).grace(Duration::from_secs(5)).run().await?;
    Ok(())
}
