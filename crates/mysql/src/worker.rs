//! Workers: who is there, until when, and what the dead ones left behind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};
use backstop_store::desk::Grip;
use backstop_store::show::Roster;
use backstop_store::{Error, HandedRun, NewWorker, Orphan, Renewed, WorkerView};

use crate::error::Failure;
use crate::load;
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::Value;

/// Makes a worker known; a known one is replaced whole.
pub(crate) async fn enlist(unit: &mut Unit, worker: &NewWorker) -> Result<(), Failure> {
    let now = unit.now().await?;
    let params = vec![
        Value::worker(worker.id),
        Value::text(&worker.name),
        Value::maybe_text(worker.code_version.as_ref()),
        Value::text(serde_json::to_string(&worker.queues)?),
        Value::text(serde_json::to_string(&worker.kinds)?),
        Value::at(now),
        Value::at(now.after(worker.lease)),
    ];
    unit.commit(vec![Query::new(sql::worker::WORKER_SAVE, params)]).await.map(drop)
}

/// Renews a worker's lease and tells which of `held` it has lost.
pub(crate) async fn renew(
    unit: &mut Unit,
    worker: WorkerId,
    lease: Duration,
    held: &[Lease],
) -> Result<Renewed, Failure> {
    if held.is_empty() {
        return Ok(Renewed { expires_at: prolong(unit, worker, lease).await?, lost: Vec::new() });
    }
    let fences: BTreeSet<i64> = held.iter().map(|lease| lease.fence.0).collect();
    let batch = vec![unit.clock(), Query::new(sql::worker::WORKER_LOCK, vec![Value::worker(worker)])];
    let mut answers = unit.run(batch).await?;
    let row = answers.pop().unwrap_or_default().into_iter().next();
    let now = crate::shared::moment_of(answers.pop().unwrap_or_default())?;
    let until = row.map(|mut row| row.moment()).transpose()?;
    if until.is_none_or(|until| until <= now) {
        return Err(Error::NotEnlisted { worker }.into());
    }
    let expires_at = now.after(lease);
    let batch = vec![
        Query::new(sql::worker::WORKER_RENEW, vec![Value::at(expires_at), Value::worker(worker)]),
        Query::listed(sql::GRIPS_BY_FENCE, vec![Value::ints(fences)]),
    ];
    let mut answers = unit.commit(batch).await?;
    let grips = answers.pop().unwrap_or_default().into_iter().map(rows::grip);
    let grips: HashMap<Fence, Grip> =
        grips.map(|grip| grip.map(|grip| (grip.fence, grip))).collect::<Result<_, _>>()?;
    let open: HashSet<(Fence, JobId)> =
        grips.values().flat_map(|grip| grip.held().map(|(job, _)| (grip.fence, job))).collect();
    let keeps = |lease: &&Lease| {
        let own = grips.get(&lease.fence).is_some_and(|grip| grip.worker == lease.worker);
        own && open.contains(&(lease.fence, lease.job))
    };
    let lost = held.iter().filter(|lease| !keeps(lease)).copied().collect();
    Ok(Renewed { expires_at, lost })
}

/// Renews the lease of a worker that holds nothing; answers until when.
async fn prolong(unit: &mut Unit, worker: WorkerId, lease: Duration) -> Result<Timestamp, Failure> {
    let (moment, id) = (|| unit.shared.moment(), Value::worker(worker));
    let until = [moment(), Value::span(lease), Value::at(Timestamp::MAX)];
    let renew = until.into_iter().chain([id.clone(), moment()]).collect();
    let batch = vec![
        Query::new(sql::worker::WORKER_PROLONG, renew),
        Query::new(sql::worker::WORKER_LIVES, vec![id, moment()]),
    ];
    let mut answers = unit.alone(batch).await?;
    let row = answers.pop().unwrap_or_default().into_iter().next();
    row.ok_or(Error::NotEnlisted { worker })?.moment()
}

