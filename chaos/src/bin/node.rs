//! One process of a campaign: works, submits, sends, serves, or stands in for a worker that was stopped too long.

#![allow(clippy::print_stdout, reason = "its parent reads what it prints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::signals::stop_asked;
use backstop::{Config, QueueConfig};
use backstop_chaos::client::{self, ClientBehaviour};
use backstop_chaos::driven::DeadLetterJob;
use backstop_chaos::errand::SignalJob;
use backstop_chaos::joining::JoinJob;
use backstop_chaos::journal::Journal;
use backstop_chaos::outside::EffectStepsJob;
use backstop_chaos::partner::{self, CallingJob};
use backstop_chaos::steps::SteppingJob;
use backstop_chaos::together::BulkCampaignJob;
use backstop_chaos::work::CampaignJob;
use backstop_chaos::{branches, crash, fleet, handoff, journal_layer, processes, remote, suspects};
use backstop_server::{Api, ServerSettings, bind};

#[path = "node/disk_full.rs"]
mod disk_full;
#[path = "node/retire.rs"]
mod retire;
#[path = "node/send.rs"]
mod send;
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
        "work" => work(journaled(&url, &folder, partner::config()).await?, lease).await?,
        "work-and-submit" | "work-and-crowd" => {
            let (engine, journal) = submitting(&url, &folder, mode.ends_with("crowd")).await?;
            work((engine, journal), lease).await?;
        }
        "serve" => serve(&journaled(&url, &folder, partner::config()).await?.0, &folder, lease).await?,
        "serve-and-submit" | "serve-and-crowd" => {
            let (engine, _) = submitting(&url, &folder, mode.ends_with("crowd")).await?;
            serve(&engine, &folder, lease).await?;
        }
        "send" => send::run(&journaled(&url, &folder, partner::config()).await?.0).await?,
        "remote" => remote::work(&folder, lease),
        "fleet" => fleet::work(&url, lease).await?,
        "remote-fleet" => fleet::work_remotely(&folder, lease)?,
        "handoff-send" => handoff::send(&url, lease).await?,
        "handoff-receive" => handoff::receive(&url, lease).await?,
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
        "remote-stale" => stale::run_remotely(&folder, lease).await?,
        "retire" => retire::run(&Backstop::open(&url).await?, &folder, lease).await?,
        "disk-full" => disk_full::run(&url, &folder).await?,
        other => return Err(format!("no such mode: {other}").into()),
    }
    Ok(())
}

async fn work((engine, journal): (Backstop, Arc<Journal>), lease: Duration) -> JobResult {
    // Without a word the defaults are what is tested.
    let prefetch = std::env::var("CHAOS_PREFETCH").map_or(Ok(0), |text| text.parse())?;
    let worker = engine.worker(journal).register::<CampaignJob>().register::<SteppingJob>();
    let worker = worker.register::<SignalJob>().register::<CallingJob>().register::<EffectStepsJob>();
    let worker = worker.register::<BulkCampaignJob>().register::<JoinJob>().register::<DeadLetterJob>();
    let worker = branches::known_to(worker).queue("default", 8).prefetch(prefetch);
    worker.lease(lease).poll(Duration::from_millis(50)).grace(Duration::from_secs(5)).run().await?;
    Ok(())
}

/// The store, with clients that submit: as many jobs as they like, or more than the queue has room for.
async fn submitting(url: &str, folder: &Path, crowd: bool) -> JobResult<(Backstop, Arc<Journal>)> {
    let (clients, behaviour) =
        if crowd { (8, ClientBehaviour::CROWD) } else { (2, ClientBehaviour::default()) };
    let mut config = partner::config();
    if crowd {
        config = config.queue("default", QueueConfig::default().max_depth(client::CROWD_DEPTH));
    }
    let (engine, journal) = journaled(url, folder, config).await?;
    for _ in 0..clients {
        tokio::spawn(client::submit(engine.clone(), behaviour));
    }
    tokio::spawn(client::watch(engine.clone(), journal.clone()));
    Ok((engine, journal))
}

/// The store, and the journal of what is asked of it.
async fn journaled(url: &str, folder: &Path, config: Config) -> JobResult<(Backstop, Arc<Journal>)> {
    let journal = Arc::new(Journal::create_in(folder));
    Ok((journal_layer::open_with(url, journal.clone(), config).await?, journal))
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
