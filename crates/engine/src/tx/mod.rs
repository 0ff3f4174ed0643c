//! Submitting and completing inside a transaction that the application itself has opened (L14).
//!
//! Owns the trait and which transactions of which drivers are one; the adapters themselves are in the crates of the
//! stores. What a completion is worth before its commit is decided in `worker/completion.rs`.

use std::future::Future;

use backstop_core::job::{NewJob, Stale, State};
use backstop_core::outbox::Sinks;
use backstop_store::{Error as StoreError, Finish, StoreInfo, Submitted};

use crate::error::SubmitError;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// Where the jobs of an engine are, and who is told of them.
#[derive(Debug, Clone)]
pub struct TransactionContext {
    /// The store.
    pub(crate) info: StoreInfo,
    /// Who takes messages (B2).
    pub(crate) sinks: Sinks,
}

/// A transaction on the database that also holds the jobs: its commit makes the job, its rollback leaves none.
///
/// With the feature `postgres`: `tokio_postgres::Transaction`; with `tx-sqlx-postgres`: `sqlx::Transaction<Postgres>`;
/// with `tx-diesel-async`: `diesel_async::AsyncPgConnection` inside its `transaction`. With the feature `sqlite`:
/// `rusqlite::Transaction`; with `tx-sqlx-sqlite`: `sqlx::Transaction<Sqlite>`. With the feature `mysql`:
/// `mysql_async::Transaction`; with `tx-sqlx-mysql`: `sqlx::Transaction<MySql>`.
pub trait CallerTransaction {
    /// Stores an admitted job inside the transaction, among the tables of `context`.
    fn submit(
        &mut self,
        context: &TransactionContext,
        job: NewJob,
    ) -> impl Future<Output = Result<Submitted, SubmitError>> + Send;

    /// Ends a run inside the transaction, among the tables of `context`.
    fn finish(
        &mut self,
        context: &TransactionContext,
        finish: Finish,
    ) -> impl Future<Output = Result<Result<State, Stale>, StoreError>> + Send;
}

/// Refuses a transaction on another kind of database than the engine's jobs are in.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
fn expect(context: &TransactionContext, backend: &str) -> Result<(), StoreError> {
    let store = &context.info;
    if store.backend == backend {
        return Ok(());
    }
    Err(StoreError::Unusable {
        location: store.location.clone(),
        problem: format!("the store is {}, and the transaction is on {backend}", store.backend),
        hint: "begin the transaction on the database that holds the jobs".to_owned(),
    })
}

/// The answer to the one job of a submit.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
fn only<T>(answers: Vec<Result<T, backstop_core::Refusal>>) -> Result<T, SubmitError> {
    let answer = answers.into_iter().next();
    Ok(answer.unwrap_or(Err(backstop_core::Refusal::BatchRefused { index: 0 }))?)
}

/// The answer to the one ending of a finish.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
fn ended(answers: Vec<Result<State, Stale>>, lease: &backstop_core::Lease) -> Result<State, Stale> {
    let stale = Stale { job: lease.job, fence: lease.fence };
    answers.into_iter().next().unwrap_or(Err(stale))
}

/// The snippets of the page about transactions, compiled.
#[cfg(all(
    doctest,
    feature = "macros",
    feature = "sqlite",
    feature = "tx-sqlx-mysql",
    feature = "tx-sqlx-postgres",
    feature = "tx-sqlx-sqlite",
    feature = "tx-diesel-async"
))]
#[doc = include_str!("../../../../docs/learn/transactions.md")]
pub struct TransactionsPage;
