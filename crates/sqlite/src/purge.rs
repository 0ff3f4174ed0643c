//! Jobs that leave for good (D5): at a person's word, or with age once they are archived.
//!
//! Their idempotency keys stay, with how they ended (L10).

use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::{Duty, Term};
use rusqlite::{Connection, params};
use serde::Deserialize;

use crate::archive;
use crate::duty::expect_term;
use crate::error::Failure;
use crate::rows;
use crate::sql;
use crate::unit::Unit;

/// Removes jobs that have ended, hot or archived.
pub(crate) fn purge(
    unit: &mut Unit<'_>,
    ids: &[JobId],
    only: Option<State>,
) -> Result<Vec<Result<State, Refusal>>, Failure> {
    ids.iter().map(|id| purge_one(unit, *id, only)).collect()
}

fn purge_one(unit: &mut Unit<'_>, id: JobId, only: Option<State>) -> Result<Result<State, Refusal>, Failure> {
    let state = match unit.find(id)? {
        Some(stored) => {
            if let Err(refusal) = stored.record.state.may_be_purged(id, only) {
                return Ok(Err(refusal));
            }
            let (stored, job) = unit.load(stored.seq)?;
            unit.remove(&stored, &job.spec)?;
            end_key(unit.conn, job.spec.idempotency_key.as_deref(), stored.record.state)?;
            stored.record.state
        }
        None => match archive::state(unit.conn, id)? {
            Some(state) => match state.may_be_purged(id, only) {
                Ok(()) => state,
                Err(refusal) => return Ok(Err(refusal)),
            },
            None => return Ok(Err(Refusal::NoSuchJob { job: id })),
        },
    };
    forget(unit.conn, id, state)?;
    Ok(Ok(state))
}

/// Removes what the archive has of a job that ended in `state`.
fn forget(conn: &Connection, id: JobId, state: State) -> Result<(), Failure> {
    end_archived_key(conn, id, state)?;
    conn.prepare_cached(sql::ARCHIVE_DELETE)?.execute([id.as_bytes()])?;
    // An earlier job with the same id may have left a key of its own.
    conn.prepare_cached(sql::IDEMPOTENCY_END_AGAIN)?
        .execute(params![id.as_bytes(), rows::status_code(state)])?;
    Ok(())
}

/// Writes to the key that an archived job had how the job ended: its document will soon not be there to say it.
pub(crate) fn end_archived_key(conn: &Connection, id: JobId, state: State) -> Result<(), Failure> {
    let mut select = conn.prepare_cached(sql::ARCHIVED_DOCUMENT)?;
    let key = rows::first(&mut select, [id.as_bytes()], |row| {
        key_in(row.get_ref(0)?.as_str().unwrap_or_default())
    })?;
    end_key(conn, key.flatten().as_deref(), state)
}

fn end_key(conn: &Connection, key: Option<&str>, state: State) -> Result<(), Failure> {
    if let Some(key) = key {
        conn.prepare_cached(sql::IDEMPOTENCY_END)?.execute(params![key, rows::status_code(state)])?;
    }
    Ok(())
}

/// The idempotency key of the job that an archived document tells of.
fn key_in(document: &str) -> Result<Option<String>, Failure> {
    #[derive(Deserialize)]
    struct Whole {
        job: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        idempotency_key: Option<String>,
    }
    Ok(serde_json::from_str::<Whole>(document)?.job.idempotency_key)
}

/// Removes up to `limit` archived jobs whose time is over.
pub(crate) fn prune(
    unit: &mut Unit<'_>,
    term: &Term,
    keep: Duration,
    limit: usize,
) -> Result<usize, Failure> {
    expect_term(unit, term, Duty::Prune)?;
    let Some(cutoff) = cutoff(keep, unit.now) else { return Ok(0) };
    let mut select = unit.conn.prepare_cached(sql::OUTWORN)?;
    let values = params![cutoff.as_micros(), rows::limit(limit)];
    let outworn =
        rows::collect(&mut select, values, |row| Ok((rows::job_id(row, 0)?, rows::state_of(row.get(1)?)?)))?;
    for (id, state) in &outworn {
        forget(unit.conn, *id, *state)?;
    }
    Ok(outworn.len())
}

/// How many archived jobs would be removed, counted up to `most`.
pub(crate) fn prunable(
    conn: &Connection,
    now: Timestamp,
    keep: Duration,
    most: usize,
) -> Result<usize, Failure> {
    let Some(cutoff) = cutoff(keep, now) else { return Ok(0) };
    let values = params![cutoff.as_micros(), rows::limit(most)];
    let count: Option<i64> = rows::value(&mut *conn.prepare_cached(sql::OUTWORN_COUNT)?, values)?;
    Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
}

/// The latest moment of an archival that is `keep` ago; none when that is before all time.
fn cutoff(keep: Duration, now: Timestamp) -> Option<Timestamp> {
    (keep <= now.since(Timestamp::MIN)).then(|| now.before(keep))
}
