//! Transactions on a SQLite file.
//!
//! Those of rusqlite block the thread and cannot leave it: their futures are ready when they are made, and handlers
//! that run on a runtime's threads use the blocking calls inside `spawn_blocking` instead.

use std::future::Future;

use backstop_core::job::{NewJob, Stale, State};
use backstop_sqlite::rusqlite::{Connection, Transaction};
use backstop_store::{Error as StoreError, Finish, Submitted, SystemClock};

use super::{CallerTransaction, TransactionContext, ended, expect, only};
use crate::error::SubmitError;

/// Stores a job in the transaction that is open on `conn`.
pub(crate) fn submit(
    conn: &Connection,
    context: &TransactionContext,
    job: NewJob,
) -> Result<Submitted, SubmitError> {
    expect(context, "sqlite")?;
    only(backstop_sqlite::submit_in_with(conn, &SystemClock::default(), &[job], &context.sinks)?)
}

/// Ends a run in the transaction that is open on `conn`.
pub(crate) fn finish(
    conn: &Connection,
    context: &TransactionContext,
    finish: Finish,
) -> Result<Result<State, Stale>, StoreError> {
    expect(context, "sqlite")?;
    let lease = finish.lease;
    let answers = backstop_sqlite::finish_in_with(conn, &SystemClock::default(), &[finish], &context.sinks)?;
    Ok(ended(answers, &lease))
}

impl CallerTransaction for Transaction<'_> {
    fn submit(
        &mut self,
        context: &TransactionContext,
        job: NewJob,
    ) -> impl Future<Output = Result<Submitted, SubmitError>> + Send {
        std::future::ready(submit(self, context, job))
    }

    fn finish(
        &mut self,
        context: &TransactionContext,
        ending: Finish,
    ) -> impl Future<Output = Result<Result<State, Stale>, StoreError>> + Send {
        std::future::ready(finish(self, context, ending))
    }
}

#[cfg(feature = "tx-sqlx-sqlite")]
impl CallerTransaction for backstop_sqlite::sqlx::Transaction<'_, backstop_sqlite::sqlx::Sqlite> {
    async fn submit(&mut self, context: &TransactionContext, job: NewJob) -> Result<Submitted, SubmitError> {
        expect(context, "sqlite")?;
        only(
            backstop_sqlite::submit_in_sqlx_with(self, &SystemClock::default(), &[job], &context.sinks)
                .await?,
        )
    }

    async fn finish(
        &mut self,
        context: &TransactionContext,
        finish: Finish,
    ) -> Result<Result<State, Stale>, StoreError> {
        expect(context, "sqlite")?;
        let lease = finish.lease;
        let answers =
            backstop_sqlite::finish_in_sqlx_with(self, &SystemClock::default(), &[finish], &context.sinks)
                .await?;
        Ok(ended(answers, &lease))
    }
}
