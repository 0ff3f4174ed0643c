//! The counter of fences: raised when it has fallen behind what jobs have seen, as after a restore that lost it (L5).
//!
//! A fence is drawn as a claim is written, so that a claim finds out only afterwards that it drew one that its jobs
//! have seen. Nobody knows of it yet: the counter is raised and the claim gets another number before its jobs are
//! handed out.

use std::sync::Arc;

use backstop_core::{Fence, WorkerId};
use backstop_store::{Claim, Claimed};

use crate::access::Class;
use crate::claim;
use crate::error::Failure;
use crate::session::{Query, Session};
use crate::shared::Shared;
use crate::sql;
use crate::unit::{Call, Unit};
use crate::values::Value;

/// Takes due jobs, under a fence that is new to all of them.
pub(crate) async fn claim(unit: &mut Unit, wanted: &Claim) -> Result<Claimed, Failure> {
    let claimed = claim::claim(unit, wanted).await?;
    let shared = unit.shared.clone();
    if shared.fences.is_behind() { number_anew(&shared, wanted.worker, claimed).await } else { Ok(claimed) }
}

/// Compares the counter with what is held and with what ended last, which is quick on tables of any size, and raises it
/// when it is behind. What this does not see is found by the claim that meets it.
pub(crate) async fn look(shared: &Arc<Shared>) -> Result<(), Failure> {
    let behind = shared
        .transact(Call::new(sql::BEGIN_READ, Class::Read), |unit| {
            Box::pin(async move {
                let rows = unit.one(Query::new(sql::FENCE_BEHIND, Vec::new())).await?;
                rows.into_iter().next().map_or(Ok(0), |mut row| row.int())
            })
        })
        .await?;
    if behind == 0 {
        return Ok(());
    }
    let raised = shared.transact(Call::new(sql::BEGIN_WRITE, Class::Write), |unit| {
        Box::pin(async move {
            raise(unit).await?;
            unit.commit(Vec::new()).await.map(drop)
        })
    });
    raised.await?;
    shared.fences.note_raised();
    Ok(())
}

/// Raises the counter above every fence that is stored, and answers one that nobody else will draw: a row that is
/// written with its number moves the counter behind it, for good, also when the row goes again.
async fn raise(unit: &mut Unit) -> Result<Fence, Failure> {
    let rows = unit.one(Query::new(sql::FENCE_HIGHEST, Vec::new())).await?;
    let highest = rows.into_iter().next().map_or(Ok(0), |mut row| row.int())?;
    let next = || vec![Value::int(highest.saturating_add(1))];
    unit.run(vec![Query::new(sql::FENCE_PLACE, next()), Query::new(sql::FENCE_UNPLACE, next())]).await?;
    Ok(Fence(highest.saturating_add(1)))
}

/// Gives a claim that nobody knows of yet a fence that its jobs have not seen.
async fn number_anew(
    shared: &Arc<Shared>,
    worker: WorkerId,
    mut claimed: Claimed,
) -> Result<Claimed, Failure> {
    let Some(low) = claimed.jobs.first().map(|job| job.lease.fence) else { return Ok(claimed) };
    let anew = shared.transact(Call::new(sql::BEGIN_WRITE, Class::Write), move |unit| {
        Box::pin(async move {
            let fence = raise(unit).await?;
            let params = vec![Value::int(fence.0), Value::int(low.0), Value::worker(worker)];
            unit.commit(vec![Query::new(sql::CLAIM_NUMBER_ANEW, params)]).await?;
            Ok(fence)
        })
    });
    let fence = anew.await?;
    shared.fences.note_raised();
    shared.hands.forget(low);
    for job in &mut claimed.jobs {
        job.lease.fence = fence;
        job.record.fence = fence;
    }
    Ok(claimed)
}
