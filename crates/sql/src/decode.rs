//! Rows of tables as values of the core. Knows the order of columns, and nothing of what the values mean.

use std::sync::Arc;

use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::incident::Standing;
use backstop_core::job::{
    Attempt, Damage, FailureRecord, JobExtras, JobSummary, Marks, PausedFrom, Record, Spec, State, StoredJob,
};
use backstop_core::{Fence, JobId, Timestamp};
use backstop_store::show::WorkerRow;
use backstop_store::working_set::claim_row::Slot;
use backstop_store::working_set::{ClaimRow, LaneKey};
use backstop_store::{Archived, Incident};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::encode::status_code;
use crate::failure::SqlFailure;
use crate::row::Row;

/// The number of columns of `record` in every row that has them.
const RECORD_COLUMNS: usize = 17;
/// The number of columns of `done` in every row that has them.
const DONE_COLUMNS: usize = 11;
/// The bytes of an id among those of a claim.
const ID_BYTES: usize = 16;
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
    let mut damage = Damage::default();
    let payload = row.noted_text("payload", &mut damage)?.unwrap_or_else(|| "null".to_owned());
    let mut spec = Spec::new(id, lane.kind.clone(), payload);
    spec.version = lane.version;
    spec.queue = lane.queue.clone();
    spec.priority = lane.priority;
    if folded {
        row.maybe_several()?.map_or(Ok(()), |mut row| extras(&mut row, &mut spec, &mut damage))?;
    } else {
        extras(row, &mut spec, &mut damage)?;
    }
    damage.mark(&mut spec);
    Ok(JobRow { job: StoredJob { spec, created_at }, lane: lane_id, run_at })
}

/// Reads the columns of `job` that most jobs leave empty.
fn extras(row: &mut Row, spec: &mut Spec, damage: &mut Damage) -> Result<(), SqlFailure> {
    spec.policy = noted_json(row, "policy", damage)?.unwrap_or_default();
    spec.expires_at = row.maybe_moment()?;
    spec.idempotency_key = row.noted_text("idempotency_key", damage)?;
    spec.business_key = row.noted_text("business_key", damage)?;
    spec.correlation_id = row.noted_text("correlation_id", damage)?;
    spec.tags = noted_json(row, "tags", damage)?.unwrap_or_default();
    spec.params = row.noted_text("params", damage)?.map(Arc::from);
    spec.on_success = noted_json(row, "on_success", damage)?;
    spec.on_failure = noted_json(row, "on_failure", damage)?;
    spec.callback_of = row.maybe_job()?;
    if let Some(extras) = noted_json::<JobExtras>(row, "papers", damage)? {
        extras.put_into(spec);
    }
    Ok(())
}

/// Reads a JSON column of `job`; none when it is absent, or unreadable, which is noted.
fn noted_json<T: DeserializeOwned>(
    row: &mut Row,
    column: &str,
    damage: &mut Damage,
) -> Result<Option<T>, SqlFailure> {
    let text = row.noted_text(column, damage)?;
    Ok(damage.decode(column, text.as_deref()))
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
        // Where a job waits or runs is told by `ready` and the claims: a state that cannot be stops no other (C7).
        state: state_of(code).unwrap_or(State::Pending),
        run_at: row.moment()?,
        expires_at: row.maybe_moment()?,
        attempt: row.run_count()?,
        crashes: row.run_count()?,
        deferrals: row.run_count()?,
        runs: row.run_count()?,
        redrives: row.run_count()?,
        fence: Fence(row.int()?),
        hold: None,
        last_failed_run: row.maybe_run_count()?,
        progress: row.text_if_any()?.and_then(|text| serde_json::from_str(&text).ok()),
        paused_from: paused_from(row)?,
        finished_at: row.maybe_moment()?,
        reason: reason(row.text_if_any()?),
        cancel_reason: row.text_if_any()?,
        superseded_by: row.maybe_job()?,
        marks: marks(row)?,
    }))
}

