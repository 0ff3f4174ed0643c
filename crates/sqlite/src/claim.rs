//! Taking due jobs, saying whether there are any, and counting the start of those that were prefetched.
//!
//! A claim looks at the lanes of a queue that have pending jobs and merges the beginnings of their indexes by
//! rank (L3). It reads no row that it may not take, however many jobs lie in the future or in other lanes, and few
//! that it does not take.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::sync::Arc;

use backstop_core::job::{Stale, StoredJob};
use backstop_core::run_limit::{RunLimit, RunRooms, SharedRooms, SharingJob};
use backstop_core::{Fence, JobId, Lease, Timestamp, event};
use backstop_store::sharing::{KeyedJobs, TurnInput, TurnPlan, plan as turns_of};
use backstop_store::{Claim, ClaimQueue, Claimed, ClaimedJob, Peek};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::fence;
use crate::lanes::LaneCache;
use crate::rows::{self, LaneRow, StateRow};
use crate::run_limits;
use crate::sharing;
use crate::sql;
use crate::transaction::{WriteTransaction, stale};
use crate::worker::LiveWorkers;

/// Takes due jobs for a worker.
pub(crate) fn claim(tx: &mut WriteTransaction<'_>, claim: &Claim) -> Result<Claimed, SqliteFailure> {
    tx.expect_live(claim.worker)?;
    // The counts of lanes are about to be read.
    tx.flush()?;
    let rooms = run_limits::rooms(tx.conn, claim, tx.now)?;
    let mut taking = Taking { claim, fence: None, jobs: Vec::new(), rooms, held_until: None };
    let mut named: HashSet<&str> = HashSet::new();
    for (wanted, lanes) in reachable(tx.conn, tx.lanes, claim)? {
        if !named.insert(&wanted.queue) {
            // What was taken for the first of the same name must not be seen by the second.
            tx.write_updates()?;
        }
        taking.take_from(tx, wanted, &lanes)?;
    }
    run_limits::keep(tx.conn, &taking.rooms)?;
    let held_until = taking.rooms.held_until().into_iter().chain(taking.held_until).min();
    Ok(Claimed { jobs: taking.jobs, now: tx.now, held_until })
}

/// What a claim may still take from one queue, and start of that.
struct QueueRoom {
    left: usize,
    to_start: usize,
}

/// A claim under way.
struct Taking<'a> {
    claim: &'a Claim,
    /// Drawn with the first job that is taken: an idle worker's claims write nothing.
    fence: Option<Fence>,
    jobs: Vec<ClaimedJob>,
    /// What limits leave room for (H5).
    rooms: RunRooms,
    /// When something shared that had no room lets another job start.
    held_until: Option<Timestamp>,
}

