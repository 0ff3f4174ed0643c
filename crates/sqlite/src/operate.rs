//! What people ask of jobs and queues.

use backstop_core::job::{Operated, Operation, State};
use backstop_core::{JobId, Refusal, event};
use rusqlite::params;

use crate::claim::pause;
use crate::error::Failure;
use crate::sql;
use crate::submit::conflict;
use crate::unit::Unit;

/// Does what a person asks of each job, in order.
pub(crate) fn operate(
    unit: &mut Unit<'_>,
    jobs: &[JobId],
    operation: &Operation,
) -> Result<Vec<Result<Operated, Refusal>>, Failure> {
    jobs.iter().map(|id| one(unit, *id, operation)).collect()
}

pub(crate) fn one(
    unit: &mut Unit<'_>,
    id: JobId,
    operation: &Operation,
) -> Result<Result<Operated, Refusal>, Failure> {
    let Some(found) = unit.find(id)? else { return Ok(Err(Refusal::NoSuchJob { job: id })) };
    let (mut stored, job) = unit.load(found.seq)?;
    let before = stored.record.clone();
    let operated = match stored.record.operate(&job, operation, unit.now) {
        Ok(operated) => operated,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if before.state.is_terminal()
        && stored.record.state.is_live()
        && let Some(key) = &job.spec.business_key
        && let Some(holder) = unit.key_holder(key)?.filter(|holder| holder.id != id)
    {
        return Ok(Err(conflict(key, &holder, holder.record.state)));
    }
    if !operated.changed {
        return Ok(Ok(operated));
    }
    unit.save(&stored, &before)?;
    if let Some(run) = &operated.ended_run {
        unit.record_run(&stored, run)?;
    }
    if stored.record.state != before.state {
        let now = unit.now;
        unit.tell(|| event::operated(job.spec.header(), operation, now));
        unit.news.work_arrived |= stored.record.state == State::Pending;
    }
    Ok(Ok(operated))
}

/// Pauses or resumes a queue; answers whether that changed anything.
pub(crate) fn pause_queue(
    unit: &mut Unit<'_>,
    queue: &str,
    paused: bool,
    note: Option<&str>,
) -> Result<bool, Failure> {
    if pause(unit.conn, queue)?.is_some() == paused {
        return Ok(false);
    }
    let note = note.filter(|_| paused);
    unit.conn.prepare_cached(sql::QUEUE_PAUSE)?.execute(params![queue, paused, note])?;
    unit.news.work_arrived |= !paused;
    Ok(true)
}
