//! ClaimSteps due jobs, and looking whether there are any (L2-L5).

use std::collections::HashMap;

use backstop_core::Fence;
use backstop_core::Timestamp;
use backstop_sql::claim::{ClaimSteps, FoundInRooms, FoundJobs, Room, save, take_all};
use backstop_sql::decode::LANE_COLUMN;
use backstop_sql::load::{meet_lanes, read_folded};
use backstop_sql::sharing::{PlannedTurn, TurnLane};
use backstop_sql::{Pending, Query, Row, Session, Shared, SqlFailure, Transaction, Value, run_limits};
use backstop_store::working_set::LoadedJob;
use backstop_store::{Claim, ClaimQueue, Claimed, Error, Peek};

use crate::cursors::{ClaimStart, CursorUpdate};
use crate::sql;
use crate::state::ServerState;

/// The longest interval of aging that is told to the server: five levels of it do not overflow.
const LONGEST_AGING: i64 = 1_000_000_000_000_000_000;

/// Takes due jobs for a worker in a transaction, queue by queue where some are named twice.
pub(crate) async fn claim(
    tx: &mut Transaction,
    state: &ServerState,
    claim: &Claim,
) -> Result<Claimed, SqlFailure> {
    let start = start(state, &claim.queues);
    let mut limits = run_limits::lock(tx, claim).await?;
    let mut steps = PostgresClaim { start: &start, update: None };
    let taken = take_all(&mut steps, tx, claim, &mut limits.rooms).await?;
    let claimed = save(tx, claim.worker, taken, Vec::new(), &limits).await?;
    learn(state, &tx.shared, &start, steps.update);
    Ok(claimed)
}

/// A claim under way.
struct PostgresClaim<'a> {
    start: &'a ClaimStart,
    /// What the last look at the lanes learned: the cursors once it is committed.
    update: Option<CursorUpdate>,
}

impl ClaimSteps for PostgresClaim<'_> {
    fn find<'a>(
        &'a mut self,
        tx: &'a mut Transaction,
        claim: &'a Claim,
        rooms: &'a [Room<'a>],
        moment: Option<Timestamp>,
        ask: bool,
    ) -> Pending<'a, FoundJobs> {
        Box::pin(async move {
            let now = moment.map_or_else(|| tx.shared.moment(), Value::at);
            let text = if ask { sql::TAKE } else { sql::TAKE_PLAIN };
            let query = take_query(text, claim, now, rooms, self.start, false);
            let mut picked = tx.one(query).await?.into_iter();
            // The moment is that of the statement: what was due by it must not seem to start before.
            let ClaimInfo { now, update, .. } = claim_info(claim, picked.next())?;
            let (shared, picked) = (tx.shared.clone(), picked.collect::<Vec<Row>>());
            let ids = update.turns.clone().unwrap_or_default();
            shared.lanes.meet(tx, ids.iter().copied()).await?;
            let lane = |id: &i64| Ok((*id, (*shared.lanes.get(*id)?).clone()));
            let turns = ids.iter().map(lane).collect::<Result<Vec<TurnLane>, SqlFailure>>()?;
            if ask {
                note_turns(&shared, rooms, &turns);
            }
            self.update = Some(update);
            meet_lanes(tx, &shared.lanes, &picked, 1).await?;
            Ok(FoundJobs { now, jobs: read(&shared, picked, rooms)?, turns })
        })
    }

    fn take_turns<'a>(
        &'a mut self,
        tx: &'a mut Transaction,
        chosen: &'a [PlannedTurn],
    ) -> Pending<'a, Vec<LoadedJob>> {
        Box::pin(async move {
            let params = vec![
                Value::ints(chosen.iter().map(|turn| turn.lane)),
                Value::texts(chosen.iter().map(|turn| &*turn.key)),
                Value::ints(chosen.iter().map(|turn| turn.run_at.as_micros())),
                Value::jobs(chosen.iter().map(|turn| &turn.id)),
            ];
            let rows = tx.one(Query::new(sql::turn::TAKE, params)).await?;
            let shared = tx.shared.clone();
            meet_lanes(tx, &shared.lanes, &rows, 0).await?;
            rows.into_iter().map(|mut row| read_folded(&mut row, &shared.lanes)).collect()
        })
    }
}

