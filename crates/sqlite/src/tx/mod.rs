//! Submitting and finishing inside a transaction that the caller has opened on the same file (L14).
//!
//! Commit makes the job, rollback leaves none; the caller's own rows and the job stand or fall together. Workers of
//! this process hear of such jobs as they hear of those from other processes: within some milliseconds.
//!
//! ```no_run
//! # use backstop_core::job::{NewJob, Spec};
//! # use backstop_core::JobId;
//! # use backstop_store::SystemClock;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let job = NewJob::new(Spec::new(JobId::from_u128(1), "mail", "{}"));
//! let mut conn = backstop_sqlite::rusqlite::Connection::open("jobs.db")?;
//! let tx = conn.transaction_with_behavior(backstop_sqlite::rusqlite::TransactionBehavior::Immediate)?;
//! tx.execute("UPDATE account SET welcomed = 1 WHERE id = 7", [])?;
//! backstop_sqlite::submit_in(&tx, &SystemClock::default(), &[job])?;
//! tx.commit()?;
//! # Ok(())
//! # }
//! ```

use backstop_core::Refusal;
use backstop_core::job::{NewJob, Stale, State};
use backstop_core::outbox::Sinks;
use backstop_store::working_set::Wants;
use backstop_store::{Clock, Error, Finish, Submit, Submitted};
use rusqlite::Connection;

use crate::error::{SqliteFailure, meaning, unusable};
use crate::schema;
use crate::transaction::{WriteTransaction, WriterCache};
use crate::{finish, submit};

#[cfg(feature = "sqlx")]
mod sqlx;

#[cfg(feature = "sqlx")]
pub use self::sqlx::{finish_in_sqlx, finish_in_sqlx_with, submit_in_sqlx, submit_in_sqlx_with};

/// Stores jobs in the caller's transaction, each for itself. One answer per job, in order.
///
/// Open the transaction as IMMEDIATE: one that begins by reading can find the file changed when it comes to write.
///
/// # Errors
/// Those of [`backstop_store::WorkStore::submit`]; then nothing of the batch is in the transaction. Also
/// [`Error::Unusable`] when no transaction is open or the file is no Backstop store of this version.
pub fn submit_in(
    conn: &Connection,
    clock: &dyn Clock,
    jobs: &[NewJob],
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    submit_in_with(conn, clock, jobs, &Sinks::default())
}

/// As [`submit_in`], and leaves messages for these sinks in the same transaction (B2).
///
/// # Errors
/// As [`submit_in`].
pub fn submit_in_with(
    conn: &Connection,
    clock: &dyn Clock,
    jobs: &[NewJob],
    sinks: &Sinks,
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    let batch = Submit { jobs: jobs.to_vec(), atomic: false };
    within(conn, clock, sinks, |tx| submit::submit(tx, &batch))
}

/// Ends runs in the caller's transaction, so that what the handler wrote and the completion commit together.
///
/// # Errors
/// Those of [`backstop_store::WorkStore::finish`]; then nothing of the batch is in the transaction. Also
/// [`Error::Unusable`] when no transaction is open or the file is no Backstop store of this version.
pub fn finish_in(
    conn: &Connection,
    clock: &dyn Clock,
    endings: &[Finish],
) -> Result<Vec<Result<State, Stale>>, Error> {
    finish_in_with(conn, clock, endings, &Sinks::default())
}

/// As [`finish_in`], and leaves messages for these sinks in the same transaction (B2).
///
/// # Errors
/// As [`finish_in`].
pub fn finish_in_with(
    conn: &Connection,
    clock: &dyn Clock,
    endings: &[Finish],
    sinks: &Sinks,
) -> Result<Vec<Result<State, Stale>>, Error> {
    within(conn, clock, sinks, |tx| finish::finish(tx, endings))
}

fn within<T>(
    conn: &Connection,
    clock: &dyn Clock,
    sinks: &Sinks,
    work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, SqliteFailure>,
) -> Result<T, Error> {
    let location = conn.path().filter(|path| !path.is_empty()).unwrap_or("a database in memory").to_owned();
    let failed = |failure: SqliteFailure| failure.into_error(&location);
    if conn.is_autocommit() {
        let hint = "begin one first (BEGIN IMMEDIATE), and commit it after this call";
        return Err(unusable(location, "no transaction is open on this connection", hint));
    }
    if schema::version(conn).map_err(failed)? != Some(schema::newest()) {
        let hint = "open the store once with this program, and use a connection to that file";
        return Err(unusable(location, "it is not a Backstop store of this version", hint));
    }
    let savepoint = |sql| conn.execute_batch(sql).map_err(|error| meaning(&error, &location));
    savepoint("SAVEPOINT backstop")?;
    let mut cache = WriterCache::default();
    let mut tx = WriteTransaction::new(conn, &mut cache, clock.now(), Wants::of_sinks(sinks.clone()));
    let outcome = work(&mut tx).and_then(|answer| tx.flush().map(|()| answer));
    drop(tx);
    if outcome.is_err() && !conn.is_autocommit() {
        savepoint("ROLLBACK TO backstop")?;
    }
    if !conn.is_autocommit() {
        savepoint("RELEASE backstop")?;
    }
    outcome.map_err(failed)
}
