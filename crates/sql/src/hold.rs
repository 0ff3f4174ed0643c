//! The jobs that workers hold: those that this process remembers, and how all others are read.

use std::collections::{BTreeMap, BTreeSet};

use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};
use backstop_store::working_set::{HeldJobs, LoadedJob, Wants, WorkingSet};

use crate::decode;
use crate::failure::SqlFailure;
use crate::lanes::Lanes;
use crate::load::{self, held};
use crate::row::{Row, no_moment};
use crate::session::Session;
use crate::statement::{Request, Statement};
use crate::value::Value;

/// The jobs of leases by their claim.
pub(crate) fn by_fence(leases: &[Lease]) -> BTreeMap<Fence, BTreeSet<JobId>> {
    let mut fences: BTreeMap<Fence, BTreeSet<JobId>> = BTreeMap::new();
    for lease in leases {
        fences.entry(lease.fence).or_default().insert(lease.job);
    }
    fences
}

/// What leases are about, locked and in a working set, and which of their workers are live.
pub(crate) struct Held {
    pub(crate) set: WorkingSet,
    pub(crate) live: BTreeSet<WorkerId>,
}

/// What a session needs to know beside its connection.
pub(crate) struct Context<'a> {
    pub(crate) lanes: &'a Lanes,
    pub(crate) held_jobs: &'a HeldJobs,
    /// The moment to tell statements, see `Shared::moment`.
    pub(crate) moment: Value,
    pub(crate) wants: Wants,
}

/// Locks the claims of leases and loads their jobs. `also` is asked in the same round trip.
pub(crate) async fn lock(
    session: &mut dyn Session,
    context: &Context<'_>,
    leases: &[Lease],
    also: Vec<Request>,
) -> Result<(Held, Vec<Vec<Row>>), SqlFailure> {
    let fences = by_fence(leases);
    let workers: BTreeSet<WorkerId> = leases.iter().map(|lease| lease.worker).collect();
    let all_known = fences.keys().all(|fence| context.held_jobs.knows(*fence));
    let claims = if all_known { Statement::LockClaims } else { Statement::LockWholeClaims };
    let mut requests = vec![
        Statement::MomentAndWorkers.with(vec![context.moment.clone(), Value::workers(&workers)]),
        claims.each_fence(fences.keys()),
    ];
    requests.extend(also);
    let mut answers = session.ask_all(requests).await?;
    let rest = answers.split_off(2);
    let claims = answers.pop().unwrap_or_default();
    let (now, live) = moment_and_live(answers.pop().unwrap_or_default())?;
    let mut set = WorkingSet::new(now, context.wants.clone());
    set.expect(leases.len());
    if all_known {
        let unknown = recall(session, context, &mut set, claims, &fences).await?;
        load_held(session, context, &mut set, unknown, &fences).await?;
    } else {
        load_held(session, context, &mut set, claims, &fences).await?;
    }
    Ok((Held { set, live }, rest))
}

/// The moment, and the workers that live at it.
fn moment_and_live(rows: Vec<Row>) -> Result<(Timestamp, BTreeSet<WorkerId>), SqlFailure> {
    let (mut moment, mut expiries) = (None, Vec::new());
    for mut row in rows {
        moment = row.maybe_moment()?.or(moment);
        if let Some(worker) = row.maybe_worker()? {
            expiries.push((worker, row.moment()?));
        }
    }
    let now = moment.ok_or_else(no_moment)?;
    let live = expiries.into_iter().filter(|(_, expires_at)| *expires_at > now);
    Ok((now, live.map(|(worker, _)| worker).collect()))
}

/// Adds the claims that this process remembers, with the jobs of their leases; answers the rows of all others.
async fn recall(
    session: &mut dyn Session,
    context: &Context<'_>,
    set: &mut WorkingSet,
    claims: Vec<Row>,
    fences: &BTreeMap<Fence, BTreeSet<JobId>>,
) -> Result<Vec<Row>, SqlFailure> {
    let none = BTreeSet::new();
    let mut unknown = Vec::new();
    let mut gone: BTreeSet<Fence> = fences.keys().copied().collect();
    for mut row in claims {
        let (mut claim, slots) = decode::claim_without_jobs(&mut row)?;
        gone.remove(&claim.fence);
        let wanted = fences.get(&claim.fence).unwrap_or(&none);
        if let Some(jobs) = context.held_jobs.recall(&mut claim, &slots, wanted) {
            let open = |job: &LoadedJob| claim.open_slot(job.job.spec.id).is_some();
            jobs.into_iter().filter(open).for_each(|job| set.put(job));
            set.put_claim(claim);
        } else {
            unknown.push(claim.fence);
        }
    }
    // A claim that is not there any more was ended by another process, or in a caller's transaction.
    gone.iter().chain(&unknown).for_each(|fence| context.held_jobs.forget(*fence));
    session.ask(Statement::LockWholeClaims.each_fence(&unknown)).await
}

/// Adds whole claims, with the jobs of their leases.
async fn load_held(
    session: &mut dyn Session,
    context: &Context<'_>,
    set: &mut WorkingSet,
    claims: Vec<Row>,
    fences: &BTreeMap<Fence, BTreeSet<JobId>>,
) -> Result<(), SqlFailure> {
    let none = BTreeSet::new();
    let claims = decode::claims(claims)?;
    let wanted: Vec<JobId> =
        claims.iter().flat_map(|claim| fences.get(&claim.fence).unwrap_or(&none)).copied().collect();
    for stored in load::stored(session, context.lanes, &wanted).await?.into_values() {
        if let Some(record) = held(&stored, &claims) {
            set.put(LoadedJob { record, job: stored.job, rowed: stored.rowed });
        }
    }
    claims.into_iter().for_each(|claim| set.put_claim(claim));
    Ok(())
}
