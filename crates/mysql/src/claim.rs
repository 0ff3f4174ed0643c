//! ClaimSteps due jobs, and looking whether there are any (L2-L5).

use std::collections::{BTreeMap, HashMap};

use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_sql::claim::{ClaimSteps, FoundInRooms, FoundJobs, Room, save, take_all};
use backstop_sql::columns::Columns;
use backstop_sql::lanes;
use backstop_sql::load;
use backstop_sql::row::{moment_of, no_moment};
use backstop_sql::sharing::TurnLane;
use backstop_sql::statement::{Request, Statement};
use backstop_sql::{Pending, Query, Row, Session, SqlFailure, Transaction, Value, run_limits};
use backstop_store::working_set::LaneKey;
use backstop_store::{Claim, ClaimQueue, Claimed, Error, Peek};

use crate::sql;

/// Takes due jobs for a worker.
pub(crate) async fn claim(tx: &mut Transaction, claim: &Claim) -> Result<Claimed, SqlFailure> {
    let mut limits = run_limits::lock(tx, claim).await?;
    let mut steps = MysqlClaim::default();
    let taken = take_all(&mut steps, tx, claim, &mut limits.rooms).await?;
    save(tx, claim.worker, taken, vec![steps.deletes()], &limits).await
}

/// A claim under way.
#[derive(Default)]
struct MysqlClaim {
    /// Rows of `ready` that are ours and still to be deleted: lane, due time, id.
    picked: Vec<(i64, Timestamp, JobId)>,
}

impl ClaimSteps for MysqlClaim {
    fn find<'a>(
        &'a mut self,
        tx: &'a mut Transaction,
        claim: &'a Claim,
        rooms: &'a [Room<'a>],
        moment: Option<Timestamp>,
        ask: bool,
    ) -> Pending<'a, FoundJobs> {
        Box::pin(async move {
            let (lanes, now) = self.reach(tx, claim, rooms, moment).await?;
            let free = |room: usize| rooms.get(room).is_some_and(|room| room.free > 0);
            let (turns, lanes): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|(_, _, key)| key.shares);
            let turns: Vec<TurnLane> = turns
                .into_iter()
                .filter(|(room, ..)| ask && free(*room))
                .map(|(_, id, key)| (id, key))
                .collect();
            if !turns.is_empty() {
                return Ok(FoundJobs { now, jobs: Vec::new(), turns });
            }
            let quotas = quotas(tx, claim, rooms, &lanes, now).await?;
            let (now, jobs) = self.pick(tx, quotas, now).await?;
            Ok(FoundJobs { now, jobs, turns })
        })
    }
}

impl MysqlClaim {
    /// Locks due jobs in `ready`, so many in each lane that nobody else has locked; each with the index of its room.
    /// The moment is that at which they are taken: runs whose ends have made room for them must not seem to meet them.
    async fn pick(
        &mut self,
        tx: &mut Transaction,
        quotas: Vec<(usize, i64, usize)>,
        now: Timestamp,
    ) -> Result<(Timestamp, FoundInRooms), SqlFailure> {
        if quotas.is_empty() {
            return Ok((now, Vec::new()));
        }
        let picks = quotas.iter().map(|(_, lane, quota)| lane_query(sql::PICK, *lane, now, *quota));
        let clock = Query::new(sql::CLOCK, vec![tx.shared.moment()]);
        let mut picked = tx.run(picks.chain([clock]).collect()).await?;
        let now = moment_of(picked.pop().unwrap_or_default())?;
        let mut room_of: HashMap<JobId, usize> = HashMap::new();
        for ((room, ..), rows) in quotas.iter().zip(picked) {
            for mut row in rows {
                let key = (row.int()?, row.moment()?, row.job()?);
                room_of.insert(key.2, *room);
                self.picked.push(key);
            }
        }
        let ids: Vec<JobId> = room_of.keys().copied().collect();
        let shared = tx.shared.clone();
        let stored = load::stored(tx, &shared.lanes, &ids).await?.into_iter();
        let jobs = stored.filter_map(|(id, stored)| Some((*room_of.get(&id)?, stored.into_loaded())));
        Ok((now, jobs.collect()))
    }

