//! Jobs with their records, found wherever they are, and locked when something is about to change.
//!
//! A job's row moves: out of `ready` into a claim, from there to `done` or back. Whoever wants to change a job reads
//! where it is, locks the row there, and looks again; if it has moved on meanwhile, the search begins anew.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backstop_core::job::{NewJob, Record, State, StoredJob};
use backstop_core::{JobId, Timestamp};
use backstop_store::desk::{Desk, File, Grip};

use crate::columns::Columns;
use crate::error::Failure;
use crate::lanes::Lanes;
use crate::rows::{self, LANE_COLUMN};
use crate::session::{Query, Session};
use crate::sql;
use crate::values::{Row, Value};

/// A job as `job`, `record` and `done` tell of it: for a pending or a running one this is only half of the truth.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    pub(crate) job: Arc<StoredJob>,
    pub(crate) lane: i64,
    /// Its record as it waits, or as it ended.
    pub(crate) record: Record,
    pub(crate) rowed: bool,
}

impl Sketch {
    /// True when it is pending or running, which only `ready` and the claims know.
    pub(crate) fn is_open(&self) -> bool {
        self.record.state == State::Pending
    }

    pub(crate) fn into_file(self) -> File {
        File { job: self.job, record: self.record, rowed: self.rowed }
    }
}

/// Searches that begin anew before we give up: each of them means that the job moved in between.
const MOST_SEARCHES: usize = 50;

/// Reads columns of `job`, `record` and `done`.
pub(crate) fn sketch(row: &mut Row, lanes: &Lanes) -> Result<Sketch, Failure> {
    let found = rows::job(row, false, |id| lanes.get(id))?;
    let (past, done) = (rows::record(row)?, rows::done(row)?);
    let rowed = past.is_some();
    let record = done.or(past).unwrap_or_else(|| Record::new(&found.job.spec, found.run_at));
    Ok(Sketch { job: Arc::new(found.job), lane: found.lane, record, rowed })
}

/// Reads a pending job as `sql::PICK` answers it.
pub(crate) fn picked(row: &mut Row, lanes: &Lanes) -> Result<File, Failure> {
    let found = rows::job(row, true, |id| lanes.get(id))?;
    let past = rows::folded_record(row)?;
    let rowed = past.is_some();
    let record = past.unwrap_or_else(|| Record::new(&found.job.spec, found.run_at));
    Ok(File { job: Arc::new(found.job), record, rowed })
}

/// Makes sure that the lanes of rows are known; the columns of `job` begin at `offset`.
pub(crate) async fn meet_lanes(
    session: &mut impl Session,
    lanes: &Lanes,
    rows: &[Row],
    offset: usize,
) -> Result<(), Failure> {
    let ids: HashSet<i64> = rows.iter().filter_map(|row| row.peek_int(offset + LANE_COLUMN)).collect();
    lanes.meet(session, ids).await
}

/// What the tables say of jobs, without a lock.
pub(crate) async fn sketches(
    session: &mut impl Session,
    lanes: &Lanes,
    ids: &[JobId],
) -> Result<HashMap<JobId, Sketch>, Failure> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = session.one(Query::new(sql::LOAD, vec![Value::jobs(ids)])).await?;
    meet_lanes(session, lanes, &rows, 0).await?;
    let mut found = HashMap::with_capacity(rows.len());
    for mut row in rows {
        let sketch = sketch(&mut row, lanes)?;
        found.insert(sketch.job.spec.id, sketch);
    }
    Ok(found)
}

/// Puts callbacks of expired jobs on the desk, except those that are stored already: an id stands for one of them
/// (F14).
pub(crate) async fn insert_callbacks(
    session: &mut impl Session,
    lanes: &Lanes,
    desk: &mut Desk,
    callbacks: &[NewJob],
) -> Result<(), Failure> {
    let ids = callbacks.iter().map(|callback| callback.spec.id).filter(|id| desk.file(*id).is_none());
    let ids: Vec<JobId> = ids.collect();
    for sketch in sketches(session, lanes, &ids).await?.into_values() {
        desk.lay(sketch.into_file());
    }
    callbacks.iter().for_each(|callback| desk.insert_callback(callback));
    Ok(())
}

/// Jobs that were found and locked, with the claims that hold them.
#[derive(Debug, Default)]
pub(crate) struct Locked {
    pub(crate) files: Vec<File>,
    pub(crate) grips: Vec<Grip>,
}

/// Finds jobs and locks the row that decides where each of them is. An unknown id is left out.
pub(crate) async fn lock(
    session: &mut impl Session,
    lanes: &Lanes,
    ids: &[JobId],
) -> Result<Locked, Failure> {
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
    Err(Failure::Again("a job kept moving".to_owned()))
}

