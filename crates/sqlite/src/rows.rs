//! Rows to values and back. Knows the order of columns in `sql`, and nothing of what the values mean.

use std::sync::Arc;

use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::incident::Standing;
use backstop_core::job::{
    Attempt, Damage, FailureRecord, Hold, JobExtras, JobSummary, Marks, NewJob, PausedFrom, Policy, Priority,
    Record, Spec, State, StoredJob,
};
use backstop_core::{Fence, JobId, Timestamp, WorkerId};
use backstop_store::show::{PauseNote, WorkerRow};
use backstop_store::working_set::LaneKey;
use backstop_store::{Archived, Incident};
use rusqlite::types::FromSql;
use rusqlite::{Row, Statement, params};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::SqliteFailure;

/// How a state is written in `state.status`. The schema's partial indexes name these numbers.
///
/// They are in this order so that each index is one range of them: below 5 live, 3 to 6 what people look after. A
/// list of numbers in a condition makes SQLite build a table of them for every row it writes.
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

pub(crate) fn state_of(code: i64) -> Result<State, SqliteFailure> {
    let known = State::ALL.into_iter().find(|state| status_code(*state) == code);
    known.ok_or_else(|| SqliteFailure::Unreadable(format!("unknown job status {code}")))
}

/// A job's record with where it stands in the tables.
#[derive(Debug, Clone)]
pub(crate) struct StateRow {
    pub(crate) seq: i64,
    pub(crate) id: JobId,
    pub(crate) lane: i64,
    pub(crate) record: Record,
    pub(crate) ordering_key: Option<Arc<str>>,
}

/// A lane: the jobs of one queue, kind, version and priority.
#[derive(Debug)]
pub(crate) struct LaneRow {
    pub(crate) id: i64,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) version: u32,
    pub(crate) priority: Priority,
    /// True when its jobs take turns with others (H5).
    pub(crate) shares: bool,
}

impl LaneRow {
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let level: i64 = row.get(4)?;
        let priority =
            Priority::from_level(level).ok_or(rusqlite::Error::IntegralValueOutOfRange(4, level))?;
        let lane = LaneKey { queue: row.get(1)?, kind: row.get(2)?, version: 0, priority, shares: false };
        Ok(Self::new(row.get(0)?, lane.with_stored_version(row.get(3)?)))
    }

    /// A lane with its number.
    pub(crate) fn new(id: i64, lane: LaneKey) -> Self {
        let LaneKey { queue, kind, version, priority, shares } = lane;
        Self { id, queue, kind, version, priority, shares }
    }

    /// The lane without its number.
    pub(crate) fn key(&self) -> LaneKey {
        LaneKey {
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            version: self.version,
            priority: self.priority,
            shares: self.shares,
        }
    }

    /// Whether a job with this spec belongs here.
    pub(crate) fn is_of(&self, spec: &Spec) -> bool {
        self.priority == spec.priority
            && self.version == spec.version
            && self.shares == spec.needs.is_some()
            && self.kind == spec.kind
            && self.queue == spec.queue
    }
}

/// The number of columns of `state` in every row that has them.
const STATE_COLUMNS: usize = 24;
/// Where the columns of a view go on after those of `state` and `job`.
pub(crate) const VIEW_EXTRAS: usize = STATE_COLUMNS + 13;

pub(crate) fn moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(crate) fn maybe_moment(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(crate) fn job_id(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    row.get(column).map(JobId::from_bytes)
}

fn maybe_job_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<JobId>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(JobId::from_bytes))
}

