//! Submitting and finishing inside a transaction that the caller has opened on the same database (L14).
//!
//! Commit makes the job, rollback leaves none; the caller's own rows and the job stand or fall together. Any driver
//! that can carry our statements will do: see [`Session`]. Other processes hear of such jobs by their polling.

use backstop_core::job::{NewJob, Stale, State};
use backstop_core::outbox::Sinks;
use backstop_core::{Refusal, Timestamp};
use backstop_store::working_set::{HeldJobs, Wants, WorkingSet, Writes};
use backstop_store::{Error, Finish, Submit, Submitted};

use crate::counting;
use crate::failure::SqlFailure;
use crate::finish::{self, EndedRuns};
use crate::hold::Context;
use crate::lanes::Lanes;
use crate::row::moment_of;
use crate::session::{Newest, Session};
use crate::statement::Statement;
use crate::submit;
use crate::value::Value;
use crate::write;

/// Times a batch is tried when it meets others. Each try sees what they have committed.
const MOST_TRIES: usize = 5;

/// What errors name as their place.
const LOCATION: &str = "the caller's transaction";

/// Stores jobs in the caller's transaction, each for itself. One answer per job, in order.
///
/// # Errors
/// Those of [`backstop_store::WorkStore::submit`]; then nothing of the batch is in the transaction, which can go on,
/// unless the error says that the server has taken back all of it (a deadlock on MariaDB or MySQL).
pub async fn submit_in(
    session: &mut dyn Session,
    jobs: &[NewJob],
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    submit_in_with(session, jobs, &Sinks::default()).await
}

/// As [`submit_in`], and leaves messages for these sinks in the same transaction (B2).
///
/// # Errors
/// As [`submit_in`].
pub async fn submit_in_with(
    session: &mut dyn Session,
    jobs: &[NewJob],
    sinks: &Sinks,
) -> Result<Vec<Result<Submitted, Refusal>>, Error> {
    let batch = Submit { jobs: jobs.to_vec(), atomic: false };
    // An old state of these misleads nobody: a key or an id that came meanwhile is met by the insert.
    let careless = batch.jobs.iter().all(|new| new.supersedes.is_none() && new.spec.business_key.is_none());
    let mut tries = 0;
    loop {
        begin(session).await?;
        let outcome = if careless && tries == 0 {
            submit_once(session, &batch, sinks).await
        } else {
            submit_once(&mut Newest(session), &batch, sinks).await
        };
        if let Some(answers) = end(session, outcome, &mut tries).await? {
            return Ok(answers);
        }
    }
}

/// Ends runs in the caller's transaction, so that what the handler wrote and the completion commit together.
///
/// # Errors
/// Those of [`backstop_store::WorkStore::finish`]; then nothing of the batch is in the transaction, which can go on,
/// unless the error says that the server has taken back all of it (a deadlock on MariaDB or MySQL).
pub async fn finish_in(
    session: &mut dyn Session,
    endings: &[Finish],
) -> Result<Vec<Result<State, Stale>>, Error> {
    finish_in_with(session, endings, &Sinks::default()).await
}

/// As [`finish_in`], and leaves messages for these sinks in the same transaction (B2).
///
/// # Errors
/// As [`finish_in`].
pub async fn finish_in_with(
    session: &mut dyn Session,
    endings: &[Finish],
    sinks: &Sinks,
) -> Result<Vec<Result<State, Stale>>, Error> {
    let mut tries = 0;
    loop {
        begin(session).await?;
        let outcome = finish_once(&mut Newest(session), endings, sinks).await;
        if let Some(answers) = end(session, outcome, &mut tries).await? {
            return Ok(answers);
        }
    }
}

async fn submit_once(
    session: &mut dyn Session,
    batch: &Submit,
    sinks: &Sinks,
) -> Result<Vec<Result<Submitted, Refusal>>, SqlFailure> {
    let lanes = Lanes::of_caller();
    let mut set = WorkingSet::new(Timestamp::MIN, Wants::of_sinks(sinks.clone()));
    submit::load_needs(session, &lanes, &mut set, batch).await?;
    // After the locks, as `submit::decide` has it.
    let now = moment_of(session.ask(Statement::Clock.with(vec![Value::Int(None)])).await?)?;
    set.now = now;
    let answers = set.submit(batch)?;
    save(session, &lanes, set.into_writes(), now).await?;
    Ok(answers)
}

async fn finish_once(
    session: &mut dyn Session,
    endings: &[Finish],
    sinks: &Sinks,
) -> Result<Vec<Result<State, Stale>>, SqlFailure> {
    // What the process remembers of its claims is compared with their rows and dropped when these have changed, so
    // nothing has to be told to it here, and a rollback leaves it right too.
    let (lanes, held_jobs) = (Lanes::of_caller(), HeldJobs::default());
    let (moment, wants) = (Value::Int(None), Wants::of_sinks(sinks.clone()));
    let context = Context { lanes: &lanes, held_jobs: &held_jobs, moment, wants };
    let EndedRuns { set, answers, .. } = finish::end(session, &context, endings, None).await?;
    let now = set.now;
    save(session, &lanes, set.into_writes(), now).await?;
    Ok(answers)
}

async fn save(
    session: &mut dyn Session,
    lanes: &Lanes,
    writes: Writes,
    now: Timestamp,
) -> Result<(), SqlFailure> {
    if writes.is_empty() {
        return Ok(());
    }
    let mut requests = write::prepare(session, lanes, &writes, now).await?.requests;
    if !writes.incidents.is_empty() {
        requests = vec![counting::settle(session, requests, &writes.incidents, now).await?.standings];
    }
    session.ask_all(requests).await.map(drop)
}

async fn mark(session: &mut dyn Session, statement: Statement) -> Result<(), SqlFailure> {
    session.ask(statement.plain()).await.map(drop)
}

/// Begins a try behind a savepoint.
async fn begin(session: &mut dyn Session) -> Result<(), Error> {
    let outside = session.dialect().no_transaction();
    mark(session, Statement::Savepoint).await.map_err(|failure| {
        if failure.has_code(outside) {
            return Error::Unusable {
                location: LOCATION.to_owned(),
                problem: "no transaction is open on this connection".to_owned(),
                hint: "begin one first, and commit it after this call: without it the job would be stored whatever \
                       becomes of your own rows"
                    .to_owned(),
            };
        }
        failure.into_error(LOCATION, false)
    })
}

/// Keeps what a try has written, or takes it back. Answers none when it met another transaction and may try again.
async fn end<T>(
    session: &mut dyn Session,
    outcome: Result<T, SqlFailure>,
    tries: &mut usize,
) -> Result<Option<T>, Error> {
    let failed = |failure: SqlFailure| failure.into_error(LOCATION, false);
    let failure = match outcome {
        Ok(answer) => {
            mark(session, Statement::Release).await.map_err(failed)?;
            return Ok(Some(answer));
        }
        Err(failure) => failure,
    };
    *tries += 1;
    let mut undone = mark(session, Statement::RollbackTo).await;
    if undone.is_ok() {
        // Rolling back to a savepoint leaves it standing.
        undone = mark(session, Statement::Release).await;
    }
    if undone.is_err() && failure.is_again() {
        // A deadlock may take the whole transaction back, not only what came after the savepoint.
        let problem =
            format!("the server has taken the whole transaction back ({failure:?}); begin it again");
        return Err(Error::Unavailable { location: LOCATION.to_owned(), problem, source: None });
    }
    if failure.is_again() && *tries < MOST_TRIES { Ok(None) } else { Err(failed(failure)) }
}
