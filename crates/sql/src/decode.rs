//! Rows of tables as values of the core. Knows the order of columns, and nothing of what the values mean.

use std::sync::Arc;

use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::incident::Standing;
use backstop_core::job::{
    Attempt, Damage, FailureRecord, JobExtras, JobSummary, Marks, PausedFrom, Record, Spec, State, StoredJob,
};
use backstop_core::{Fence, JobId, Timestamp};
use backstop_store::show::WorkerRow;
use backstop_store::working_set::{ClaimRow, LaneKey};
use backstop_store::{Archived, Incident};
use serde::Deserialize;

use crate::encode::status_code;
use crate::failure::SqlFailure;
use crate::row::Row;

/// The number of columns of `record` in every row that has them.
const RECORD_COLUMNS: usize = 17;
/// The number of columns of `done` in every row that has them.
const DONE_COLUMNS: usize = 11;
/// Where a row of `job` has its lane.
pub const LANE_COLUMN: usize = 1;

/// The state that is written as this number.
pub(crate) fn state_of(code: i64) -> Result<State, SqlFailure> {
    let known = State::ALL.into_iter().find(|state| status_code(*state) == code);
    known.ok_or_else(|| SqlFailure::Unreadable(format!("unknown job status {code}")))
}

/// A row of `job`.
#[derive(Debug)]
pub(crate) struct JobRow {
    pub(crate) job: StoredJob,
    pub(crate) lane: i64,
    /// When it was first due.
    pub(crate) run_at: Timestamp,
}

/// Reads the columns of `job`. `folded`: those that most jobs leave empty came as one.
pub(crate) fn job(
    row: &mut Row,
    folded: bool,
    lane: impl Fn(i64) -> Result<Arc<LaneKey>, SqlFailure>,
) -> Result<JobRow, SqlFailure> {
    let (id, lane_id) = (row.job()?, row.int()?);
    let (created_at, run_at) = (row.moment()?, row.moment()?);
    let lane = lane(lane_id)?;
    let mut spec = Spec::new(id, lane.kind.clone(), row.text()?);
    spec.version = lane.version;
    spec.queue = lane.queue.clone();
    spec.priority = lane.priority;
    if folded {
        row.maybe_several()?.map_or(Ok(()), |mut row| extras(&mut row, &mut spec))?;
    } else {
        extras(row, &mut spec)?;
    }
    Ok(JobRow { job: StoredJob { spec, created_at }, lane: lane_id, run_at })
}

/// Reads the columns of `job` that most jobs leave empty.
fn extras(row: &mut Row, spec: &mut Spec) -> Result<(), SqlFailure> {
    let mut damage = Damage::default();
    spec.policy = damage.decode("policy", row.maybe_text()?.as_deref()).unwrap_or_default();
    spec.expires_at = row.maybe_moment()?;
    spec.idempotency_key = row.maybe_text()?;
    spec.business_key = row.maybe_text()?;
    spec.correlation_id = row.maybe_text()?;
    spec.tags = damage.decode("tags", row.maybe_text()?.as_deref()).unwrap_or_default();
    spec.params = row.maybe_text()?.map(Arc::from);
    spec.on_success = damage.decode("on_success", row.maybe_text()?.as_deref());
    spec.on_failure = damage.decode("on_failure", row.maybe_text()?.as_deref());
    spec.callback_of = row.maybe_job()?;
    if let Some(extras) = damage.decode::<JobExtras>("papers", row.maybe_text()?.as_deref()) {
        extras.put_into(spec);
    }
    damage.mark(spec);
    Ok(())
}

/// Reads the columns of `record` that came as one.
pub(crate) fn folded_record(row: &mut Row) -> Result<Option<Record>, SqlFailure> {
    row.maybe_several()?.map_or(Ok(None), |mut row| record(&mut row))
}

/// Reads the columns of `record`; none when the job has no past.
pub(crate) fn record(row: &mut Row) -> Result<Option<Record>, SqlFailure> {
    let Some(code) = row.maybe_int()? else {
        row.skip(RECORD_COLUMNS - 1);
        return Ok(None);
    };
    Ok(Some(Record {
        state: state_of(code)?,
        run_at: row.moment()?,
        expires_at: row.maybe_moment()?,
        attempt: row.number()?,
        crashes: row.number()?,
        deferrals: row.number()?,
        runs: row.number()?,
        redrives: row.number()?,
        fence: Fence(row.int()?),
        hold: None,
        last_failed_run: row.maybe_number()?,
        progress: row.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()),
        paused_from: paused_from(row)?,
        finished_at: row.maybe_moment()?,
        reason: reason(row.maybe_text()?),
        cancel_reason: row.maybe_text()?,
        superseded_by: row.maybe_job()?,
        marks: marks(row)?,
    }))
}

/// Reads what a job was paused in.
fn paused_from(row: &mut Row) -> Result<Option<PausedFrom>, SqlFailure> {
    Ok(row.maybe_int()?.map(state_of).transpose()?.and_then(PausedFrom::of))
}

/// Reads the marks on a record; most have none.
fn marks(row: &mut Row) -> Result<Option<Box<Marks>>, SqlFailure> {
    let text = row.maybe_text()?;
    Ok(text.as_deref().and_then(|text| Marks::from_text(text).ok()).map(Box::new))
}

/// Reads a job in short, behind its id.
pub(crate) fn job_summary(row: &mut Row) -> Result<JobSummary, SqlFailure> {
    Ok(JobSummary {
        rests: JobSummary::rest(state_of(row.int()?)?),
        paused_from: paused_from(row)?,
        redrives: row.number()?,
        plan: marks(row)?.and_then(|marks| marks.plan),
        reason: reason(row.maybe_text()?),
        finished_at: row.maybe_moment()?,
        died_of: row.maybe_text()?.map(fingerprint).transpose()?,
    })
}

