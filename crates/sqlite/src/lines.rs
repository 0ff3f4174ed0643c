//! Whose turn it is among the jobs of one ordering key (L21).
//!
//! `line` has the head of each line: its key is the key of the table, so no two jobs can have their turn at once,
//! whatever the code does. `place` has those that wait. Only one transaction writes at a time, so the turn passes on in
//! the one that changes a line, before it is committed.

use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::job::{LinePlace, Record, Spec, State};
use backstop_store::line::MOST_COUNTED;
use backstop_store::show;
use backstop_store::{LineRange, LineView, NameRange, Page};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::rows::{self, StateRow, state_of};
use crate::sql;
use crate::transaction::WriteTransaction;

/// Puts a new job at the end of its line.
pub(crate) fn join(tx: &mut WriteTransaction<'_>, spec: &Spec) -> Result<(), SqliteFailure> {
    let Some(key) = &spec.ordering_key else { return Ok(()) };
    tx.conn.prepare_cached(sql::PLACE_INSERT)?.execute(params![&**key, spec.id.as_bytes()])?;
    tx.changed_lines.insert(key.clone());
    Ok(())
}

/// Takes a job out of its line, from whatever place.
pub(crate) fn leave(
    tx: &mut WriteTransaction<'_>,
    key: Option<&Arc<str>>,
    id: JobId,
) -> Result<(), SqliteFailure> {
    let Some(key) = key else { return Ok(()) };
    tx.conn.prepare_cached(sql::PLACE_DELETE)?.execute([id.as_bytes()])?;
    tx.conn.prepare_cached(sql::HEAD_DELETE)?.execute(params![&**key, id.as_bytes()])?;
    tx.changed_lines.insert(key.clone());
    Ok(())
}

/// Follows a record that has changed.
pub(crate) fn follow(
    tx: &mut WriteTransaction<'_>,
    stored: &StateRow,
    before: &Record,
) -> Result<(), SqliteFailure> {
    let (Some(key), after) = (&stored.ordering_key, &stored.record) else { return Ok(()) };
    if after.leaves_line() {
        return leave(tx, Some(key), stored.id);
    }
    if before.blocks_line() != after.blocks_line() {
        let values = params![&**key, stored.id.as_bytes(), after.blocks_line()];
        tx.conn.prepare_cached(sql::HEAD_MARK)?.execute(values)?;
    }
    Ok(())
}

/// Gives the turn on in every line that has changed.
pub(crate) fn advance(tx: &mut WriteTransaction<'_>) -> Result<(), SqliteFailure> {
    while let Some(key) = tx.changed_lines.pop_first() {
        let first = rows::first(&mut *tx.conn.prepare_cached(sql::PLACE_FIRST)?, [&*key], |row| {
            Ok(rows::job_id(row, 0)?)
        })?;
        let Some(id) = first else { continue };
        tx.conn.prepare_cached(sql::PLACE_DELETE)?.execute([id.as_bytes()])?;
        let mut stored = match tx.find(id) {
            Ok(Some(stored)) => stored,
            Ok(None) => {
                // A place without a job: the next one is looked for.
                tx.changed_lines.insert(key);
                continue;
            }
            Err(SqliteFailure::Unreadable(_)) => {
                // It blocks its own line, and not whoever makes room for it (C7).
                tx.conn.prepare_cached(sql::HEAD_INSERT)?.execute(params![&*key, id.as_bytes(), true])?;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let before = stored.record.clone();
        if !stored.record.take_turn() {
            tx.changed_lines.insert(key);
            continue;
        }
        let values = params![&*key, id.as_bytes(), stored.record.blocks_line()];
        tx.conn.prepare_cached(sql::HEAD_INSERT)?.execute(values)?;
        tx.save(&stored, &before)?;
        tx.news.work_arrived |= stored.record.state == State::Pending;
    }
    Ok(())
}

/// Lines that have a head, by key.
pub(crate) fn lines(conn: &Connection, range: &LineRange) -> Result<Page<LineView, String>, SqliteFailure> {
    show::page_limit(range.limit)?;
    let statement = if range.blocked { sql::HEADS_BLOCKED } else { sql::HEADS };
    let NameRange { from, end } = range.span();
    let values = params![from, end, rows::limit(range.limit) + 1];
    let views = rows::collect(&mut *conn.prepare_cached(statement)?, values, |row| {
        let (head, state) = (rows::job_id(row, 1)?, state_of(row.get(2)?)?);
        let (queue, kind) = (row.get(4)?, row.get(5)?);
        Ok(LineView { key: row.get(0)?, head, state, queue, kind, waiting: rows::count(row, 3)? })
    })?;
    Ok(show::cut(views, range.limit, |view| view.key.to_string()))
}

/// Where a job stands while it waits for its turn.
pub(crate) fn place(
    conn: &Connection,
    spec: &Spec,
    record: &Record,
) -> Result<Option<LinePlace>, SqliteFailure> {
    let Some(key) = spec.ordering_key.as_deref().filter(|_| record.waits_for_turn(spec)) else {
        return Ok(None);
    };
    let mut select = conn.prepare_cached(sql::LINE_PLACE)?;
    rows::first(&mut select, params![key, spec.id.as_bytes()], |row| {
        let head = row.get::<_, Option<[u8; 16]>>(0)?.map(JobId::from_bytes);
        let state = row.get::<_, Option<i64>>(1)?.map(state_of).transpose()?;
        let head = head.zip(state);
        let before = (rows::count(row, 2)? + u64::from(head.is_some())).min(MOST_COUNTED);
        Ok(LinePlace { head, before })
    })
}
