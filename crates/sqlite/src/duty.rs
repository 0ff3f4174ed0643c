//! Leadership of maintenance duties (L17), and the duty that a store can do by itself.

use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_store::{Duty, Error, Overdue, Term, Terms};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::rows;
use crate::sql;
use crate::unit::Unit;

/// Grants or renews the leadership of duties, where nobody else leads.
pub(crate) fn lead(
    unit: &mut Unit<'_>,
    node: WorkerId,
    duties: &[Duty],
    ttl: Duration,
) -> Result<Vec<Option<Term>>, Failure> {
    duties.iter().map(|duty| lead_one(unit, node, *duty, ttl)).collect()
}

fn lead_one(unit: &mut Unit<'_>, node: WorkerId, duty: Duty, ttl: Duration) -> Result<Option<Term>, Failure> {
    let number = match current(unit.conn, duty)? {
        Some(term) if term.expires_at > unit.now && term.node == node => term.number,
        Some(term) if term.expires_at > unit.now => return Ok(None),
        Some(term) => term.number + 1,
        None => 1,
    };
    let term = Term { duty, number, node, expires_at: unit.now.after(ttl) };
    unit.conn.prepare_cached(sql::TERM_SAVE)?.execute(params![
        duty.as_str(),
        number,
        node.as_bytes(),
        term.expires_at.as_micros()
    ])?;
    Ok(Some(term))
}

/// The latest term of every duty that was ever led.
pub(crate) fn terms(conn: &Connection, now: Timestamp) -> Result<Terms, Failure> {
    let mut terms = Vec::with_capacity(Duty::ALL.len());
    for duty in Duty::ALL {
        terms.extend(current(conn, duty)?);
    }
    Ok(Terms { now, terms })
}

fn current(conn: &Connection, duty: Duty) -> Result<Option<Term>, Failure> {
    rows::first(&mut *conn.prepare_cached(sql::TERM)?, [duty.as_str()], |row| {
        Ok(Term {
            duty,
            number: row.get(0)?,
            node: rows::worker_id(row, 1)?,
            expires_at: Timestamp::from_micros(row.get(2)?),
        })
    })
}

/// Refuses a leader whose term has passed on, has run out, or was for another duty.
pub(crate) fn expect_term(unit: &Unit<'_>, term: &Term, duty: Duty) -> Result<(), Failure> {
    let leads = current(unit.conn, duty)?.is_some_and(|current| {
        term.duty == duty
            && current.number == term.number
            && current.node == term.node
            && current.expires_at > unit.now
    });
    if leads { Ok(()) } else { Err(Failure::Refused(Error::Deposed { duty: term.duty })) }
}

/// The unclaimed jobs whose time to start has passed (L19), behind one of them.
pub(crate) fn overdue(
    conn: &Connection,
    now: Timestamp,
    after: Option<Overdue>,
    limit: usize,
) -> Result<Vec<Overdue>, Failure> {
    let after = after.unwrap_or(Overdue { expires_at: Timestamp::MIN, job: JobId::from_u128(0) });
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::collect(
        &mut *conn.prepare_cached(sql::OVERDUE)?,
        params![now.as_micros(), after.expires_at.as_micros(), after.job.as_bytes(), limit],
        |row| Ok(Overdue { expires_at: Timestamp::from_micros(row.get(0)?), job: rows::job_id(row, 1)? }),
    )
}

/// Fails those of these jobs that are still unclaimed and overdue (L19).
pub(crate) fn expire(unit: &mut Unit<'_>, term: &Term, jobs: &[Overdue]) -> Result<usize, Failure> {
    expect_term(unit, term, Duty::Expire)?;
    let mut expired = 0;
    for overdue in jobs {
        let Some(stored) = unit.find(overdue.job)? else { continue };
        let still = stored.record.state == State::Pending
            && stored.record.expires_at == Some(overdue.expires_at)
            && stored.record.has_expired(unit.now);
        if still {
            let (stored, job) = unit.load(stored.seq)?;
            if let Some(callback) = unit.expire(stored, &job)? {
                unit.insert(&callback)?;
            }
            expired += 1;
        }
    }
    Ok(expired)
}
