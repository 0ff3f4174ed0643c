//! Duties that one node at a time does for all (L17), one file each.
//!
//! Every process that serves the store takes part, with a worker in it or not: [`handle`] starts the loops, once for
//! each engine. [`leadership`] asks for what somebody has to lead all the time, [`rescue`], [`redrive`] and [`counts`]
//! do it while they lead, [`upkeep`] leads the rest for as long as it takes and
//! tells the store what queues let in ([`gates`]). Nothing that takes long holds up a rescue.

mod alert;
mod alert_loop;
mod archive;
mod audit;
mod counts;
mod expire;
mod forget;
mod gates;
mod handle;
mod history;
mod leadership;
mod prune;
mod redrive;
mod rescue;
mod retire;
mod unled;
mod upkeep;
mod watch_code;

use std::time::Duration;

use backstop_core::WorkerId;
use backstop_store::{Duty, Error as StoreError, Term};

use self::expire::PassedBy;
use crate::engine::Backstop;
use crate::loops::Pulse;

pub(crate) use handle::Slot;
pub use handle::{Maintenance, MaintenanceHandle};
pub use unled::DutyHealth;

/// Rows that one step of a duty touches at most, so that no transaction is long.
const BATCH: usize = 500;

/// Does every duty that this node leads, once. Alerts are left to nodes that have somebody to tell.
pub(crate) async fn round(engine: &Backstop, node: WorkerId, lease: Duration) -> Result<(), StoreError> {
    let pulse = Pulse::new("round", lease, engine.inner.complaints.clone());
    let with_alerts = !engine.inner.config.alerts.channels.is_empty();
    let duties = Duty::ALL.into_iter().filter(|duty| *duty != Duty::Alert || with_alerts).collect();
    lead(engine, node, lease, duties, &pulse).await
}

/// Does those of `duties` that this node gets to lead, once.
async fn lead(
    engine: &Backstop,
    node: WorkerId,
    span: Duration,
    duties: Vec<Duty>,
    pulse: &Pulse,
) -> Result<(), StoreError> {
    let terms = engine.inner.store.lead(node, duties, span).await?;
    for term in terms.into_iter().flatten() {
        pulse.beat();
        match perform(engine, term, span, pulse).await {
            // Another node has taken over in between: its work, not ours.
            Ok(()) | Err(StoreError::Deposed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn perform(engine: &Backstop, term: Term, span: Duration, pulse: &Pulse) -> Result<(), StoreError> {
    match term.duty {
        Duty::Rescue => {
            rescue::rescue(engine, term, pulse).await?;
            // Nobody else keeps the time of runs elsewhere (F10).
            engine.remote().keep_time().await
        }
        Duty::Expire => expire::expire(engine, term, &mut PassedBy::default(), pulse).await,
        Duty::WatchCode => {
            watch_code::watch(engine).await?;
            forget::forget(engine).await
        }
        Duty::Archive => archive::archive(engine, term, pulse).await,
        Duty::Prune => {
            prune::prune(engine, term, pulse).await?;
            audit::prune(engine, term, pulse).await?;
            retire::plans(engine, term, pulse).await?;
            retire::incidents(engine, term, pulse).await?;
            retire::lanes(engine, term, pulse).await?;
            // Alerts that nobody is to be told of.
            if engine.inner.config.alerts.channels.is_empty() { alert::sweep(engine).await } else { Ok(()) }
        }
        Duty::Alert => alert::alert(engine, term, span).await,
        Duty::Redrive => redrive::redrive(engine, term, pulse).await.map(drop),
        Duty::Count => counts::fold(engine, pulse).await.map(drop),
        // A duty of a newer contract is led by newer nodes.
        _ => Ok(()),
    }
}
