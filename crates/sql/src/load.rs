//! Jobs with their records, found wherever they are, and locked when something is about to change.
//!
//! A job's row moves: out of `ready` into a claim, from there to `done` or back. Whoever wants to change a job reads
//! where it is, locks the row there, and looks again; if it has moved on meanwhile, the search starts again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backstop_core::job::{NewJob, Record, State, StoredJob};
use backstop_core::{Fence, JobId, Timestamp};
use backstop_store::working_set::{ClaimRow, LoadedJob, WorkingSet};

use crate::columns::Columns;
use crate::decode::{self, LANE_COLUMN};
use crate::failure::SqlFailure;
use crate::lanes::Lanes;
use crate::row::{self, Row};
use crate::session::Session;
use crate::statement::Statement;

/// A job as `job`, `record` and `done` tell of it: for a pending or a running one this is only half of the truth.
#[derive(Debug, Clone)]
pub struct FoundJob {
    /// What was submitted.
    pub job: Arc<StoredJob>,
    /// The id of its lane.
    pub lane: i64,
    /// Its record as it waits, or as it ended.
    pub record: Record,
    /// True when it has a row in `record`.
    pub rowed: bool,
}

impl FoundJob {
    /// True when it is pending or running, which only `ready` and the claims know.
    pub(crate) fn is_open(&self) -> bool {
        self.record.state == State::Pending
    }

    /// The job with the record that was read.
    #[must_use]
    pub fn into_loaded(self) -> LoadedJob {
        LoadedJob { job: self.job, record: self.record, rowed: self.rowed }
    }

    fn key(&self) -> (i64, Timestamp, JobId) {
        (self.lane, self.record.run_at, self.job.spec.id)
    }
}

/// Searches that are repeated before we give up: each repeat means that the job moved in between.
const MOST_SEARCHES: usize = 50;

/// Reads columns of `job`, `record` and `done`.
pub(crate) fn read(row: &mut Row, lanes: &Lanes) -> Result<FoundJob, SqlFailure> {
    let found = decode::job(row, false, |id| lanes.get(id))?;
    let (past, done) = (decode::record(row)?, decode::done(row)?);
    let rowed = past.is_some();
    let done = done.map(|record| record.beside(&found.job.spec));
    let record = done.or(past).unwrap_or_else(|| Record::new(&found.job.spec, found.run_at));
    Ok(FoundJob { job: Arc::new(found.job), lane: found.lane, record, rowed })
}

/// Reads a pending job whose columns that are mostly empty came as one, and those of its record as another.
///
/// # Errors
/// [`SqlFailure::Unreadable`].
pub fn read_folded(row: &mut Row, lanes: &Lanes) -> Result<LoadedJob, SqlFailure> {
    let found = decode::job(row, true, |id| lanes.get(id))?;
    let past = decode::folded_record(row)?;
    let rowed = past.is_some();
    let record = past.unwrap_or_else(|| Record::new(&found.job.spec, found.run_at));
    Ok(LoadedJob { job: Arc::new(found.job), record, rowed })
}

/// Makes sure that the lanes of rows are known; the columns of `job` begin at `offset`.
///
/// # Errors
/// Those of the session.
pub async fn meet_lanes(
    session: &mut dyn Session,
    lanes: &Lanes,
    rows: &[Row],
    offset: usize,
) -> Result<(), SqlFailure> {
    let ids: HashSet<i64> = rows.iter().filter_map(|row| row.peek_int(offset + LANE_COLUMN)).collect();
    lanes.meet(session, ids).await
}

/// What the tables say of jobs, without a lock.
///
/// # Errors
/// Those of the session.
pub async fn stored(
    session: &mut dyn Session,
    lanes: &Lanes,
    ids: &[JobId],
) -> Result<HashMap<JobId, FoundJob>, SqlFailure> {
    let rows = session.ask(Statement::Load.each_job(ids)).await?;
    meet_lanes(session, lanes, &rows, 0).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for mut row in rows {
        let stored = read(&mut row, lanes)?;
        found.insert(stored.job.spec.id, stored);
    }
    Ok(found)
}

/// Adds callbacks of expired jobs to the working set, except those that are stored already: an id stands for one of
/// them (F14).
pub(crate) async fn insert_callbacks(
    session: &mut dyn Session,
    lanes: &Lanes,
    set: &mut WorkingSet,
    callbacks: &[NewJob],
) -> Result<(), SqlFailure> {
    let ids = callbacks.iter().map(|callback| callback.spec.id).filter(|id| set.job(*id).is_none());
    let ids: Vec<JobId> = ids.collect();
    for stored in stored(session, lanes, &ids).await?.into_values() {
        set.put(stored.into_loaded());
    }
    callbacks.iter().for_each(|callback| set.insert_callback(callback));
    Ok(())
}

/// Jobs that were found and locked, with the claims that hold them.
#[derive(Debug, Default)]
pub(crate) struct Locked {
    pub(crate) jobs: Vec<LoadedJob>,
    pub(crate) claims: Vec<ClaimRow>,
}

impl Locked {
    /// Adds all of it to a working set.
    pub(crate) fn put_into(self, set: &mut WorkingSet) {
        self.jobs.into_iter().for_each(|job| set.put(job));
        self.claims.into_iter().for_each(|claim| set.put_claim(claim));
    }
}

/// Finds jobs and locks the row that decides where each of them is. An unknown id is left out.
pub(crate) async fn lock(
    session: &mut dyn Session,
    lanes: &Lanes,
    ids: &[JobId],
) -> Result<Locked, SqlFailure> {
    let mut locked = Locked::default();
    let mut wanted: Vec<JobId> = ids.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    for _ in 0..MOST_SEARCHES {
        if wanted.is_empty() {
            return Ok(locked);
        }
        wanted = search(session, lanes, wanted, &mut locked).await?;
    }
    Err(SqlFailure::Again("a job kept moving".to_owned()))
}