    /// The lanes that the claim may take from, by the index of their room, and the moment of the claim. A worker that
    /// is not live is refused.
    ///
    /// What earlier picks took is deleted first: our own locks would not hide it from us. A claim that has taken
    /// nothing yet looks before its transaction begins: when it finds nothing, it needs none.
    async fn reach(
        &mut self,
        tx: &mut Transaction,
        claim: &Claim,
        rooms: &[Room<'_>],
        moment: Option<Timestamp>,
    ) -> Result<(Vec<(usize, i64, LaneKey)>, Timestamp), SqlFailure> {
        let queues: Vec<&ClaimQueue> = rooms.iter().map(|room| room.queue).collect();
        let question = if queues.len() > FEW_QUEUES { sql::LANES_DUE } else { sql::LANES_OPEN };
        let look = lanes_of(tx, question, Some(claim.worker), &queues);
        let requests = vec![self.deletes(), look.into()];
        let mut answers =
            if tx.is_fresh() { tx.alone(requests).await? } else { tx.ask_all(requests).await? };
        let seen = seen(claim, &queues, answers.pop().unwrap_or_default())?;
        if moment.is_none() && seen.live_until.is_none_or(|until| until <= seen.now) {
            return Err(Error::NotEnlisted { worker: claim.worker }.into());
        }
        let now = moment.unwrap_or(seen.now);
        let due = seen.lanes.into_iter().filter(|lane| lane.due <= now);
        Ok((due.map(|lane| (lane.room, lane.id, lane.key)).collect(), now))
    }

    /// Deletes what was picked.
    fn deletes(&mut self) -> Request {
        let mut rows = Columns::default();
        self.picked.sort_unstable();
        for (lane, run_at, id) in self.picked.drain(..) {
            rows.row().int(lane).at(run_at).job(id);
        }
        Statement::DeleteReady.rows(rows)
    }
}

/// How many to take from each lane: a queue with several is looked at without a lock, best first over all of them.
async fn quotas(
    tx: &mut Transaction,
    claim: &Claim,
    rooms: &[Room<'_>],
    lanes: &[(usize, i64, LaneKey)],
    now: Timestamp,
) -> Result<Vec<(usize, i64, usize)>, SqlFailure> {
    let (mut quotas, mut asked) = (Vec::new(), Vec::new());
    for mine in lanes.chunk_by(|one, next| one.0 == next.0) {
        let free = mine.first().and_then(|(place, ..)| rooms.get(*place)).map_or(0, |room| room.free);
        match mine {
            _ if free == 0 => {}
            [(place, lane, _)] => quotas.push((*place, *lane, free)),
            several => asked.extend(several.iter().map(|lane| (lane, free))),
        }
    }
    if asked.is_empty() {
        return Ok(quotas);
    }
    let heads = asked.iter().map(|((_, lane, _), free)| lane_query(sql::HEADS, *lane, now, *free)).collect();
    let mut ranked = Vec::new();
    for (((place, lane, key), free), rows) in asked.into_iter().zip(tx.run(heads).await?) {
        for mut row in rows {
            let rank = claim.aging.rank(key.priority, row.moment()?);
            ranked.push((*place, rank, row.job()?, *lane, free));
        }
    }
    ranked.sort_unstable();
    let mut counts: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    let mut used: HashMap<usize, usize> = HashMap::new();
    for (place, _, _, lane, free) in ranked {
        let used = used.entry(place).or_default();
        if *used < free {
            *used += 1;
            *counts.entry((place, lane)).or_default() += 1;
        }
    }
    quotas.extend(counts.into_iter().map(|((place, lane), quota)| (place, lane, quota)));
    Ok(quotas)
}

/// A question about the due jobs of a lane.
fn lane_query(sql: &'static str, lane: i64, now: Timestamp, limit: usize) -> Query {
    Query::new(sql, vec![Value::int(lane), Value::at(now), Value::count(limit)])
}

/// Queues up to which a claim does not look which of their lanes have work: taking from them tells as much. With more
/// of them, the look saves a statement for each lane that has none.
const FEW_QUEUES: usize = 4;

/// The statement that tells the moment, the lanes of queues, and until when a worker lives.
fn lanes_of(
    tx: &Transaction,
    question: &'static str,
    worker: Option<WorkerId>,
    queues: &[&ClaimQueue],
) -> Query {
    let names = Value::texts(queues.iter().map(|wanted| &*wanted.queue));
    Query::new(question, vec![tx.shared.moment(), Value::workers(&worker), names])
}

/// What a look at lanes has told.
struct Seen {
    now: Timestamp,
    live_until: Option<Timestamp>,
    /// The revision of the document of limits.
    limits: i64,
    lanes: Vec<SeenLane>,
}

/// A lane that a claim reaches and that has a job: the index of its room, and when its first job is due.
struct SeenLane {
    room: usize,
    id: i64,
    key: LaneKey,
    due: Timestamp,
}

/// Reads the answer to [`lanes_of`]; the lanes by the index of their room.
fn seen(claim: &Claim, queues: &[&ClaimQueue], rows: Vec<Row>) -> Result<Seen, SqlFailure> {
    // The first queue of a name, and the first of them that takes any kind.
    let named = || queues.iter().enumerate().rev();
    let rooms: HashMap<&str, usize> = named().map(|(room, wanted)| (&*wanted.queue, room)).collect();
    let any_kind = named().filter(|(_, wanted)| wanted.any_kind);
    let any_kind: HashMap<&str, usize> = any_kind.map(|(room, wanted)| (&*wanted.queue, room)).collect();
    let (mut now, mut live_until, mut limits, mut lanes) = (None, None, 0, Vec::new());
    for mut row in rows {
        if let Some(moment) = row.maybe_moment()? {
            (now, live_until) = (Some(moment), row.maybe_moment()?);
            limits = row.maybe_int()?.unwrap_or_default();
            continue;
        }
        row.skip(1);
        let (id, key) = lanes::read(&mut row)?;
        let Some(due) = row.maybe_moment()? else { continue };
        let knows = claim.kinds.iter().any(|known| known.covers(&key.kind, key.version));
        let room = if knows { &rooms } else { &any_kind }.get(&*key.queue).copied();
        lanes.extend(room.map(|room| SeenLane { room, id, key, due }));
    }
    lanes.sort_by_key(|lane| lane.room);
    let now = now.ok_or_else(no_moment)?;
    Ok(Seen { now, live_until, limits, lanes })
}

/// Says, without writing, whether a claim would find work and when the next job becomes due.
pub(crate) async fn peek(tx: &mut Transaction, claim: &Claim) -> Result<Peek, SqlFailure> {
    let open: Vec<&ClaimQueue> = claim.queues.iter().filter(|wanted| wanted.limit > 0).collect();
    let look = lanes_of(tx, sql::LANES_DUE, None, &open);
    let seen = seen(claim, &open, tx.one_alone(look).await?)?;
    let next_due = seen.lanes.iter().map(|lane| lane.due).min();
    Ok(Peek { now: seen.now, next_due, limits: seen.limits })
}
