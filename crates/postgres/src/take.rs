//! A claim in one statement (L2-L5): `backstop.take` takes the jobs and writes the claim, and nothing is around it.
//!
//! For what most claims are: jobs that start as they are claimed, none of which has expired. All else is left to
//! [`claim`](crate::claim), which decides in a transaction.

use std::collections::HashMap;
use std::time::Instant;

use backstop_core::{Fence, JobId, event};
use backstop_store::desk::grip::Slot;
use backstop_store::desk::{Begin, File, Grip};
use backstop_store::{Claim, ClaimQueue, Claimed};

use crate::claim::{Room, about, hand_out, in_order, params, read};
use crate::error::Failure;
use crate::session::Query;
use crate::sql;
use crate::unit::Unit;
use crate::values::Row;

/// True when one statement may do: nothing is claimed ahead, and nobody waits to hear of what starts, which would have
/// to be told in the order of the commits.
pub(crate) fn is_plain(unit: &Unit, round: &[&ClaimQueue]) -> bool {
    let shared = &unit.shared;
    let unheard = shared.short_claims || !shared.observer().wants_events();
    unheard && round.iter().all(|queue| queue.start >= queue.limit)
}

/// Takes due jobs; none when there are jobs that have expired, which are to be failed first.
pub(crate) async fn take(
    unit: &mut Unit,
    claim: &Claim,
    rooms: &[Room<'_>],
) -> Result<Option<Claimed>, Failure> {
    let shared = unit.shared.clone();
    let begin = shared.cursors.begin(Instant::now());
    let Some(mut taken) = ask(unit, claim, rooms, &begin).await? else { return Ok(None) };
    if taken.rows.is_empty() && begin != Begin::Start && shared.cursors.may_start_over(Instant::now()) {
        match ask(unit, claim, rooms, &Begin::Start).await? {
            Some(more) => taken = more,
            None => return Ok(None),
        }
    }
    let mut grip = taken.grip;
    let mut reached = HashMap::new();
    let mut found = read(unit, taken.rows, rooms, grip.claimed_at, &mut reached).await?;
    shared.cursors.advance(reached);
    if found.is_empty() {
        return Ok(Some(Claimed { jobs: Vec::new(), now: grip.claimed_at, expired: 0 }));
    }
    grip.jobs = found.iter().map(|(_, file)| file.job.spec.id).collect();
    grip.jobs.sort_unstable();
    grip.slots = vec![Slot::Started(grip.claimed_at); grip.jobs.len()];
    in_order(claim, &mut found);
    let files: Vec<File> = found.into_iter().map(|(_, file)| file).collect();
    let now = grip.claimed_at;
    if shared.short_claims {
        let started = |file: &File| event::started(file.job.spec.header(), file.record.runs + 1, now);
        unit.tell_of(files.iter().map(started).collect());
    }
    Ok(Some(Claimed { jobs: hand_out(unit, &grip, files), now, expired: 0 }))
}

/// What the function answered.
struct Taken {
    /// Without its jobs.
    grip: Grip,
    rows: Vec<Row>,
}

async fn ask(
    unit: &mut Unit,
    claim: &Claim,
    rooms: &[Room<'_>],
    begin: &Begin,
) -> Result<Option<Taken>, Failure> {
    let began = Instant::now();
    let params = params(claim, unit.shared.moment(), rooms, begin);
    let mut rows = unit.alone(Query::new(sql::TAKE, params)).await?.into_iter();
    let (now, mut about) = about(claim, rows.next())?;
    let (fence, overdue) = (about.maybe_int()?, about.maybe_text()?);
    if overdue.is_some() {
        return Ok(None);
    }
    if *begin == Begin::Start {
        unit.shared.cursors.note(began, Instant::now());
    }
    let grip = Grip {
        fence: Fence(fence.unwrap_or_default()),
        worker: claim.worker,
        claimed_at: now,
        jobs: Vec::<JobId>::new(),
        slots: Vec::new(),
        edits: 0,
    };
    Ok(Some(Taken { grip, rows: rows.collect() }))
}
