//! Rows to values and back. Knows the order of columns in `sql`, and nothing of what the values mean.

use std::sync::Arc;

use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::incident::Standing;
use backstop_core::job::{
    Attempt, Damage, FailureRecord, JobSummary, Marks, PausedFrom, Policy, Record, Spec, State, StoredJob,
};
use backstop_core::{Fence, JobId, Timestamp};
use backstop_store::desk::{Done, Grip, IncidentCount, LaneKey, RecordRow};
use backstop_store::show::WorkerRow;
use backstop_store::{Archived, Incident};
use serde::Deserialize;

use crate::error::Failure;
use crate::values::{Row, Value};

/// How a state is written.
pub(crate) const fn status_code(state: State) -> i64 {
    match state {
        State::Pending => 1,
        State::Running => 2,
        State::Waiting => 3,
        State::Paused => 4,
        State::Failed => 5,
        State::Canceled => 6,
        State::Succeeded => 7,
    }
}

pub(crate) fn state_of(code: i64) -> Result<State, Failure> {
    let known = State::ALL.into_iter().find(|state| status_code(*state) == code);
    known.ok_or_else(|| Failure::Unreadable(format!("a job with status {code}")))
}

/// The number of columns of `record` in every row that has them.
const RECORD_COLUMNS: usize = 17;
/// The number of columns of `done` in every row that has them.
const DONE_COLUMNS: usize = 11;
/// Where a row of `job` has its lane.
pub(crate) const LANE_COLUMN: usize = 1;

/// A row of `job`.
#[derive(Debug)]
pub(crate) struct JobRow {
    pub(crate) job: StoredJob,
    pub(crate) lane: i64,
    /// When it was first due.
    pub(crate) run_at: Timestamp,
}

/// Reads the columns of `job`.
pub(crate) fn job(
    row: &mut Row,
    lane: impl Fn(i64) -> Result<Arc<LaneKey>, Failure>,
) -> Result<JobRow, Failure> {
    let (id, lane_id) = (row.job()?, row.int()?);
    let (created_at, run_at) = (row.moment()?, row.moment()?);
    let lane = lane(lane_id)?;
    let mut spec = Spec::new(id, lane.kind.clone(), row.text()?);
    spec.version = lane.version;
    spec.queue = lane.queue.clone();
    spec.priority = lane.priority;
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
    spec.provenance = damage.decode("papers", row.maybe_text()?.as_deref()).map(Box::new);
    damage.mark(&mut spec);
    Ok(JobRow { job: StoredJob { spec, created_at }, lane: lane_id, run_at })
}

