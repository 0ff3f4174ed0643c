//! Values of the core as rows of tables: which columns a table has, and what is written into them.
//!
//! The tables are the same in every dialect, and so is the order of their columns here and in
//! [`decode`](crate::decode).

use backstop_core::failure::TerminalReason;
use backstop_core::job::{Attempt, JobExtras, Marks, Policy, Record, State, StoredJob};
use backstop_core::{JobId, Timestamp};
use backstop_store::working_set::{Done, IncidentCount, ReadyRow, RecordRow};

use crate::columns::Cells;
use crate::failure::SqlFailure;

/// A table, and its columns in the order in which rows are written.
#[derive(Debug)]
pub struct Table {
    /// Its name, without what dialects put before it.
    pub name: &'static str,
    /// The names of its columns, with a comma between them.
    pub columns: &'static str,
}

/// Jobs as they were submitted.
pub const JOB: Table = Table {
    name: "job",
    columns: "id, lane, created_at, run_at, payload, policy, expires_at, idempotency_key, business_key, \
        correlation_id, tags, params, on_success, on_failure, callback_of, papers",
};

/// Jobs that wait.
pub const READY: Table = Table { name: "ready", columns: "lane, run_at, id, expires_at, rowed" };

/// What jobs have gone through.
pub const RECORD: Table = Table {
    name: "record",
    columns: "id, lane, status, run_at, expires_at, attempt, crashes, deferrals, runs, redrives, fence, \
        last_failed_run, progress, paused_from, finished_at, reason, cancel_reason, superseded_by, marks",
};

/// Jobs that succeeded, with their last run.
pub const DONE: Table = Table {
    name: "done",
    columns: "id, lane, run_at, expires_at, attempt, crashes, deferrals, runs, redrives, fence, progress, \
        finished_at, worker, code_version, started_at, result, warning, output, marks",
};

/// The ledger.
pub const ATTEMPT: Table = Table {
    name: "attempt",
    columns: "job, number, fence, worker, code_version, cause, due_at, started_at, finished_at, error_type, message, \
        fingerprint, decision, result, warning, output",
};

/// How the counts of lanes change.
pub const TALLY: Table =
    Table { name: "tally", columns: "lane, pending, running, succeeded, failed, paused, canceled, waiting" };

/// Failures that are counted.
pub const INCIDENT: Table = Table {
    name: "incident",
    columns: "fingerprint, kind, error_type, message, failures, dead, open, first_seen, last_seen, first_version, \
        last_version, sample_job",
};

impl Table {
    /// The names of its columns.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.split(", ")
    }
}

