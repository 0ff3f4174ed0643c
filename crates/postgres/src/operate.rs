//! What people ask of jobs and queues.

use std::collections::BTreeSet;

use backstop_core::job::{Operated, Operation};
use backstop_core::{JobId, Refusal};

use crate::error::Failure;
use crate::load;
use crate::session::Query;
use crate::unit::Unit;
use crate::values::Value;
use crate::{sql, submit};

/// Does what a person asks of each job, in order.
pub(crate) async fn operate(
    unit: &mut Unit,
    jobs: &[JobId],
    operation: &Operation,
) -> Result<Vec<Result<Operated, Refusal>>, Failure> {
    let now = unit.now().await?;
    let mut desk = unit.desk(now);
    let shared = unit.shared.clone();
    let locked = load::lock(unit, &shared.lanes, jobs).await?;
    let keys: BTreeSet<String> =
        locked.files.iter().filter_map(|file| file.job.spec.business_key.clone()).collect();
    locked.files.into_iter().for_each(|file| desk.lay(file));
    let mut fences: BTreeSet<_> = locked.grips.iter().map(|grip| grip.fence).collect();
    locked.grips.into_iter().for_each(|grip| desk.lay_grip(grip));
    let keys: Vec<String> = keys.into_iter().collect();
    submit::lay_held(unit, &shared.lanes, &mut desk, &keys, Vec::new()).await?;
    let answers = jobs.iter().map(|id| desk.operate(*id, operation)).collect();
    let writes = desk.into_writes();
    fences.retain(|fence| writes.grips.iter().any(|grip| grip.fence == *fence));
    unit.write(writes, now).await?;
    fences.into_iter().for_each(|fence| unit.shared.hands.forget(fence));
    Ok(answers)
}

/// Pauses or resumes a queue; answers whether that changed anything.
pub(crate) async fn pause_queue(unit: &mut Unit, queue: &str, paused: bool) -> Result<bool, Failure> {
    let query = if paused {
        Query::new(sql::QUEUE_PAUSE, vec![Value::text(queue), Value::Bool(true)])
    } else {
        Query::new(sql::QUEUE_RESUME, vec![Value::text(queue)])
    };
    let answers = unit.commit(vec![query]).await?;
    Ok(answers.iter().any(|rows| !rows.is_empty()))
}
