//! A claim in one statement (L2-L5): `backstop.take` takes the jobs and writes the claim, and nothing is around it.
//!
//! For what most claims are: jobs that start as they are claimed, none of which has expired. All else is left to
//! [`claim`](crate::claim), which decides in a transaction.

use std::collections::HashMap;
use std::time::Instant;

use backstop_core::{Fence, JobId, event};
use backstop_store::desk::grip::Slot;
use backstop_store::desk::{Begin, File, Grip};
use backstop_store::{Claim, ClaimQueue, Claimed, ClaimedJob};

use crate::claim::{Room, about, hand_out, in_order, params, read};
use crate::error::Failure;
use crate::load;
use crate::session::Query;
use crate::shared::Shared;
use crate::sql;
use crate::unit::Unit;
use crate::values::Row;

/// True when one statement may do: nothing is claimed ahead, and nobody waits to hear of what starts, which would have
/// to be told in the order of the commits.
pub(crate) fn is_plain(shared: &Shared, round: &[&ClaimQueue]) -> bool {
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
    load::meet_lanes(unit, &shared.lanes, &taken.rows, 1).await?;
    let claimed = taken.hand_out(&shared, claim, rooms)?;
    if shared.short_claims && !claimed.jobs.is_empty() {
        let started = |of: &ClaimedJob| event::started(of.job.spec.header(), of.record.runs, claimed.now);
        unit.tell_of(claimed.jobs.iter().map(started).collect());
    }
    Ok(Some(claimed))
}

async fn ask(
    unit: &mut Unit,
    claim: &Claim,
    rooms: &[Room<'_>],
    begin: &Begin,
) -> Result<Option<Taken>, Failure> {
    let began = Instant::now();
    let query = statement(&unit.shared, claim, rooms, begin);
    let taken = Taken::read(claim, unit.alone(query).await?)?;
    if taken.is_some() && *begin == Begin::Start {
        unit.shared.cursors.note(began, Instant::now());
    }
    Ok(taken)
}

/// The statement that takes due jobs, from where to begin.
pub(crate) fn statement(shared: &Shared, claim: &Claim, rooms: &[Room<'_>], begin: &Begin) -> Query {
    Query::new(sql::TAKE, params(claim, shared.moment(), rooms, begin))
}

/// What the statement answered.
pub(crate) struct Taken {
    /// Without its jobs.
    grip: Grip,
    pub(crate) rows: Vec<Row>,
}

impl Taken {
    /// None when there are jobs that have expired. A worker that is not live is refused.
    pub(crate) fn read(claim: &Claim, rows: Vec<Row>) -> Result<Option<Self>, Failure> {
        let mut rows = rows.into_iter();
        let (now, mut about) = about(claim, rows.next())?;
        let (fence, overdue) = (about.maybe_int()?, about.maybe_text()?);
        if overdue.is_some() {
            return Ok(None);
        }
        let grip = Grip {
            fence: Fence(fence.unwrap_or_default()),
            worker: claim.worker,
            claimed_at: now,
            jobs: Vec::<JobId>::new(),
            slots: Vec::new(),
            edits: 0,
        };
        Ok(Some(Self { grip, rows: rows.collect() }))
    }

    /// The jobs as their worker gets them. Their lanes must be known.
    pub(crate) fn hand_out(
        self,
        shared: &Shared,
        claim: &Claim,
        rooms: &[Room<'_>],
    ) -> Result<Claimed, Failure> {
        let Self { mut grip, rows } = self;
        let now = grip.claimed_at;
        let mut reached = HashMap::new();
        let mut found = read(shared, rows, rooms, now, &mut reached)?;
        shared.cursors.advance(reached);
        if found.is_empty() {
            return Ok(Claimed { jobs: Vec::new(), now, expired: 0 });
        }
        grip.jobs = found.iter().map(|(_, file)| file.job.spec.id).collect();
        grip.jobs.sort_unstable();
        grip.slots = vec![Slot::Started(now); grip.jobs.len()];
        in_order(claim, &mut found);
        let files: Vec<File> = found.into_iter().map(|(_, file)| file).collect();
        Ok(Claimed { jobs: hand_out(shared, &grip, files), now, expired: 0 })
    }
}