/// Forgets a worker.
pub(crate) async fn retire(unit: &mut Unit, worker: WorkerId) -> Result<(), Failure> {
    unit.commit(vec![Query::new(sql::worker::WORKER_DELETE, vec![Value::worker(worker)])]).await.map(drop)
}

/// Every worker that is known, by name.
pub(crate) async fn roster(session: &mut impl Session, now: Timestamp) -> Result<Roster, Failure> {
    let rows = session.one(Query::new(sql::worker::WORKERS, Vec::new())).await?;
    let mut rows = rows.into_iter().map(rows::worker).collect::<Result<Vec<_>, _>>()?;
    rows.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    Ok(Roster::new(rows, now))
}

/// Every claim that holds something.
pub(crate) async fn grips(session: &mut impl Session) -> Result<Vec<Grip>, Failure> {
    let rows = session.one(Query::new(sql::GRIPS, Vec::new())).await?;
    rows.into_iter().map(rows::grip).collect()
}

/// Every worker as it is shown.
pub(crate) async fn workers(unit: &mut Unit) -> Result<Vec<WorkerView>, Failure> {
    let now = unit.now().await?;
    let mut running: HashMap<WorkerId, u64> = HashMap::new();
    for grip in grips(unit).await? {
        *running.entry(grip.worker).or_default() += u64::try_from(grip.held().count()).unwrap_or(u64::MAX);
    }
    Ok(roster(unit, now).await?.into_views(&running))
}

/// The started runs of live workers that serve no queue, by the moment of their start and then by id (F10).
pub(crate) async fn handed_out(unit: &mut Unit) -> Result<Vec<HandedRun>, Failure> {
    let now = unit.now().await?;
    let batches: HashSet<WorkerId> = roster(unit, now).await?.batches().collect();
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let mut grips = grips(unit).await?;
    grips.retain(|grip| batches.contains(&grip.worker));
    let mut runs: Vec<HandedRun> = grips.iter().flat_map(Grip::started).collect();
    runs.sort_unstable_by_key(|run| (run.started_at, run.lease.job));
    Ok(runs)
}

/// Jobs whose worker has stopped renewing, by the moment of the claim and then by id (L15).
pub(crate) async fn orphans(unit: &mut Unit, limit: usize) -> Result<Vec<Orphan>, Failure> {
    // Nearly always there are none, and one statement sees that.
    let look = Query::new(sql::worker::ORPHANED, vec![unit.shared.moment()]);
    let found = unit.alone(vec![look]).await?.into_iter().flatten().next();
    if !found.map(|mut row| row.bool()).transpose()?.unwrap_or_default() {
        return Ok(Vec::new());
    }
    let now = unit.now().await?;
    let roster = roster(unit, now).await?;
    let live: HashSet<WorkerId> = roster.live().map(|row| row.id).collect();
    let mut grips = grips(unit).await?;
    grips.retain(|grip| !live.contains(&grip.worker));
    let mut found: Vec<(Timestamp, JobId)> =
        grips.iter().flat_map(|grip| grip.held().map(|(job, _)| (grip.claimed_at, job))).collect();
    found.sort_unstable();
    found.truncate(limit);
    let ids: Vec<JobId> = found.into_iter().map(|(_, id)| id).collect();
    let shared = unit.shared.clone();
    let mut sketches = load::sketches(unit, &shared.lanes, &ids).await?;
    let orphan = |id: JobId| {
        let sketch = sketches.remove(&id)?;
        let grip = grips.iter().find(|grip| grip.open_slot(id).is_some())?;
        let record = load::held(&sketch, std::slice::from_ref(grip))?;
        let code_version = roster.get(grip.worker).and_then(|row| row.code_version.as_deref()).map(Arc::from);
        Some(Orphan { job: sketch.job, record, lease: grip.lease(id), code_version })
    };
    Ok(ids.into_iter().filter_map(orphan).collect())
}
