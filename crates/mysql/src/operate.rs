//! What people ask of jobs and queues.

use std::collections::BTreeSet;

use backstop_core::job::{Operated, Operation};
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::show::PauseNote;

use crate::error::Failure;
use crate::load;
use crate::session::{Query, Session};
use crate::sql;
use crate::submit;
use crate::unit::Unit;
use crate::values::Value;

/// Does what a person asks of each job, in order.
pub(crate) async fn operate(
    unit: &mut Unit,
    jobs: &[JobId],
    operation: &Operation,
) -> Result<Vec<Result<Operated, Refusal>>, Failure> {
    let now = unit.now().await?;
    let operations: Vec<(JobId, &Operation)> = jobs.iter().map(|id| (*id, operation)).collect();
    apply(unit, now, &operations, Vec::new()).await
}

/// Operates on jobs, in order, runs the statements of `first` before that is written, and commits.
pub(crate) async fn apply(
    unit: &mut Unit,
    now: Timestamp,
    operations: &[(JobId, &Operation)],
    first: Vec<Query>,
) -> Result<Vec<Result<Operated, Refusal>>, Failure> {
    let mut desk = unit.desk(now);
    let shared = unit.shared.clone();
    let jobs: Vec<JobId> = operations.iter().map(|(id, _)| *id).collect();
    let locked = load::lock(unit, &shared.lanes, &jobs).await?;
    let keys: Vec<String> =
        locked.files.iter().filter_map(|file| file.job.spec.business_key.clone()).collect();
    locked.files.into_iter().for_each(|file| desk.lay(file));
    let mut fences: BTreeSet<_> = locked.grips.iter().map(|grip| grip.fence).collect();
    locked.grips.into_iter().for_each(|grip| desk.lay_grip(grip));
    submit::lay_held(unit, &shared.lanes, &mut desk, &keys, Vec::new()).await?;
    let answers = operations.iter().map(|(id, operation)| desk.operate(*id, operation)).collect();
    let writes = desk.into_writes();
    fences.retain(|fence| writes.grips.iter().any(|grip| grip.fence == *fence));
    unit.write_after(first, writes, now).await?;
    fences.into_iter().for_each(|fence| unit.shared.hands.forget(fence));
    Ok(answers)
}

/// Pauses a queue, or resumes it when there is no `pause`; answers whether that changed anything.
pub(crate) async fn pause_queue(
    unit: &mut Unit,
    queue: &str,
    pause: Option<&PauseNote>,
) -> Result<bool, Failure> {
    let found = unit.one(Query::new(sql::QUEUE_LOCK, vec![Value::text(queue)])).await?;
    let before = found.into_iter().next().map(|mut row| row.bool()).transpose()?;
    // An unknown queue is not paused, and resuming does not make it known.
    let changed = before.unwrap_or(false) != pause.is_some();
    let note = Value::maybe_text(pause.and_then(|pause| pause.0.as_ref()));
    let values = vec![Value::text(queue), Value::int(i64::from(pause.is_some())), note];
    let save = Query::new(sql::QUEUE_SAVE, values);
    unit.commit(Some(save).filter(|_| changed).into_iter().collect()).await?;
    Ok(changed)
}
