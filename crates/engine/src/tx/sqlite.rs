//! Transactions on a SQLite file.
//!
//! Those of rusqlite block the thread and cannot leave it: their futures are ready when they are made, and handlers
//! that run on a runtime's threads use the blocking calls inside `spawn_blocking` instead.

use std::future::Future;

use backstop_core::job::{NewJob, Stale, State};
use backstop_sqlite::rusqlite::{Connection, Transaction};
use backstop_store::{Error as StoreError, Finish, StoreInfo, Submitted, SystemClock};

use super::{CallerTransaction, ended, expect, only};
use crate::error::SubmitError;

/// Stores a job in the transaction that is open on `conn`.
pub(crate) fn submit(conn: &Connection, store: &StoreInfo, job: NewJob) -> Result<Submitted, SubmitError> {
    expect(store, "sqlite")?;
    only(backstop_sqlite::submit_in(conn, &SystemClock::default(), &[job])?)
}

/// Ends a run in the transaction that is open on `conn`.
pub(crate) fn finish(
    conn: &Connection,
    store: &StoreInfo,
    finish: Finish,
) -> Result<Result<State, Stale>, StoreError> {
    expect(store, "sqlite")?;
    let lease = finish.lease;
    let answers = backstop_sqlite::finish_in(conn, &SystemClock::default(), &[finish])?;
    Ok(ended(answers, &lease))
}

impl CallerTransaction for Transaction<'_> {
    fn submit(
        &mut self,
        store: &StoreInfo,
        job: NewJob,
    ) -> impl Future<Output = Result<Submitted, SubmitError>> + Send {
        std::future::ready(submit(self, store, job))
    }

    fn finish(
        &mut self,
        store: &StoreInfo,
        ending: Finish,
    ) -> impl Future<Output = Result<Result<State, Stale>, StoreError>> + Send {
        std::future::ready(finish(self, store, ending))
    }
}

#[cfg(feature = "tx-sqlx-sqlite")]
impl CallerTransaction for backstop_sqlite::sqlx::Transaction<'_, backstop_sqlite::sqlx::Sqlite> {
    async fn submit(&mut self, store: &StoreInfo, job: NewJob) -> Result<Submitted, SubmitError> {
        expect(store, "sqlite")?;
        only(backstop_sqlite::submit_in_sqlx(self, &SystemClock::default(), &[job]).await?)
    }

    async fn finish(
        &mut self,
        store: &StoreInfo,
        finish: Finish,
    ) -> Result<Result<State, Stale>, StoreError> {
        expect(store, "sqlite")?;
        let lease = finish.lease;
        let answers = backstop_sqlite::finish_in_sqlx(self, &SystemClock::default(), &[finish]).await?;
        Ok(ended(answers, &lease))
    }
}