impl Taking<'_> {
    fn take_from(
        &mut self,
        tx: &mut WriteTransaction<'_>,
        wanted: &ClaimQueue,
        lanes: &[Arc<LaneRow>],
    ) -> Result<(), SqliteFailure> {
        let (sharing, plain): (Vec<_>, Vec<_>) = lanes.iter().cloned().partition(|lane| lane.shares);
        let mut room = QueueRoom { left: wanted.limit, to_start: wanted.start };
        if sharing.is_empty() {
            return self.take_plain(tx, &plain, wanted.limit, &mut room);
        }
        tx.write_updates()?;
        let last = tx.turns.of(&wanted.queue);
        let mut stacks = sharing::look(tx.conn, tx.now, &sharing, &last)?;
        let limits: Vec<RunLimit> = self.claim.sharing_limits().cloned().collect();
        let jobs: Vec<SharingJob> = stacks.iter().map(KeyedJobs::job).collect();
        let rooms = sharing::rooms(tx.conn, tx.lanes, &limits, &jobs, tx.now)?;
        let first = self.plan(tx, &mut stacks, &last, &room, true, &rooms)?;
        room.to_start -= first.jobs.len();
        self.take_plain(tx, &plain, first.plain, &mut room)?;
        room.to_start += first.jobs.len();
        let by_plan = wanted.limit - room.left == first.plain;
        let rest = self.plan(tx, &mut stacks, &last, &room, false, &rooms)?;
        for (stack, head) in &rest.jobs {
            let id = stacks[*stack].heads[*head].1;
            let found = tx.find(id)?.map(|stored| stored.seq);
            let Some(seq) = found else { continue };
            let (stored, job) = tx.load(seq)?;
            self.take_next(tx, stored, job, &mut room)?;
        }
        sharing::keep(tx.conn, &rest.rooms)?;
        if let Some(last) = if by_plan { &first.last } else { &rest.last } {
            tx.turns.note(&wanted.queue, last);
        }
        self.held_until = self.held_until.into_iter().chain(rest.rooms.held_until()).min();
        self.rooms = rest.limits;
        Ok(())
    }

    /// What jobs that take turns get, with as many of them read as that needs.
    fn plan(
        &self,
        tx: &WriteTransaction<'_>,
        stacks: &mut [KeyedJobs],
        last: &str,
        room: &QueueRoom,
        with_plain: bool,
        rooms: &SharedRooms,
    ) -> Result<TurnPlan, SqliteFailure> {
        let (limit, most_sharing) = (room.left, room.to_start);
        loop {
            let (aging, limits) = (self.claim.aging, &self.rooms);
            let input = TurnInput { stacks, last, limit, most_sharing, with_plain, aging, limits, rooms };
            let plan = turns_of(&input);
            if plan.needs_more.is_empty() {
                return Ok(plan);
            }
            for (place, wanted) in &plan.needs_more {
                let stack = &mut stacks[*place];
                stack.heads = sharing::heads(tx.conn, tx.now, stack.lane, &stack.key, *wanted)?;
                stack.more = stack.heads.len() == *wanted;
            }
        }
    }

    /// Takes jobs that share nothing.
    fn take_plain(
        &mut self,
        tx: &mut WriteTransaction<'_>,
        lanes: &[Arc<LaneRow>],
        most: usize,
        room: &mut QueueRoom,
    ) -> Result<(), SqliteFailure> {
        let mut merge = Merge::over(self.claim, lanes, most);
        for _ in 0..most {
            let Some((stored, job)) = merge.next(tx, &self.rooms)? else { break };
            self.rooms.take(&job.spec.queue, &job.spec.kind);
            self.take_next(tx, stored, job, room)?;
        }
        Ok(())
    }

    /// Takes one job, and starts it as long as there is room for that.
    fn take_next(
        &mut self,
        tx: &mut WriteTransaction<'_>,
        stored: StateRow,
        job: StoredJob,
        room: &mut QueueRoom,
    ) -> Result<(), SqliteFailure> {
        let started = room.to_start > 0 && stored.record.starts_when_claimed();
        self.take(tx, stored, job, started)?;
        room.left -= 1;
        room.to_start -= usize::from(started);
        Ok(())
    }

    fn take(
        &mut self,
        tx: &mut WriteTransaction<'_>,
        mut stored: StateRow,
        job: StoredJob,
        started: bool,
    ) -> Result<(), SqliteFailure> {
        let mut fence = self.fence(tx.conn)?;
        if fence <= stored.record.fence {
            // Those that were taken before have a fence that is new to them; this one gets its own.
            fence = self.raise_fence(tx)?;
        }
        let before = stored.record.clone();
        let taken = stored.record.claim(self.claim.worker, fence, tx.now, started);
        taken.map_err(|problem| SqliteFailure::Unreadable(format!("job {}: {problem}", stored.id)))?;
        tx.save(&stored, &before)?;
        if started {
            let (runs, now) = (stored.record.runs, tx.now);
            tx.tell(|| event::started(job.spec.header(), runs, now));
        }
        let lease = Lease { job: stored.id, worker: self.claim.worker, fence };
        self.jobs.push(ClaimedJob { job: Arc::new(job), record: stored.record, lease });
        Ok(())
    }

    /// The counter has gone back: it is raised above every fence that was seen (L5).
    fn raise_fence(&mut self, tx: &mut WriteTransaction<'_>) -> Result<Fence, SqliteFailure> {
        tx.write_updates()?;
        fence::raise(tx.conn)?;
        tx.fences.note_raised();
        self.fence = None;
        self.fence(tx.conn)
    }

    fn fence(&mut self, conn: &Connection) -> Result<Fence, SqliteFailure> {
        if let Some(fence) = self.fence {
            return Ok(fence);
        }
        let drawn = rows::value(&mut *conn.prepare_cached(sql::FENCE_NEXT)?, [])?;
        let fence = Fence(
            drawn.ok_or_else(|| SqliteFailure::Unreadable("`meta` has no row for the fence".to_owned()))?,
        );
        self.fence = Some(fence);
        Ok(fence)
    }
}

