//! The counter of fences: raised when it has fallen behind what jobs have seen, as after a restore (L5).

use backstop_store::working_set::Fences;
use rusqlite::Connection;

use crate::error::SqliteFailure;
use crate::rows;
use crate::sql;

/// Raises the counter above every fence that is stored.
pub(crate) fn raise(conn: &Connection) -> Result<(), SqliteFailure> {
    conn.prepare_cached(sql::FENCE_RAISE)?.execute([])?;
    Ok(())
}

/// Compares the counter with what is held and with what ended last, which is quick on a file of any size, and raises it
/// when it is behind. What this does not see is found by the claim that meets it.
pub(crate) fn check(conn: &Connection, fences: &Fences) -> Result<(), SqliteFailure> {
    let behind: Option<bool> = rows::value(&mut *conn.prepare_cached(sql::FENCE_BEHIND)?, [])?;
    if behind == Some(true) {
        raise(conn)?;
        fences.note_raised();
    }
    Ok(())
}
