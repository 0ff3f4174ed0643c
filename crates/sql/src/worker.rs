//! Workers: who is there, until when, and what the dead ones left behind.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};
use backstop_store::show::Roster;
use backstop_store::working_set::ClaimRow;
use backstop_store::{Error, HandedRun, NewWorker, Orphan, Renewed, WorkerView};

use crate::decode;
use crate::failure::SqlFailure;
use crate::load;
use crate::row::{self, Row};
use crate::session::Session;
use crate::statement::{Request, Statement};
use crate::transaction::Transaction;
use crate::value::Value;

/// Makes a worker known; a known one is replaced whole. `also` is asked in the same round trip, and answered.
pub(crate) async fn enlist(
    tx: &mut Transaction,
    worker: &NewWorker,
    also: Option<Request>,
) -> Result<Vec<Row>, SqlFailure> {
    let now = tx.now().await?;
    let save = Statement::SaveWorker.with(vec![
        Value::worker(worker.id),
        Value::text(&worker.name),
        Value::maybe_text(worker.code_version.as_ref().map(ToString::to_string)),
        Value::text(serde_json::to_string(&worker.queues)?),
        Value::text(serde_json::to_string(&worker.kinds)?),
        Value::at(now),
        Value::at(now.after(worker.lease)),
    ]);
    let mut answers = tx.commit([save].into_iter().chain(also).collect()).await?;
    Ok(answers.pop().unwrap_or_default())
}

/// Renews a worker's lease and tells which of `held` it has lost.
pub(crate) async fn renew(
    tx: &mut Transaction,
    worker: WorkerId,
    lease: Duration,
    held: &[Lease],
) -> Result<Renewed, SqlFailure> {
    let params =
        vec![Value::worker(worker), tx.shared.moment(), Value::span(lease), Value::at(Timestamp::MAX)];
    let renew = Statement::RenewWorker.with(params);
    let fences: BTreeSet<Fence> = held.iter().map(|lease| lease.fence).collect();
    let (renewed, claims) = if held.is_empty() {
        (tx.one_alone(renew).await?, Vec::new())
    } else {
        let mut answers = tx.commit(vec![renew, Statement::ClaimsByFence.each_fence(&fences)]).await?;
        let claims = decode::claims(answers.pop().unwrap_or_default())?;
        (answers.pop().unwrap_or_default(), claims)
    };
    let expires_at = row::first(renewed, Row::moment)?.ok_or(Error::NotEnlisted { worker })?;
    let held_by =
        |claim: &ClaimRow| claim.held().map(|(job, _)| (claim.fence, claim.worker, job)).collect::<Vec<_>>();
    let open: HashSet<(Fence, WorkerId, JobId)> = claims.iter().flat_map(held_by).collect();
    let keeps = |lease: &&Lease| open.contains(&(lease.fence, lease.worker, lease.job));
    let lost = held.iter().filter(|lease| !keeps(lease)).copied().collect();
    Ok(Renewed { expires_at, lost })
}

/// Forgets a worker. `also` is asked in the same transaction.
pub(crate) async fn retire(
    tx: &mut Transaction,
    worker: WorkerId,
    also: Option<Request>,
) -> Result<(), SqlFailure> {
    let forget = Statement::DeleteWorker.with(vec![Value::worker(worker)]);
    tx.commit([forget].into_iter().chain(also).collect()).await.map(drop)
}

/// Every worker that is known, by name.
pub(crate) async fn roster(session: &mut dyn Session, now: Timestamp) -> Result<Roster, SqlFailure> {
    let rows = session.ask(Statement::Workers.plain()).await?;
    let mut workers = rows.into_iter().map(decode::worker).collect::<Result<Vec<_>, _>>()?;
    workers.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    Ok(Roster::new(workers, now))
}

/// Every claim that holds something.
pub(crate) async fn claims(session: &mut dyn Session) -> Result<Vec<ClaimRow>, SqlFailure> {
    decode::claims(session.ask(Statement::Claims.plain()).await?)
}

/// Every worker as it is shown.
pub(crate) async fn workers(tx: &mut Transaction) -> Result<Vec<WorkerView>, SqlFailure> {
    let now = tx.now().await?;
    let mut running: HashMap<WorkerId, u64> = HashMap::new();
    for claim in claims(tx).await? {
        *running.entry(claim.worker).or_default() += u64::try_from(claim.held().count()).unwrap_or(u64::MAX);
    }
    Ok(roster(tx, now).await?.into_views(&running))
}

/// The started runs of live workers that serve no queue, by the moment of their start and then by id (F10).
pub(crate) async fn handed_out(tx: &mut Transaction) -> Result<Vec<HandedRun>, SqlFailure> {
    let now = tx.now().await?;
    let batches: HashSet<WorkerId> = roster(tx, now).await?.batches().collect();
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let mut claims = claims(tx).await?;
    claims.retain(|claim| batches.contains(&claim.worker));
    let mut runs: Vec<HandedRun> = claims.iter().flat_map(ClaimRow::started).collect();
    runs.sort_unstable_by_key(|run| (run.started_at, run.lease.job));
    Ok(runs)
}

/// Jobs whose worker has stopped renewing, by the moment of the claim and then by id (L15).
pub(crate) async fn orphans(tx: &mut Transaction, limit: usize) -> Result<Vec<Orphan>, SqlFailure> {
    // Nearly always there are none, and one statement sees that.
    let look = Statement::Orphaned.with(vec![tx.shared.moment()]);
    if row::first(tx.one_alone(look).await?, Row::bool)? != Some(true) {
        return Ok(Vec::new());
    }
    let now = tx.now().await?;
    let roster = roster(tx, now).await?;
    let live: HashSet<WorkerId> = roster.live().map(|row| row.id).collect();
    let mut claims = claims(tx).await?;
    claims.retain(|claim| !live.contains(&claim.worker));
    let mut found: Vec<(Timestamp, JobId)> =
        claims.iter().flat_map(|claim| claim.held().map(|(job, _)| (claim.claimed_at, job))).collect();
    found.sort_unstable();
    found.truncate(limit);
    let ids: Vec<JobId> = found.into_iter().map(|(_, id)| id).collect();
    let shared = tx.shared.clone();
    let mut stored = load::stored(tx, &shared.lanes, &ids).await?;
    let orphan = |id: JobId| {
        let stored = stored.remove(&id)?;
        let claim = claims.iter().find(|claim| claim.open_slot(id).is_some())?;
        let record = load::held(&stored, std::slice::from_ref(claim))?;
        let code_version =
            roster.get(claim.worker).and_then(|row| row.code_version.as_deref()).map(Arc::from);
        Some(Orphan { job: stored.job, record, lease: claim.lease(id), code_version })
    };
    Ok(ids.into_iter().filter_map(orphan).collect())
}