/// A queue of a claim, with the lanes that it may take from.
type Reached<'q> = (&'q ClaimQueue, Vec<Arc<LaneRow>>);

/// The lanes that a claim may take from, by queue: of an open one with room, with pending jobs, of a known kind.
/// Queues that have none are left out.
fn reachable<'q>(
    conn: &Connection,
    lanes: &mut LaneCache,
    claim: &'q Claim,
) -> Result<Vec<Reached<'q>>, SqliteFailure> {
    let open: Vec<&ClaimQueue> = claim.queues.iter().filter(|wanted| wanted.limit > 0).collect();
    let names: Vec<&str> = open.iter().map(|wanted| &*wanted.queue).collect();
    let mut select = conn.prepare_cached(sql::LANES_WITH_WORK)?;
    let found: Vec<(u32, i64)> =
        rows::collect(&mut select, [serde_json::to_string(&names)?], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut reached: Vec<Reached<'_>> = open.into_iter().map(|wanted| (wanted, Vec::new())).collect();
    for (place, id) in found {
        let Some((wanted, mine)) = usize::try_from(place).ok().and_then(|place| reached.get_mut(place))
        else {
            continue;
        };
        let lane = lanes.get(conn, id)?;
        let known = || claim.kinds.iter().any(|known| known.covers(&lane.kind, lane.version));
        if wanted.any_kind || known() {
            mine.push(lane);
        }
    }
    reached.retain(|(_, lanes)| !lanes.is_empty());
    Ok(reached)
}

/// The due jobs of one lane, read in pieces: reading and writing one index at the same time is not safe.
struct Stream {
    lane: Arc<LaneRow>,
    ahead: VecDeque<(StateRow, StoredJob)>,
    /// Where the next piece begins.
    last: Option<(Timestamp, JobId)>,
    /// Jobs in the next piece; none once a piece came back short.
    piece: Option<usize>,
}

/// Where a job stands among those of all lanes: rank, then id (L3), then the stream it comes from.
type Place = Reverse<((u8, i64), JobId, usize)>;

/// The due jobs of several lanes, best first.
struct Merge<'a> {
    claim: &'a Claim,
    streams: Vec<Stream>,
    heads: BinaryHeap<Place>,
    /// Streams whose head is not in `heads`. Looked at only when another job is wanted: the last one taken must not
    /// cause a read of the next piece.
    headless: Vec<usize>,
}

impl<'a> Merge<'a> {
    /// The first piece of each of several lanes is small, because most of it may not be wanted.
    const SMALLEST_PIECE: usize = 4;

    fn over(claim: &'a Claim, lanes: &[Arc<LaneRow>], limit: usize) -> Self {
        let piece = (limit / lanes.len().max(1)).max(Self::SMALLEST_PIECE).min(limit);
        let stream = |lane: &Arc<LaneRow>| Stream {
            lane: lane.clone(),
            ahead: VecDeque::new(),
            last: None,
            piece: Some(piece),
        };
        let streams: Vec<_> = lanes.iter().map(stream).collect();
        let headless = (0..streams.len()).collect();
        Self { claim, heads: BinaryHeap::with_capacity(streams.len()), streams, headless }
    }

