//! Duties that one node at a time does for all (L17), one file each.

mod alert;
mod alert_loop;
mod archive;
mod audit;
mod expire;
mod forget;
mod prune;
mod redrive;
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

/// What cannot wait: jobs of dead workers, and jobs that must not start any more.
const URGENT: [Duty; 2] = [Duty::Rescue, Duty::Expire];

/// What is done in one of so many rounds: what is kept for days need not be looked at every few seconds.
const SELDOM: [(Duty, u32); 3] = [(Duty::WatchCode, 6), (Duty::Archive, 30), (Duty::Prune, 30)];

/// Starts the loops that ask for leadership and do what they get.
pub(crate) fn start(
    engine: Backstop,
    node: WorkerId,
    lease: Duration,
    loops: &Loops,
    stop: CancellationToken,
) -> Vec<JoinHandle<()>> {
    let alerts = alert_loop::start(engine.clone(), node, lease, loops, stop.clone());
    // Orphans must be found within one lease, so duties run three times in it.
    let interval = lease / 3;
    let quit = stop.clone();
    let duties = loops.supervise("maintenance", lease.max(interval * 2) * 2, stop, move |pulse| {
        let (engine, quit) = (engine.clone(), quit.clone());
        async move { run(&engine, node, lease, interval, &pulse, &quit).await }
    });
    std::iter::once(duties).chain(alerts).collect()
}

async fn run(
    engine: &Backstop,
    node: WorkerId,
    lease: Duration,
    interval: Duration,
    pulse: &Pulse,
    quit: &CancellationToken,
) {
    for number in 0_u32.. {
        if quit.is_cancelled() {
            return;
        }
        pulse.beat();
        // Alerts have a loop of their own, and plans are stepped between the rounds.
        let mut duties = URGENT.to_vec();
        duties.extend(
            SELDOM.iter().filter(|(_, rounds)| number.is_multiple_of(*rounds)).map(|(duty, _)| *duty),
        );
        if let Err(error) = lead(engine, node, lease, duties).await {
            pulse.warn(&error, || tracing::warn!(%error, "maintenance waits for the store"));
        }
        redrive::between_rounds(engine, node, lease, interval, pulse, quit).await;
    }
}

/// Lets others lead what this node led, at once: a node that stops would be waited for until its lease runs out.
pub(crate) async fn resign(engine: &Backstop, node: WorkerId) {
    // What cannot be written is left to the lease.
    let _ = engine.inner.store.lead(node, duties(true), Duration::ZERO).await;
}

/// Does every duty that this node leads, once. Alerts are left to nodes that have somebody to tell.
pub(crate) async fn round(engine: &Backstop, node: WorkerId, lease: Duration) -> Result<(), StoreError> {
    lead(engine, node, lease, duties(!engine.inner.config.alerts.channels.is_empty())).await
}

fn duties(with_alerts: bool) -> Vec<Duty> {
    Duty::ALL.into_iter().filter(|duty| *duty != Duty::Alert || with_alerts).collect()
}

async fn lead(
    engine: &Backstop,
    node: WorkerId,
    lease: Duration,
    duties: Vec<Duty>,
) -> Result<(), StoreError> {
    let terms = engine.inner.store.lead(node, duties, lease).await?;
    for term in terms.into_iter().flatten() {
        match perform(engine, term, lease).await {
            // Another node has taken over in between: its work, not ours.
            Ok(()) | Err(StoreError::Deposed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn perform(engine: &Backstop, term: Term, lease: Duration) -> Result<(), StoreError> {
    match term.duty {
        Duty::Rescue => {
            rescue::rescue(engine, term).await?;
            // Nobody else keeps the time of runs elsewhere (F10).
            engine.remote().keep_time().await
        }
        Duty::Expire => expire::expire(engine, term).await,
        Duty::WatchCode => {
            watch_code::watch(engine).await?;
            forget::forget(engine).await
        }
        Duty::Archive => archive::archive(engine, term).await,
        Duty::Prune => {
            prune::prune(engine, term).await?;
            audit::prune(engine, term).await?;
            // Alerts that nobody is to be told of.
            if engine.inner.config.alerts.channels.is_empty() { alert::sweep(engine).await } else { Ok(()) }
        }
        Duty::Alert => alert::alert(engine, term, lease).await,
        Duty::Redrive => redrive::redrive(engine, term).await.map(drop),
        // A duty of a newer contract is led by newer nodes.
        _ => Ok(()),
    }
}
