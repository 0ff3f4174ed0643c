//! The task that takes samples of the kept counts while the server runs.

use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, LoopHeartbeat};
use backstop_core::health::add_waits;
use backstop_store::Error;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::history::{ChannelSample, CountHistory, EVERY, MOST_INCIDENTS, MOST_QUEUES};
use crate::api::Api;

/// How long the store may take for a sample; one that is slower leaves a gap.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits and channels are sampled with every so many samples: a sample of waits tells of a whole minute, and workers
/// and bridges tell of themselves every few seconds.
const WAITS_EVERY: u64 = 3;

/// How long the task may be silent (H11).
const SILENT: Duration = Duration::from_secs(20);

/// Samples the counts until it is dropped.
pub(crate) fn keep_history(api: &Api) -> AbortOnDropHandle<()> {
    let (engine, history) = (api.engine().clone(), api.reporting().history.clone());
    let stop = api.stopping().clone();
    let task = api.reporting().loops.supervise("page", SILENT, stop, move |heartbeat| {
        let (engine, history) = (engine.clone(), history.clone());
        async move { keep(&engine, &history, &heartbeat).await }
    });
    AbortOnDropHandle::new(task)
}

async fn keep(engine: &Backstop, history: &Arc<CountHistory>, heartbeat: &LoopHeartbeat) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    for tick in 0_u64.. {
        ticks.tick().await;
        heartbeat.record();
        let both = async {
            sample(engine, history).await?;
            if tick.is_multiple_of(WAITS_EVERY) {
                sample_waits(engine, history).await?;
                sample_channels(engine, history).await?;
            }
            Ok::<(), Error>(())
        };
        match timeout(PATIENCE, both).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the page's charts have a gap: the store failed"),
            Err(_) => tracing::debug!("the page's charts have a gap: the store took too long"),
        }
    }
}

/// Takes one sample. Every read is of what is kept and bounded; nothing here counts jobs.
async fn sample(engine: &Backstop, history: &CountHistory) -> Result<(), Error> {
    let now = engine.store().now().await?;
    let queues = engine.queues().list().await?;
    let incidents = engine.incidents().list(MOST_INCIDENTS).await?;
    history.add(now, queues, &incidents);
    Ok(())
}

/// How long jobs have waited for the workers of all processes, and for remote ones as far as this process serves them.
async fn sample_waits(engine: &Backstop, history: &CountHistory) -> Result<(), Error> {
    let now = engine.store().now().await?;
    let mut workers = engine.workers().await?;
    workers.retain(|worker| worker.live);
    let mut waits = engine.remote().waits(now);
    for report in engine.worker_reports(&workers).await?.values() {
        add_waits(&mut waits, &report.waits);
    }
    history.add_waits(now, waits);
    Ok(())
}

/// What passes through bridges, waits to be handed off and was rejected.
async fn sample_channels(engine: &Backstop, history: &CountHistory) -> Result<(), Error> {
    let now = engine.store().now().await?;
    let bridges = engine.bridges().survey().await?;
    let hand_offs = engine.handoffs().list().await?;
    let rejects = engine.rejects().groups(None, None, MOST_QUEUES).await?;
    let rejects = rejects.next.is_none().then_some(rejects.items);
    history.add_channels(ChannelSample::of(now, &bridges, &hand_offs, rejects.as_deref()));
    Ok(())
}
