//! The sequence of fences: raised when it has fallen behind what jobs have seen, as after a restore that lost it (L5).
//!
//! A fence is drawn as a claim is written, so that a claim finds out only afterwards that it drew one that its jobs
//! have seen. Nobody knows of it yet: the sequence is raised and the claim gets another number before its jobs are
//! handed out.

use std::sync::Arc;

use backstop_core::{Fence, WorkerId};
use backstop_store::{Claim, Claimed};

use crate::claim;
use crate::error::Failure;
use crate::session::{Query, Session};
use crate::shared::Shared;
use crate::sql;
use crate::unit::Unit;
use crate::values::Value;

/// Takes due jobs, under a fence that is new to all of them.
pub(crate) async fn claim(unit: &mut Unit, wanted: &Claim) -> Result<Claimed, Failure> {
    let shared = unit.shared.clone();
    if shared.fences.is_behind() {
        raise_apart(&shared).await?;
    }
    let claimed = match claim::claim(unit, wanted).await {
        Err(Failure::Again(problem)) if problem.contains("claim_pkey") => {
            // The number that was drawn is that of a claim which is still there.
            shared.fences.note_behind();
            return Err(Failure::Again(problem));
        }
        claimed => claimed?,
    };
    if shared.fences.is_behind() { number_anew(&shared, wanted.worker, claimed).await } else { Ok(claimed) }
}

/// Compares the sequence with what is held and with what ended last, which is quick on tables of any size, and raises
/// it when it is behind. What this does not see is found by the claim that meets it.
pub(crate) async fn look(shared: &Arc<Shared>) -> Result<(), Failure> {
    let behind = shared
        .transact(sql::BEGIN_READ, |unit| {
            Box::pin(async move {
                let rows = unit.one(Query::new(sql::FENCE_BEHIND, Vec::new())).await?;
                rows.into_iter().next().map_or(Ok(false), |mut row| row.bool())
            })
        })
        .await?;
    if behind { raise_apart(shared).await } else { Ok(()) }
}

/// Raises the sequence in a transaction of its own.
async fn raise_apart(shared: &Arc<Shared>) -> Result<(), Failure> {
    let raised = shared
        .transact(sql::BEGIN_WRITE, |unit| {
            Box::pin(async move {
                raise(unit).await?;
                unit.commit(Vec::new()).await.map(drop)
            })
        })
        .await;
    raised?;
    shared.fences.note_raised();
    Ok(())
}

/// Raises the sequence above every fence that is stored. One at a time: another who raises it after us sees that it is
/// high enough, and does not set it back.
async fn raise(unit: &mut Unit) -> Result<(), Failure> {
    unit.run(vec![Query::new(sql::FENCE_LOCK, Vec::new()), Query::new(sql::FENCE_RAISE, Vec::new())]).await?;
    Ok(())
}

/// Gives a claim that nobody knows of yet a fence that its jobs have not seen.
async fn number_anew(
    shared: &Arc<Shared>,
    worker: WorkerId,
    mut claimed: Claimed,
) -> Result<Claimed, Failure> {
    let Some(low) = claimed.jobs.first().map(|job| job.lease.fence) else { return Ok(claimed) };
    let anew = shared.transact(sql::BEGIN_WRITE, move |unit| {
        Box::pin(async move {
            raise(unit).await?;
            let params = vec![Value::Int(Some(low.0)), Value::worker(worker)];
            let mut answers = unit.commit(vec![Query::new(sql::CLAIM_NUMBER_ANEW, params)]).await?;
            let row = answers.pop().unwrap_or_default().into_iter().next();
            row.map(|mut row| row.int().map(Fence)).transpose()
        })
    });
    let fence = anew.await?.ok_or_else(|| Failure::Again("a claim was taken back at once".to_owned()))?;
    shared.fences.note_raised();
    shared.hands.forget(low);
    for job in &mut claimed.jobs {
        job.lease.fence = fence;
        job.record.fence = fence;
    }
    Ok(claimed)
}
