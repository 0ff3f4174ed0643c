//! Every duty once, for as long as this node leads it.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::WorkerId;
use backstop_store::{Duty, Error as StoreError, Term};

use super::expire::PassedBy;
use super::{
    alert, archive, audit, buckets, counts, expire, forget, lines, prune, redrive, rescue, retire, schedules,
    sinks, watch_code, workflows,
};
use crate::circuits;
use crate::engine::Backstop;
use crate::job_signals::due;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::rejects;
use crate::remote::{Remote, suspect};
use crate::worker_reports;

/// What duties work on: the engine, and the runs of remote workers, whose time nobody else keeps.
#[derive(Clone)]
pub(super) struct DutyParts {
    pub(super) engine: Arc<EngineParts>,
    pub(super) remote: Remote,
}

impl DutyParts {
    pub(super) fn of(engine: &Backstop) -> Self {
        Self { engine: engine.parts.clone(), remote: engine.remote() }
    }
}

impl Backstop {
    /// Does every maintenance duty that `node` gets to lead, once (L17). Workers do this by themselves; it is for
    /// programs and tests that run none. The node leads what it got for `term` from now.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn maintain(&self, node: WorkerId, term: Duration) -> Result<(), StoreError> {
        let heartbeat = LoopHeartbeat::new("round", term, self.parts.error_throttle.clone());
        let duties =
            Duty::ALL.into_iter().filter(|duty| *duty != Duty::Alert || self.parts.config.has_alerts());
        lead(&DutyParts::of(self), node, term, duties.collect(), &heartbeat).await
    }
}

/// Does those of `duties` that this node gets to lead, once.
pub(super) async fn lead(
    parts: &DutyParts,
    node: WorkerId,
    span: Duration,
    duties: Vec<Duty>,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let terms = parts.engine.store.lead(node, duties, span).await?;
    for term in terms.into_iter().flatten() {
        heartbeat.record();
        match perform(parts, term, span, heartbeat).await {
            // Another node has taken over in between: its work, not ours.
            Ok(()) | Err(StoreError::Deposed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn perform(
    parts: &DutyParts,
    term: Term,
    span: Duration,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let DutyParts { engine, remote } = parts;
    let (store, config) = (&*engine.store, &engine.config);
    match term.duty {
        Duty::Rescue => {
            rescue::rescue(engine, term, heartbeat).await?;
            // Nobody else keeps the time of runs elsewhere (F10).
            remote.keep_time().await
        }
        Duty::Expire => expire::expire(store, term, &mut PassedBy::default(), heartbeat).await,
        Duty::WatchCode => {
            watch_code::watch(store, &engine.events).await?;
            forget::forget(store).await?;
            suspect::sweep(store).await?;
            buckets::sweep(store).await?;
            circuits::stored::sweep(store, &config.alerts).await?;
            worker_reports::sweep(store).await
        }
        Duty::Archive => archive::archive(store, config.retention, term, heartbeat).await,
        Duty::Prune => {
            prune::prune(store, config.retention.archive, term, heartbeat).await?;
            audit::prune(store, config.audit_retention, term, heartbeat).await?;
            retire::plans(store, config.retirement.plans, term, heartbeat).await?;
            retire::incidents(store, config, term, heartbeat).await?;
            retire::lanes(store, config.retirement.queues, term, heartbeat).await?;
            workflows::retire(store, config.retirement.workflows, term, heartbeat).await?;
            rejects::stored::retire_old(store, config.retirement.rejects, term, heartbeat).await?;
            // Alerts that nobody is to be told of.
            if config.has_alerts() { Ok(()) } else { alert::sweep(store).await }
        }
        Duty::Alert => alert::alert(engine, term, span).await,
        Duty::Redrive => redrive::redrive(engine, term, heartbeat).await.map(drop),
        Duty::Count => {
            counts::fold(store, heartbeat).await?;
            // Whoever leads the counts also looks after lines, rejects, signals, sinks and workflows.
            rejects::stored::count_all(store, Some(heartbeat)).await?;
            lines::advance(store, heartbeat).await?;
            due::look(engine, Some(heartbeat)).await?;
            sinks::follow(engine, true, &mut None, heartbeat).await?;
            workflows::advance(engine, heartbeat).await
        }
        Duty::Schedule => schedules::fire(engine, term, &mut None, heartbeat).await.map(drop),
        // A duty of a newer contract is led by newer nodes.
        _ => Ok(()),
    }
}