/// How a state is written. Partial indexes name these numbers.
#[must_use]
pub const fn status_code(state: State) -> i64 {
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

/// A counter that is almost always zero, and then NULL.
fn rarely(number: u32) -> Option<i64> {
    (number > 0).then(|| number.into())
}

/// The marks of a job that has succeeded, where they stand in `done`.
pub(crate) fn marks_when_done(record: &Record) -> Option<String> {
    record.marks.as_deref().and_then(Marks::to_text_beside_job)
}

/// Writes a row of [`JOB`].
pub(crate) fn job(
    row: &mut Cells<'_>,
    job: &StoredJob,
    run_at: Timestamp,
    lane: Option<i64>,
) -> Result<(), SqlFailure> {
    let spec = &job.spec;
    row.job(spec.id)
        .maybe_int(lane)
        .at(job.created_at)
        .at(run_at)
        .text(&spec.payload)
        .json(Some(&spec.policy).filter(|policy| **policy != Policy::default()))?
        .maybe_at(spec.expires_at)
        .maybe_text(spec.idempotency_key.as_deref())
        .maybe_text(spec.business_key.as_deref())
        .maybe_text(spec.correlation_id.as_deref())
        .json(Some(&spec.tags).filter(|tags| !tags.is_empty()))?
        .maybe_text(spec.params.as_deref())
        .json(spec.on_success.as_ref())?
        .json(spec.on_failure.as_ref())?
        .id(spec.callback_of.map(|id| id.as_uuid()))
        .maybe_text(JobExtras::text_of(spec).as_deref());
    Ok(())
}

/// Writes a row of [`READY`].
pub(crate) fn ready(row: &mut Cells<'_>, ready: &ReadyRow, lane: Option<i64>) {
    row.maybe_int(lane).at(ready.run_at).job(ready.id).maybe_at(ready.expires_at).bool(ready.rowed);
}

/// Writes a row of [`RECORD`].
pub(crate) fn record(row: &mut Cells<'_>, of: &RecordRow, lane: Option<i64>) -> Result<(), SqlFailure> {
    let record = &of.record;
    row.job(of.id)
        .maybe_int(lane)
        .int(status_code(record.state))
        .at(record.run_at)
        .maybe_at(record.expires_at)
        .int(record.attempt)
        .int(record.crashes)
        .int(record.deferrals)
        .int(record.runs)
        .int(record.redrives)
        .int(record.fence.0)
        .maybe_int(record.last_failed_run.map(i64::from))
        .json(record.progress.as_ref())?
        .maybe_int(record.paused_from.map(|from| status_code(from.state())))
        .maybe_at(record.finished_at)
        .maybe_text(record.reason.map(TerminalReason::as_str))
        .maybe_text(record.cancel_reason.as_deref())
        .id(record.superseded_by.map(|id| id.as_uuid()))
        // With the mark of a part, although its job has it: programs of earlier versions look for it here.
        .maybe_text(record.marks.as_deref().and_then(Marks::to_text).as_deref());
    Ok(())
}

/// Writes a row of [`DONE`].
pub(crate) fn done(row: &mut Cells<'_>, done: &Done, lane: Option<i64>) -> Result<(), SqlFailure> {
    let (record, run) = (&done.record, done.run.as_ref());
    row.job(done.id)
        .maybe_int(lane)
        .at(record.run_at)
        .maybe_at(record.expires_at)
        .maybe_int(rarely(record.attempt))
        .maybe_int(rarely(record.crashes))
        .maybe_int(rarely(record.deferrals))
        .int(record.runs)
        .maybe_int(rarely(record.redrives))
        .int(record.fence.0)
        .json(record.progress.as_ref())?
        .maybe_at(record.finished_at)
        .id(run.map(|run| run.worker.as_uuid()))
        .maybe_text(run.and_then(|run| run.code_version.as_deref()))
        .maybe_at(run.map(|run| run.started_at))
        .maybe_text(run.and_then(|run| run.result.as_deref()))
        .maybe_text(run.and_then(|run| run.warning.as_deref()))
        .maybe_text(run.and_then(|run| run.output.as_deref()))
        .maybe_text(marks_when_done(record).as_deref());
    Ok(())
}

/// Writes a row of [`ATTEMPT`].
pub(crate) fn attempt(row: &mut Cells<'_>, job: JobId, run: &Attempt) -> Result<(), SqlFailure> {
    let failure = run.failure.as_ref();
    row.job(job)
        .int(run.number)
        .int(run.fence.0)
        .id(Some(run.worker.as_uuid()))
        .maybe_text(run.code_version.as_deref())
        .text(run.cause.as_str())
        .at(run.due_at)
        .at(run.started_at)
        .at(run.finished_at)
        .maybe_text(failure.map(|failure| failure.error_type.as_str()))
        .maybe_text(failure.map(|failure| failure.message.as_str()))
        .maybe_text(failure.map(|failure| failure.fingerprint.as_ref()))
        .json(run.decision.as_ref())?
        .maybe_text(run.result.as_deref())
        .maybe_text(run.warning.as_deref())
        .maybe_text(run.output.as_deref());
    Ok(())
}

/// Writes a row of [`INCIDENT`]; `open` is how many of its dead letters are new.
pub(crate) fn incident(row: &mut Cells<'_>, count: &IncidentCount, open: i64, now: Timestamp) {
    row.text(count.fingerprint.as_str())
        .text(&count.kind)
        .text(&count.error_type)
        .text(&count.message)
        .int(count.failures)
        .int(count.dead)
        .int(open)
        .at(now)
        .at(now)
        .maybe_text(count.first_version.as_deref())
        .maybe_text(count.last_version.as_deref())
        .job(count.sample_job);
}
