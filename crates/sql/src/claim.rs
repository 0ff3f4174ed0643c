//! What all claims have in common: which queues are served together, how a claim is written, and how it is handed out.
//!
//! How due jobs are found and taken out of `ready` is the business of each server.

use std::collections::{HashMap, HashSet};

use backstop_core::job::{Spec, State};
use backstop_core::run_limit::{RunLimit, RunRooms};
use backstop_core::{Fence, JobId, Timestamp, WorkerId};
use backstop_store::run_limits::{ClaimPart, part_queues};
use backstop_store::sharing::{self, TurnInput, TurnPlan};
use backstop_store::working_set::claim_row::{Slot, shares};
use backstop_store::working_set::{ClaimRow, LoadedJob, WorkingSet, lane_of};
use backstop_store::{Claim, ClaimQueue, Claimed, ClaimedJob};

use crate::failure::SqlFailure;
use crate::row::{self, Row};
use crate::run_limits::LockedLimits;
use crate::session::Pending;
use crate::shared::Shared;
use crate::sharing::{FoundByKey, PlannedTurn, TurnLane, take_in_steps};
use crate::statement::{Request, Statement};
use crate::transaction::Transaction;
use crate::value::Value;

/// The queues in pieces in which each is named once: what the first takes must not be seen by the second.
#[must_use]
pub fn rounds(queues: &[ClaimQueue]) -> Vec<Vec<&ClaimQueue>> {
    let mut rounds: Vec<Vec<&ClaimQueue>> = vec![Vec::new()];
    let mut named: HashSet<&str> = HashSet::new();
    for wanted in queues.iter().filter(|wanted| wanted.limit > 0) {
        if !named.insert(&wanted.queue) {
            rounds.push(Vec::new());
            named = HashSet::from([&*wanted.queue]);
        }
        if let Some(round) = rounds.last_mut() {
            round.push(wanted);
        }
    }
    rounds
}

/// What a claim may still take from a queue.
#[derive(Debug)]
pub struct Room<'a> {
    /// The queue.
    pub queue: &'a ClaimQueue,
    /// So many jobs at most.
    pub free: usize,
}

/// What a claim may take from queues, `most` jobs at most.
#[must_use]
pub fn rooms<'a>(round: &[&'a ClaimQueue], most: usize) -> Vec<Room<'a>> {
    let limits: Vec<usize> = round.iter().map(|queue| queue.limit).collect();
    let shares = shares(&limits, most);
    round.iter().zip(shares).map(|(queue, free)| Room { queue, free }).collect()
}

/// Sorts jobs as they are to be run: by the index of their room, and in it the best first.
pub fn in_order(claim: &Claim, found: &mut [(usize, LoadedJob)]) {
    found.sort_by_cached_key(|(room, loaded)| {
        let spec = &loaded.job.spec;
        (*room, claim.aging.rank(spec.priority, loaded.record.run_at), spec.id)
    });
}

/// A job that was taken, and whether its run starts at once.
pub type TakenJob = (JobId, bool);

/// Jobs that were found, each with the index of its room.
pub type FoundInRooms = Vec<(usize, LoadedJob)>;

/// What a look for due jobs gave.
pub struct FoundJobs {
    /// The moment of the claim.
    pub now: Timestamp,
    /// The jobs that were taken out of `ready`.
    pub jobs: FoundInRooms,
    /// Lanes with due jobs that take turns: then nothing was taken, unless that was known already (H5).
    pub turns: Vec<TurnLane>,
}

/// How one server finds due jobs and takes them out of `ready`.
pub trait ClaimSteps: Send {
    /// Takes them out of queues that differ, all in one go, and answers the moment of the claim with them. `moment` is
    /// that of an earlier call of the same claim. A worker that is not live is refused. Jobs that take turns are never
    /// taken; with `ask` their lanes are answered where some are due.
    fn find<'a>(
        &'a mut self,
        tx: &'a mut Transaction,
        claim: &'a Claim,
        rooms: &'a [Room<'a>],
        moment: Option<Timestamp>,
        ask: bool,
    ) -> Pending<'a, FoundJobs>;

    /// Takes jobs out of `ready` and `turn` whose turn it is, those that nobody else has locked, in any order.
    fn take_turns<'a>(
        &'a mut self,
        tx: &'a mut Transaction,
        chosen: &'a [PlannedTurn],
    ) -> Pending<'a, Vec<LoadedJob>> {
        Box::pin(take_in_steps(tx, chosen))
    }
}

