//! What people ask of jobs and queues.

use std::collections::BTreeSet;

use backstop_core::job::{Operated, Operation};
use backstop_core::{Fence, JobId, Refusal, Timestamp};

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
    apply(tx, None, &operations, Vec::new()).await
}

/// Operates on jobs, in order, asks for `first` before that is written, and commits. The moment is `now`, or that at
/// which the jobs are locked: a run that started while they were waited for must not seem to start after its end.
pub(crate) async fn apply(
    tx: &mut Transaction,
    now: Option<Timestamp>,
    operations: &[(JobId, &Operation)],
    first: Vec<Request>,
) -> Result<Answers, SqlFailure> {
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
    let now = match now {
        Some(now) => now,
        None => tx.now().await?,
    };
    set.now = now;
    let answers = operations.iter().map(|(id, operation)| set.operate(*id, operation)).collect();
    let writes = set.into_writes();
    // What this process remembers of claims whose jobs have changed is old then.
    fences.retain(|fence| writes.claims.iter().any(|claim| claim.fence == *fence));
    tx.write_after(first, writes, now).await?;
    fences.into_iter().for_each(|fence| shared.held_jobs.forget(fence));
    Ok(answers)
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
