//! Idempotency keys: the job that brought each first, and how that job ended once it is gone (L10, D5).

use backstop_core::JobId;
use backstop_core::job::State;
use rusqlite::{Connection, params};
use serde::Deserialize;

use crate::error::SqliteFailure;
use crate::rows;
use crate::sql;

/// The job that brought a key first, and how it had ended if it was purged.
pub(crate) fn first_job(
    conn: &Connection,
    key: &str,
) -> Result<Option<(JobId, Option<State>)>, SqliteFailure> {
    let mut select = conn.prepare_cached(sql::IDEMPOTENCY_FIND)?;
    rows::first(&mut select, [key], |row| {
        let ended: Option<i64> = row.get(1)?;
        Ok((rows::job_id(row, 0)?, ended.map(rows::state_of).transpose()?))
    })
}

/// Writes how an archived job ended to its key, before its document is removed.
pub(crate) fn end_archived_key(conn: &Connection, id: JobId, state: State) -> Result<(), SqliteFailure> {
    let mut select = conn.prepare_cached(sql::ARCHIVED_DOCUMENT)?;
    let key = rows::first(&mut select, [id.as_bytes()], |row| {
        key_in(row.get_ref(0)?.as_str().unwrap_or_default())
    })?;
    end_key(conn, key.flatten().as_deref(), state)
}

/// Writes to a key how its job ended.
pub(crate) fn end_key(conn: &Connection, key: Option<&str>, state: State) -> Result<(), SqliteFailure> {
    if let Some(key) = key {
        conn.prepare_cached(sql::IDEMPOTENCY_END)?.execute(params![key, rows::status_code(state)])?;
    }
    Ok(())
}

/// The idempotency key of the job in an archived document.
fn key_in(document: &str) -> Result<Option<String>, SqliteFailure> {
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
