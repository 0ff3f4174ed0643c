//! What people ask of jobs and queues.

use std::collections::BTreeSet;

use backstop_core::job::{Operated, Operation};
use backstop_core::{Fence, JobId, Refusal, Timestamp};
use backstop_store::desk::Writes;

use crate::error::Failure;
use crate::load;
use crate::session::Query;
use crate::unit::Unit;
use crate::values::Value;
use crate::{sql, submit};

type Answers = Vec<Result<Operated, Refusal>>;

/// What was asked of jobs, done in memory and not yet written.
pub(crate) struct Operating {
    answers: Answers,
    writes: Writes,
    /// Claims that held jobs which are about to change.
    fences: BTreeSet<Fence>,
}

/// Does what a person asks of each job, in order.
pub(crate) async fn operate(
    unit: &mut Unit,
    jobs: &[JobId],
    operation: &Operation,
) -> Result<Answers, Failure> {
    let now = unit.now().await?;
    let operations: Vec<(JobId, &Operation)> = jobs.iter().map(|id| (*id, operation)).collect();
    perform(unit, &operations, now).await?.save(unit, Vec::new(), now).await
}

/// Locks jobs and lets the rules move them.
pub(crate) async fn perform(
    unit: &mut Unit,
    operations: &[(JobId, &Operation)],
    now: Timestamp,
) -> Result<Operating, Failure> {
    let mut desk = unit.desk(now);
    let shared = unit.shared.clone();
    let jobs: Vec<JobId> = operations.iter().map(|(id, _)| *id).collect();
    let locked = load::lock(unit, &shared.lanes, &jobs).await?;
    let keys: BTreeSet<String> =
        locked.files.iter().filter_map(|file| file.job.spec.business_key.clone()).collect();
    locked.files.into_iter().for_each(|file| desk.lay(file));
    let mut fences: BTreeSet<_> = locked.grips.iter().map(|grip| grip.fence).collect();
    locked.grips.into_iter().for_each(|grip| desk.lay_grip(grip));
    let keys: Vec<String> = keys.into_iter().collect();
    submit::lay_held(unit, &shared.lanes, &mut desk, &keys, Vec::new()).await?;
    let answers = operations.iter().map(|(id, operation)| desk.operate(*id, operation)).collect();
    let writes = desk.into_writes();
    fences.retain(|fence| writes.grips.iter().any(|grip| grip.fence == *fence));
    Ok(Operating { answers, writes, fences })
}

impl Operating {
    /// Writes it down after `first`, and commits.
    pub(crate) async fn save(
        self,
        unit: &mut Unit,
        first: Vec<Query>,
        now: Timestamp,
    ) -> Result<Answers, Failure> {
        unit.write_after(first, self.writes, now).await?;
        self.fences.into_iter().for_each(|fence| unit.shared.hands.forget(fence));
        Ok(self.answers)
    }
}

/// Pauses or resumes a queue; answers whether that changed anything.
pub(crate) async fn pause_queue(
    unit: &mut Unit,
    queue: &str,
    paused: bool,
    note: Option<&str>,
) -> Result<bool, Failure> {
    let query = if paused {
        Query::new(sql::QUEUE_PAUSE, vec![Value::text(queue), Value::maybe_text(note)])
    } else {
        Query::new(sql::QUEUE_RESUME, vec![Value::text(queue)])
    };
    let answers = unit.commit(vec![query]).await?;
    Ok(answers.iter().any(|rows| !rows.is_empty()))
}