pub(crate) fn worker_id(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkerId> {
    row.get(column).map(WorkerId::from_bytes)
}

/// A value of one of the core's enums, by its name.
pub(crate) fn word<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, SqliteFailure> {
    text.parse().map_err(|unknown: T::Err| SqliteFailure::Unreadable(unknown.to_string()))
}

/// A JSON column that may be absent.
pub(crate) fn maybe_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, SqliteFailure> {
    match row.get_ref(column)?.as_str_or_null() {
        Ok(Some(text)) => Ok(Some(serde_json::from_str(text)?)),
        Ok(None) => Ok(None),
        Err(_) => Err(SqliteFailure::Unreadable(format!("column {column} is not text"))),
    }
}

/// The text of a column; none when it is absent or no text.
pub(crate) fn text_of<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, SqliteFailure> {
    Ok(row.get_ref(column)?.as_str_or_null().unwrap_or_default())
}

/// A count; one that cannot be is read as the nearest that can, so that a damaged row stops nobody else (C7).
fn run_count(row: &Row<'_>, column: usize) -> Result<u32, SqliteFailure> {
    Ok(nearest_count(row.get_ref(column)?.as_i64().unwrap_or_default()))
}

fn nearest_count(stored: i64) -> u32 {
    u32::try_from(stored.max(0)).unwrap_or(u32::MAX)
}

/// Reads the columns of `state`.
pub(crate) fn state_row(row: &Row<'_>) -> Result<StateRow, SqliteFailure> {
    let hold = match row.get::<_, Option<[u8; 16]>>(12)? {
        Some(worker) => Some(Hold {
            worker: WorkerId::from_bytes(worker),
            claimed_at: moment(row, 13)?,
            started_at: maybe_moment(row, 14)?,
        }),
        None => None,
    };
    let record = Record {
        state: state_of(row.get(3)?)?,
        run_at: moment(row, 4)?,
        expires_at: maybe_moment(row, 5)?,
        attempt: run_count(row, 6)?,
        crashes: run_count(row, 7)?,
        deferrals: run_count(row, 8)?,
        runs: run_count(row, 9)?,
        redrives: run_count(row, 10)?,
        fence: Fence(row.get(11)?),
        hold,
        last_failed_run: row.get_ref(15)?.as_i64_or_null().unwrap_or_default().map(nearest_count),
        progress: text_of(row, 16)?.and_then(|text| serde_json::from_str(text).ok()),
        paused_from: paused_from(row, 17)?,
        finished_at: maybe_moment(row, 18)?,
        reason: reason(row, 19)?,
        cancel_reason: text_of(row, 20)?.map(str::to_owned),
        superseded_by: maybe_job_id(row, 21)?,
        marks: marks(row, 22)?,
    };
    Ok(StateRow {
        seq: row.get(0)?,
        id: job_id(row, 1)?,
        lane: row.get(2)?,
        record,
        ordering_key: text_of(row, 23)?.map(Into::into),
    })
}

/// Reads the summary of a job.
pub(crate) fn summary(row: &Row<'_>) -> Result<JobSummary, SqliteFailure> {
    Ok(JobSummary {
        rests: JobSummary::rest(state_of(row.get(0)?)?),
        paused_from: paused_from(row, 1)?,
        redrives: run_count(row, 2)?,
        plan: marks(row, 3)?.and_then(|marks| marks.plan),
        reason: reason(row, 4)?,
        finished_at: maybe_moment(row, 5)?,
        died_of: row.get::<_, Option<String>>(6)?.map(fingerprint).transpose()?,
    })
}

fn paused_from(row: &Row<'_>, column: usize) -> Result<Option<PausedFrom>, SqliteFailure> {
    let code = row.get_ref(column)?.as_i64_or_null().unwrap_or_default();
    Ok(code.and_then(|code| state_of(code).ok()).and_then(PausedFrom::of))
}

fn reason(row: &Row<'_>, column: usize) -> Result<Option<TerminalReason>, SqliteFailure> {
    // A reason that only a later version knows is left out.
    Ok(text_of(row, column)?.and_then(|text| text.parse().ok()))
}

fn marks(row: &Row<'_>, column: usize) -> Result<Option<Box<Marks>>, SqliteFailure> {
    Ok(text_of(row, column)?.and_then(|text| Marks::from_text(text).ok()).map(Box::new))
}

/// Reads the columns of `job`, which follow those of `state`.
pub(crate) fn job(row: &Row<'_>, id: JobId, lane: &LaneRow) -> Result<StoredJob, SqliteFailure> {
    const AT: usize = STATE_COLUMNS;
    let mut damage = Damage::default();
    let payload = readable(row, AT + 1, "payload", &mut damage)?.unwrap_or("null");
    let mut spec = Spec::new(id, lane.kind.clone(), payload);
    spec.version = lane.version;
    spec.queue = lane.queue.clone();
    spec.priority = lane.priority;
    spec.policy = decoded(row, AT + 2, "policy", &mut damage)?.unwrap_or_default();
    spec.expires_at = maybe_moment(row, AT + 3)?;
    let mut text =
        |column, name| Ok::<_, SqliteFailure>(readable(row, column, name, &mut damage)?.map(str::to_owned));
    spec.idempotency_key = text(AT + 4, "idempotency_key")?;
    spec.business_key = text(AT + 5, "business_key")?;
    spec.correlation_id = text(AT + 6, "correlation_id")?;
    spec.params = text(AT + 8, "params")?.map(Into::into);
    spec.tags = decoded(row, AT + 7, "tags", &mut damage)?.unwrap_or_default();
    spec.on_success = decoded(row, AT + 9, "on_success", &mut damage)?;
    spec.on_failure = decoded(row, AT + 10, "on_failure", &mut damage)?;
    spec.callback_of = maybe_job_id(row, AT + 11)?;
    if let Some(extras) = decoded::<JobExtras>(row, AT + 12, "papers", &mut damage)? {
        extras.put_into(&mut spec);
    }
    damage.mark(&mut spec);
    Ok(StoredJob { spec, created_at: moment(row, AT)? })
}

/// The text of a column of `job`; none when it is absent, or no text, which is noted.
fn readable<'r>(
    row: &'r Row<'_>,
    column: usize,
    name: &str,
    damage: &mut Damage,
) -> Result<Option<&'r str>, SqliteFailure> {
    let text = row.get_ref(column)?.as_str_or_null();
    Ok(text.unwrap_or_else(|problem| {
        damage.note(name, &problem.to_string());
        None
    }))
}

