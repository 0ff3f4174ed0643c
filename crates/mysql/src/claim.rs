//! Taking due jobs, and looking whether there are any (L2-L5).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use backstop_core::job::{NewJob, Stale, State};
use backstop_core::{Fence, JobId, Lease, Timestamp};
use backstop_store::desk::grip::{Slot, shares};
use backstop_store::desk::{Desk, File, Grip, LaneKey, Writes, lane_of, stale};
use backstop_store::{Claim, ClaimQueue, Claimed, ClaimedJob, Error, Peek};

use crate::error::Failure;
use crate::hold;
use crate::lanes;
use crate::load;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// Takes due jobs for a worker.
pub(crate) async fn claim(unit: &mut Unit, claim: &Claim) -> Result<Claimed, Failure> {
    let mut taking = Taking {
        claim,
        desk: None,
        lifted: Vec::new(),
        taken: Vec::new(),
        expired: 0,
        callbacks: Vec::new(),
    };
    for round in rounds(&claim.queues) {
        taking.serve(unit, round).await?;
    }
    taking.finish(unit).await
}

/// The queues in pieces in which each is named once: what the first takes must not be seen by the second.
fn rounds(queues: &[ClaimQueue]) -> Vec<Vec<&ClaimQueue>> {
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
struct Room<'a> {
    queue: &'a ClaimQueue,
    free: usize,
    started: usize,
}

/// A claim under way.
struct Taking<'a> {
    claim: &'a Claim,
    desk: Option<Desk>,
    /// Rows of `ready` that are ours and still to be deleted: lane, due time, id.
    lifted: Vec<(i64, Timestamp, JobId)>,
    /// What was taken, and whether it is started.
    taken: Vec<(JobId, bool)>,
    expired: usize,
    /// Of jobs that expired; stored last, so that this claim does not take them.
    callbacks: Vec<NewJob>,
}

