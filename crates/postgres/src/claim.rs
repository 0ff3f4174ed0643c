//! Taking due jobs, and looking whether there are any (L2-L5).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use backstop_core::job::{Stale, State};
use backstop_core::{Fence, JobId, Lease, Timestamp};
use backstop_store::desk::grip::{Slot, shares};
use backstop_store::desk::{Desk, File, Grip, Writes, lane_of, stale};
use backstop_store::{Claim, ClaimQueue, Claimed, ClaimedJob, Error, Peek};

use crate::cursors::{Begin, Cursor, News};
use crate::error::Failure;
use crate::hold;
use crate::load;
use crate::rows;
use crate::session::{Query, Session};
use crate::shared::Shared;
use crate::sql;
use crate::take;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// The longest interval of aging that is told to the server: five levels of it do not overflow.
const LONGEST_AGING: i64 = 1_000_000_000_000_000_000;

/// Takes due jobs for a worker: in one statement if that can be, in a transaction otherwise.
pub(crate) async fn claim(unit: &mut Unit, claim: &Claim) -> Result<Claimed, Failure> {
    let rounds = rounds(&claim.queues);
    if let [round] = &*rounds
        && take::is_plain(&unit.shared, round)
    {
        return take::take(unit, claim, &rooms(round, usize::MAX)).await;
    }
    let mut taking =
        Taking { claim, desk: None, taken: Vec::new(), start: unit.shared.start(&claim.queues), news: None };
    for round in rounds {
        taking.serve(unit, &round).await?;
    }
    taking.finish(unit).await
}

/// The queues in pieces in which each is named once: what the first takes must not be seen by the second.
pub(crate) fn rounds(queues: &[ClaimQueue]) -> Vec<Vec<&ClaimQueue>> {
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
pub(crate) struct Room<'a> {
    pub(crate) queue: &'a ClaimQueue,
    free: usize,
}

/// What a claim may take from queues, `most` jobs at most.
pub(crate) fn rooms<'a>(round: &[&'a ClaimQueue], most: usize) -> Vec<Room<'a>> {
    let limits: Vec<usize> = round.iter().map(|queue| queue.limit).collect();
    let shares = shares(&limits, most);
    round.iter().zip(shares).map(|(queue, free)| Room { queue, free }).collect()
}

/// A claim under way.
struct Taking<'a> {
    claim: &'a Claim,
    desk: Option<Desk>,
    /// What was taken, and whether it is started.
    taken: Vec<(JobId, bool)>,
    start: Begin,
    /// What the last look at the lanes learned: the cursors once it is committed.
    news: Option<News>,
}

