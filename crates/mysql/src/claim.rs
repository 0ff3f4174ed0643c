//! Taking due jobs, and looking whether there are any (L2-L5).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use backstop_core::job::{Stale, State};
use backstop_core::{Fence, JobId, Lease, Timestamp, WorkerId};
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
    let mut taking = Taking { claim, desk: None, lifted: Vec::new(), taken: Vec::new() };
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
}

/// A claim under way.
struct Taking<'a> {
    claim: &'a Claim,
    desk: Option<Desk>,
    /// Rows of `ready` that are ours and still to be deleted: lane, due time, id.
    lifted: Vec<(i64, Timestamp, JobId)>,
    /// What was taken, and whether it is started.
    taken: Vec<(JobId, bool)>,
}

impl Taking<'_> {
    /// Takes from queues that differ, all in one go.
    async fn serve(&mut self, unit: &mut Unit, round: Vec<&ClaimQueue>) -> Result<(), Failure> {
        let limits: Vec<usize> = round.iter().map(|queue| queue.limit).collect();
        let shares = shares(&limits, Grip::MOST - self.taken.len());
        let room = |(queue, free)| Room { queue, free };
        let rooms: Vec<Room<'_>> = round.into_iter().zip(shares).map(room).collect();
        let lifted = self.pick(unit, &rooms).await?;
        let Some(desk) = self.desk.as_mut() else { return Ok(()) };
        let mut started_of = vec![0; rooms.len()];
        desk.expect(lifted.len());
        for (place, file) in lifted {
            let (id, queue) = (file.job.spec.id, rooms[place].queue);
            desk.lay_lifted(file);
            let started = started_of[place] < queue.start;
            desk.take(id, started);
            self.taken.push((id, started));
            started_of[place] += usize::from(started);
        }
        Ok(())
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
    /// What earlier picks lifted is deleted first: our own locks would not hide it from us. A claim that has lifted
    /// nothing yet looks before its transaction begins: when it finds nothing, it needs none.
    async fn reach(
        &mut self,
        unit: &mut Unit,
        rooms: &[Room<'_>],
    ) -> Result<(Vec<(usize, i64, LaneKey)>, Timestamp), Failure> {
        let queues: Vec<&ClaimQueue> = rooms.iter().map(|room| room.queue).collect();
        let question = if queues.len() > FEW_QUEUES { sql::LANES_DUE } else { sql::LANES_OPEN };
        let look = lanes_of(unit, question, Some(self.claim.worker), &queues);
        let mut batch = self.deletes();
        batch.push(look);
        let answers = if unit.is_fresh() { unit.alone(batch).await? } else { unit.run(batch).await? };
        let seen = seen(self.claim, &queues, answers.into_iter().next_back().unwrap_or_default())?;
        let now = match &self.desk {
            Some(desk) => desk.now,
            None => self.begin(unit, &seen)?,
        };
        let due = seen.lanes.into_iter().filter(|lane| lane.due <= now);
        Ok((due.map(|lane| (lane.place, lane.id, lane.key)).collect(), now))
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
    fn begin(&mut self, unit: &Unit, seen: &Seen) -> Result<Timestamp, Failure> {
        if seen.live_until.is_none_or(|until| until <= seen.now) {
            return Err(Error::NotEnlisted { worker: self.claim.worker }.into());
        }
        self.desk = Some(unit.desk(seen.now));
        Ok(seen.now)
    }

    async fn finish(mut self, unit: &mut Unit) -> Result<Claimed, Failure> {
        if self.desk.is_none() {
            self.reach(unit, &[]).await?;
        }
        let Some(desk) = self.desk.take() else {
            return Err(Failure::Unreadable("the clock gave no answer".to_owned()));
        };
        let now = desk.now;
        if self.taken.is_empty() {
            unit.commit(Vec::new()).await?;
            return Ok(Claimed { jobs: Vec::new(), now });
        }
        let files: Vec<File> = self.taken.iter().filter_map(|(id, _)| desk.file(*id).cloned()).collect();
        let mut writes = desk.into_writes();
        count_taken(&mut writes, &files);
        let mut grip = self.grip(now);
        // The fence is drawn when the rows are locked, so it is larger than any fence they have had (L5).
        let mut first = self.deletes();
        first.extend([insert(&grip), Query::new(sql::FENCE, Vec::new())]);
        for mut row in unit.write_after(first, writes, now).await?.into_iter().flatten() {
            grip.fence = Fence(row.int()?);
        }
        Ok(Claimed { jobs: hand_out(unit, &grip, files), now })
    }

    /// The claim as it is stored: its jobs in the order of their ids, in which each is found at once when it ends.
    fn grip(&self, now: Timestamp) -> Grip {
        let slot = |started: bool| if started { Slot::Started(now) } else { Slot::Open };
        let mut taken = self.taken.clone();
        taken.sort_unstable();
        Grip {
            fence: Fence::default(),
            worker: self.claim.worker,
            claimed_at: now,
            jobs: taken.iter().map(|(id, _)| *id).collect(),
            slots: taken.iter().map(|(_, started)| slot(*started)).collect(),
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
    for file in files {
        let id = file.job.spec.id;
        let Some(slot) = grip.open_slot(id).and_then(|slot| grip.slots.get(slot)) else { continue };
        if file.record.fence >= grip.fence {
            unit.shared.fences.note_behind();
        }
        let Some(record) = grip.replay(id, *slot, file.record) else { continue };
        jobs.push(ClaimedJob { job: file.job.clone(), record: record.clone(), lease: grip.lease(id) });
        remembered.insert(id, File { record, job: file.job, rowed: file.rowed });
    }
    unit.shared.hands.keep(grip.fence, grip.jobs.clone(), remembered);
    jobs
}

/// A question about the due jobs of a lane.
fn lane_query(sql: &'static str, lane: i64, now: Timestamp, limit: usize) -> Query {
    Query::new(sql, vec![Value::int(lane), Value::at(now), Value::at(now), Value::count(limit)])
}

/// Queues up to which a claim does not look which of their lanes have work: taking from them tells as much. With more
/// of them, the look saves a statement for each lane that has none.
const FEW_QUEUES: usize = 4;

/// The statement that tells the moment, the lanes of queues, and until when a worker lives.
fn lanes_of(unit: &Unit, question: &str, worker: Option<WorkerId>, queues: &[&ClaimQueue]) -> Query {
    let worker = worker.map(Value::worker).into_iter().collect();
    let names = Value::texts(queues.iter().map(|wanted| &wanted.queue));
    let moment = || vec![unit.shared.moment()];
    let looks = (question == sql::LANES_DUE).then(moment);
    Query::listed(question, [moment(), worker].into_iter().chain(looks).chain([names]).collect())
}

/// What a look at lanes has told.
struct Seen {
    now: Timestamp,
    live_until: Option<Timestamp>,
    lanes: Vec<SeenLane>,
}

/// A lane that a claim reaches and that has a job: the place of its queue, and when its first job is due.
struct SeenLane {
    place: usize,
    id: i64,
    key: LaneKey,
    due: Timestamp,
}

/// Reads the answer to [`lanes_of`]; the lanes by the place of their queue.
fn seen(claim: &Claim, queues: &[&ClaimQueue], rows: Vec<Row>) -> Result<Seen, Failure> {
    // The first queue of a name, and the first of them that takes any kind.
    let named = || queues.iter().enumerate().rev();
    let places: HashMap<&str, usize> = named().map(|(place, wanted)| (&*wanted.queue, place)).collect();
    let any_kind = named().filter(|(_, wanted)| wanted.any_kind);
    let any_kind: HashMap<&str, usize> = any_kind.map(|(place, wanted)| (&*wanted.queue, place)).collect();
    let (mut now, mut live_until, mut lanes) = (None, None, Vec::new());
    for mut row in rows {
        if let Some(moment) = row.maybe_moment()? {
            (now, live_until) = (Some(moment), row.maybe_moment()?);
            continue;
        }
        row.skip(1);
        let (id, key) = lanes::read_from(&mut row)?;
        let Some(due) = row.maybe_moment()? else { continue };
        let knows = claim.kinds.iter().any(|known| known.covers(&key.kind, key.version));
        let place = if knows { &places } else { &any_kind }.get(&*key.queue).copied();
        lanes.extend(place.map(|place| SeenLane { place, id, key, due }));
    }
    lanes.sort_by_key(|lane| lane.place);
    let now = now.ok_or_else(|| Failure::Unreadable("the clock gave no answer".to_owned()))?;
    Ok(Seen { now, live_until, lanes })
}

/// Says, without writing, whether a claim would find work and when the next job becomes due.
pub(crate) async fn peek(unit: &mut Unit, claim: &Claim) -> Result<Peek, Failure> {
    let open: Vec<&ClaimQueue> = claim.queues.iter().filter(|wanted| wanted.limit > 0).collect();
    let look = lanes_of(unit, sql::LANES_DUE, None, &open);
    let rows = unit.alone(vec![look]).await?.into_iter().flatten().collect();
    let seen = seen(claim, &open, rows)?;
    Ok(Peek { now: seen.now, next_due: seen.lanes.iter().map(|lane| lane.due).min() })
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