/// A JSON column of `job`; none when it is absent, or unreadable, which is noted.
fn decoded<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    name: &str,
    damage: &mut Damage,
) -> Result<Option<T>, SqliteFailure> {
    let text = readable(row, column, name, damage)?;
    Ok(damage.decode(name, text))
}

/// Writes the facts of a new job.
pub(crate) fn insert_job(
    insert: &mut Statement<'_>,
    seq: i64,
    new: &NewJob,
    created_at: Timestamp,
) -> Result<(), SqliteFailure> {
    let spec = &new.spec;
    let policy =
        (spec.policy != Policy::default()).then(|| serde_json::to_string(&spec.policy)).transpose()?;
    let tags = (!spec.tags.is_empty()).then(|| serde_json::to_string(&spec.tags)).transpose()?;
    let on_success = spec.on_success.as_ref().map(serde_json::to_string).transpose()?;
    let on_failure = spec.on_failure.as_ref().map(serde_json::to_string).transpose()?;
    insert.execute(params![
        seq,
        created_at.as_micros(),
        &*spec.payload,
        policy,
        spec.expires_at.map(Timestamp::as_micros),
        spec.idempotency_key,
        spec.business_key,
        spec.correlation_id,
        tags,
        spec.params.as_deref(),
        on_success,
        on_failure,
        spec.callback_of.as_ref().map(JobId::as_bytes),
        JobExtras::text_of(spec),
    ])?;
    Ok(())
}

