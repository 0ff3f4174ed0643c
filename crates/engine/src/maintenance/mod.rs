//! Duties that one node at a time does for all (L17), one file each.

mod archive;
mod expire;
mod rescue;
mod watch_code;

use std::time::Duration;

use backstop_core::WorkerId;
use backstop_store::{Duty, Error as StoreError, Term};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::engine::Backstop;
use crate::loops::{Loops, Pulse};

/// Rows that one step of a duty touches at most, so that no transaction is long.
const BATCH: usize = 500;

/// Starts the loop that asks for leadership and does what it gets.
pub(crate) fn start(
    engine: Backstop,
    node: WorkerId,
    lease: Duration,
    loops: &Loops,
    stop: CancellationToken,
) -> JoinHandle<()> {
    // Orphans must be found within one lease, so duties run three times in it.
    let interval = lease / 3;
    let quit = stop.clone();
    loops.supervise("maintenance", lease.max(interval * 2) * 2, stop, move |pulse| {
        let (engine, quit) = (engine.clone(), quit.clone());
        async move { run(&engine, node, lease, interval, &pulse, &quit).await }
    })
}

async fn run(
    engine: &Backstop,
    node: WorkerId,
    lease: Duration,
    interval: Duration,
    pulse: &Pulse,
    quit: &CancellationToken,
) {
    while !quit.is_cancelled() {
        pulse.beat();
        if let Err(error) = round(engine, node, lease).await {
            pulse.warn(&error, || tracing::warn!(%error, "maintenance waits for the store"));
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = quit.cancelled() => {}
        }
    }
}

/// Does every duty that this node leads, once.
pub(crate) async fn round(engine: &Backstop, node: WorkerId, lease: Duration) -> Result<(), StoreError> {
    let terms = engine.inner.store.lead(node, Duty::ALL.to_vec(), lease).await?;
    for term in terms.into_iter().flatten() {
        match perform(engine, term).await {
            // Another node has taken over in between: its work, not ours.
            Ok(()) | Err(StoreError::Deposed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn perform(engine: &Backstop, term: Term) -> Result<(), StoreError> {
    match term.duty {
        Duty::Rescue => rescue::rescue(engine, term).await,
        Duty::Expire => expire::expire(engine, term).await,
        Duty::WatchCode => watch_code::watch(engine).await,
        Duty::Archive => archive::archive(engine, term).await,
        // A duty of a newer contract is led by newer nodes.
        _ => Ok(()),
    }
}