/// Reads the columns of `record`; none when the job has no past.
pub(crate) fn record(row: &mut Row) -> Result<Option<Record>, Failure> {
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

fn marks(row: &mut Row) -> Result<Option<Box<Marks>>, Failure> {
    let read = |text: String| Marks::from_text(&text).ok().map(Box::new);
    Ok(row.maybe_text()?.and_then(read))
}

fn marks_value(record: &Record) -> Value {
    Value::maybe_text(record.marks.as_ref().and_then(|marks| marks.to_text()))
}

/// Reads a job at a glance, behind its id.
pub(crate) fn glance(row: &mut Row) -> Result<JobSummary, Failure> {
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

/// Reads what a job was paused in.
fn paused_from(row: &mut Row) -> Result<Option<PausedFrom>, Failure> {
    Ok(row.maybe_int()?.map(state_of).transpose()?.and_then(PausedFrom::of))
}

/// Reads a terminal reason.
/// Reads why a job is dead. A word that only a later program knows is none here.
pub(crate) fn reason(word: Option<String>) -> Option<TerminalReason> {
    word.and_then(|word| word.parse().ok())
}

/// Reads the columns of `done` that make a record; none when the job has not succeeded.
pub(crate) fn done(row: &mut Row) -> Result<Option<Record>, Failure> {
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
pub(crate) fn grip(mut row: Row) -> Result<Grip, Failure> {
    let mut grip = grip_without_jobs(&mut row)?;
    let unreadable = || Failure::Unreadable("a claim whose jobs or slots are not of their form".to_owned());
    let jobs = Grip::decode_jobs(&row.bytes()?).ok_or_else(unreadable)?;
    grip.0.slots = Grip::decode_slots(&grip.1, jobs.len(), grip.0.claimed_at).ok_or_else(unreadable)?;
    grip.0.jobs = jobs;
    Ok(grip.0)
}

/// Reads a claim without its ids, and its slots as they are stored.
pub(crate) fn grip_without_jobs(row: &mut Row) -> Result<(Grip, Vec<u8>), Failure> {
    let (fence, worker, claimed_at) = (Fence(row.int()?), row.worker()?, row.moment()?);
    let (slots, edits) = (row.bytes()?, row.number()?);
    Ok((Grip { fence, worker, claimed_at, jobs: Vec::new(), slots: Vec::new(), edits }, slots))
}

/// A counter that is almost always zero, and then NULL.
fn rarely(number: u32) -> Value {
    Value::Int((number > 0).then(|| number.into()))
}

fn json<T: serde::Serialize>(value: Option<&T>) -> Result<Value, Failure> {
    Ok(Value::maybe_text(value.map(serde_json::to_string).transpose()?))
}

/// The columns of `job`, in the order of `sql::JOBS_INSERT`.
pub(crate) fn job_values(job: &StoredJob, run_at: Timestamp, lane: Value) -> Result<Vec<Value>, Failure> {
    let spec = &job.spec;
    Ok(vec![
        Value::job(spec.id),
        lane,
        Value::at(job.created_at),
        Value::at(run_at),
        Value::text(&spec.payload),
        json(Some(&spec.policy).filter(|policy| **policy != Policy::default()))?,
        Value::maybe_at(spec.expires_at),
        Value::maybe_text(spec.idempotency_key.as_deref()),
        Value::maybe_text(spec.business_key.as_deref()),
        Value::maybe_text(spec.correlation_id.as_deref()),
        json(Some(&spec.tags).filter(|tags| !tags.is_empty()))?,
        Value::maybe_text(spec.params.as_deref()),
        json(spec.on_success.as_ref())?,
        json(spec.on_failure.as_ref())?,
        Value::maybe_job(spec.callback_of),
    ])
}

/// The last column of `sql::JOBS_INSERT_PAPERS`.
pub(crate) fn papers_value(job: &StoredJob) -> Value {
    Value::maybe_text(job.spec.provenance.as_ref().and_then(|provenance| provenance.to_text()))
}

/// The columns of `record`, in the order of `sql::RECORDS_SAVE`.
pub(crate) fn record_values(row: &RecordRow, lane: Value) -> Result<Vec<Value>, Failure> {
    let record = &row.record;
    Ok(vec![
        Value::job(row.id),
        lane,
        Value::int(status_code(record.state)),
        Value::at(record.run_at),
        Value::maybe_at(record.expires_at),
        Value::int(record.attempt),
        Value::int(record.crashes),
        Value::int(record.deferrals),
        Value::int(record.runs),
        Value::int(record.redrives),
        Value::int(record.fence.0),
        Value::Int(record.last_failed_run.map(i64::from)),
        json(record.progress.as_ref())?,
        Value::Int(record.paused_from.map(|from| status_code(from.state()))),
        Value::maybe_at(record.finished_at),
        Value::maybe_text(record.reason.map(TerminalReason::as_str)),
        Value::maybe_text(record.cancel_reason.as_deref()),
        Value::maybe_job(record.superseded_by),
        marks_value(record),
    ])
}

/// The columns of `done`, in the order of `sql::DONE_INSERT`.
pub(crate) fn done_values(done: &Done, lane: Value) -> Result<Vec<Value>, Failure> {
    let (record, run) = (&done.record, done.run.as_ref());
    Ok(vec![
        Value::job(done.id),
        lane,
        Value::at(record.run_at),
        Value::maybe_at(record.expires_at),
        rarely(record.attempt),
        rarely(record.crashes),
        rarely(record.deferrals),
        Value::int(record.runs),
        rarely(record.redrives),
        Value::int(record.fence.0),
        json(record.progress.as_ref())?,
        Value::maybe_at(record.finished_at),
        run.map_or(Value::NOTHING, |run| Value::worker(run.worker)),
        Value::maybe_text(run.and_then(|run| run.code_version.as_deref())),
        Value::maybe_at(run.map(|run| run.started_at)),
        Value::maybe_text(run.and_then(|run| run.result.as_deref())),
        Value::maybe_text(run.and_then(|run| run.warning.as_deref())),
        Value::maybe_text(run.and_then(|run| run.output.as_deref())),
        marks_value(record),
    ])
}

/// The columns of `attempt`, in the order of `sql::ATTEMPTS_INSERT`.
pub(crate) fn attempt_values(job: JobId, run: &Attempt) -> Result<Vec<Value>, Failure> {
    let failure = run.failure.as_ref();
    Ok(vec![
        Value::job(job),
        Value::int(run.number),
        Value::int(run.fence.0),
        Value::worker(run.worker),
        Value::maybe_text(run.code_version.as_deref()),
        Value::text(run.cause.as_str()),
        Value::at(run.due_at),
        Value::at(run.started_at),
        Value::at(run.finished_at),
        Value::maybe_text(failure.map(|failure| failure.error_type.as_str())),
        Value::maybe_text(failure.map(|failure| failure.message.as_str())),
        Value::maybe_text(failure.map(|failure| failure.fingerprint.as_ref())),
        json(run.decision.as_ref())?,
        Value::maybe_text(run.result.as_deref()),
        Value::maybe_text(run.warning.as_deref()),
        Value::maybe_text(run.output.as_deref()),
    ])
}

/// Reads one row of the ledger.
pub(crate) fn attempt(mut row: Row) -> Result<Attempt, Failure> {
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
pub(crate) fn failure(row: &mut Row) -> Result<Option<FailureRecord>, Failure> {
    let Some(error_type) = row.maybe_text()? else {
        row.skip(2);
        return Ok(None);
    };
    Ok(Some(FailureRecord { error_type, message: row.text()?, fingerprint: fingerprint(row.text()?)? }))
}

fn fingerprint(text: String) -> Result<Fingerprint, Failure> {
    Ok(Fingerprint::deserialize(serde_json::Value::String(text))?)
}

/// Reads an incident.
pub(crate) fn incident(mut row: Row) -> Result<Incident, Failure> {
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
        standing: match row.maybe_text()? {
            Some(text) => Standing::from_text(&text)?,
            None => Standing::default(),
        },
    })
}

/// The columns of `incident`, in the order of `sql::incident::COUNT`.
pub(crate) fn incident_values(count: &IncidentCount, open: i64, now: Timestamp) -> Vec<Value> {
    vec![
        Value::text(&count.fingerprint),
        Value::text(&count.kind),
        Value::text(&count.error_type),
        Value::text(&count.message),
        Value::int(count.failures),
        Value::int(count.dead),
        Value::int(open),
        Value::at(now),
        Value::at(now),
        Value::maybe_text(count.first_version.as_deref()),
        Value::maybe_text(count.last_version.as_deref()),
        Value::job(count.sample_job),
    ]
}

/// Reads an archived job.
pub(crate) fn archived(mut row: Row) -> Result<(JobId, Archived), Failure> {
    let (id, state) = (row.job()?, state_of(row.int()?)?);
    let (archived_at, ran, document) = (row.moment()?, row.bool()?, Arc::from(row.text()?));
    Ok((id, Archived { archived_at, state, ran, document }))
}

/// Reads a worker's row.
pub(crate) fn worker(mut row: Row) -> Result<WorkerRow, Failure> {
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
