//! What people ask of jobs.

use backstop_core::job::{Operated, Operation, State};
use backstop_core::{JobId, Refusal, event};
use backstop_store::signal_document;
use rusqlite::params;

use crate::error::SqliteFailure;
use crate::sql;
use crate::submit::conflict;
use crate::transaction::WriteTransaction;

/// Does what a person asks of each job, in order.
pub(crate) fn operate(
    tx: &mut WriteTransaction<'_>,
    jobs: &[JobId],
    operation: &Operation,
) -> Result<Vec<Result<Operated, Refusal>>, SqliteFailure> {
    jobs.iter().map(|id| one(tx, *id, operation)).collect()
}

pub(crate) fn one(
    tx: &mut WriteTransaction<'_>,
    id: JobId,
    operation: &Operation,
) -> Result<Result<Operated, Refusal>, SqliteFailure> {
    let Some(found) = tx.find(id)? else { return Ok(Err(Refusal::NoSuchJob { job: id })) };
    let (mut stored, job) = tx.load(found.seq)?;
    let before = stored.record.clone();
    let operated = match stored.record.operate(&job, operation, tx.now) {
        Ok(operated) => operated,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if before.state.is_terminal()
        && stored.record.state.is_live()
        && let Some(key) = &job.spec.business_key
        && let Some(holder) = tx.key_holder(key)?.filter(|holder| holder.id != id)
    {
        return Ok(Err(conflict(key, &holder, holder.record.state)));
    }
    if !operated.changed {
        return Ok(Ok(operated));
    }
    tx.save(&stored, &before)?;
    if let Some((drawer, key, text)) = signal_document(id, operation, &stored.record) {
        let values = params![drawer.as_str(), key, &*text];
        tx.conn.prepare_cached(sql::DOCUMENT_PUT)?.execute(values)?;
    }
    if let Some(run) = &operated.ended_run {
        tx.record_run(&stored, run)?;
    }
    if stored.record.state != before.state {
        let now = tx.now;
        tx.tell(|| event::operated(job.spec.header(), operation, now));
        tx.news.work_arrived |= stored.record.state == State::Pending;
    }
    Ok(Ok(operated))
}
