//! Submitting and finishing inside a transaction that the caller has opened on the same database (L14).
//!
//! Commit makes the job, rollback leaves none; the caller's own rows and the job stand or fall together. Any driver
//! that can carry our statements will do: see [`Session`]. Other processes hear of such jobs by their polling, because
//! a notice inside the caller's transaction would make all commits of the database wait for each other.

use backstop_core::job::{NewJob, Stale, State};
use backstop_core::{Refusal, Timestamp};
use backstop_store::desk::{Desk, Hands, Wants, Writes};
use backstop_store::{Error, Finish, Submit, Submitted};

use crate::error::Failure;
use crate::hold::Ground;
use crate::lanes::Lanes;
use crate::session::{Query, Schema, Session};
use crate::shared::moment_of;
use crate::values::Value;
use crate::{finish, flush, incident, sql, submit};

#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "sqlx")]
mod sqlx;
mod tokio_postgres;

#[cfg(feature = "diesel-async")]
pub use self::diesel_async::InDiesel;
#[cfg(feature = "sqlx")]
pub use self::sqlx::InSqlx;
pub use self::tokio_postgres::InTransaction;

/// Times a batch is tried when it meets others. Each try sees what they have committed.
const MOST_TRIES: usize = 5;

/// What errors name as their place.
const LOCATION: &str = "the caller's transaction";

/// Stores jobs in the caller's transaction, each for itself. One answer per job, in order.
///
/// # Errors
/// Those of [`backstop_store::Store::submit`]; then nothing of the batch is in the transaction, which can go on.
pub async fn submit_in<S: Session>(
    session: &mut S,
    jobs: &[NewJob],
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    let batch = Submit { jobs: jobs.to_vec(), atomic: false };
    let mut tries = 0;
    loop {
        begin(session).await?;
        let outcome = submit_once(session, &batch).await;
        if let Some(answers) = end(session, outcome, &mut tries).await? {
            return Ok(answers);
        }
    }
}

/// Ends runs in the caller's transaction, so that what the handler wrote and the completion commit together.
///
/// # Errors
/// Those of [`backstop_store::Store::finish`]; then nothing of the batch is in the transaction, which can go on.
pub async fn finish_in<S: Session>(
    session: &mut S,
    endings: &[Finish],
) -> Result<Vec<Result<State, Stale>>, Error> {
    let mut tries = 0;
    loop {
        begin(session).await?;
        let outcome = finish_once(session, endings).await;
        if let Some(answers) = end(session, outcome, &mut tries).await? {
            return Ok(answers);
        }
    }
}

async fn submit_once(
    session: &mut impl Session,
    batch: &Submit,
) -> Result<Vec<Result<Submitted, Refusal>>, Failure> {
    let lanes = Lanes::of_caller();
    let now = moment_of(session.one(Query::new(sql::CLOCK, vec![Value::Int(None)])).await?)?;
    let mut desk = Desk::new(now, Wants::default());
    submit::lay(session, &lanes, &mut desk, batch).await?;
    let answers = desk.submit(batch)?;
    write(session, &lanes, desk.into_writes(), now).await?;
    Ok(answers)
}

async fn finish_once(
    session: &mut impl Session,
    endings: &[Finish],
) -> Result<Vec<Result<State, Stale>>, Failure> {
    // What the process remembers of its claims is compared with their rows and dropped when these have changed, so
    // nothing has to be told to it here, and a rollback leaves it right too.
    let (lanes, hands) = (Lanes::of_caller(), Hands::default());
    let ground = Ground { lanes: &lanes, hands: &hands, moment: Value::Int(None), wants: Wants::default() };
    let (desk, answers) = finish::end(session, &ground, endings, None).await?;
    let now = desk.now;
    write(session, &lanes, desk.into_writes(), now).await?;
    Ok(answers)
}

async fn write(
    session: &mut impl Session,
    lanes: &Lanes,
    writes: Writes,
    now: Timestamp,
) -> Result<(), Failure> {
    if writes.is_empty() {
        return Ok(());
    }
    let flush = flush::prepare(session, lanes, &writes, now).await?;
    let mut answers = session.run(flush.queries).await?;
    if !writes.incidents.is_empty() {
        let (queries, _) = incident::judge(&writes, answers.pop().unwrap_or_default(), now)?;
        session.run(queries).await?;
    }
    Ok(())
}

async fn mark(session: &mut impl Session, sql: &'static str) -> Result<(), Failure> {
    session.one(Query::new(sql, Vec::new())).await.map(drop)
}

/// Begins a try behind a savepoint.
async fn begin(session: &mut impl Session) -> Result<(), Error> {
    mark(session, sql::SAVEPOINT).await.map_err(|failure| match failure {
        // Diesel passes the words on, but no code.
        Failure::Database { code, message, .. }
            if code == NO_TRANSACTION || message.starts_with("SAVEPOINT ") =>
        {
            Error::Unusable {
                location: LOCATION.to_owned(),
                problem: "no transaction is open on this connection".to_owned(),
                hint: "begin one first, and commit it after this call".to_owned(),
            }
        }
        other => other.into_error(LOCATION, false),
    })
}

/// What the server answers to a savepoint outside of any transaction.
const NO_TRANSACTION: &str = "25P01";

/// Keeps what a try has written, or takes it back. Answers none when it met another transaction and may try again.
async fn end<T>(
    session: &mut impl Session,
    outcome: Result<T, Failure>,
    tries: &mut usize,
) -> Result<Option<T>, Error> {
    let failed = |failure: Failure| failure.into_error(LOCATION, false);
    let failure = match outcome {
        Ok(answer) => {
            mark(session, sql::RELEASE).await.map_err(failed)?;
            return Ok(Some(answer));
        }
        Err(failure) => failure,
    };
    *tries += 1;
    let mut undone = mark(session, sql::ROLLBACK_TO).await;
    if undone.is_ok() {
        // Rolling back to a savepoint leaves it standing.
        undone = mark(session, sql::RELEASE).await;
    }
    if undone.is_err() || !failure.is_again() || *tries == MOST_TRIES {
        return Err(failed(failure));
    }
    Ok(None)
}

/// Reads a value that another driver has received, by the id of its type.
#[cfg(any(feature = "diesel-async", feature = "sqlx"))]
fn cell(type_id: u32, raw: &[u8]) -> Result<crate::values::Cell, Failure> {
    use ::tokio_postgres::types::{FromSql as _, Type};
    let unreadable = |problem: &dyn std::fmt::Display| Failure::Unreadable(format!("a value: {problem}"));
    let known =
        Type::from_oid(type_id).filter(<crate::values::Cell as ::tokio_postgres::types::FromSql>::accepts);
    let known = known.ok_or_else(|| unreadable(&format!("no column of ours has the type {type_id}")))?;
    crate::values::Cell::from_sql(&known, raw).map_err(|problem| unreadable(&problem))
}

impl Schema {
    /// The schema that the location of an open store names, as [`backstop_store::StoreInfo`] tells it.
    #[must_use]
    pub fn of_location(location: &str) -> Self {
        let named = location.rsplit_once("?schema=").map(|(_, name)| Self::named(name));
        named.and_then(Result::ok).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_found_in_a_stores_location() {
        assert_eq!(Schema::of_location("postgres://db:5432/app"), Schema::default());
        assert_eq!(Schema::of_location("postgres://a:1,b:2/app?schema=jobs_2").name(), "jobs_2");
    }
}
