//! A claim in one statement (L2-L5): `backstop.take` takes the jobs and writes the claim. Nothing is around it, unless
//! somebody listens to events: then a transaction is, in which starts get their place in the order of the commits.
//!
//! For what most claims are: jobs that start as they are claimed, and suspects, which are only held (C3). All else is
//! left to [`claim`](crate::claim), which decides in a transaction.

use backstop_core::{Fence, Timestamp, event};
use backstop_sql::claim::{Room, hand_out, in_order, row_of};
use backstop_sql::load::meet_lanes;
use backstop_sql::{Query, Row, Session, Shared, SqlFailure, Transaction};
use backstop_store::working_set::LoadedJob;
use backstop_store::{Claim, ClaimQueue, Claimed, ClaimedJob};

use crate::claim::{ClaimInfo, claim_info, learn, read, start, take_query};
use crate::cursors::{ClaimStart, CursorUpdate};
use crate::sql;
use crate::state::ServerState;

/// True when one statement is enough: nothing is claimed ahead, no limit has to be locked and no job takes turns (H5),
/// and no sink takes starts, which would have to be written with them.
pub(crate) fn is_plain(shared: &Shared, claim: &Claim, round: &[&ClaimQueue]) -> bool {
    let unwritten = !shared.wants().sinks.take_events_named("started");
    let unlimited = claim.limits_in_reach().next().is_none();
    let plain = |queue: &&ClaimQueue| queue.start >= queue.limit && !shared.turns.is_due(&queue.queue);
    unwritten && unlimited && round.iter().all(plain)
}

/// Takes due jobs; none when some are due that take turns, and nothing was taken.
pub(crate) async fn take(
    tx: &mut Transaction,
    state: &ServerState,
    claim: &Claim,
    rooms: &[Room<'_>],
) -> Result<Option<Claimed>, SqlFailure> {
    let shared = tx.shared.clone();
    let start = start(state, &claim.queues);
    let (heard, query) = (shared.observer().wants_events(), query(&shared, claim, rooms, &start));
    let rows = if heard { tx.one(query).await? } else { tx.one_alone(query).await? };
    let answer = TakenClaim::read(claim, rows)?;
    if answer.update.turns.is_some() {
        return Ok(None);
    }
    meet_lanes(tx, &shared.lanes, &answer.rows, 1).await?;
    if !heard {
        return answer.hand_out(state, &shared, claim, rooms, &start).map(Some);
    }
    // Nobody else can change what was taken before it is committed.
    let turn = tx.draw_turn(answer.rows.iter().filter_map(|row| row.peek_job(1)));
    tx.commit(Vec::new()).await?;
    let claimed = answer.hand_out(state, &shared, claim, rooms, &start)?;
    let started = |of: &ClaimedJob| event::started(of.job.spec.header(), of.record.runs, claimed.now);
    tx.tell_of(turn, claimed.jobs.iter().filter(|of| of.is_started()).map(started).collect());
    Ok(Some(claimed))
}

/// The query that takes due jobs, from where to begin.
pub(crate) fn query(shared: &Shared, claim: &Claim, rooms: &[Room<'_>], start: &ClaimStart) -> Query {
    take_query(sql::TAKE, claim, shared.moment(), rooms, start, true)
}

/// What the query answered.
pub(crate) struct TakenClaim {
    now: Timestamp,
    fence: Fence,
    update: CursorUpdate,
    /// The jobs that were taken.
    pub(crate) rows: Vec<Row>,
}

impl TakenClaim {
    /// A worker that is not live is refused.
    pub(crate) fn read(claim: &Claim, rows: Vec<Row>) -> Result<Self, SqlFailure> {
        let mut rows = rows.into_iter();
        let ClaimInfo { now, fence, update } = claim_info(claim, rows.next())?;
        Ok(Self { now, fence: fence.unwrap_or_default(), update, rows: rows.collect() })
    }

    /// The jobs as their worker gets them. Their lanes must be known.
    pub(crate) fn hand_out(
        self,
        state: &ServerState,
        shared: &Shared,
        claim: &Claim,
        rooms: &[Room<'_>],
        start: &ClaimStart,
    ) -> Result<Claimed, SqlFailure> {
        let Self { now, fence, update, rows } = self;
        let mut found = read(shared, rows, rooms)?;
        learn(state, shared, start, Some(update));
        if found.is_empty() {
            return Ok(Claimed::nothing(now));
        }
        let taken = found.iter().map(|(_, loaded)| (loaded.job.spec.id, loaded.record.starts_when_claimed()));
        let mut row = row_of(claim.worker, now, taken.collect());
        row.fence = fence;
        in_order(claim, &mut found);
        let jobs: Vec<LoadedJob> = found.into_iter().map(|(_, loaded)| loaded).collect();
        Ok(Claimed { jobs: hand_out(shared, &row, jobs), ..Claimed::nothing(now) })
    }
}