/// One search; answers those that moved between being seen and being locked.
async fn search(
    session: &mut impl Session,
    lanes: &Lanes,
    wanted: Vec<JobId>,
    locked: &mut Locked,
) -> Result<Vec<JobId>, Failure> {
    let seen = sketches(session, lanes, &wanted).await?;
    let mut moved = Vec::new();
    let (open, ended): (Vec<Sketch>, Vec<Sketch>) = seen.into_values().partition(Sketch::is_open);
    let (done, shelved): (Vec<Sketch>, Vec<Sketch>) =
        ended.into_iter().partition(|sketch| sketch.record.state == State::Succeeded);
    // Succeeded is final: nothing can change under us.
    locked.files.extend(done.into_iter().map(Sketch::into_file));
    lock_shelved(session, shelved, locked, &mut moved).await?;
    let waiting = ready_rows(session, sql::READY_LOCK, &open).await?;
    let (pending, elsewhere): (Vec<Sketch>, Vec<Sketch>) =
        open.into_iter().partition(|sketch| waiting.contains(&sketch.job.spec.id));
    let grips = grips_with(session, sql::GRIPS_WITH_LOCK, &elsewhere).await?;
    // What was read before the locks may be old by now.
    let again: Vec<JobId> = pending.iter().chain(&elsewhere).map(|sketch| sketch.job.spec.id).collect();
    let mut newest = sketches(session, lanes, &again).await?;
    for seen in pending.into_iter().chain(elsewhere) {
        let id = seen.job.spec.id;
        let is_ready = waiting.contains(&id).then_some(seen.record.run_at);
        match newest.remove(&id).and_then(|sketch| settle(sketch, is_ready, &grips)) {
            Some(file) => locked.files.push(file),
            None => moved.push(id),
        }
    }
    locked.grips.extend(grips);
    Ok(moved)
}

/// The file of an open job, once the lock on its place is held; none when it is not there any more.
///
/// `ready_at` is the due time of its row in `ready`, when that is the row that is locked.
fn settle(sketch: Sketch, ready_at: Option<Timestamp>, grips: &[Grip]) -> Option<File> {
    if !sketch.is_open() {
        return None;
    }
    if let Some(due) = ready_at {
        return (sketch.record.run_at == due).then(|| sketch.into_file());
    }
    let record = held(&sketch, grips)?;
    Some(File { record, job: sketch.job, rowed: sketch.rowed })
}

/// The record of a job that one of these claims holds.
pub(crate) fn held(sketch: &Sketch, grips: &[Grip]) -> Option<Record> {
    let id = sketch.job.spec.id;
    grips.iter().find_map(|grip| {
        let slot = *grip.slots.get(grip.open_slot(id)?)?;
        grip.replay(id, slot, sketch.record.clone())
    })
}

async fn lock_shelved(
    session: &mut impl Session,
    shelved: Vec<Sketch>,
    locked: &mut Locked,
    moved: &mut Vec<JobId>,
) -> Result<(), Failure> {
    if shelved.is_empty() {
        return Ok(());
    }
    let ids = Value::jobs(shelved.iter().map(|sketch| &sketch.job.spec.id));
    let mut records = HashMap::new();
    for mut row in session.one(Query::new(sql::RECORDS_LOCK, vec![ids])).await? {
        let id = row.job()?;
        records.extend(rows::record(&mut row)?.map(|record| (id, record)));
    }
    for sketch in shelved {
        let id = sketch.job.spec.id;
        match records.remove(&id) {
            // What was read under the lock counts, not what was seen before it.
            Some(record) if record.state == sketch.record.state => {
                locked.files.push(File { record, job: sketch.job, rowed: sketch.rowed });
            }
            _ => moved.push(id),
        }
    }
    Ok(())
}

/// Those of these open jobs that are in `ready`.
pub(crate) async fn ready_rows(
    session: &mut impl Session,
    statement: &'static str,
    open: &[Sketch],
) -> Result<HashSet<JobId>, Failure> {
    if open.is_empty() {
        return Ok(HashSet::new());
    }
    let mut keys = Columns::default();
    for sketch in open {
        keys.push(&[
            Value::Int(Some(sketch.lane)),
            Value::at(sketch.record.run_at),
            Value::job(sketch.job.spec.id),
        ]);
    }
    let rows = session.one(Query::new(statement, keys.into_params())).await?;
    rows.into_iter().map(|mut row| row.job()).collect()
}

/// The claims that may hold these jobs.
pub(crate) async fn grips_with(
    session: &mut impl Session,
    statement: &'static str,
    jobs: &[Sketch],
) -> Result<Vec<Grip>, Failure> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let ids = Value::jobs(jobs.iter().map(|sketch| &sketch.job.spec.id));
    let rows = session.one(Query::new(statement, vec![ids])).await?;
    rows.into_iter().map(rows::grip).collect()
}