/// Reads why a job is dead. A reason that only a later version knows is left out.
pub(crate) fn reason(word: Option<String>) -> Option<TerminalReason> {
    word.and_then(|word| word.parse().ok())
}

/// Reads the columns of `done` that make a record; none when the job has not succeeded.
pub(crate) fn done(row: &mut Row) -> Result<Option<Record>, SqlFailure> {
    let Some(run_at) = row.maybe_moment()? else {
        row.skip(DONE_COLUMNS - 1);
        return Ok(None);
    };
    Ok(Some(Record {
        state: State::Succeeded,
        run_at,
        expires_at: row.maybe_moment()?,
        attempt: row.maybe_number()?.unwrap_or(0),
        crashes: row.maybe_number()?.unwrap_or(0),
        deferrals: row.maybe_number()?.unwrap_or(0),
        runs: row.number()?,
        redrives: row.maybe_number()?.unwrap_or(0),
        fence: Fence(row.int()?),
        hold: None,
        last_failed_run: None,
        progress: row.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()),
        paused_from: None,
        finished_at: row.maybe_moment()?,
        reason: None,
        cancel_reason: None,
        superseded_by: None,
        marks: marks(row)?,
    }))
}

/// Reads a claim: fence, worker, moment, slots, edits and ids.
fn claim(mut row: Row) -> Result<ClaimRow, SqlFailure> {
    let (mut claim, slots) = claim_without_jobs(&mut row)?;
    let unreadable =
        || SqlFailure::Unreadable("a claim whose jobs or slots are not of their form".to_owned());
    let jobs = ClaimRow::decode_jobs(&row.bytes()?).ok_or_else(unreadable)?;
    claim.slots = ClaimRow::decode_slots(&slots, jobs.len(), claim.claimed_at).ok_or_else(unreadable)?;
    claim.jobs = jobs;
    Ok(claim)
}

/// Reads claims.
pub(crate) fn claims(rows: Vec<Row>) -> Result<Vec<ClaimRow>, SqlFailure> {
    rows.into_iter().map(claim).collect()
}

/// Reads a claim without its ids, and its slots as they are stored.
pub(crate) fn claim_without_jobs(row: &mut Row) -> Result<(ClaimRow, Vec<u8>), SqlFailure> {
    let (fence, worker, claimed_at) = (Fence(row.int()?), row.worker()?, row.moment()?);
    let (slots, edits) = (row.bytes()?, row.number()?);
    Ok((ClaimRow { fence, worker, claimed_at, jobs: Vec::new(), slots: Vec::new(), edits }, slots))
}

/// Reads one row of the ledger.
pub(crate) fn attempt(mut row: Row) -> Result<Attempt, SqlFailure> {
    Ok(Attempt {
        number: row.number()?,
        fence: Fence(row.int()?),
        worker: row.worker()?,
        code_version: row.maybe_text()?.map(Arc::from),
        cause: row.word()?,
        due_at: row.moment()?,
        started_at: row.moment()?,
        finished_at: row.moment()?,
        failure: failure(&mut row)?,
        decision: row.maybe_json()?,
        result: row.maybe_text()?.map(Arc::from),
        warning: row.maybe_text()?,
        output: row.maybe_text()?,
    })
}

/// Reads error type, message and fingerprint, which are there together or not at all.
pub(crate) fn failure(row: &mut Row) -> Result<Option<FailureRecord>, SqlFailure> {
    let Some(error_type) = row.maybe_text()? else {
        row.skip(2);
        return Ok(None);
    };
    Ok(Some(FailureRecord { error_type, message: row.text()?, fingerprint: fingerprint(row.text()?)? }))
}

fn fingerprint(text: String) -> Result<Fingerprint, SqlFailure> {
    Ok(Fingerprint::deserialize(serde_json::Value::String(text))?)
}

/// Reads an incident.
pub(crate) fn incident(mut row: Row) -> Result<Incident, SqlFailure> {
    Ok(Incident {
        fingerprint: fingerprint(row.text()?)?,
        kind: row.text()?,
        error_type: row.text()?,
        message: row.text()?,
        failures: row.number()?,
        dead: row.number()?,
        open: row.number()?,
        first_seen: row.moment()?,
        last_seen: row.moment()?,
        first_version: row.maybe_text()?,
        last_version: row.maybe_text()?,
        sample_job: row.job()?,
        standing: standing(row.maybe_text()?)?,
    })
}

fn standing(text: Option<String>) -> Result<Standing, SqlFailure> {
    Ok(text.as_deref().map(Standing::from_text).transpose()?.unwrap_or_default())
}

/// Reads an archived job: id, status, moment, whether it ran, and document.
pub(crate) fn archived(mut row: Row) -> Result<(JobId, Archived), SqlFailure> {
    let (id, state, archived_at) = (row.job()?, state_of(row.int()?)?, row.moment()?);
    let (ran, document) = (row.bool()?, Arc::from(row.text()?));
    Ok((id, Archived { archived_at, state, ran, document }))
}

/// Reads a worker's row.
pub(crate) fn worker(mut row: Row) -> Result<WorkerRow, SqlFailure> {
    Ok(WorkerRow {
        id: row.worker()?,
        name: row.text()?,
        code_version: row.maybe_text()?,
        queues: row.maybe_json()?.unwrap_or_default(),
        kinds: row.maybe_json()?.unwrap_or_default(),
        started_at: row.moment()?,
        expires_at: row.moment()?,
    })
}
