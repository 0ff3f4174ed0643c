//! The caller's transaction over the driver `sqlx`: our statements run on the very handle that sqlx holds.
//!
//! The only unsafe code of this project is here, in one function. Whoever begins with `BEGIN IMMEDIATE` never waits
//! here for other writers: a transaction that begins by reading may block the calling thread for its busy timeout.

use backstop_core::Refusal;
use backstop_core::job::{NewJob, Stale, State};
use backstop_core::outbox::Sinks;
use backstop_store::{Clock, Error, Finish, Submitted};
use rusqlite::Connection;
use sqlx::sqlite::SqliteConnection;

use crate::error::meaning;

/// As [`super::submit_in`], in a transaction of the driver `sqlx`: pass `&mut tx`.
///
/// # Errors
/// As [`super::submit_in`].
pub async fn submit_in_sqlx(
    connection: &mut SqliteConnection,
    clock: &dyn Clock,
    jobs: &[NewJob],
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    submit_in_sqlx_with(connection, clock, jobs, &Sinks::default()).await
}

/// As [`submit_in_sqlx`], and leaves messages for these sinks in the same transaction (B2).
///
/// # Errors
/// As [`super::submit_in`].
pub async fn submit_in_sqlx_with(
    connection: &mut SqliteConnection,
    clock: &dyn Clock,
    jobs: &[NewJob],
    sinks: &Sinks,
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    lend(connection, |conn| super::submit_in_with(conn, clock, jobs, sinks)).await
}

/// As [`super::finish_in`], in a transaction of the driver `sqlx`: pass `&mut tx`.
///
/// # Errors
/// As [`super::finish_in`].
pub async fn finish_in_sqlx(
    connection: &mut SqliteConnection,
    clock: &dyn Clock,
    endings: &[Finish],
) -> Result<Vec<Result<State, Stale>>, Error> {
    finish_in_sqlx_with(connection, clock, endings, &Sinks::default()).await
}

/// As [`finish_in_sqlx`], and leaves messages for these sinks in the same transaction (B2).
///
/// # Errors
/// As [`super::finish_in`].
pub async fn finish_in_sqlx_with(
    connection: &mut SqliteConnection,
    clock: &dyn Clock,
    endings: &[Finish],
    sinks: &Sinks,
) -> Result<Vec<Result<State, Stale>>, Error> {
    lend(connection, |conn| super::finish_in_with(conn, clock, endings, sinks)).await
}

/// Lends the handle of a connection of sqlx to `work`, as a connection of rusqlite that goes away afterwards.
#[allow(unsafe_code, reason = "two drivers share one handle; no safe call of either can do that")]
async fn lend<T>(
    connection: &mut SqliteConnection,
    work: impl FnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    const LOCATION: &str = "the caller's transaction";
    let mut locked = connection.lock_handle().await.map_err(|problem| Error::Unavailable {
        location: LOCATION.to_owned(),
        problem: format!("the connection is gone ({problem}); open another one"),
        source: None,
    })?;
    let handle = locked.as_raw_handle().as_ptr();
    // SAFETY: the handle is open, and the guard keeps sqlx's own thread away from it until `locked` is dropped, after
    // `conn`, which was made later. `conn` does not close the handle, and drops every statement that it has prepared.
    // It is lent to functions of this crate only, which keep nothing of it (no interrupt handle, no hook). Both drivers
    // speak to the same copy of SQLite: `libsqlite3-sys` links it, so a program holds one version of that crate.
    let conn = unsafe { Connection::from_handle(handle) }.map_err(|error| meaning(&error, LOCATION))?;
    work(&conn)
}
