//! Transactions on a MariaDB or MySQL database, over the drivers that can carry them.

use backstop_core::job::{NewJob, Stale, State};
#[cfg(feature = "tx-sqlx-mysql")]
use backstop_mysql::InSqlx;
use backstop_mysql::{InTransaction, Prefix, Session};
use backstop_store::{Error as StoreError, Finish, Submitted};

use super::{CallerTransaction, TransactionContext, ended, expect, only};
use crate::error::SubmitError;

/// The prefix of the engine's own tables, so that a store opened with `?prefix=jobs_` is met.
fn prefix(context: &TransactionContext) -> Result<Prefix, StoreError> {
    expect(context, "mysql")?;
    let named = context.info.location.rsplit_once("?prefix=").map(|(_, name)| Prefix::named(name));
    Ok(named.and_then(Result::ok).unwrap_or_default())
}

async fn submit(
    mut session: impl Session,
    context: &TransactionContext,
    job: NewJob,
) -> Result<Submitted, SubmitError> {
    only(backstop_mysql::submit_in_with(&mut session, &[job], &context.sinks).await?)
}

async fn finish(
    mut session: impl Session,
    context: &TransactionContext,
    finish: Finish,
) -> Result<Result<State, Stale>, StoreError> {
    let lease = finish.lease;
    Ok(ended(backstop_mysql::finish_in_with(&mut session, &[finish], &context.sinks).await?, &lease))
}

macro_rules! caller_transaction {
    ($transaction:ty, $adapter:ident) => {
        impl CallerTransaction for $transaction {
            async fn submit(
                &mut self,
                context: &TransactionContext,
                job: NewJob,
            ) -> Result<Submitted, SubmitError> {
                submit($adapter::new(self, prefix(context)?), context, job).await
            }

            async fn finish(
                &mut self,
                context: &TransactionContext,
                ending: Finish,
            ) -> Result<Result<State, Stale>, StoreError> {
                finish($adapter::new(self, prefix(context)?), context, ending).await
            }
        }
    };
}

caller_transaction!(backstop_mysql::mysql_async::Transaction<'_>, InTransaction);
#[cfg(feature = "tx-sqlx-mysql")]
caller_transaction!(backstop_mysql::sqlx::Transaction<'_, backstop_mysql::sqlx::MySql>, InSqlx);
