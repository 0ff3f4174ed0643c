//! The counter of fences: raised when it has fallen behind what jobs have seen, as after a restore that lost it (L5).
//!
//! A fence is drawn as a claim is written, so that a claim finds out only afterwards that it drew one that its jobs
//! have seen. Nobody knows of it yet: the counter is raised and the claim gets another number before its jobs are
//! handed out.

use std::sync::Arc;

use backstop_core::{Fence, WorkerId};
use backstop_store::{Claim, Claimed};

use crate::failure::SqlFailure;
use crate::row::{self, Row};
use crate::server::Server;
use crate::session::Session as _;
use crate::shared::Shared;
use crate::statement::Statement;
use crate::transaction::{Call, Transaction};
use crate::value::Value;

/// Takes due jobs, under a fence that is new to all of them.
pub(crate) async fn claim(
    server: &dyn Server,
    tx: &mut Transaction,
    wanted: &Claim,
) -> Result<Claimed, SqlFailure> {
    let shared = tx.shared.clone();
    if shared.fences.is_behind() {
        raise(&shared).await?;
    }
    let claimed = server.claim(tx, wanted).await?;
    if shared.fences.is_behind() { renumber(&shared, wanted.worker, claimed).await } else { Ok(claimed) }
}

/// Compares the counter with what is held and with what ended last, which is quick on tables of any size, and raises it
/// when it is behind. What this does not see is found by the claim that meets it.
///
/// # Errors
/// Those of the connection.
pub async fn look(shared: &Arc<Shared>) -> Result<(), SqlFailure> {
    let behind = shared.transact(Call::read(), |tx| {
        Box::pin(async move { row::first(tx.ask(Statement::FencesBehind.plain()).await?, Row::bool) })
    });
    if behind.await? == Some(true) { raise(shared).await } else { Ok(()) }
}

/// Raises the counter in a transaction of its own.
async fn raise(shared: &Arc<Shared>) -> Result<(), SqlFailure> {
    let raised = shared.transact(Call::write(), |tx| {
        Box::pin(async move { tx.commit(vec![Statement::RaiseFences.plain()]).await.map(drop) })
    });
    raised.await?;
    shared.fences.note_raised();
    Ok(())
}

/// Gives a claim that nobody knows of yet a fence that its jobs have not seen.
async fn renumber(
    shared: &Arc<Shared>,
    worker: WorkerId,
    mut claimed: Claimed,
) -> Result<Claimed, SqlFailure> {
    let Some(low) = claimed.jobs.first().map(|job| job.lease.fence) else { return Ok(claimed) };
    let renumbered = shared.transact(Call::write(), move |tx| {
        Box::pin(async move {
            tx.ask(Statement::RaiseFences.plain()).await?;
            let anew = Statement::RenumberClaim.with(vec![Value::int(low.0), Value::worker(worker)]);
            let mut answers = tx.commit(vec![anew]).await?;
            row::first(answers.pop().unwrap_or_default(), Row::int)
        })
    });
    let fence = renumbered.await?.map(Fence);
    let fence = fence.ok_or_else(|| SqlFailure::Again("a claim was taken back at once".to_owned()))?;
    shared.fences.note_raised();
    shared.held_jobs.forget(low);
    for job in &mut claimed.jobs {
        job.lease.fence = fence;
        job.record.fence = fence;
    }
    Ok(claimed)
}