/// What a claim has taken so far.
#[derive(Default)]
struct TakenJobs {
    set: Option<WorkingSet>,
    taken: Vec<TakenJob>,
    held_until: Option<Timestamp>,
}

impl TakenJobs {
    /// Takes from queues that differ, best first for each of them. With `ask`, answers where jobs are due that take
    /// turns; then nothing is taken.
    async fn serve(
        &mut self,
        steps: &mut dyn ClaimSteps,
        tx: &mut Transaction,
        claim: &Claim,
        rooms: &[Room<'_>],
        ask: bool,
    ) -> Result<Vec<TurnLane>, SqlFailure> {
        let moment = self.set.as_ref().map(|set| set.now);
        let FoundJobs { now, jobs: mut found, turns } = steps.find(tx, claim, rooms, moment, ask).await?;
        in_order(claim, &mut found);
        let set = self.set.get_or_insert_with(|| tx.working_set(now));
        let mut started_of = vec![0; rooms.len()];
        set.expect(found.len());
        for (room, loaded) in found {
            let (id, queue) = (loaded.job.spec.id, rooms[room].queue);
            let started = started_of[room] < queue.start && loaded.record.starts_when_claimed();
            set.put_dequeued(loaded);
            set.take(id, started);
            self.taken.push((id, started));
            started_of[room] += usize::from(started);
        }
        Ok(turns)
    }

    fn spec(&self, id: JobId) -> Option<&Spec> {
        self.set.as_ref().and_then(|set| set.job(id)).map(|loaded| &loaded.job.spec)
    }

    /// Takes from a queue that limits may be about, as long as they leave room for more. With `ask`, as
    /// [`TakenJobs::serve`] has it.
    async fn serve_limited(
        &mut self,
        steps: &mut dyn ClaimSteps,
        tx: &mut Transaction,
        claim: &Claim,
        mut queue: ClaimQueue,
        limits: &mut RunRooms,
        ask: bool,
    ) -> Result<Vec<TurnLane>, SqlFailure> {
        loop {
            let before = self.taken.len();
            let most = ClaimRow::MOST - before;
            let Some(ClaimPart { claim: part, limited }) = ClaimPart::of(claim, &queue, limits, most) else {
                return Ok(Vec::new());
            };
            let wanted: Vec<&ClaimQueue> = part.queues.iter().collect();
            let asked = wanted.first().map_or(0, |queue| queue.limit);
            let turns = self.serve(steps, tx, &part, &rooms(&wanted, most), ask).await?;
            if !turns.is_empty() {
                return Ok(turns);
            }
            for (id, started) in &self.taken[before..] {
                if let Some(spec) = self.spec(*id) {
                    limits.take(&spec.queue, &spec.kind);
                }
                queue.limit = queue.limit.saturating_sub(1);
                queue.start = queue.start.saturating_sub(usize::from(*started));
            }
            if !limited || self.taken.len() - before < asked {
                return Ok(Vec::new());
            }
        }
    }

    /// Takes from a queue in which jobs are due that take turns (H5).
    async fn serve_turns(
        &mut self,
        steps: &mut dyn ClaimSteps,
        tx: &mut Transaction,
        claim: &Claim,
        queue: &ClaimQueue,
        (limits, turns): (&mut RunRooms, &mut FoundByKey),
    ) -> Result<(), SqlFailure> {
        let before = self.taken.len();
        let limit = queue.limit.min(ClaimRow::MOST - before);
        let last = tx.shared.turns.last.of(&queue.queue);
        let all = ClaimQueue { limit, ..queue.clone() };
        let first = plan(tx, claim, &all, &last, true, (limits, turns)).await?;
        if first.plain > 0 {
            let start = queue.start - first.jobs.len();
            let plain = ClaimQueue { limit: first.plain, start, ..queue.clone() };
            self.serve_limited(steps, tx, claim, plain, limits, false).await?;
        }
        let got = self.taken.len() - before;
        let started = self.taken[before..].iter().filter(|(_, started)| *started).count();
        let mut to_start = queue.start - started;
        let left = ClaimQueue { limit: limit - got, start: to_start, ..queue.clone() };
        let rest = plan(tx, claim, &left, &last, false, (limits, turns)).await?;
        let (now, jobs) = turns.take(steps, tx, &queue.queue, &rest).await?;
        // What ended while locks were waited for has made room for these: runs must not seem to meet.
        if let Some(set) = &mut self.set {
            set.now = now;
        }
        for loaded in jobs {
            let id = loaded.job.spec.id;
            let started = to_start > 0 && loaded.record.starts_when_claimed();
            to_start -= usize::from(started);
            limits.take(&loaded.job.spec.queue, &loaded.job.spec.kind);
            if let Some(set) = &mut self.set {
                set.put_dequeued(loaded);
                set.take(id, started);
            }
            self.taken.push((id, started));
        }
        if let Some(last) = if got == first.plain { first.last } else { rest.last } {
            tx.shared.turns.last.note(&queue.queue, &last);
        }
        Ok(())
    }

    /// Jobs come in the order of the queues that were asked for, whichever were served first.
    fn sort_by_queue(&mut self, claim: &Claim, from: usize) {
        let mut taken = self.taken.split_off(from);
        let place = |queue: &str| claim.queues.iter().position(|wanted| *wanted.queue == *queue);
        taken.sort_by_cached_key(|(id, _)| self.spec(*id).and_then(|spec| place(&spec.queue)));
        self.taken.extend(taken);
    }

    /// Looks under the keys of lanes, and takes from their queues (H5).
    async fn serve_sharing(
        &mut self,
        steps: &mut dyn ClaimSteps,
        tx: &mut Transaction,
        claim: &Claim,
        (queues, lanes): (&[&ClaimQueue], Vec<TurnLane>),
        limits: &mut RunRooms,
    ) -> Result<(), SqlFailure> {
        let now = self.set.as_ref().map(|set| set.now).ok_or_else(row::no_moment)?;
        let mut turns = FoundByKey::look(tx, claim, lanes, now).await?;
        for queue in queues {
            self.serve_turns(steps, tx, claim, queue, (limits, &mut turns)).await?;
        }
        self.held_until = self.held_until.into_iter().chain(turns.rooms.held_until()).min();
        Ok(())
    }

    /// Takes from queues that differ.
    async fn serve_round(
        &mut self,
        steps: &mut dyn ClaimSteps,
        tx: &mut Transaction,
        claim: &Claim,
        round: &[&ClaimQueue],
        limits: &mut RunRooms,
    ) -> Result<(), SqlFailure> {
        let in_reach: Vec<&RunLimit> = claim.limits_in_reach().collect();
        let before = self.taken.len();
        let (free, limited) = part_queues(&in_reach, round);
        let mut out_of_order = !limited.is_empty();
        if limited.is_empty() || !free.is_empty() {
            let lanes = self.serve(steps, tx, claim, &rooms(&free, ClaimRow::MOST - before), true).await?;
            if !lanes.is_empty() {
                let shares = |queue: &str| lanes.iter().any(|(_, lane)| *lane.queue == *queue);
                let (sharing, others): (Vec<_>, Vec<_>) =
                    free.iter().copied().partition(|wanted| shares(&wanted.queue));
                self.serve(steps, tx, claim, &rooms(&others, ClaimRow::MOST - before), false).await?;
                self.serve_sharing(steps, tx, claim, (&sharing, lanes), limits).await?;
                out_of_order = true;
            }
        }
        for queue in limited {
            let lanes = self.serve_limited(steps, tx, claim, queue.clone(), limits, true).await?;
            if !lanes.is_empty() {
                self.serve_sharing(steps, tx, claim, (&[queue], lanes), limits).await?;
            }
        }
        if out_of_order {
            self.sort_by_queue(claim, before);
        }
        Ok(())
    }
}

/// What jobs that take turns get in a queue, with as many of them read as that needs.
async fn plan(
    tx: &mut Transaction,
    claim: &Claim,
    queue: &ClaimQueue,
    last: &str,
    with_plain: bool,
    (limits, turns): (&mut RunRooms, &mut FoundByKey),
) -> Result<TurnPlan, SqlFailure> {
    let (limit, most_sharing) = (queue.limit, queue.start);
    loop {
        let (stacks, rooms, aging) = (turns.of(&queue.queue), &turns.rooms, claim.aging);
        let input = TurnInput { stacks, last, limit, most_sharing, with_plain, aging, limits, rooms };
        let plan = sharing::plan(&input);
        if plan.needs_more.is_empty() {
            return Ok(plan);
        }
        turns.read_more(tx, &queue.queue, &plan.needs_more).await?;
    }
}

/// What a claim took.
pub struct ClaimedSet {
    set: WorkingSet,
    taken: Vec<TakenJob>,
    held_until: Option<Timestamp>,
}

/// Takes all that a claim gets, queue by queue where some are named twice, limits may be about them, or jobs take turns
/// (H5).
///
/// # Errors
/// Those of the connection.
pub async fn take_all(
    steps: &mut dyn ClaimSteps,
    tx: &mut Transaction,
    claim: &Claim,
    limits: &mut RunRooms,
) -> Result<ClaimedSet, SqlFailure> {
    let mut jobs = TakenJobs::default();
    for round in rounds(&claim.queues) {
        jobs.serve_round(steps, tx, claim, &round, limits).await?;
    }
    if jobs.set.is_none() {
        // Whether the worker lives, and what time it is, is told all the same.
        jobs.serve(steps, tx, claim, &[], false).await?;
    }
    let TakenJobs { set, taken, held_until } = jobs;
    let set = set.ok_or_else(row::no_moment)?;
    Ok(ClaimedSet { set, taken, held_until: held_until.into_iter().chain(limits.held_until()).min() })
}

/// A claim as it is stored: its jobs in the order of their ids, in which each is found at once when it ends.
#[must_use]
pub fn row_of(worker: WorkerId, now: Timestamp, mut taken: Vec<TakenJob>) -> ClaimRow {
    let slot = |started: bool| if started { Slot::Started(now) } else { Slot::Open };
    taken.sort_unstable();
    ClaimRow {
        fence: Fence::default(),
        worker,
        claimed_at: now,
        jobs: taken.iter().map(|(id, _)| *id).collect(),
        slots: taken.iter().map(|(_, started)| slot(*started)).collect(),
        edits: 0,
    }
}

/// Writes a claim and commits; `first` is asked before.
///
/// # Errors
/// Those of the connection.
pub async fn save(
    tx: &mut Transaction,
    worker: WorkerId,
    ClaimedSet { set, taken, held_until }: ClaimedSet,
    mut first: Vec<Request>,
    limits: &LockedLimits,
) -> Result<Claimed, SqlFailure> {
    let now = set.now;
    if taken.is_empty() {
        tx.commit(first).await?;
        return Ok(Claimed { held_until, ..Claimed::nothing(now) });
    }
    first.push(limits.keep());
    let jobs: Vec<LoadedJob> = taken.iter().filter_map(|(id, _)| set.job(*id).cloned()).collect();
    let mut writes = set.into_writes();
    for loaded in &jobs {
        writes.count(&lane_of(&loaded.job.spec), Some(State::Pending), Some(State::Running));
    }
    let mut row = row_of(worker, now, taken);
    first.push(insert(&row));
    // The fence is drawn when the rows are locked, so it is larger than any fence they have had (L5).
    let fence = tx.write_after(first, writes, now).await?.pop().unwrap_or_default();
    row.fence = row::first(fence, Row::int)?.map(Fence).unwrap_or_default();
    Ok(Claimed { jobs: hand_out(&tx.shared, &row, jobs), now, held_until })
}

/// Writes a claim, and answers its fence.
fn insert(row: &ClaimRow) -> Request {
    let (jobs, slots) = (Value::Bytes(row.encode_jobs()), Value::Bytes(row.encode_slots()));
    Statement::InsertClaim.with(vec![Value::worker(row.worker), Value::at(row.claimed_at), jobs, slots])
}

/// The jobs as their worker gets them; this process remembers what it handed out.
#[must_use]
pub fn hand_out(shared: &Shared, row: &ClaimRow, jobs: Vec<LoadedJob>) -> Vec<ClaimedJob> {
    let mut claimed = Vec::with_capacity(jobs.len());
    let mut remembered = HashMap::with_capacity(jobs.len());
    for LoadedJob { job, record, rowed } in jobs {
        let id = job.spec.id;
        let Some(slot) = row.open_slot(id).and_then(|slot| row.slots.get(slot)) else { continue };
        if record.fence >= row.fence {
            shared.fences.note_behind();
        }
        let Some(record) = row.replay(id, *slot, record) else { continue };
        claimed.push(ClaimedJob { job: job.clone(), record: record.clone(), lease: row.lease(id) });
        remembered.insert(id, LoadedJob { record, job, rowed });
    }
    shared.held_jobs.keep(row.clone(), remembered);
    claimed
}
