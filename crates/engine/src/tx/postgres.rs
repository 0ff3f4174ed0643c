//! Transactions on a PostgreSQL database, over the drivers that can carry them.

use backstop_core::job::{NewJob, Stale, State};
#[cfg(feature = "tx-diesel-async")]
use backstop_postgres::InDiesel;
#[cfg(feature = "tx-sqlx-postgres")]
use backstop_postgres::InSqlx;
use backstop_postgres::{InTransaction, Schema, Session};
use backstop_store::{Error as StoreError, Finish, Submitted};

use super::{CallerTransaction, TransactionContext, ended, expect, only};
use crate::error::SubmitError;

/// The schema of the engine's own tables, so that a store opened with `?schema=jobs` is met.
fn schema(context: &TransactionContext) -> Result<Schema, StoreError> {
    expect(context, "postgres")?;
    Ok(Schema::of_location(&context.info.location))
}

async fn submit(
    mut session: impl Session,
    context: &TransactionContext,
    job: NewJob,
) -> Result<Submitted, SubmitError> {
    only(backstop_postgres::submit_in_with(&mut session, &[job], &context.sinks).await?)
}

async fn finish(
    mut session: impl Session,
    context: &TransactionContext,
    finish: Finish,
) -> Result<Result<State, Stale>, StoreError> {
    let lease = finish.lease;
    Ok(ended(backstop_postgres::finish_in_with(&mut session, &[finish], &context.sinks).await?, &lease))
}

macro_rules! caller_transaction {
    ($transaction:ty, $adapter:ident) => {
        impl CallerTransaction for $transaction {
            async fn submit(
                &mut self,
                context: &TransactionContext,
                job: NewJob,
            ) -> Result<Submitted, SubmitError> {
                submit($adapter::new(self, schema(context)?), context, job).await
            }

            async fn finish(
                &mut self,
                context: &TransactionContext,
                ending: Finish,
            ) -> Result<Result<State, Stale>, StoreError> {
                finish($adapter::new(self, schema(context)?), context, ending).await
            }
        }
    };
}

caller_transaction!(backstop_postgres::tokio_postgres::Transaction<'_>, InTransaction);
#[cfg(feature = "tx-sqlx-postgres")]
caller_transaction!(backstop_postgres::sqlx::Transaction<'_, backstop_postgres::sqlx::Postgres>, InSqlx);
// Diesel knows no type for a transaction: its `transaction` lends the connection. Outside of it this is refused.
#[cfg(feature = "tx-diesel-async")]
caller_transaction!(backstop_postgres::diesel_async::AsyncPgConnection, InDiesel);