impl Taking<'_> {
    /// Takes from queues that differ, all in one go; again from one where jobs had expired instead.
    async fn serve(&mut self, unit: &mut Unit, round: Vec<&ClaimQueue>) -> Result<(), Failure> {
        let limits: Vec<usize> = round.iter().map(|queue| queue.limit).collect();
        let shares = shares(&limits, Grip::MOST - self.taken.len());
        let room = |(queue, free)| Room { queue, free, started: 0 };
        let rooms: Vec<Room<'_>> = round.into_iter().zip(shares).map(room).collect();
        let mut found = self.pick(unit, &rooms).await?.into_iter().peekable();
        for (place, mut room) in rooms.into_iter().enumerate() {
            let mine: Vec<File> =
                std::iter::from_fn(|| found.next_if(|(of, _)| *of == place).map(|(_, file)| file)).collect();
            let mut expired = self.settle(&mut room, mine);
            while expired > 0 && room.free > 0 {
                let more = self.pick(unit, std::slice::from_ref(&room)).await?;
                expired = self.settle(&mut room, more.into_iter().map(|(_, file)| file).collect());
            }
        }
        Ok(())
    }

    /// Takes what was lifted, or fails it as expired; answers how many expired.
    fn settle(&mut self, room: &mut Room<'_>, lifted: Vec<File>) -> usize {
        let Some(desk) = self.desk.as_mut() else { return 0 };
        let before = self.expired;
        desk.expect(lifted.len());
        for file in lifted {
            let id = file.job.spec.id;
            let expired = file.record.has_expired(desk.now);
            desk.lay_lifted(file);
            if expired {
                self.expired += 1;
                self.callbacks.extend(desk.expire(id));
            } else {
                let started = room.started < room.queue.start;
                desk.take(id, started);
                self.taken.push((id, started));
                room.started += usize::from(started);
                room.free -= 1;
            }
        }
        self.expired - before
    }

    /// Lifts due jobs out of `ready`, best first for each queue.
    async fn pick(&mut self, unit: &mut Unit, rooms: &[Room<'_>]) -> Result<Vec<(usize, File)>, Failure> {
        let (lanes, now) = self.reach(unit, rooms).await?;
        let quotas = self.quotas(unit, rooms, &lanes, now).await?;
        let picks = quotas.iter().map(|(_, lane, quota)| lane_query(sql::PICK, *lane, now, *quota));
        let picked = picks.collect::<Vec<_>>();
        let picked = if picked.is_empty() { Vec::new() } else { unit.run(picked).await? };
        let mut places: HashMap<JobId, usize> = HashMap::new();
        for ((place, ..), rows) in quotas.iter().zip(picked) {
            for mut row in rows {
                let key = (row.int()?, row.moment()?, row.job()?);
                places.insert(key.2, *place);
                self.lifted.push(key);
            }
        }
        let ids: Vec<JobId> = places.keys().copied().collect();
        let shared = unit.shared.clone();
        let sketches = load::sketches(unit, &shared.lanes, &ids).await?;
        let mut found: Vec<(usize, File)> = sketches
            .into_iter()
            .filter_map(|(id, sketch)| Some((*places.get(&id)?, sketch.into_file())))
            .collect();
        let aging = self.claim.aging;
        found.sort_by_cached_key(|(place, file)| {
            let spec = &file.job.spec;
            (*place, aging.rank(spec.priority, file.record.run_at), spec.id)
        });
        Ok(found)
    }

    /// The lanes that the claim may take from, by the place of their queue, and the moment of the claim.
    ///
    /// What earlier picks lifted is deleted first: our own locks would not hide it from us.
    async fn reach(
        &mut self,
        unit: &mut Unit,
        rooms: &[Room<'_>],
    ) -> Result<(Vec<(usize, i64, LaneKey)>, Timestamp), Failure> {
        let mut batch = self.deletes();
        let deletes = batch.len();
        let known = self.desk.as_ref().map(|desk| desk.now);
        if known.is_none() {
            let worker = vec![Value::worker(self.claim.worker)];
            batch.extend([unit.clock(), Query::new(sql::WORKERS_EXPIRY, worker)]);
        }
        if !rooms.is_empty() {
            batch.extend(lanes_of(rooms.iter().map(|room| room.queue)));
        }
        let mut answers = unit.run(batch).await?;
        let paused = if rooms.is_empty() { Vec::new() } else { answers.pop().unwrap_or_default() };
        let lanes = if rooms.is_empty() { Vec::new() } else { answers.pop().unwrap_or_default() };
        let now = match known {
            Some(now) => now,
            None => self.begin(unit, answers.split_off(deletes))?,
        };
        let queues: Vec<&ClaimQueue> = rooms.iter().map(|room| room.queue).collect();
        Ok((reachable(self.claim, &queues, lanes, paused)?, now))
    }

    /// The statements that delete what was lifted.
    fn deletes(&mut self) -> Vec<Query> {
        let mut out = Vec::new();
        self.lifted.sort_unstable();
        let key = |(lane, run_at, id)| vec![Value::int(lane), Value::at(run_at), Value::job(id)];
        sql::READY_DELETE.add(&mut out, self.lifted.drain(..).map(key).collect());
        out
    }

    /// How many to take from each lane: a queue with several is looked at without a lock, best first over all of them.
    async fn quotas(
        &self,
        unit: &mut Unit,
        rooms: &[Room<'_>],
        lanes: &[(usize, i64, LaneKey)],
        now: Timestamp,
    ) -> Result<Vec<(usize, i64, usize)>, Failure> {
        let (mut quotas, mut asked) = (Vec::new(), Vec::new());
        for (place, room) in rooms.iter().enumerate().filter(|(_, room)| room.free > 0) {
            let mine: Vec<_> = lanes.iter().filter(|(of, ..)| *of == place).collect();
            match mine.as_slice() {
                [(_, lane, _)] => quotas.push((place, *lane, room.free)),
                several => asked.extend(several.iter().map(|lane| (*lane, room.free))),
            }
        }
        if asked.is_empty() {
            return Ok(quotas);
        }
        let heads =
            asked.iter().map(|((_, lane, _), free)| lane_query(sql::HEADS, *lane, now, *free)).collect();
        let mut ranked = Vec::new();
        for (((place, lane, key), free), rows) in asked.into_iter().zip(unit.run(heads).await?) {
            for mut row in rows {
                let rank = self.claim.aging.rank(key.priority, row.moment()?);
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

    /// Opens the desk once the moment is known, and refuses a worker that is not live.
    fn begin(&mut self, unit: &Unit, mut answers: Vec<Vec<Row>>) -> Result<Timestamp, Failure> {
        let expiry = answers.pop().unwrap_or_default();
        let now = crate::shared::moment_of(answers.pop().unwrap_or_default())?;
        let mut live = false;
        for mut row in expiry {
            let _ = row.worker()?;
            live = row.moment()? > now;
        }
        if !live {
            return Err(Error::NotEnlisted { worker: self.claim.worker }.into());
        }
        self.desk = Some(unit.desk(now));
        Ok(now)
    }

    async fn finish(mut self, unit: &mut Unit) -> Result<Claimed, Failure> {
        if self.desk.is_none() {
            self.reach(unit, &[]).await?;
        }
        let Some(mut desk) = self.desk.take() else {
            return Err(Failure::Unreadable("the clock gave no answer".to_owned()));
        };
        let now = desk.now;
        if self.taken.is_empty() && self.expired == 0 {
            unit.commit(Vec::new()).await?;
            return Ok(Claimed { jobs: Vec::new(), now, expired: 0 });
        }
        let shared = unit.shared.clone();
        load::insert_callbacks(unit, &shared.lanes, &mut desk, &self.callbacks).await?;
        let files: Vec<File> = self.taken.iter().filter_map(|(id, _)| desk.file(*id).cloned()).collect();
        let mut writes = desk.into_writes();
        count_taken(&mut writes, &files);
        let mut grip = self.grip(now);
        // The fence is drawn when the rows are locked, so it is larger than any fence they have had (L5).
        let mut first = self.deletes();
        if !grip.jobs.is_empty() {
            first.extend([insert(&grip), Query::new(sql::FENCE, Vec::new())]);
        }
        for mut row in unit.write_after(first, writes, now).await?.into_iter().flatten() {
            grip.fence = Fence(row.int()?);
        }
        Ok(Claimed { jobs: hand_out(unit, &grip, files), now, expired: self.expired })
    }

    fn grip(&self, now: Timestamp) -> Grip {
        let slot = |started: bool| if started { Slot::Started(now) } else { Slot::Open };
        Grip {
            fence: Fence::default(),
            worker: self.claim.worker,
            claimed_at: now,
            jobs: self.taken.iter().map(|(id, _)| *id).collect(),
            slots: self.taken.iter().map(|(_, started)| slot(*started)).collect(),
            edits: 0,
        }
    }
}

fn count_taken(writes: &mut Writes, files: &[File]) {
    for file in files {
        writes.count(&lane_of(&file.job.spec), Some(State::Pending), Some(State::Running));
    }
}

/// The statement that writes a claim; its key is the fence.
fn insert(grip: &Grip) -> Query {
    let (jobs, slots) = (Value::bytes(grip.encode_jobs()), Value::bytes(grip.encode_slots()));
    Query::new(sql::GRIP_INSERT, vec![Value::worker(grip.worker), Value::at(grip.claimed_at), jobs, slots])
}

/// The jobs as their worker gets them; this process remembers what it handed out.
fn hand_out(unit: &Unit, grip: &Grip, files: Vec<File>) -> Vec<ClaimedJob> {
    let mut jobs = Vec::with_capacity(files.len());
    let mut remembered = HashMap::with_capacity(files.len());
    for (file, slot) in files.into_iter().zip(&grip.slots) {
        let id = file.job.spec.id;
        let record = grip.replay(id, *slot, file.record);
        jobs.push(ClaimedJob { job: file.job.clone(), record: record.clone(), lease: grip.lease(id) });
        remembered.insert(id, File { record, job: file.job, rowed: file.rowed });
    }
    unit.shared.hands.keep(grip.fence, grip.jobs.clone(), remembered);
    jobs
}

/// A question about the due jobs of a lane.
fn lane_query(sql: &'static str, lane: i64, now: Timestamp, limit: usize) -> Query {
    Query::new(sql, vec![Value::int(lane), Value::at(now), Value::count(limit)])
}

/// The statements that tell the lanes of queues, and which of the queues are paused.
fn lanes_of<'q>(queues: impl Iterator<Item = &'q ClaimQueue>) -> [Query; 2] {
    let names = Value::texts(queues.map(|wanted| &wanted.queue));
    [Query::listed(sql::LANES_OF, vec![names.clone()]), Query::listed(sql::PAUSED, vec![names])]
}

/// The lanes that a claim reaches, each with the place of its queue.
fn reachable(
    claim: &Claim,
    queues: &[&ClaimQueue],
    lanes: Vec<Row>,
    paused: Vec<Row>,
) -> Result<Vec<(usize, i64, LaneKey)>, Failure> {
    let paused = paused.into_iter().map(|mut row| row.text()).collect::<Result<HashSet<String>, _>>()?;
    let mut reached = Vec::new();
    for row in lanes {
        let (id, lane) = lanes::read(row)?;
        let wanted = |queue: &&ClaimQueue| {
            let knows = || claim.kinds.iter().any(|known| known.covers(&lane.kind, lane.version));
            *queue.queue == *lane.queue && (queue.any_kind || knows())
        };
        if let Some(place) = queues.iter().position(wanted).filter(|_| !paused.contains(&*lane.queue)) {
            reached.push((place, id, lane));
        }
    }
    Ok(reached)
}

/// Says, without writing, whether a claim would find work and when the next job becomes due.
pub(crate) async fn peek(unit: &mut Unit, claim: &Claim) -> Result<Peek, Failure> {
    let open: Vec<&ClaimQueue> = claim.queues.iter().filter(|wanted| wanted.limit > 0).collect();
    let batch = [unit.clock()].into_iter().chain(lanes_of(open.iter().copied())).collect();
    let mut answers = unit.run(batch).await?;
    let (paused, lanes) = (answers.pop().unwrap_or_default(), answers.pop().unwrap_or_default());
    let now = crate::shared::moment_of(answers.pop().unwrap_or_default())?;
    let reached = reachable(claim, &open, lanes, paused)?;
    let heads =
        reached.iter().map(|(_, lane, _)| Query::new(sql::NEXT_DUE, vec![Value::int(*lane)])).collect();
    let mut next_due: Option<Timestamp> = None;
    for mut row in unit.commit(heads).await?.into_iter().flatten() {
        let _ = row.int()?;
        let due = row.moment()?;
        next_due = Some(next_due.map_or(due, |earliest| earliest.min(due)));
    }
    Ok(Peek { now, next_due })
}

/// Counts the start of prefetched jobs (C5).
pub(crate) async fn start(
    unit: &mut Unit,
    leases: &Arc<Vec<Lease>>,
) -> Result<Vec<Result<(), Stale>>, Failure> {
    let shared = unit.shared.clone();
    let (hold::Held { mut desk, live }, _) = hold::lock(unit, &shared.ground(), leases, Vec::new()).await?;
    let answers: Vec<_> = leases
        .iter()
        .map(|lease| if live.contains(&lease.worker) { desk.start(lease) } else { Err(stale(lease)) })
        .collect();
    let records: HashMap<JobId, _> =
        leases.iter().filter_map(|lease| Some((lease.job, desk.file(lease.job)?.record.clone()))).collect();
    let now = desk.now;
    let writes = desk.into_writes();
    let grips = writes.grips.clone();
    unit.write(writes, now).await?;
    for grip in grips {
        let mine = grip.jobs.iter().filter_map(|id| Some((*id, Some(records.get(id)?.clone()))));
        unit.shared.hands.follow(&grip, mine);
    }
    Ok(answers)
}
