//! A claim in one statement (L2-L5): `backstop.take` takes the jobs and writes the claim, and nothing is around it.
//!
//! For what most claims are: jobs that start as they are claimed. All else is left to [`claim`](crate::claim), which
//! decides in a transaction.

use backstop_core::{JobId, event};
use backstop_store::desk::grip::Slot;
use backstop_store::desk::{File, Grip};
use backstop_store::{Claim, ClaimQueue, Claimed, ClaimedJob};

use crate::claim::{About, Room, about, hand_out, in_order, read, take_statement};
use crate::cursors::{Begin, News};
use crate::error::Failure;
use crate::load;
use crate::session::Query;
use crate::shared::Shared;
use crate::unit::Unit;
use crate::values::Row;

/// True when one statement may do: nothing is claimed ahead, and nobody waits to hear of what starts, which would have
/// to be told in the order of the commits.
pub(crate) fn is_plain(shared: &Shared, round: &[&ClaimQueue]) -> bool {
    let unheard = shared.short_claims || !shared.observer().wants_events();
    unheard && round.iter().all(|queue| queue.start >= queue.limit)
}

/// Takes due jobs.
pub(crate) async fn take(unit: &mut Unit, claim: &Claim, rooms: &[Room<'_>]) -> Result<Claimed, Failure> {
    let shared = unit.shared.clone();
    let start = shared.start(&claim.queues);
    let query = statement(&shared, claim, rooms, &start);
    let taken = Taken::read(claim, unit.alone(query).await?)?;
    load::meet_lanes(unit, &shared.lanes, &taken.rows, 1).await?;
    let claimed = taken.hand_out(&shared, claim, rooms, &start)?;
    if shared.short_claims && !claimed.jobs.is_empty() {
        let started = |of: &ClaimedJob| event::started(of.job.spec.header(), of.record.runs, claimed.now);
        unit.tell_of(claimed.jobs.iter().map(started).collect());
    }
    Ok(claimed)
}

/// The statement that takes due jobs, from where to begin.
pub(crate) fn statement(shared: &Shared, claim: &Claim, rooms: &[Room<'_>], start: &Begin) -> Query {
    take_statement(claim, shared.moment(), rooms, start, true)
}

/// What the statement answered.
pub(crate) struct Taken {
    /// Without its jobs.
    grip: Grip,
    news: News,
    pub(crate) rows: Vec<Row>,
}

impl Taken {
    /// A worker that is not live is refused.
    pub(crate) fn read(claim: &Claim, rows: Vec<Row>) -> Result<Self, Failure> {
        let mut rows = rows.into_iter();
        let About { now, fence, news } = about(claim, rows.next())?;
        let grip = Grip {
            fence: fence.unwrap_or_default(),
            worker: claim.worker,
            claimed_at: now,
            jobs: Vec::<JobId>::new(),
            slots: Vec::new(),
            edits: 0,
        };
        Ok(Self { grip, news, rows: rows.collect() })
    }

    /// The jobs as their worker gets them. Their lanes must be known.
    pub(crate) fn hand_out(
        self,
        shared: &Shared,
        claim: &Claim,
        rooms: &[Room<'_>],
        start: &Begin,
    ) -> Result<Claimed, Failure> {
        let Self { mut grip, news, rows } = self;
        let now = grip.claimed_at;
        let mut found = read(shared, rows, rooms)?;
        shared.learn(start, Some(news));
        if found.is_empty() {
            return Ok(Claimed { jobs: Vec::new(), now });
        }
        grip.jobs = found.iter().map(|(_, file)| file.job.spec.id).collect();
        grip.jobs.sort_unstable();
        grip.slots = vec![Slot::Started(now); grip.jobs.len()];
        in_order(claim, &mut found);
        let files: Vec<File> = found.into_iter().map(|(_, file)| file).collect();
        Ok(Claimed { jobs: hand_out(shared, &grip, files), now })
    }
}
