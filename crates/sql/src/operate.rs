//! What people ask of jobs and queues.

use std::collections::BTreeSet;

use backstop_core::job::{NewJob, Operated, Operation};
use backstop_core::{Fence, JobId, Refusal, Timestamp};
use backstop_store::{Amend, Submit, Submitted};

use crate::failure::SqlFailure;
use crate::load;
use crate::statement::{Request, Statement};
use crate::submit;
use crate::transaction::Transaction;
use crate::value::Value;

type Answers = Vec<Result<Operated, Refusal>>;

/// Does what a person asks of each job, in order.
pub(crate) async fn operate(
    tx: &mut Transaction,
    jobs: &[JobId],
    operation: &Operation,
) -> Result<Answers, SqlFailure> {
    let operations: Vec<(JobId, &Operation)> = jobs.iter().map(|id| (*id, operation)).collect();
    let change = Change { now: None, jobs: &[], operations: &operations, first: Vec::new(), strict: None };
    match apply(tx, change).await? {
        ChangeAnswer::Done { operated, .. } => Ok(operated),
        // There is no job to refuse.
        ChangeAnswer::Refused { .. } => Ok(Vec::new()),
    }
}

/// What is done about jobs in one transaction.
pub(crate) struct Change<'c> {
    /// The moment of it; none for that at which the jobs are locked: a run that started while they were waited for must
    /// not seem to start after its end.
    pub(crate) now: Option<Timestamp>,
    /// Stored, all or none.
    pub(crate) jobs: &'c [NewJob],
    /// Done then, in order.
    pub(crate) operations: &'c [(JobId, &'c Operation)],
    /// Asked before anything of that is written.
    pub(crate) first: Vec<Request>,
    /// The amendment that it is a part of, if that is strict.
    pub(crate) strict: Option<&'c Amend>,
}

/// What became of it.
pub(crate) enum ChangeAnswer {
    /// It is committed.
    Done { operated: Answers, submitted: Vec<Submitted> },
    /// A job or an operation is refused, and nothing is written.
    Refused { index: usize, refusal: Refusal },
}

/// Stores jobs, operates on others, and commits.
pub(crate) async fn apply(tx: &mut Transaction, change: Change<'_>) -> Result<ChangeAnswer, SqlFailure> {
    let Change { now, jobs: new, operations, first, strict } = change;
    let mut set = tx.working_set(Timestamp::MIN);
    let shared = tx.shared.clone();
    let jobs: Vec<JobId> = operations.iter().map(|(id, _)| *id).collect();
    let locked = load::lock(tx, &shared.lanes, &jobs).await?;
    let keys: BTreeSet<String> =
        locked.jobs.iter().filter_map(|loaded| loaded.job.spec.business_key.clone()).collect();
    let mut fences: BTreeSet<Fence> = locked.claims.iter().map(|claim| claim.fence).collect();
    locked.put_into(&mut set);
    let keys: Vec<String> = keys.into_iter().collect();
    submit::load_holders(tx, &shared.lanes, &mut set, &keys, Vec::new()).await?;
    if !new.is_empty() {
        let submit = Submit { jobs: new.to_vec(), atomic: true };
        submit::lock_depths(tx, &submit).await?;
        submit::load_needs(tx, &shared.lanes, &mut set, &submit).await?;
    }
    let now = match now {
        Some(now) => now,
        None => tx.now().await?,
    };
    set.now = now;
    let submitted = match set.store_all(new)? {
        Ok(submitted) => submitted,
        Err((index, refusal)) => return Ok(ChangeAnswer::Refused { index, refusal }),
    };
    let operated: Answers = operations.iter().map(|(id, operation)| set.operate(*id, operation)).collect();
    if let Some((index, refusal)) = strict.and_then(|amend| amend.first_unchanged(operated.iter().cloned())) {
        return Ok(ChangeAnswer::Refused { index, refusal });
    }
    let writes = set.into_writes();
    // What this process remembers of claims whose jobs have changed is old then.
    fences.retain(|fence| writes.claims.iter().any(|claim| claim.fence == *fence));
    tx.write_after(first, writes, now).await?;
    fences.into_iter().for_each(|fence| shared.held_jobs.forget(fence));
    Ok(ChangeAnswer::Done { operated, submitted })
}

/// Pauses or resumes a queue; answers whether that changed anything.
pub(crate) async fn pause_queue(
    tx: &mut Transaction,
    queue: &str,
    paused: bool,
    note: Option<&str>,
) -> Result<bool, SqlFailure> {
    let request = if paused {
        Statement::PauseQueue.with(vec![Value::text(queue), Value::maybe_text(note)])
    } else {
        Statement::ResumeQueue.with(vec![Value::text(queue)])
    };
    let answers = tx.commit(vec![request]).await?;
    Ok(answers.iter().any(|rows| !rows.is_empty()))
}
