//! Removing jobs for good (D5): on request, or by age once they are archived.
//!
//! Their idempotency keys stay, with how they ended (L10).

use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::{Duty, Term};
use rusqlite::{Connection, params};

use crate::archive;
use crate::duty::expect_term;
use crate::error::SqliteFailure;
use crate::idempotency::{end_archived_key, end_key};
use crate::rows;
use crate::sql;
use crate::transaction::WriteTransaction;

/// Removes jobs that have ended, hot or archived.
pub(crate) fn purge(
    tx: &mut WriteTransaction<'_>,
    ids: &[JobId],
    only: Option<State>,
) -> Result<Vec<Result<State, Refusal>>, SqliteFailure> {
    ids.iter().map(|id| purge_one(tx, *id, only)).collect()
}

fn purge_one(
    tx: &mut WriteTransaction<'_>,
    id: JobId,
    only: Option<State>,
) -> Result<Result<State, Refusal>, SqliteFailure> {
    let state = match tx.find(id)? {
        Some(stored) => {
            if let Err(refusal) = stored.record.state.may_be_purged(id, only) {
                return Ok(Err(refusal));
            }
            let (stored, job) = tx.load(stored.seq)?;
            tx.remove(&stored, &job.spec)?;
            end_key(tx.conn, job.spec.idempotency_key.as_deref(), stored.record.state)?;
            stored.record.state
        }
        None => match archive::state(tx.conn, id)? {
            Some(state) => match state.may_be_purged(id, only) {
                Ok(()) => state,
                Err(refusal) => return Ok(Err(refusal)),
            },
            None => return Ok(Err(Refusal::NoSuchJob { job: id })),
        },
    };
    forget(tx.conn, id, state)?;
    Ok(Ok(state))
}

/// Removes what the archive has of a job that ended in `state`.
fn forget(conn: &Connection, id: JobId, state: State) -> Result<(), SqliteFailure> {
    end_archived_key(conn, id, state)?;
    conn.prepare_cached(sql::ARCHIVE_DELETE)?.execute([id.as_bytes()])?;
    // An earlier job with the same id may have left a key of its own.
    conn.prepare_cached(sql::IDEMPOTENCY_END_AGAIN)?
        .execute(params![id.as_bytes(), rows::status_code(state)])?;
    Ok(())
}

/// Removes up to `limit` archived jobs whose time is over.
pub(crate) fn prune(
    tx: &mut WriteTransaction<'_>,
    term: &Term,
    keep: Duration,
    limit: usize,
) -> Result<usize, SqliteFailure> {
    expect_term(tx, term, Duty::Prune)?;
    let Some(cutoff) = cutoff(keep, tx.now) else { return Ok(0) };
    let mut select = tx.conn.prepare_cached(sql::OUTWORN)?;
    let values = params![cutoff.as_micros(), rows::limit(limit)];
    let outworn =
        rows::collect(&mut select, values, |row| Ok((rows::job_id(row, 0)?, rows::state_of(row.get(1)?)?)))?;
    for (id, state) in &outworn {
        forget(tx.conn, *id, *state)?;
    }
    Ok(outworn.len())
}

/// How many archived jobs would be removed, counted up to `most`.
pub(crate) fn prunable(
    conn: &Connection,
    now: Timestamp,
    keep: Duration,
    most: usize,
) -> Result<usize, SqliteFailure> {
    let Some(cutoff) = cutoff(keep, now) else { return Ok(0) };
    let values = params![cutoff.as_micros(), rows::limit(most)];
    let count: Option<i64> = rows::value(&mut *conn.prepare_cached(sql::OUTWORN_COUNT)?, values)?;
    Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
}

/// The latest moment of an archival that is `keep` ago; none when that is before the first moment there is.
fn cutoff(keep: Duration, now: Timestamp) -> Option<Timestamp> {
    (keep <= now.since(Timestamp::MIN)).then(|| now.before(keep))
}