    fn next(
        &mut self,
        tx: &mut WriteTransaction<'_>,
        rooms: &RunRooms,
    ) -> Result<Option<(StateRow, StoredJob)>, SqliteFailure> {
        while let Some(index) = self.headless.pop() {
            self.show_head(tx, index)?;
        }
        while let Some(Reverse((_, _, index))) = self.heads.pop() {
            let stream = &mut self.streams[index];
            // A lane that limits leave no room for has given all that this claim gets of it.
            if rooms.left(&stream.lane.queue, &stream.lane.kind) > 0 {
                self.headless.push(index);
                return Ok(stream.ahead.pop_front());
            }
        }
        Ok(None)
    }

    fn show_head(&mut self, tx: &mut WriteTransaction<'_>, index: usize) -> Result<(), SqliteFailure> {
        let stream = &mut self.streams[index];
        if stream.ahead.is_empty() {
            stream.refill(tx)?;
        }
        if let Some((stored, _)) = stream.ahead.front() {
            let rank = self.claim.aging.rank(stream.lane.priority, stored.record.run_at);
            self.heads.push(Reverse((rank, stored.id, index)));
        }
        Ok(())
    }
}

impl Stream {
    fn refill(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), SqliteFailure> {
        let Some(piece) = self.piece else { return Ok(()) };
        let limit = i64::try_from(piece).unwrap_or(i64::MAX);
        let (lane, now) = (&self.lane, tx.now.as_micros());
        let read = |row: &rusqlite::Row<'_>| {
            let stored = rows::state_row(row)?;
            let job = rows::job(row, stored.id, lane)?;
            Ok((stored, job))
        };
        let found = match &self.last {
            None => rows::collect(tx.lane_due()?, params![lane.id, now, limit], read)?,
            Some((run_at, id)) => {
                let values = params![lane.id, now, limit, run_at.as_micros(), id.as_bytes()];
                rows::collect(&mut *tx.conn.prepare_cached(sql::LANE_DUE_AFTER)?, values, read)?
            }
        };
        // A lane that is drawn on is likely to be drawn on further.
        self.piece = (found.len() == piece).then_some(piece * 2);
        self.last = found.last().map(|(stored, _)| (stored.record.run_at, stored.id)).or(self.last);
        self.ahead.extend(found);
        Ok(())
    }
}

/// Says, without writing, whether a claim would find work and when the next job becomes due.
pub(crate) fn peek(
    conn: &Connection,
    lanes: &mut LaneCache,
    now: Timestamp,
    claim: &Claim,
) -> Result<Peek, SqliteFailure> {
    let mut next_due: Option<Timestamp> = None;
    for lane in reachable(conn, lanes, claim)?.into_iter().flat_map(|(_, lanes)| lanes) {
        let values = params![lane.id, now.as_micros()];
        let due = rows::value(&mut *conn.prepare_cached(sql::LANE_NEXT_START)?, values)?;
        let due = due.map(Timestamp::from_micros);
        next_due = match (next_due, due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    Ok(Peek { now, next_due, limits: run_limits::revision(conn)? })
}

/// Counts the start of prefetched jobs (C5).
pub(crate) fn start(
    tx: &mut WriteTransaction<'_>,
    leases: &[Lease],
) -> Result<Vec<Result<(), Stale>>, SqliteFailure> {
    let mut live = LiveWorkers::default();
    leases.iter().map(|lease| start_one(tx, &mut live, lease)).collect()
}

fn start_one(
    tx: &mut WriteTransaction<'_>,
    live: &mut LiveWorkers,
    lease: &Lease,
) -> Result<Result<(), Stale>, SqliteFailure> {
    if !live.is_live(tx, lease.worker)? {
        return Ok(Err(stale(lease)));
    }
    let Some(mut stored) = tx.find(lease.job)? else { return Ok(Err(stale(lease))) };
    let before = stored.record.clone();
    if let Err(stale) = stored.record.start(lease, tx.now) {
        return Ok(Err(stale));
    }
    if stored.record.runs > before.runs {
        tx.save(&stored, &before)?;
        if tx.news.wanted {
            let header = tx.load(stored.seq)?.1.spec.header();
            tx.news.events.push(event::started(header, stored.record.runs, tx.now));
        }
    }
    Ok(Ok(()))
}