/// Reads what a job was paused in.
fn paused_from(row: &mut Row) -> Result<Option<PausedFrom>, SqlFailure> {
    Ok(row.maybe_int()?.and_then(|code| state_of(code).ok()).and_then(PausedFrom::of))
}

/// Reads the marks on a record; most have none.
fn marks(row: &mut Row) -> Result<Option<Box<Marks>>, SqlFailure> {
    let text = row.text_if_any()?;
    Ok(text.as_deref().and_then(|text| Marks::from_text(text).ok()).map(Box::new))
}

/// Reads a job in short, behind its id.
pub(crate) fn job_summary(row: &mut Row) -> Result<JobSummary, SqlFailure> {
    Ok(JobSummary {
        rests: JobSummary::rest(state_of(row.int()?)?),
        paused_from: paused_from(row)?,
        redrives: row.run_count()?,
        plan: marks(row)?.and_then(|marks| marks.plan),
        reason: reason(row.text_if_any()?),
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
        attempt: row.run_count()?,
        crashes: row.run_count()?,
        deferrals: row.run_count()?,
        runs: row.run_count()?,
        redrives: row.run_count()?,
        fence: Fence(row.int()?),
        hold: None,
        last_failed_run: None,
        progress: row.text_if_any()?.and_then(|text| serde_json::from_str(&text).ok()),
        paused_from: None,
        finished_at: row.maybe_moment()?,
        reason: None,
        cancel_reason: None,
        superseded_by: None,
        marks: marks(row)?,
    }))
}

/// Reads a claim: fence, worker, moment, slots, edits and ids. Whoever gives back what the dead have held reads all
/// claims, so one that is damaged is read as well as it can be (C7): then what it holds counts as not started.
fn claim(mut row: Row) -> Result<ClaimRow, SqlFailure> {
    let (mut claim, slots) = claim_without_jobs(&mut row)?;
    let mut jobs = row.bytes()?;
    jobs.truncate(jobs.len() - jobs.len() % ID_BYTES);
    claim.jobs = ClaimRow::decode_jobs(&jobs).unwrap_or_default();
    let slots = ClaimRow::decode_slots(&slots, claim.jobs.len(), claim.claimed_at);
    claim.slots = slots.unwrap_or_else(|| vec![Slot::Open; claim.jobs.len()]);
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
        failures: row.total()?,
        dead: row.total()?,
        open: row.total()?,
        first_seen: row.moment()?,
        last_seen: row.moment()?,
        first_version: row.maybe_text()?,
        last_version: row.maybe_text()?,
        sample_job: row.job()?,
        standing: row.text_if_any()?.as_deref().map(Standing::from_text).unwrap_or_default(),
    })
}

/// Reads an archived job: id, status, moment, whether it ran, and document.
pub(crate) fn archived(mut row: Row) -> Result<(JobId, Archived), SqlFailure> {
    let (id, state, archived_at) = (row.job()?, state_of(row.int()?)?, row.moment()?);
    let (ran, document) = (row.bool()?, Arc::from(row.text()?));
    Ok((id, Archived { archived_at, state, ran, document }))
}

/// Reads a worker's row. Whoever looks at workers looks at all of them: one that is damaged is shown as well as it can
/// be (C7).
pub(crate) fn worker(mut row: Row) -> Result<WorkerRow, SqlFailure> {
    Ok(WorkerRow {
        id: row.worker()?,
        name: row.text_if_any()?.unwrap_or_default(),
        code_version: row.text_if_any()?,
        queues: readable_json(&mut row)?,
        kinds: readable_json(&mut row)?,
        started_at: row.moment()?,
        expires_at: row.moment()?,
    })
}

/// Reads a JSON column; as if it were empty when it is, or cannot be read.
fn readable_json<T: DeserializeOwned + Default>(row: &mut Row) -> Result<T, SqlFailure> {
    let text = row.text_if_any()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}
