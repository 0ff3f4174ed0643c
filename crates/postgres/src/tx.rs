//! Submitting and finishing inside a transaction that the caller has opened on the same database (L14).
//!
//! Commit makes the job, rollback leaves none; the caller's own rows and the job stand or fall together. Any driver
//! that can carry our statements will do: see [`Session`]. Other processes hear of such jobs by their polling, because
//! a notice inside the caller's transaction would make all commits of the database wait for each other.

use backstop_core::Refusal;
use backstop_core::job::{NewJob, Stale, State};
use backstop_store::desk::{Desk, Writes};
use backstop_store::{Error, Finish, Submit, Submitted};
use tokio_postgres::types::{ToSql, Type};

use crate::error::Failure;
use crate::hold::{Ground, Hands};
use crate::lanes::Lanes;
use crate::session::{Query, Schema, Session, read, type_of};
use crate::shared::moment_of;
use crate::values::{Row, Value};
use crate::{finish, flush, sql, submit};

/// Times a batch is tried when it meets others. Each try sees what they have committed.
const MOST_TRIES: usize = 5;

/// A transaction of the driver `tokio_postgres`.
pub struct InTransaction<'t, 'c> {
    transaction: &'t tokio_postgres::Transaction<'c>,
    schema: Schema,
}

impl<'t, 'c> InTransaction<'t, 'c> {
    /// The transaction, for a store whose tables are in `schema`.
    pub const fn new(transaction: &'t tokio_postgres::Transaction<'c>, schema: Schema) -> Self {
        Self { transaction, schema }
    }
}

impl Session for InTransaction<'_, '_> {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        let mut answers = Vec::with_capacity(batch.len());
        for query in batch {
            let params: Vec<(&(dyn ToSql + Sync), Type)> =
                query.params.iter().map(|value| (value as &(dyn ToSql + Sync), type_of(value))).collect();
            let rows = self.transaction.query_typed(&self.schema.text(&query.sql), &params).await?;
            answers.push(rows.iter().map(read).collect::<Result<Vec<Row>, Failure>>()?);
        }
        Ok(answers)
    }
}

/// Stores jobs in the caller's transaction, each for itself. One answer per job, in order.
///
/// # Errors
/// Those of [`backstop_store::Store::submit`]; then nothing of the batch is in the transaction, which can go on.
pub async fn submit_in<S: Session>(
    session: &mut S,
    jobs: &[NewJob],
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    let batch = Submit { jobs: jobs.to_vec(), atomic: false };
    within(session, async |session, lanes| {
        let mut desk = Desk::new(now(session).await?, false);
        submit::lay(session, lanes, &mut desk, &batch).await?;
        let answers = desk.submit(&batch)?;
        let now = desk.now;
        write(session, lanes, desk.into_writes(), now).await?;
        Ok(answers)
    })
    .await
}

/// Ends runs in the caller's transaction, so that what the handler wrote and the completion commit together.
///
/// # Errors
/// Those of [`backstop_store::Store::finish`]; then nothing of the batch is in the transaction, which can go on.
pub async fn finish_in<S: Session>(
    session: &mut S,
    endings: &[Finish],
) -> Result<Vec<Result<State, Stale>>, Error> {
    within(session, async |session, lanes| {
        // What the process remembers of its claims is compared with their rows and dropped when these have changed,
        // so nothing has to be told to it here, and a rollback leaves it right too.
        let hands = Hands::default();
        let ground = Ground { lanes, hands: &hands, moment: Value::Int(None), wants_events: false };
        let (desk, answers) = finish::end(session, &ground, endings, None).await?;
        let now = desk.now;
        write(session, lanes, desk.into_writes(), now).await?;
        Ok(answers)
    })
    .await
}

async fn now(session: &mut impl Session) -> Result<backstop_core::Timestamp, Failure> {
    moment_of(session.one(Query::new(sql::CLOCK, vec![Value::Int(None)])).await?)
}

async fn write(
    session: &mut impl Session,
    lanes: &Lanes,
    writes: Writes,
    now: backstop_core::Timestamp,
) -> Result<(), Failure> {
    if writes.is_empty() {
        return Ok(());
    }
    let flush = flush::prepare(session, lanes, &writes, now).await?;
    session.run(flush.queries).await.map(drop)
}

/// Runs `work` behind a savepoint, again when it met another transaction.
async fn within<S: Session, T>(
    session: &mut S,
    work: impl AsyncFn(&mut S, &Lanes) -> Result<T, Failure>,
) -> Result<T, Error> {
    const LOCATION: &str = "the caller's transaction";
    let run = async |session: &mut S, sql: &'static str| session.one(Query::new(sql, Vec::new())).await;
    let mut tries = 0;
    loop {
        run(session, sql::SAVEPOINT).await.map_err(|failure| failure.into_error(LOCATION, false))?;
        // Lanes that a rollback would take back must not be remembered.
        let outcome = work(session, &Lanes::default()).await;
        let failure = match outcome {
            Ok(answer) => {
                run(session, sql::RELEASE).await.map_err(|failure| failure.into_error(LOCATION, false))?;
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        tries += 1;
        let undone = run(session, sql::ROLLBACK_TO).await;
        if undone.is_err() || !failure.is_again() || tries == MOST_TRIES {
            return Err(failure.into_error(LOCATION, false));
        }
    }
}