/// Remembers in which queues jobs were due that take turns.
fn note_turns(shared: &Shared, rooms: &[Room<'_>], turns: &[TurnLane]) {
    for Room { queue, .. } in rooms {
        shared.turns.note(&queue.queue, turns.iter().any(|(_, lane)| lane.queue == queue.queue));
    }
}

/// What a claim is told beside its jobs.
pub(crate) struct ClaimInfo {
    pub(crate) now: Timestamp,
    /// Of a whole claim that took something.
    pub(crate) fence: Option<Fence>,
    pub(crate) update: CursorUpdate,
}

/// Reads what a claim is told beside its jobs. A worker that is not live is refused; one whose lease ran out while a
/// whole claim was written has it all the same, as if it had run out on the way back.
pub(crate) fn claim_info(claim: &Claim, row: Option<Row>) -> Result<ClaimInfo, SqlFailure> {
    let no_answer = || SqlFailure::Unreadable("a claim gave no answer".to_owned());
    let mut row = row.ok_or_else(no_answer)?;
    let now = row.moment()?;
    row.skip(2);
    let is_over = row.maybe_moment()?.is_none_or(|expiry| expiry <= now);
    let fence = row.maybe_int()?.map(Fence);
    if is_over && fence.is_none() {
        return Err(Error::NotEnlisted { worker: claim.worker }.into());
    }
    let update = row.maybe_json()?.ok_or_else(no_answer)?;
    Ok(ClaimInfo { now, fence, update })
}

/// The statement that takes jobs. `whole`: it writes the claim too.
pub(crate) fn take_query(
    text: &'static str,
    claim: &Claim,
    now: Value,
    rooms: &[Room<'_>],
    start: &ClaimStart,
    whole: bool,
) -> Query {
    let aging = i64::try_from(claim.aging.0.as_micros()).unwrap_or(i64::MAX);
    let params = vec![
        now,
        Value::worker(claim.worker),
        Value::texts(rooms.iter().map(|room| &*room.queue.queue)),
        Value::Ints(rooms.iter().map(|room| i64::try_from(room.free).ok()).collect()),
        Value::Bools(rooms.iter().map(|room| room.queue.any_kind).collect()),
        Value::texts(claim.kinds.iter().map(|known| &*known.kind)),
        Value::ints(claim.kinds.iter().map(|known| known.version.into())),
        Value::int(aging.min(LONGEST_AGING)),
        Value::maybe_text(start.told.as_ref()),
        Value::Bool(whole),
    ];
    Query::new(text, params)
}

/// Reads jobs that were taken out of `ready`, each with the index of its room. The lanes must be known.
pub(crate) fn read(
    shared: &Shared,
    picked: Vec<Row>,
    rooms: &[Room<'_>],
) -> Result<FoundInRooms, SqlFailure> {
    let mut room_of: HashMap<i64, usize> = HashMap::new();
    let mut found = Vec::with_capacity(picked.len());
    for mut row in picked {
        row.skip(1);
        let lane = row.peek_int(LANE_COLUMN).unwrap_or_default();
        let loaded = read_folded(&mut row, &shared.lanes)?;
        let of = |room: &Room<'_>| room.queue.queue == loaded.job.spec.queue;
        let room = *room_of.entry(lane).or_insert_with(|| rooms.iter().position(of).unwrap_or_default());
        found.push((room, loaded));
    }
    Ok(found)
}

/// Where a claim of queues begins.
pub(crate) fn start(state: &ServerState, queues: &[ClaimQueue]) -> ClaimStart {
    state.cursors.start(queues.iter().map(|wanted| &*wanted.queue))
}

/// Goes on with what a claim learned, once it is committed.
pub(crate) fn learn(state: &ServerState, shared: &Shared, start: &ClaimStart, update: Option<CursorUpdate>) {
    let queue_of = |lane: i64| shared.lanes.get(lane).ok().map(|lane| lane.queue.clone());
    if let Some(update) = update {
        state.cursors.learn(start, update, queue_of);
    }
}

/// Says, without writing, whether a claim would find work and when the next job becomes due.
pub(crate) async fn peek(
    tx: &mut Transaction,
    state: &ServerState,
    claim: &Claim,
) -> Result<Peek, SqlFailure> {
    let open = || claim.queues.iter().filter(|wanted| wanted.limit > 0);
    let start = start(state, &claim.queues);
    let params = vec![
        tx.shared.moment(),
        Value::texts(open().map(|wanted| &*wanted.queue)),
        Value::Bools(open().map(|wanted| wanted.any_kind).collect()),
        Value::texts(claim.kinds.iter().map(|known| &*known.kind)),
        Value::ints(claim.kinds.iter().map(|known| known.version.into())),
        Value::maybe_text(start.told.as_ref()),
    ];
    let row = tx.one_alone(Query::new(sql::PEEK, params)).await?.into_iter().next();
    let mut row = row.ok_or_else(|| SqlFailure::Unreadable("a look for work gave no answer".to_owned()))?;
    let (now, next_due) = (row.moment()?, row.maybe_moment()?);
    learn(state, &tx.shared, &start, row.maybe_json()?);
    let peek = Peek { now, next_due, limits: row.int()? };
    Ok(peek)
}
