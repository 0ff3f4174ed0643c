//! Workers: who is there, until when, and what the dead ones left behind.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};
use backstop_store::show::Roster;
use backstop_store::{HandedRun, NewWorker, Orphan, Renewed, WorkerView};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::lanes::LaneCache;
use crate::rows;
use crate::sql;
use crate::transaction::WriteTransaction;

/// Makes a worker known; a known one is replaced whole.
pub(crate) fn enlist(tx: &mut WriteTransaction<'_>, worker: &NewWorker) -> Result<(), SqliteFailure> {
    tx.conn.prepare_cached(sql::WORKER_SAVE)?.execute(params![
        worker.id.as_bytes(),
        worker.name,
        worker.code_version,
        serde_json::to_string(&worker.queues)?,
        serde_json::to_string(&worker.kinds)?,
        tx.now.as_micros(),
        tx.now.after(worker.lease).as_micros(),
    ])?;
    tx.news.work_arrived = true;
    Ok(())
}

/// Renews a worker's lease and tells which of `held` it has lost.
pub(crate) fn renew(
    tx: &mut WriteTransaction<'_>,
    worker: WorkerId,
    lease: Duration,
    held: &[Lease],
) -> Result<Renewed, SqliteFailure> {
    tx.expect_live(worker)?;
    let expires_at = tx.now.after(lease);
    tx.conn.prepare_cached(sql::WORKER_RENEW)?.execute(params![worker.as_bytes(), expires_at.as_micros()])?;
    let mut lost = Vec::new();
    for lease in held {
        let kept = tx.find(lease.job)?.is_some_and(|stored| stored.record.held_by(lease).is_ok());
        if !kept {
            lost.push(*lease);
        }
    }
    Ok(Renewed { expires_at, lost })
}

/// Forgets a worker.
pub(crate) fn retire(tx: &mut WriteTransaction<'_>, worker: WorkerId) -> Result<(), SqliteFailure> {
    tx.conn.prepare_cached(sql::WORKER_DELETE)?.execute([worker.as_bytes()])?;
    Ok(())
}

/// Every worker that is known, by name.
pub(crate) fn roster(conn: &Connection, now: Timestamp) -> Result<Roster, SqliteFailure> {
    Ok(Roster::new(rows::collect(&mut *conn.prepare_cached(sql::WORKERS)?, [], rows::worker)?, now))
}

/// A job that a worker holds. There are never more than workers have asked for, so all of them are read.
struct HeldRow {
    worker: WorkerId,
    claimed_at: Timestamp,
    id: JobId,
    seq: i64,
    fence: Fence,
    started_at: Option<Timestamp>,
}

fn held(conn: &Connection) -> Result<Vec<HeldRow>, SqliteFailure> {
    rows::collect(&mut *conn.prepare_cached(sql::HELD)?, [], |row| {
        Ok(HeldRow {
            worker: rows::worker_id(row, 0)?,
            claimed_at: Timestamp::from_micros(row.get(1)?),
            id: rows::job_id(row, 2)?,
            seq: row.get(3)?,
            fence: Fence(row.get(4)?),
            started_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
        })
    })
}

/// Every worker as it is shown.
pub(crate) fn workers(conn: &Connection, now: Timestamp) -> Result<Vec<WorkerView>, SqliteFailure> {
    let mut running: HashMap<WorkerId, u64> = HashMap::new();
    for job in held(conn)? {
        *running.entry(job.worker).or_default() += 1;
    }
    Ok(roster(conn, now)?.into_views(&running))
}

/// The started runs of live workers that serve no queue, by the moment of their start and then by id (F10).
pub(crate) fn handed_out(conn: &Connection, now: Timestamp) -> Result<Vec<HandedRun>, SqliteFailure> {
    let roster = roster(conn, now)?;
    let batches: HashSet<WorkerId> = roster.batches().collect();
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let run = |job: HeldRow| {
        let lease = Lease { job: job.id, worker: job.worker, fence: job.fence };
        Some(HandedRun { lease, started_at: job.started_at? })
    };
    let held = held(conn)?.into_iter().filter(|job| batches.contains(&job.worker));
    let mut runs: Vec<HandedRun> = held.filter_map(run).collect();
    runs.sort_unstable_by_key(|run| (run.started_at, run.lease.job));
    Ok(runs)
}

/// Jobs whose worker has stopped renewing, by the moment of the claim and then by id (L15).
pub(crate) fn orphans(
    conn: &Connection,
    lanes: &mut LaneCache,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Orphan>, SqliteFailure> {
    let roster = roster(conn, now)?;
    let live: HashSet<WorkerId> = roster.live().map(|row| row.id).collect();
    let mut found = held(conn)?;
    found.retain(|job| !live.contains(&job.worker));
    found.sort_unstable_by_key(|job| (job.claimed_at, job.id));
    found.truncate(limit);
    let mut select = conn.prepare_cached(sql::STATE_AND_JOB_BY_SEQ)?;
    let mut orphans = Vec::with_capacity(found.len());
    for HeldRow { worker, seq, .. } in found {
        let code_version = roster.get(worker).and_then(|row| row.code_version.as_deref()).map(Arc::from);
        let orphan = rows::first(&mut select, [seq], |row| {
            let stored = rows::state_row(row)?;
            let job = Arc::new(rows::job(row, stored.id, &*lanes.get(conn, stored.lane)?)?);
            let lease = Lease { job: stored.id, worker, fence: stored.record.fence };
            Ok(Orphan { job, record: stored.record, lease, code_version })
        })?;
        orphans.extend(orphan);
    }
    Ok(orphans)
}

/// Which workers of a batch are live, each looked up once.
#[derive(Default)]
pub(crate) struct LiveWorkers(HashMap<WorkerId, bool>);

impl LiveWorkers {
    pub(crate) fn is_live(
        &mut self,
        tx: &WriteTransaction<'_>,
        worker: WorkerId,
    ) -> Result<bool, SqliteFailure> {
        if let Some(live) = self.0.get(&worker) {
            return Ok(*live);
        }
        let live = tx.is_live(worker)?;
        self.0.insert(worker, live);
        Ok(live)
    }
}