/// One search; answers those that moved between being seen and being locked.
async fn search(
    session: &mut dyn Session,
    lanes: &Lanes,
    wanted: Vec<JobId>,
    locked: &mut Locked,
) -> Result<Vec<JobId>, SqlFailure> {
    let seen = stored(session, lanes, &wanted).await?;
    let mut moved = Vec::new();
    let (open, ended): (Vec<FoundJob>, Vec<FoundJob>) = seen.into_values().partition(FoundJob::is_open);
    let (done, at_rest): (Vec<FoundJob>, Vec<FoundJob>) =
        ended.into_iter().partition(|stored| stored.record.state == State::Succeeded);
    // Succeeded is final: nothing can change under us.
    locked.jobs.extend(done.into_iter().map(FoundJob::into_loaded));
    lock_at_rest(session, at_rest, locked, &mut moved).await?;
    let waiting = ready_rows(session, Statement::LockReady, &open).await?;
    let (pending, elsewhere): (Vec<FoundJob>, Vec<FoundJob>) =
        open.into_iter().partition(|stored| waiting.contains(&stored.job.spec.id));
    let claims = lock_claims_with(session, &elsewhere).await?;
    // What was read before the locks may be old by now.
    let again: Vec<JobId> = pending.iter().chain(&elsewhere).map(|stored| stored.job.spec.id).collect();
    let mut newest = stored(session, lanes, &again).await?;
    for seen in pending.into_iter().chain(elsewhere) {
        let id = seen.job.spec.id;
        let is_ready = waiting.contains(&id).then_some(seen.record.run_at);
        match newest.remove(&id).and_then(|stored| settle(stored, is_ready, &claims)) {
            Some(job) => locked.jobs.push(job),
            None => moved.push(id),
        }
    }
    locked.claims.extend(claims);
    Ok(moved)
}

/// An open job, once the lock on its place is held; none when it is not there any more.
///
/// `ready_at` is the due time of its row in `ready`, when that is the row that is locked.
fn settle(stored: FoundJob, ready_at: Option<Timestamp>, claims: &[ClaimRow]) -> Option<LoadedJob> {
    if !stored.is_open() {
        return None;
    }
    if let Some(due) = ready_at {
        return (stored.record.run_at == due).then(|| stored.into_loaded());
    }
    let record = held(&stored, claims)?;
    Some(LoadedJob { record, job: stored.job, rowed: stored.rowed })
}

/// The record of a job that one of these claims holds.
pub(crate) fn held(stored: &FoundJob, claims: &[ClaimRow]) -> Option<Record> {
    let id = stored.job.spec.id;
    claims.iter().find_map(|claim| {
        let slot = *claim.slots.get(claim.open_slot(id)?)?;
        claim.replay(id, slot, stored.record.clone())
    })
}

/// Locks the records of jobs that neither wait nor run.
async fn lock_at_rest(
    session: &mut dyn Session,
    at_rest: Vec<FoundJob>,
    locked: &mut Locked,
    moved: &mut Vec<JobId>,
) -> Result<(), SqlFailure> {
    let mut ids: Vec<JobId> = at_rest.iter().map(|stored| stored.job.spec.id).collect();
    ids.sort_unstable();
    let mut records = HashMap::new();
    for mut row in session.ask(Statement::LockRecords.each_job(&ids)).await? {
        let id = row.job()?;
        records.extend(decode::record(&mut row)?.map(|record| (id, record)));
    }
    for stored in at_rest {
        let id = stored.job.spec.id;
        match records.remove(&id) {
            // What was read under the lock counts, not what was seen before it.
            Some(record) if record.state == stored.record.state => {
                locked.jobs.push(LoadedJob { record, job: stored.job, rowed: stored.rowed });
            }
            _ => moved.push(id),
        }
    }
    Ok(())
}

/// Those of these open jobs that are in `ready`: [`Statement::FindReady`] or [`Statement::LockReady`].
pub(crate) async fn ready_rows(
    session: &mut dyn Session,
    statement: Statement,
    open: &[FoundJob],
) -> Result<HashSet<JobId>, SqlFailure> {
    // In the order of the key: whoever locks in one order never deadlocks.
    let mut keys: Vec<_> = open.iter().map(FoundJob::key).collect();
    keys.sort_unstable();
    let mut columns = Columns::default();
    for (lane, run_at, id) in keys {
        columns.row().int(lane).at(run_at).job(id);
    }
    row::jobs(session.ask(statement.rows(columns)).await?)
}

/// The claims that hold these jobs.
pub(crate) async fn claims_with(
    session: &mut dyn Session,
    jobs: &[FoundJob],
) -> Result<Vec<ClaimRow>, SqlFailure> {
    let ids: HashSet<JobId> = jobs.iter().map(|stored| stored.job.spec.id).collect();
    let rows = session.ask(Statement::ClaimsWith.each_job(&ids)).await?;
    let mut claims = decode::claims(rows)?;
    claims.retain(|claim| claim.jobs.iter().any(|id| ids.contains(id)));
    Ok(claims)
}

/// The claims that may hold these jobs, locked. The search itself does not lock: it would wait for every claim.
async fn lock_claims_with(session: &mut dyn Session, jobs: &[FoundJob]) -> Result<Vec<ClaimRow>, SqlFailure> {
    let claims = claims_with(session, jobs).await?;
    let mut fences: Vec<Fence> = claims.into_iter().map(|claim| claim.fence).collect();
    fences.sort_unstable();
    decode::claims(session.ask(Statement::LockWholeClaims.each_fence(&fences)).await?)
}
