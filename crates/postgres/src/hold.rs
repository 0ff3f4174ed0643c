//! The jobs that workers hold: those that this process remembers, and how all others are read.

use std::collections::{BTreeMap, BTreeSet};

use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};
use backstop_store::desk::{Desk, File, Hands, Wants};

use crate::error::Failure;
use crate::lanes::Lanes;
use crate::load::{self, held};
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::values::{Row, Value};

/// The jobs of leases by their claim.
fn by_fence(leases: &[Lease]) -> BTreeMap<Fence, BTreeSet<JobId>> {
    let mut fences: BTreeMap<Fence, BTreeSet<JobId>> = BTreeMap::new();
    for lease in leases {
        fences.entry(lease.fence).or_default().insert(lease.job);
    }
    fences
}

/// What leases are about, locked and laid on a desk, and which of their workers are live.
pub(crate) struct Held {
    pub(crate) desk: Desk,
    pub(crate) live: BTreeSet<WorkerId>,
}

/// What a session needs to know beside its connection.
pub(crate) struct Ground<'a> {
    pub(crate) lanes: &'a Lanes,
    pub(crate) hands: &'a Hands,
    /// The moment to tell statements, see `Shared::moment`.
    pub(crate) moment: Value,
    pub(crate) wants: Wants,
}

/// Locks the claims of leases and lays their jobs on a desk. `also` is asked in the same round trip.
pub(crate) async fn lock(
    session: &mut impl Session,
    ground: &Ground<'_>,
    leases: &[Lease],
    also: Vec<Query>,
) -> Result<(Held, Vec<Vec<Row>>), Failure> {
    let fences = by_fence(leases);
    let workers: BTreeSet<WorkerId> = leases.iter().map(|lease| lease.worker).collect();
    let all_known = fences.keys().all(|fence| ground.hands.knows(*fence));
    let statement = if all_known { sql::GRIPS_LOCK } else { sql::GRIPS_LOCK_WHOLE };
    let workers = Value::Ids(workers.iter().map(|worker| Some(worker.as_uuid())).collect());
    let numbers = Value::Ints(fences.keys().map(|fence| Some(fence.0)).collect());
    let mut batch = vec![
        Query::new(sql::MOMENT_AND_WORKERS, vec![ground.moment.clone(), workers]),
        Query::new(statement, vec![numbers]),
    ];
    batch.extend(also);
    let mut answers = session.run(batch).await?;
    let rest = answers.split_off(2);
    let grips = answers.pop().unwrap_or_default();
    let (now, live) = moment_and_live(answers.pop().unwrap_or_default())?;
    let mut desk = Desk::new(now, ground.wants);
    desk.expect(leases.len());
    lay(session, ground, &mut desk, grips, all_known, &fences).await?;
    Ok((Held { desk, live }, rest))
}

/// The moment, and the workers that live at it.
fn moment_and_live(rows: Vec<Row>) -> Result<(Timestamp, BTreeSet<WorkerId>), Failure> {
    let (mut moment, mut live) = (None, BTreeSet::new());
    for mut row in rows {
        let now = row.moment()?;
        moment = Some(now);
        let Some(worker) = row.maybe_worker()? else { continue };
        if row.moment()? > now {
            live.insert(worker);
        }
    }
    let moment = moment.ok_or_else(|| Failure::Unreadable("the clock gave no answer".to_owned()))?;
    Ok((moment, live))
}

/// Lays claims on the desk, with the jobs of their leases.
async fn lay(
    session: &mut impl Session,
    ground: &Ground<'_>,
    desk: &mut Desk,
    grips: Vec<Row>,
    remembered: bool,
    fences: &BTreeMap<Fence, BTreeSet<JobId>>,
) -> Result<(), Failure> {
    let none = BTreeSet::new();
    let mut unknown = Vec::new();
    let mut gone: BTreeSet<Fence> = fences.keys().copied().collect();
    for mut row in grips {
        if !remembered {
            unknown.push(rows::grip(row)?);
            continue;
        }
        let (mut grip, slots) = rows::grip_without_jobs(&mut row)?;
        gone.remove(&grip.fence);
        let wanted = fences.get(&grip.fence).unwrap_or(&none);
        if let Some(files) = ground.hands.recall(&mut grip, &slots, wanted) {
            let open = |file: &File| grip.open_slot(file.job.spec.id).is_some();
            files.into_iter().filter(open).for_each(|file| desk.lay(file));
            desk.lay_grip(grip);
        } else {
            ground.hands.forget(grip.fence);
            let fence = Value::Ints(vec![Some(grip.fence.0)]);
            let whole = session.one(Query::new(sql::GRIPS_BY_FENCE, vec![fence])).await?;
            unknown.extend(whole.into_iter().map(rows::grip).collect::<Result<Vec<_>, _>>()?);
        }
    }
    // A claim that is not there any more was ended by another process, or in a caller's transaction.
    gone.into_iter().filter(|_| remembered).for_each(|fence| ground.hands.forget(fence));
    let wanted: Vec<JobId> =
        unknown.iter().flat_map(|grip| fences.get(&grip.fence).unwrap_or(&none)).copied().collect();
    for sketch in load::sketches(session, ground.lanes, &wanted).await?.into_values() {
        if let Some(record) = held(&sketch, &unknown) {
            desk.lay(File { record, job: sketch.job, rowed: sketch.rowed });
        }
    }
    unknown.into_iter().for_each(|grip| desk.lay_grip(grip));
    Ok(())
}
