//! Leadership of maintenance duties (L17), and the duties that a store can do by itself.

use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_store::{Duty, Error, LaneMark, Overdue, Term, Terms, retire};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::rows;
use crate::sql;
use crate::transaction::WriteTransaction;

/// Grants or renews the leadership of duties, where nobody else leads.
pub(crate) fn lead(
    tx: &mut WriteTransaction<'_>,
    node: WorkerId,
    duties: &[Duty],
    ttl: Duration,
) -> Result<Vec<Option<Term>>, SqliteFailure> {
    duties.iter().map(|duty| lead_one(tx, node, *duty, ttl)).collect()
}

fn lead_one(
    tx: &mut WriteTransaction<'_>,
    node: WorkerId,
    duty: Duty,
    ttl: Duration,
) -> Result<Option<Term>, SqliteFailure> {
    let number = match current(tx.conn, duty)? {
        Some(term) if term.expires_at > tx.now && term.node == node => term.number,
        Some(term) if term.expires_at > tx.now => return Ok(None),
        Some(term) => term.number + 1,
        None => 1,
    };
    let term = Term { duty, number, node, expires_at: tx.now.after(ttl) };
    tx.conn.prepare_cached(sql::TERM_SAVE)?.execute(params![
        duty.as_str(),
        number,
        node.as_bytes(),
        term.expires_at.as_micros()
    ])?;
    Ok(Some(term))
}

/// The latest term of every duty that was ever led.
pub(crate) fn terms(conn: &Connection, now: Timestamp) -> Result<Terms, SqliteFailure> {
    let mut terms = Vec::with_capacity(Duty::ALL.len());
    for duty in Duty::ALL {
        terms.extend(current(conn, duty)?);
    }
    Ok(Terms { now, terms })
}

fn current(conn: &Connection, duty: Duty) -> Result<Option<Term>, SqliteFailure> {
    rows::first(&mut *conn.prepare_cached(sql::TERM)?, [duty.as_str()], |row| {
        Ok(Term {
            duty,
            number: row.get(0)?,
            node: rows::worker_id(row, 1)?,
            expires_at: Timestamp::from_micros(row.get(2)?),
        })
    })
}

/// Refuses a leader whose term was taken over, has run out, or was for another duty.
pub(crate) fn expect_term(tx: &WriteTransaction<'_>, term: &Term, duty: Duty) -> Result<(), SqliteFailure> {
    let leads = current(tx.conn, duty)?.is_some_and(|current| {
        term.duty == duty
            && current.number == term.number
            && current.node == term.node
            && current.expires_at > tx.now
    });
    if leads { Ok(()) } else { Err(SqliteFailure::Refused(Error::Deposed { duty: term.duty })) }
}

/// The unclaimed jobs whose time to start has passed (L19), after the given one.
pub(crate) fn overdue(
    conn: &Connection,
    now: Timestamp,
    after: Option<Overdue>,
    limit: usize,
) -> Result<Vec<Overdue>, SqliteFailure> {
    let after = after.unwrap_or(Overdue { expires_at: Timestamp::MIN, job: JobId::from_u128(0) });
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::collect(
        &mut *conn.prepare_cached(sql::OVERDUE)?,
        params![now.as_micros(), after.expires_at.as_micros(), after.job.as_bytes(), limit],
        |row| Ok(Overdue { expires_at: Timestamp::from_micros(row.get(0)?), job: rows::job_id(row, 1)? }),
    )
}

/// Fails those of these jobs that are still unclaimed and overdue (L19).
pub(crate) fn expire(
    tx: &mut WriteTransaction<'_>,
    term: &Term,
    jobs: &[Overdue],
) -> Result<usize, SqliteFailure> {
    expect_term(tx, term, Duty::Expire)?;
    let mut expired = 0;
    for overdue in jobs {
        let Some(stored) = tx.find(overdue.job)? else { continue };
        let still = stored.record.state == State::Pending
            && stored.record.expires_at == Some(overdue.expires_at)
            && stored.record.has_expired(tx.now);
        if still {
            let (stored, job) = tx.load(stored.seq)?;
            if let Some(callback) = tx.expire(stored, &job)? {
                tx.insert(&callback)?;
            }
            expired += 1;
        }
    }
    Ok(expired)
}

/// Marks lanes that are empty, and retires those that have been empty for long.
pub(crate) fn retire_lanes(
    tx: &mut WriteTransaction<'_>,
    term: &Term,
    idle: Duration,
    limit: usize,
) -> Result<usize, SqliteFailure> {
    expect_term(tx, term, Duty::Prune)?;
    // The counts are about to be read.
    tx.flush()?;
    let cutoff = retire::cutoff(idle, tx.now).map_or(i64::MIN, Timestamp::as_micros);
    let found = rows::collect(
        &mut *tx.conn.prepare_cached(sql::LANES_TO_MARK)?,
        params![cutoff, rows::limit(limit)],
        |row| {
            let mark = LaneMark { empty_since: rows::maybe_moment(row, 2)?, retired: row.get(3)? };
            Ok((row.get::<_, i64>(0)?, rows::count(row, 1)?, mark))
        },
    )?;
    for (lane, jobs, before) in &found {
        let mark = before.seen(*jobs, idle, tx.now);
        let since = mark.empty_since.map(Timestamp::as_micros);
        tx.conn.prepare_cached(sql::LANE_MARK)?.execute(params![lane, since, mark.retired])?;
    }
    Ok(found.len())
}
