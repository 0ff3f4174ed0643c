//! One process of a campaign: works, submits, serves, or stands in for a worker that was stopped too long.

#![allow(clippy::print_stdout, reason = "its parent reads what it prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::signals::stop_asked;
use backstop_chaos::client::{self, ClientBehaviour};
use backstop_chaos::errand::SignalJob;
use backstop_chaos::journal::Journal;
use backstop_chaos::steps::SteppingJob;
use backstop_chaos::work::CampaignJob;
use backstop_chaos::{crash, fleet, journal_layer, processes, remote, suspects};
use backstop_server::{Api, ServerSettings, bind};

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
        "serve" => serve(&journaled(&url, &folder).await?.0, &folder, lease).await?,
        "serve-and-submit" => {
            let (engine, journal) = journaled(&url, &folder).await?;
            submit(&engine, &journal);
            serve(&engine, &folder, lease).await?;
        }
        "remote" => remote::work(&folder, lease),
        "fleet" => fleet::work(&url, lease).await?,
        "suspects" => suspects::work(&url, lease).await?,
        "remote-suspects" => suspects::work_remotely(&folder, lease),
        "crash-open" => drop(crash::job::open(&url, &folder).await?),
        "crash-work" => crash::job::work(&url, &folder, lease).await?,
        "crash-submit" => crash::job::submit(&url, &folder).await?,
        "crash-serve" => {
            let (engine, _) = crash::job::open(&url, &folder).await?;
            serve(&engine, &folder, lease).await?;
        }
        "crash-remote" => crash::remote::work(&folder, lease),
        "stale" => stale::run(&Backstop::open(&url).await?, lease).await?,
        "retire" => retire::run(&Backstop::open(&url).await?, &folder, lease).await?,
        "disk-full" => disk_full::run(&url, &folder).await?,
        other => return Err(format!("no such mode: {other}").into()),
    }
    Ok(())
}

async fn work(url: &str, folder: &Path, lease: Duration, submits: bool) -> JobResult {
    let (engine, journal) = journaled(url, folder).await?;
    if submits {
        submit(&engine, &journal);
    }
    // Without a word the defaults are what is tested.
    let prefetch = std::env::var("CHAOS_PREFETCH").map_or(Ok(0), |text| text.parse())?;
    let worker = engine.worker(journal).register::<CampaignJob>().register::<SteppingJob>();
    let worker = worker.register::<SignalJob>().queue("default", 8).prefetch(prefetch);
    worker.lease(lease).poll(Duration::from_millis(50)).grace(Duration::from_secs(5)).run().await?;
    Ok(())
}

fn submit(engine: &Backstop, journal: &Arc<Journal>) {
    for _ in 0..2 {
        tokio::spawn(client::submit(engine.clone(), ClientBehaviour::default()));
    }
    tokio::spawn(client::watch(engine.clone(), journal.clone()));
}

/// The store, and the journal of what is asked of it.
async fn journaled(url: &str, folder: &Path) -> JobResult<(Backstop, Arc<Journal>)> {
    let journal = Arc::new(Journal::create_in(folder));
    Ok((journal_layer::open(url, journal.clone()).await?, journal))
}

/// Serves the HTTP API without a worker, and says where.
async fn serve(engine: &Backstop, folder: &Path, lease: Duration) -> JobResult {
    let mut settings = ServerSettings::default();
    settings.lease = Some(lease);
    let api = Api::new(engine.clone(), settings);
    let listener = bind(([127, 0, 0, 1], 0).into(), &api).await?;
    let slot = std::env::var("CHAOS_SLOT").unwrap_or_else(|_| "0".to_owned());
    processes::announce(folder, &slot, listener.local_addr()?)?;
    backstop_server::serve(listener, api, stop_asked()).await?;
    Ok(())
}
