//! The task that takes samples of the kept counts while the server runs.

use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, LoopHeartbeat};
use backstop_store::Error;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::history::{CountHistory, EVERY, MOST_INCIDENTS};
use crate::api::Api;

/// How long the store may take for a sample; one that is slower leaves a gap.
const PATIENCE: Duration = Duration::from_secs(2);

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
    loop {
        ticks.tick().await;
        heartbeat.record();
        match timeout(PATIENCE, sample(engine, history)).await {
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
