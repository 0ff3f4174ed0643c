//! Submitting and finishing inside a transaction that the caller has opened on the same database (L14).
//!
//! Commit makes the job, rollback leaves none; the caller's own rows and the job stand or fall together. Any driver
//! that can carry our statements will do: see [`Session`]. Other processes hear of such jobs by their polling.
//!
//! The caller's transaction may see an old state of the tables (REPEATABLE READ, which is the servers' default). What
//! must be seen as it is now is read with a lock: see [`Newest`]. READ COMMITTED meets others less often.

use backstop_core::job::{NewJob, Stale, State};
use backstop_core::{Refusal, Timestamp};
use backstop_store::desk::{Desk, Hands, Wants, Writes};
use backstop_store::{Error, Finish, Submit, Submitted};
use mysql_async::prelude::Queryable;

use crate::error::Failure;
use crate::hold::Ground;
use crate::lanes::Lanes;
use crate::session::{self, Prefix, Query, Session, Wire};
use crate::shared::moment_of;
use crate::values::{Row, Value};
use crate::{finish, flush, incident, sql, submit};

#[cfg(feature = "sqlx")]
mod sqlx;

#[cfg(feature = "sqlx")]
pub use self::sqlx::InSqlx;

/// Times a batch is tried when it meets others. Each try sees what they have committed.
const MOST_TRIES: usize = 5;

/// What errors name as their place.
const LOCATION: &str = "the caller's transaction";

/// A transaction of the driver `mysql_async`: its `Transaction`, or a plain `Conn` on which one was begun.
#[derive(Debug)]
pub struct InTransaction<'t, Q> {
    transaction: &'t mut Q,
    prefix: Prefix,
}

impl<'t, Q: Queryable> InTransaction<'t, Q> {
    /// The transaction, for a store whose tables begin with `prefix`.
    pub const fn new(transaction: &'t mut Q, prefix: Prefix) -> Self {
        Self { transaction, prefix }
    }
}

impl<Q: Queryable> Session for InTransaction<'_, Q> {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        Wire { conn: self.transaction, prefix: &self.prefix }.run(batch).await
    }
}

/// A session whose reads see what is committed by now, whatever the isolation of its transaction.
struct Newest<'s, S>(&'s mut S);

impl<S: Session> Session for Newest<'_, S> {
    async fn run(&mut self, mut batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        for query in &mut batch {
            let reads = query.sql.starts_with(sql::READS) && query.sql.contains(sql::OF_TABLE);
            if reads && !query.sql.ends_with(sql::LOCKS) && !query.sql.ends_with(sql::NEWEST) {
                query.sql.to_mut().push_str(sql::NEWEST);
            }
        }
        self.0.run(batch).await
    }
}

/// Stores jobs in the caller's transaction, each for itself. One answer per job, in order.
///
/// # Errors
/// Those of [`backstop_store::Store::submit`]; then nothing of the batch is in the transaction, which can go on, unless
/// the error says that the server has taken back all of it (a deadlock).
pub async fn submit_in<S: Session>(
    session: &mut S,
    jobs: &[NewJob],
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    let batch = Submit { jobs: jobs.to_vec(), atomic: false };
    // An old state of these misleads nobody: a key or an id that came meanwhile is met by the insert.
    let careless = batch.jobs.iter().all(|new| new.supersedes.is_none() && new.spec.business_key.is_none());
    let mut tries = 0;
    loop {
        begin(session).await?;
        let outcome = if careless && tries == 0 {
            submit_once(session, &batch).await
        } else {
            submit_once(&mut Newest(session), &batch).await
        };
        if let Some(answers) = end(session, outcome, &mut tries).await? {
            return Ok(answers);
        }
    }
}

/// Ends runs in the caller's transaction, so that what the handler wrote and the completion commit together.
///
/// # Errors
/// Those of [`backstop_store::Store::finish`]; then nothing of the batch is in the transaction, which can go on, unless
/// the error says that the server has taken back all of it (a deadlock).
pub async fn finish_in<S: Session>(
    session: &mut S,
    endings: &[Finish],
) -> Result<Vec<Result<State, Stale>>, Error> {
    let mut tries = 0;
    loop {
        begin(session).await?;
        let outcome = finish_once(&mut Newest(session), endings).await;
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
    let (desk, answers, _) = finish::end(session, &ground, endings, None, None).await?;
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
    let mut last = flush.queries;
    if !writes.incidents.is_empty() {
        last = incident::settle(session, last, &writes.incidents, now).await?.standings;
    }
    session::all(session, last).await.map(drop)
}

async fn mark(session: &mut impl Session, sql: &[&'static str]) -> Result<(), Failure> {
    let batch = sql.iter().map(|text| Query::new(*text, Vec::new())).collect();
    session.run(batch).await.map(drop)
}

/// Begins a try behind a savepoint.
async fn begin(session: &mut impl Session) -> Result<(), Error> {
    mark(session, sql::SAVEPOINT).await.map_err(|failure| match failure {
        Failure::Database { code: NO_SAVEPOINT, .. } => Error::Unusable {
            location: LOCATION.to_owned(),
            problem: "no transaction is open on the connection".to_owned(),
            hint: "begin one first: without it the job would be stored whatever becomes of your own rows"
                .to_owned(),
        },
        other => other.into_error(LOCATION, false),
    })
}

const NO_SAVEPOINT: u16 = 1305;

/// Keeps what a try has written, or takes it back. Answers none when it met another transaction and may try again.
async fn end<T>(
    session: &mut impl Session,
    outcome: Result<T, Failure>,
    tries: &mut usize,
) -> Result<Option<T>, Error> {
    let failure = match outcome {
        Ok(answer) => {
            let released = mark(session, &[sql::RELEASE]).await;
            return released.map(|()| Some(answer)).map_err(|failure| failure.into_error(LOCATION, false));
        }
        Err(failure) => failure,
    };
    *tries += 1;
    if mark(session, &[sql::ROLLBACK_TO]).await.is_err() && failure.is_again() {
        // A deadlock takes the whole transaction back, not only what came after the savepoint.
        let problem =
            format!("the server has taken the whole transaction back ({failure:?}); begin it again");
        return Err(Error::Unavailable { location: LOCATION.to_owned(), problem, source: None });
    }
    if failure.is_again() && *tries < MOST_TRIES {
        Ok(None)
    } else {
        Err(failure.into_error(LOCATION, false))
    }
}