impl Taking<'_> {
    /// Takes from queues that differ, all in one go.
    async fn serve(&mut self, unit: &mut Unit, round: &[&ClaimQueue]) -> Result<(), Failure> {
        let rooms = rooms(round, Grip::MOST - self.taken.len());
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
        let moment = self.desk.as_ref().map(|desk| desk.now);
        let now = moment.map_or_else(|| unit.shared.moment(), Value::at);
        let take = take_statement(self.claim, now, rooms, &self.start, false);
        let mut picked = unit.one(take).await?.into_iter();
        self.begin(unit, picked.next())?;
        let (shared, picked) = (unit.shared.clone(), picked.collect::<Vec<Row>>());
        load::meet_lanes(unit, &shared.lanes, &picked, 1).await?;
        let mut found = read(&shared, picked, rooms)?;
        in_order(self.claim, &mut found);
        Ok(found)
    }

    /// Opens the desk once the moment is known, and refuses a worker that is not live. The moment is that of the
    /// statement: what was due by it must not seem to start before.
    fn begin(&mut self, unit: &Unit, about_us: Option<Row>) -> Result<(), Failure> {
        let About { now, news, .. } = about(self.claim, about_us)?;
        self.news = Some(news);
        if self.desk.is_none() {
            self.desk = Some(unit.desk(now));
        }
        Ok(())
    }

    async fn finish(mut self, unit: &mut Unit) -> Result<Claimed, Failure> {
        if self.desk.is_none() {
            self.pick(unit, &[]).await?;
        }
        let Some(desk) = self.desk.take() else {
            return Err(Failure::Unreadable("the clock gave no answer".to_owned()));
        };
        let now = desk.now;
        if self.taken.is_empty() {
            unit.commit(Vec::new()).await?;
            unit.shared.learn(&self.start, self.news);
            return Ok(Claimed { jobs: Vec::new(), now });
        }
        let shared = unit.shared.clone();
        let files: Vec<File> = self.taken.iter().filter_map(|(id, _)| desk.file(*id).cloned()).collect();
        let mut writes = desk.into_writes();
        count_taken(&mut writes, &files);
        let mut grip = self.grip(now);
        // The fence is drawn when the rows are locked, so it is larger than any fence they have had (L5).
        for mut row in unit.write_after(vec![insert(&grip)], writes, now).await?.into_iter().flatten() {
            grip.fence = Fence(row.int()?);
        }
        shared.learn(&self.start, self.news);
        Ok(Claimed { jobs: hand_out(&shared, &grip, files), now })
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

/// What a claim is told beside its jobs.
pub(crate) struct About {
    pub(crate) now: Timestamp,
    /// Of a whole claim that took something.
    pub(crate) fence: Option<Fence>,
    pub(crate) news: News,
}

/// Reads what a claim is told beside its jobs. A worker that is not live is refused.
pub(crate) fn about(claim: &Claim, row: Option<Row>) -> Result<About, Failure> {
    let no_answer = || Failure::Unreadable("a claim gave no answer".to_owned());
    let mut row = row.ok_or_else(no_answer)?;
    let now = row.moment()?;
    row.skip(2);
    if row.maybe_moment()?.is_none_or(|expiry| expiry <= now) {
        return Err(Error::NotEnlisted { worker: claim.worker }.into());
    }
    let fence = row.maybe_int()?.map(Fence);
    let news = row.maybe_json()?.ok_or_else(no_answer)?;
    Ok(About { now, fence, news })
}

/// The statement that takes jobs. `whole`: it writes the claim too.
pub(crate) fn take_statement(
    claim: &Claim,
    now: Value,
    rooms: &[Room<'_>],
    start: &Begin,
    whole: bool,
) -> Query {
    let aging = i64::try_from(claim.aging.0.as_micros()).unwrap_or(i64::MAX);
    let params = vec![
        now,
        Value::worker(claim.worker),
        Value::texts(rooms.iter().map(|room| &room.queue.queue)),
        Value::Ints(rooms.iter().map(|room| i64::try_from(room.free).ok()).collect()),
        Value::Bools(rooms.iter().map(|room| room.queue.any_kind).collect()),
        Value::texts(claim.kinds.iter().map(|known| &known.kind)),
        Value::Ints(claim.kinds.iter().map(|known| Some(known.version.into())).collect()),
        Value::Int(Some(aging.min(LONGEST_AGING))),
        Value::maybe_text(start.told.as_ref()),
        Value::Bool(whole),
    ];
    Query::new(sql::TAKE, params)
}

/// Reads jobs that were lifted out of `ready`, each with the place of its queue. The lanes must be known.
pub(crate) fn read(
    shared: &Shared,
    lifted: Vec<Row>,
    rooms: &[Room<'_>],
) -> Result<Vec<(usize, File)>, Failure> {
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut found = Vec::with_capacity(lifted.len());
    for mut row in lifted {
        row.skip(1);
        let lane = row.peek_int(rows::LANE_COLUMN).unwrap_or_default();
        let file = load::picked(&mut row, &shared.lanes)?;
        let of = |room: &Room<'_>| room.queue.queue == file.job.spec.queue;
        let place = *places.entry(lane).or_insert_with(|| rooms.iter().position(of).unwrap_or_default());
        found.push((place, file));
    }
    Ok(found)
}

/// Sorts jobs as they are to be run: by queue, and in it the best first.
pub(crate) fn in_order(claim: &Claim, found: &mut [(usize, File)]) {
    found.sort_by_cached_key(|(place, file)| {
        let spec = &file.job.spec;
        (*place, claim.aging.rank(spec.priority, file.record.run_at), spec.id)
    });
}

fn count_taken(writes: &mut Writes, files: &[File]) {
    for file in files {
        writes.count(&lane_of(&file.job.spec), Some(State::Pending), Some(State::Running));
    }
}

/// The statement that writes a claim, and answers its fence.
fn insert(grip: &Grip) -> Query {
    let (jobs, slots) = (Value::Bytes(grip.encode_jobs()), Value::Bytes(grip.encode_slots()));
    Query::new(sql::GRIP_INSERT, vec![Value::worker(grip.worker), Value::at(grip.claimed_at), jobs, slots])
}

/// The jobs as their worker gets them; this process remembers what it handed out.
pub(crate) fn hand_out(shared: &Shared, grip: &Grip, files: Vec<File>) -> Vec<ClaimedJob> {
    let mut jobs = Vec::with_capacity(files.len());
    let mut remembered = HashMap::with_capacity(files.len());
    for (file, slot) in files.into_iter().zip(&grip.slots) {
        let id = file.job.spec.id;
        if file.record.fence >= grip.fence {
            shared.fences.note_behind();
        }
        let Some(record) = grip.replay(id, *slot, file.record) else { continue };
        jobs.push(ClaimedJob { job: file.job.clone(), record: record.clone(), lease: grip.lease(id) });
        remembered.insert(id, File { record, job: file.job, rowed: file.rowed });
    }
    shared.hands.keep(grip.fence, grip.jobs.clone(), remembered);
    jobs
}

impl Shared {
    /// Where a claim of queues begins.
    pub(crate) fn start(&self, queues: &[ClaimQueue]) -> Begin {
        self.cursors.start(queues.iter().map(|wanted| &*wanted.queue))
    }

    /// Goes on with what a claim learned, once it is committed.
    pub(crate) fn learn(&self, start: &Begin, news: Option<News>) {
        let queue_of = |lane: i64| self.lanes.get(lane).ok().map(|lane| lane.queue.clone());
        if let Some(news) = news {
            self.cursors.learn(start, news, queue_of);
        }
    }
}

/// The statement that keeps the cursors of this process for those that begin later; none when nothing moved.
pub(crate) fn keep_cursors(shared: &Shared) -> Option<Query> {
    let known = shared.cursors.keep()?;
    let lanes = known.lanes.iter();
    let params = vec![
        Value::ints(lanes.clone().map(|(lane, _)| *lane)),
        Value::ints(lanes.clone().map(|(_, cursor)| cursor.at.0.as_micros())),
        Value::Ids(lanes.map(|(_, cursor)| Some(cursor.at.1.as_uuid())).collect()),
        Value::Int(Some(known.server)),
        Value::text(known.seen.to_string()),
    ];
    Some(Query::new(sql::CURSORS_SAVE, params))
}

/// The statement that reads the cursors that were kept.
pub(crate) fn ask_for_cursors() -> Query {
    Query::new(sql::CURSORS, Vec::new())
}

/// Begins with cursors that were kept.
pub(crate) fn recall_cursors(shared: &Shared, kept: Vec<Row>) -> Result<(), Failure> {
    let (mut server, mut cursors) = (0, Vec::new());
    for mut row in kept {
        server = row.int()?;
        let (lane, queue) = (row.int()?, Arc::from(row.text()?));
        let cursor = Cursor { queue, at: (row.moment()?, row.job()?) };
        cursors.push((lane, cursor, row.word()?));
    }
    shared.cursors.recall(server, cursors);
    Ok(())
}

/// Says, without writing, whether a claim would find work and when the next job becomes due.
pub(crate) async fn peek(unit: &mut Unit, claim: &Claim) -> Result<Peek, Failure> {
    let open = || claim.queues.iter().filter(|wanted| wanted.limit > 0);
    let start = unit.shared.start(&claim.queues);
    let params = vec![
        unit.shared.moment(),
        Value::texts(open().map(|wanted| &wanted.queue)),
        Value::Bools(open().map(|wanted| wanted.any_kind).collect()),
        Value::texts(claim.kinds.iter().map(|known| &known.kind)),
        Value::Ints(claim.kinds.iter().map(|known| Some(known.version.into())).collect()),
        Value::maybe_text(start.told.as_ref()),
    ];
    let row = unit.alone(Query::new(sql::PEEK, params)).await?.into_iter().next();
    let mut row = row.ok_or_else(|| Failure::Unreadable("a look for work gave no answer".to_owned()))?;
    let peek = Peek { now: row.moment()?, next_due: row.maybe_moment()? };
    unit.shared.learn(&start, row.maybe_json()?);
    Ok(peek)
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