/// Writes the record of a new job; false when its id is stored already.
pub(crate) fn insert_record(
    insert: &mut Statement<'_>,
    spec: &Spec,
    lane: i64,
    record: &Record,
) -> Result<bool, SqliteFailure> {
    let written = insert.execute(params![
        spec.id.as_bytes(),
        lane,
        status_code(record.state),
        record.run_at.as_micros(),
        record.expires_at.map(Timestamp::as_micros),
        record.attempt,
        record.crashes,
        record.deferrals,
        record.runs,
        record.redrives,
        record.fence.0,
        spec.business_key,
        spec.ordering_key.as_deref(),
        record.marks.as_ref().and_then(|marks| marks.to_text()),
    ])?;
    Ok(written == 1)
}

/// Writes all of a record that can change.
pub(crate) fn update_record(
    update: &mut Statement<'_>,
    seq: i64,
    record: &Record,
) -> Result<(), SqliteFailure> {
    let progress = record.progress.as_ref().map(serde_json::to_string).transpose()?;
    let hold = record.hold.as_ref();
    update.execute(params![
        seq,
        status_code(record.state),
        record.run_at.as_micros(),
        record.expires_at.map(Timestamp::as_micros),
        record.attempt,
        record.crashes,
        record.deferrals,
        record.runs,
        record.redrives,
        record.fence.0,
        hold.map(|hold| hold.worker.as_bytes()),
        hold.map(|hold| hold.claimed_at.as_micros()),
        hold.and_then(|hold| hold.started_at).map(Timestamp::as_micros),
        record.last_failed_run,
        progress,
        record.paused_from.map(|from| status_code(from.state())),
        record.finished_at.map(Timestamp::as_micros),
        record.reason.map(backstop_core::failure::TerminalReason::as_str),
        record.cancel_reason,
        record.superseded_by.as_ref().map(JobId::as_bytes),
        record.marks.as_ref().and_then(|marks| marks.to_text()),
    ])?;
    Ok(())
}

/// Writes one row of the ledger. A failure carries the id of its job, by which the failures of an incident are listed.
pub(crate) fn insert_attempt(
    insert: &mut Statement<'_>,
    seq: i64,
    id: JobId,
    run: &Attempt,
) -> Result<(), SqliteFailure> {
    let failure = run.failure.as_ref();
    let decision = run.decision.as_ref().map(serde_json::to_string).transpose()?;
    insert.execute(params![
        seq,
        run.number,
        run.fence.0,
        run.worker.as_bytes(),
        run.code_version.as_deref(),
        run.cause.as_str(),
        run.due_at.as_micros(),
        run.started_at.as_micros(),
        run.finished_at.as_micros(),
        failure.map(|failure| failure.error_type.as_str()),
        failure.map(|failure| failure.message.as_str()),
        failure.map(|failure| failure.fingerprint.as_ref()),
        decision,
        run.result.as_deref(),
        run.warning.as_deref(),
        run.output.as_deref(),
        failure.map(|_| id.as_bytes()),
    ])?;
    Ok(())
}

/// Reads one row of the ledger.
pub(crate) fn attempt(row: &Row<'_>) -> Result<Attempt, SqliteFailure> {
    Ok(Attempt {
        number: row.get(0)?,
        fence: Fence(row.get(1)?),
        worker: worker_id(row, 2)?,
        code_version: row.get(3)?,
        cause: cause(row, 4)?,
        due_at: moment(row, 5)?,
        started_at: moment(row, 6)?,
        finished_at: moment(row, 7)?,
        failure: failure(row, 8)?,
        decision: maybe_json(row, 11)?,
        result: row.get(12)?,
        warning: row.get(13)?,
        output: row.get(14)?,
    })
}

pub(crate) fn cause(row: &Row<'_>, column: usize) -> Result<backstop_core::failure::Cause, SqliteFailure> {
    word(&row.get::<_, String>(column)?)
}

