//! Queues that are paused, and why.

use backstop_store::show::PauseNote;
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::rows;
use crate::sql;
use crate::transaction::WriteTransaction;

/// The note of a paused queue: who or what asked for it. None when claims may take from it.
pub(crate) fn pause(conn: &Connection, queue: &str) -> Result<Option<PauseNote>, SqliteFailure> {
    let mut select = conn.prepare_cached(sql::QUEUE_PAUSED)?;
    Ok(rows::first(&mut select, [queue], |row| rows::pause(row, 0))?.flatten())
}

/// Pauses or resumes a queue; answers whether that changed anything.
pub(crate) fn pause_queue(
    tx: &mut WriteTransaction<'_>,
    queue: &str,
    paused: bool,
    note: Option<&str>,
) -> Result<bool, SqliteFailure> {
    if pause(tx.conn, queue)?.is_some() == paused {
        return Ok(false);
    }
    let note = note.filter(|_| paused);
    tx.conn.prepare_cached(sql::QUEUE_PAUSE)?.execute(params![queue, paused, note])?;
    tx.news.work_arrived |= !paused;
    Ok(true)
}
