//! Jobs that ended long ago leave the hot tables (L16): one row with a document replaces all their rows.
//!
//! Their row numbers in `state` may be used again afterwards, so nothing of a job may be left behind.

use backstop_core::JobId;
use backstop_core::job::{Retention, State};
use backstop_store::show::{self, Roster};
use backstop_store::{Archived, Duty, Page, PageRequest, Term};
use rusqlite::{Connection, params};

use crate::duty::expect_term;
use crate::error::SqliteFailure;
use crate::idempotency::end_archived_key;
use crate::query::Snapshot;
use crate::rows::{self, StateRow};
use crate::sql;
use crate::transaction::WriteTransaction;
use crate::worker::roster;

/// Moves up to `limit` jobs whose retention is over.
pub(crate) fn archive(
    tx: &mut WriteTransaction<'_>,
    term: &Term,
    retention: &Retention,
    limit: usize,
) -> Result<usize, SqliteFailure> {
    expect_term(tx, term, Duty::Archive)?;
    let roster = roster(tx.conn, tx.now)?;
    let mut moved = 0;
    for state in Retention::STATES {
        for seq in ended(tx, retention, state, limit - moved)? {
            archive_one(tx, &roster, seq)?;
            moved += 1;
        }
    }
    Ok(moved)
}

/// Jobs that have been in `state` for longer than their retention, oldest first.
fn ended(
    tx: &WriteTransaction<'_>,
    retention: &Retention,
    state: State,
    limit: usize,
) -> Result<Vec<i64>, SqliteFailure> {
    let Some(cutoff) = retention.cutoff(state, tx.now).filter(|_| limit > 0) else { return Ok(Vec::new()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values = params![rows::status_code(state), cutoff.as_micros(), limit];
    rows::collect(&mut *tx.conn.prepare_cached(sql::ENDED)?, values, |row| Ok(row.get(0)?))
}

fn archive_one(tx: &mut WriteTransaction<'_>, roster: &Roster, seq: i64) -> Result<(), SqliteFailure> {
    let conn = tx.conn;
    let mut snapshot = Snapshot { conn, lanes: tx.lanes, now: tx.now };
    let (detail, ledger) = (snapshot.detail(roster, seq)?, snapshot.ledger(seq)?);
    let archived = Archived::new(&detail, &ledger, tx.now)?;
    let (spec, record) = (detail.view.job.spec, detail.view.record);
    // An earlier job with this id may be here, and its key must not lose its answer.
    end_archived_key(conn, spec.id, record.state)?;
    conn.prepare_cached(sql::ARCHIVE_SAVE)?.execute(params![
        spec.id.as_bytes(),
        rows::status_code(record.state),
        record.finished_at.map(backstop_core::Timestamp::as_micros),
        tx.now.as_micros(),
        archived.ran,
        &*archived.document,
    ])?;
    let lane = tx.lanes.of(conn, &spec)?;
    let lane = lane.ok_or_else(|| SqliteFailure::Unreadable(format!("job {} without a lane", spec.id)))?.id;
    let ordering_key = spec.ordering_key.clone();
    tx.remove(&StateRow { seq, id: spec.id, lane, record, ordering_key }, &spec)
}

/// Archived jobs by id, in order.
pub(crate) fn archived(conn: &Connection, ids: &[JobId]) -> Result<Vec<Option<Archived>>, SqliteFailure> {
    let mut select = conn.prepare_cached(sql::ARCHIVED)?;
    let mut find = |id: &JobId| rows::first(&mut select, [id.as_bytes()], rows::archived);
    ids.iter().map(|id| Ok(find(id)?.map(|(_, archived)| archived))).collect()
}

/// Archived jobs, newest id first.
pub(crate) fn archive_page(
    conn: &Connection,
    page: PageRequest<JobId>,
) -> Result<Page<(JobId, Archived), JobId>, SqliteFailure> {
    /// Longer than an id, and so behind every one.
    const BEHIND_ALL: [u8; 17] = [u8::MAX; 17];
    show::page_limit(page.limit)?;
    let below = page.after.as_ref().map_or(&BEHIND_ALL[..], |id| id.as_bytes());
    let values = params![below, rows::limit(page.limit) + 1];
    let found = rows::collect(&mut *conn.prepare_cached(sql::ARCHIVE_PAGE)?, values, rows::archived)?;
    Ok(show::cut(found, page.limit, |(id, _)| *id))
}

/// How an archived job had ended; none when no such job was archived.
pub(crate) fn state(conn: &Connection, id: JobId) -> Result<Option<State>, SqliteFailure> {
    let status = rows::value(&mut *conn.prepare_cached(sql::ARCHIVED_STATUS)?, [id.as_bytes()])?;
    status.map(rows::state_of).transpose()
}