/// Reads error type, message and fingerprint, which are there together or not at all.
pub(crate) fn failure(row: &Row<'_>, at: usize) -> Result<Option<FailureRecord>, SqliteFailure> {
    let Some(error_type) = row.get(at)? else { return Ok(None) };
    Ok(Some(FailureRecord {
        error_type,
        message: row.get(at + 1)?,
        fingerprint: fingerprint(row.get(at + 2)?)?,
    }))
}

fn fingerprint(text: String) -> Result<Fingerprint, SqliteFailure> {
    Ok(Fingerprint::deserialize(serde_json::Value::String(text))?)
}

pub(crate) fn incident(row: &Row<'_>) -> Result<Incident, SqliteFailure> {
    Ok(Incident {
        fingerprint: fingerprint(row.get(0)?)?,
        kind: row.get(1)?,
        error_type: row.get(2)?,
        message: row.get(3)?,
        failures: count(row, 4)?,
        dead: count(row, 5)?,
        open: count(row, 6)?,
        first_seen: moment(row, 7)?,
        last_seen: moment(row, 8)?,
        first_version: row.get(9)?,
        last_version: row.get(10)?,
        sample_job: job_id(row, 11)?,
        standing: text_of(row, 12)?.map(Standing::from_text).unwrap_or_default(),
    })
}

pub(crate) fn archived(row: &Row<'_>) -> Result<(JobId, Archived), SqliteFailure> {
    let archived = Archived {
        state: state_of(row.get(1)?)?,
        archived_at: moment(row, 2)?,
        ran: row.get(3)?,
        document: row.get::<_, Arc<str>>(4)?,
    };
    Ok((job_id(row, 0)?, archived))
}

/// A count that was kept or counted.
pub(crate) fn count(row: &Row<'_>, column: usize) -> Result<u64, SqliteFailure> {
    let number: i64 = row.get(column)?;
    Ok(u64::try_from(number).unwrap_or_default())
}

/// Reads whether a queue is paused, and the note of that.
pub(crate) fn pause(row: &Row<'_>, at: usize) -> Result<Option<PauseNote>, SqliteFailure> {
    let paused: bool = row.get(at)?;
    Ok(if paused { Some(PauseNote(row.get(at + 1)?)) } else { None })
}

/// Reads a worker's row.
pub(crate) fn worker(row: &Row<'_>) -> Result<WorkerRow, SqliteFailure> {
    Ok(WorkerRow {
        id: worker_id(row, 0)?,
        // Whoever looks at workers looks at all of them: one that is damaged is shown as well as it can be (C7).
        name: text_of(row, 1)?.unwrap_or_default().to_owned(),
        code_version: text_of(row, 2)?.map(str::to_owned),
        queues: readable_json(row, 3)?,
        kinds: readable_json(row, 4)?,
        started_at: moment(row, 5)?,
        expires_at: moment(row, 6)?,
    })
}

/// A JSON column; as if it were empty when it is, or cannot be read.
fn readable_json<T: DeserializeOwned + Default>(row: &Row<'_>, column: usize) -> Result<T, SqliteFailure> {
    let text = text_of(row, column)?;
    Ok(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
}

/// A number of rows as SQLite takes it.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Reads every row of a query through a function that may fail.
pub(crate) fn collect<T>(
    statement: &mut Statement<'_>,
    values: impl rusqlite::Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, SqliteFailure>,
) -> Result<Vec<T>, SqliteFailure> {
    let mut rows = statement.query(values)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(row)?);
    }
    Ok(items)
}

/// Reads at most one row.
pub(crate) fn first<T>(
    statement: &mut Statement<'_>,
    values: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, SqliteFailure>,
) -> Result<Option<T>, SqliteFailure> {
    let mut rows = statement.query(values)?;
    rows.next()?.map(read).transpose()
}

/// Reads one value of at most one row.
pub(crate) fn value<T: FromSql>(
    statement: &mut Statement<'_>,
    values: impl rusqlite::Params,
) -> Result<Option<T>, SqliteFailure> {
    first(statement, values, |row| Ok(row.get(0)?))
}
