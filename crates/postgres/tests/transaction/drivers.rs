//! Each driver's way to begin and to end a transaction; what happens in between is the same for all.

use backstop_core::Refusal;
use backstop_core::job::{NewJob, Stale, State};
use backstop_postgres::{InTransaction, Query, Session, finish_in, submit_in};
use backstop_store::{Error, Finish, Submitted};

use crate::world::{Meanwhile, World};

/// Something that a transaction does.
#[derive(Clone)]
pub(crate) enum Step {
    Sql(&'static str),
    Submit(Vec<NewJob>),
    Finish(Vec<Finish>),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    Submitted(Result<Vec<Result<Submitted, Refusal>>, Error>),
    Finished(Result<Vec<Result<State, Stale>>, Error>),
}

/// A driver with one connection.
pub(crate) trait Driver: Sized {
    async fn connect(world: &World) -> Self;

    /// Begins a transaction, takes the steps, waits for `meanwhile`, and commits or rolls back.
    async fn transaction(
        &mut self,
        world: &World,
        steps: &[Step],
        meanwhile: Meanwhile<'_>,
        commit: bool,
    ) -> Vec<Outcome>;
}

async fn take(session: &mut impl Session, steps: &[Step]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for step in steps {
        outcomes.push(match step {
            Step::Sql(sql) => {
                let query = Query { sql: (*sql).into(), params: Vec::new() };
                session.one(query).await.expect("the transaction is usable");
                Outcome::Done
            }
            Step::Submit(jobs) => Outcome::Submitted(submit_in(session, jobs).await),
            Step::Finish(endings) => Outcome::Finished(finish_in(session, endings).await),
        });
    }
    outcomes
}

/// The driver of the store itself.
pub(crate) struct TokioPostgres(tokio_postgres::Client);

impl Driver for TokioPostgres {
    async fn connect(world: &World) -> Self {
        Self(world.connect().await)
    }

    async fn transaction(
        &mut self,
        world: &World,
        steps: &[Step],
        meanwhile: Meanwhile<'_>,
        commit: bool,
    ) -> Vec<Outcome> {
        let tx = self.0.transaction().await.expect("begun");
        let outcomes = take(&mut InTransaction::new(&tx, world.schema.clone()), steps).await;
        meanwhile.await;
        if commit {
            tx.commit().await.expect("committed")
        } else {
            tx.rollback().await.expect("rolled back")
        }
        outcomes
    }
}

/// The driver `sqlx`.
#[cfg(feature = "sqlx")]
pub(crate) struct Sqlx(sqlx::PgConnection);

#[cfg(feature = "sqlx")]
impl Driver for Sqlx {
    async fn connect(world: &World) -> Self {
        Self(<sqlx::PgConnection as sqlx::Connection>::connect(&world.url()).await.expect("a server"))
    }

    async fn transaction(
        &mut self,
        world: &World,
        steps: &[Step],
        meanwhile: Meanwhile<'_>,
        commit: bool,
    ) -> Vec<Outcome> {
        let mut tx = sqlx::Connection::begin(&mut self.0).await.expect("begun");
        let outcomes = take(&mut backstop_postgres::InSqlx::new(&mut tx, world.schema.clone()), steps).await;
        meanwhile.await;
        if commit {
            tx.commit().await.expect("committed")
        } else {
            tx.rollback().await.expect("rolled back")
        }
        outcomes
    }
}

/// The driver `diesel_async`.
#[cfg(feature = "diesel-async")]
pub(crate) struct Diesel(diesel_async::AsyncPgConnection);

#[cfg(feature = "diesel-async")]
impl Driver for Diesel {
    async fn connect(world: &World) -> Self {
        use diesel_async::{AsyncConnection as _, AsyncPgConnection};
        Self(AsyncPgConnection::establish(&world.url()).await.expect("a server"))
    }

    async fn transaction(
        &mut self,
        world: &World,
        steps: &[Step],
        meanwhile: Meanwhile<'_>,
        commit: bool,
    ) -> Vec<Outcome> {
        use diesel_async::{AnsiTransactionManager, TransactionManager as _};
        let connection = &mut self.0;
        AnsiTransactionManager::begin_transaction(connection).await.expect("begun");
        let mut session = backstop_postgres::InDiesel::new(connection, world.schema.clone());
        let outcomes = take(&mut session, steps).await;
        meanwhile.await;
        if commit {
            AnsiTransactionManager::commit_transaction(connection).await.expect("committed");
        } else {
            AnsiTransactionManager::rollback_transaction(connection).await.expect("rolled back");
        }
        outcomes
    }
}
