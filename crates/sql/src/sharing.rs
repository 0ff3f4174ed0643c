//! Jobs that share something (H5, H6): what a claim finds of them under their keys, and takes.
//!
//! What they share is locked before it is counted, by the documents that limits are locked by. A job that is chosen is
//! taken out of `ready` unless somebody else has it locked; then it is passed by.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use backstop_core::job::{JobExtras, SharedResource, SharingNeeds};
use backstop_core::run_limit::{
    CountBy, KeyBucket, RunBucket, RunLimit, SharedHold, SharedRooms, SharedUse, SharingJob,
};
use backstop_core::{JobId, Timestamp};
use backstop_store::sharing::{
    FIRST_HEADS, KeyedJobs, MOST_KEYS, SharingWork, TurnPlan, key_ranges, plan_all,
};
use backstop_store::working_set::{LaneKey, LoadedJob, PermitRow};
use backstop_store::{Claim, Drawer, NameRange, run_limits};

use crate::claim::ClaimSteps;
use crate::columns::Columns;
use crate::failure::SqlFailure;
use crate::load::{self, FoundJob};
use crate::row::{self, Row, moment_of};
use crate::session::Session as _;
use crate::statement::{Request, Statement};
use crate::transaction::Transaction;
use crate::{query, worker};

/// A lane whose jobs take turns, with its number.
pub type TurnLane = (i64, LaneKey);

/// What a claim has found under the keys of its queues, and what is left of what is shared.
pub(crate) struct FoundByKey {
    stacks: HashMap<Arc<str>, Vec<KeyedJobs>>,
    pub(crate) rooms: SharedRooms,
    now: Timestamp,
}

impl FoundByKey {
    /// Looks under the keys of lanes, and locks what their jobs share. Limits by key are locked before the look: what
    /// is found after another claim was waited for is still there then. Names and pools are known only from the jobs.
    pub(crate) async fn look(
        tx: &mut Transaction,
        claim: &Claim,
        lanes: Vec<TurnLane>,
        now: Timestamp,
    ) -> Result<Self, SqlFailure> {
        let memory = tx.shared.clone();
        let limits: Vec<RunLimit> = claim.sharing_limits().cloned().collect();
        let most_heads = tx.dialect().first_heads();
        let (mut wanted, mut asked, mut by_key) = (Columns::default(), HashMap::new(), BTreeSet::new());
        for (id, lane) in &lanes {
            let heads = memory.turns.depth(&lane.queue).clamp(FIRST_HEADS, most_heads);
            asked.insert(*id, heads);
            for (from, to) in key_ranges(&memory.turns.last.of(&lane.queue)) {
                let mut row = wanted.row();
                row.int(*id).text(&from).text(&to).int(count(MOST_KEYS)).int(count(heads)).at(now);
            }
            let covering = limits
                .iter()
                .filter(|limit| limit.by == CountBy::Key && limit.covers(&lane.queue, &lane.kind));
            by_key.extend(covering.map(|limit| limit.name.clone()));
        }
        let requests = vec![ask_for_locks(&by_key), Statement::FirstTurns.rows(wanted)];
        let mut answers = tx.ask_all(requests).await?.into_iter();
        make_missing(tx, &by_key, answers.next().unwrap_or_default()).await?;
        let stacks = stacks_in(answers.next().unwrap_or_default(), lanes, &asked)?;
        let jobs: Vec<SharingJob> = stacks.values().flatten().map(KeyedJobs::job).collect();
        let names = SharedNames::of(&limits, &jobs);
        let others: BTreeSet<Arc<str>> = names.locks.difference(&by_key).cloned().collect();
        if !others.is_empty() {
            let found = tx.ask(ask_for_locks(&others)).await?;
            make_missing(tx, &others, found).await?;
        }
        let rooms = names.rooms(tx, limits, now).await?;
        Ok(Self { stacks, rooms, now })
    }

    /// The same for somebody who takes nothing: nothing is locked.
    async fn look_only(
        tx: &mut Transaction,
        limits: &[RunLimit],
        lanes: Vec<TurnLane>,
        now: Timestamp,
    ) -> Result<Self, SqlFailure> {
        let (mut wanted, mut asked) = (Columns::default(), HashMap::new());
        for (id, _) in &lanes {
            asked.insert(*id, FIRST_HEADS);
            for (from, to) in key_ranges("") {
                let mut row = wanted.row();
                row.int(*id).text(&from).text(&to).int(count(MOST_KEYS)).int(count(FIRST_HEADS)).at(now);
            }
        }
        let stacks = stacks_in(tx.ask(Statement::FirstTurns.rows(wanted)).await?, lanes, &asked)?;
        let jobs: Vec<SharingJob> = stacks.values().flatten().map(KeyedJobs::job).collect();
        let rooms = SharedNames::of(limits, &jobs).rooms(tx, limits.to_vec(), now).await?;
        Ok(Self { stacks, rooms, now })
    }

    /// What was found in a queue.
    pub(crate) fn of(&self, queue: &str) -> &[KeyedJobs] {
        self.stacks.get(queue).map(Vec::as_slice).unwrap_or_default()
    }

    /// Reads more jobs of the keys that a plan needs them of.
    pub(crate) async fn read_more(
        &mut self,
        tx: &mut Transaction,
        queue: &str,
        wanted: &BTreeMap<usize, usize>,
    ) -> Result<(), SqlFailure> {
        let Some(stacks) = self.stacks.get_mut(queue) else { return Ok(()) };
        let mut rows = Columns::default();
        for (place, heads) in wanted {
            let stack = &mut stacks[*place];
            stack.heads.clear();
            rows.row().int(stack.lane).text(&stack.key).int(count(*heads)).at(self.now);
        }
        let mut heads: HashMap<(i64, String), Vec<_>> = HashMap::new();
        for mut row in tx.ask(Statement::MoreTurns.rows(rows)).await? {
            heads.entry((row.int()?, row.text()?)).or_default().push((row.moment()?, row.job()?));
        }
        for (place, wanted) in wanted {
            let stack = &mut stacks[*place];
            stack.heads = heads.remove(&(stack.lane, stack.key.to_string())).unwrap_or_default();
            stack.heads.sort_unstable();
            stack.more = stack.heads.len() == *wanted;
        }
        // One whose jobs were all taken meanwhile has nothing to give.
        stacks.retain(|stack| !stack.heads.is_empty());
        Ok(())
    }

    /// Takes the jobs of a plan that nobody else has locked, in the order of their turns, and answers the moment at
    /// which that was done.
    pub(crate) async fn take(
        &mut self,
        steps: &mut dyn ClaimSteps,
        tx: &mut Transaction,
        queue: &Arc<str>,
        plan: &TurnPlan,
    ) -> Result<(Timestamp, Vec<LoadedJob>), SqlFailure> {
        let stacks = self.stacks.get(queue).map(Vec::as_slice).unwrap_or_default();
        let (mut chosen, mut deepest) = (Vec::with_capacity(plan.jobs.len()), 0);
        for (place, head) in &plan.jobs {
            let KeyedJobs { lane, key, heads, .. } = &stacks[*place];
            let (run_at, id) = heads[*head];
            chosen.push(PlannedTurn { lane: *lane, key: key.clone(), run_at, id });
            deepest = deepest.max(*head + 1);
        }
        // One more than was taken tells whether any was kept back.
        tx.shared.turns.note_depth(queue, deepest + 1);
        let mut taken: HashMap<JobId, LoadedJob> = HashMap::with_capacity(chosen.len());
        if !chosen.is_empty() {
            let found = steps.take_turns(tx, &chosen).await?;
            taken.extend(found.into_iter().map(|loaded| (loaded.job.spec.id, loaded)));
        }
        let mut jobs = Vec::with_capacity(taken.len());
        let mut permits = Columns::default();
        for ((place, _), turn) in plan.jobs.iter().zip(chosen) {
            let Some(loaded) = taken.remove(&turn.id) else { continue };
            let stack = &stacks[*place];
            self.rooms.take(&stack.queue, &stack.kind, &stack.needs, turn.id);
            for PermitRow { shared, amount, .. } in PermitRow::of(&loaded.job.spec) {
                permits.row().text(&shared.text()).job(turn.id).int(turn.lane).int(amount);
            }
            jobs.push(loaded);
        }
        if let Some(until) = plan.rooms.held_until() {
            self.rooms.note_held_until(until);
        }
        let requests = vec![tx.clock(), Statement::InsertPermits.rows(permits), self.keep()];
        let now = moment_of(tx.ask_all(requests).await?.swap_remove(0))?;
        Ok((now, jobs))
    }

    /// Writes what the rates of keys have left.
    fn keep(&self) -> Request {
        let mut changed = Columns::default();
        for (of, bucket) in self.rooms.spent() {
            let mut row = changed.row();
            row.text(Drawer::KeyBuckets.as_str()).text(&run_limits::key_bucket(of));
            // Any number that grows with each change: whoever removes a bucket must see whether it was used since.
            row.int(bucket.as_nanos() / 1_000).text(&run_limits::body(*bucket));
        }
        Statement::SaveDocuments.rows(changed)
    }
}

/// The beginnings of keys that rows of [`Statement::FirstTurns`] tell of, by queue. `asked` says how many jobs of each
/// key of a lane were asked for.
fn stacks_in(
    rows: Vec<Row>,
    lanes: Vec<TurnLane>,
    asked: &HashMap<i64, usize>,
) -> Result<HashMap<Arc<str>, Vec<KeyedJobs>>, SqlFailure> {
    let lanes: HashMap<i64, LaneKey> = lanes.into_iter().collect();
    let mut found: BTreeMap<(i64, String), KeyedJobs> = BTreeMap::new();
    for mut row in rows {
        let (id, key, head) = (row.int()?, row.text_if_any()?, (row.moment()?, row.job()?));
        let extras = row.text_if_any()?;
        // A key that is no text cannot be asked for; others go on (C7).
        let (Some(lane), Some(key)) = (lanes.get(&id), key) else { continue };
        let stack = found.entry((id, key.clone())).or_insert_with(|| KeyedJobs {
            lane: id,
            queue: lane.queue.clone(),
            kind: lane.kind.clone(),
            priority: lane.priority,
            key: key.into(),
            needs: SharingNeeds::default(),
            heads: Vec::new(),
            more: false,
        });
        // All of them need the same, and one of them says what.
        if let Some(extras) = extras {
            stack.needs = JobExtras::needs_in(&extras);
        }
        stack.heads.push(head);
        stack.heads.sort_unstable();
        stack.more = Some(&stack.heads.len()) == asked.get(&id);
    }
    let mut stacks: HashMap<Arc<str>, Vec<KeyedJobs>> = HashMap::new();
    for stack in found.into_values() {
        stacks.entry(stack.queue.clone()).or_default().push(stack);
    }
    Ok(stacks)
}

/// How many pending jobs of queues share something, and how many of them could start now (H9).
pub(crate) async fn work(
    tx: &mut Transaction,
    queues: &[String],
    limits: &[RunLimit],
    most: usize,
) -> Result<Vec<SharingWork>, SqlFailure> {
    let now = tx.now().await?;
    let roster = worker::roster(tx, now).await?;
    let mut work = Vec::new();
    for queue in queues {
        let (mut pending, mut lanes) = (BTreeMap::<Arc<str>, u64>::new(), Vec::new());
        for counts in query::lane_counts(tx, &NameRange::one(queue)).await? {
            if counts.lane.shares && counts.is_open(&roster) {
                *pending.entry(counts.lane.kind.clone()).or_default() += counts.jobs.pending;
                lanes.push((counts.id, counts.lane));
            }
        }
        let mut found = FoundByKey::look_only(tx, limits, lanes, now).await?;
        let plan = loop {
            let plan = plan_all(found.of(queue), &found.rooms, most);
            if plan.needs_more.is_empty() {
                break plan;
            }
            found.read_more(tx, queue, &plan.needs_more).await?;
        };
        let name = Arc::from(queue.as_str());
        work.extend(SharingWork::of(&name, pending, found.of(queue), &plan, most));
    }
    Ok(work)
}

/// A job that is to be taken, where it stands among those of its key.
#[derive(Debug, Clone)]
pub struct PlannedTurn {
    /// The number of its lane.
    pub lane: i64,
    /// Its turn key.
    pub key: Arc<str>,
    /// When it became due.
    pub run_at: Timestamp,
    /// The job.
    pub id: JobId,
}

/// Takes jobs out of `ready` and `turn` that nobody else has locked, statement by statement.
pub(crate) async fn take_in_steps(
    tx: &mut Transaction,
    chosen: &[PlannedTurn],
) -> Result<Vec<LoadedJob>, SqlFailure> {
    let mut wanted = Columns::default();
    for turn in chosen {
        wanted.row().int(turn.lane).at(turn.run_at).job(turn.id);
    }
    let locked: HashSet<JobId> = row::jobs(tx.ask(Statement::TakeReady.rows(wanted)).await?)?;
    let (mut ready, mut turns) = (Columns::default(), Columns::default());
    for turn in chosen.iter().filter(|turn| locked.contains(&turn.id)) {
        ready.row().int(turn.lane).at(turn.run_at).job(turn.id);
        turns.row().int(turn.lane).text(&turn.key).at(turn.run_at).job(turn.id);
    }
    tx.ask_all(vec![Statement::DeleteReady.rows(ready), Statement::DeleteTurns.rows(turns)]).await?;
    let shared = tx.shared.clone();
    let ids: Vec<JobId> = locked.into_iter().collect();
    let stored = load::stored(tx, &shared.lanes, &ids).await?;
    Ok(stored.into_values().map(FoundJob::into_loaded).collect())
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What jobs share, under which limits.
struct SharedNames {
    /// Documents to lock while some of it is taken.
    locks: BTreeSet<Arc<str>>,
    buckets: BTreeSet<KeyBucket>,
    things: BTreeSet<SharedResource>,
}

impl SharedNames {
    fn of(limits: &[RunLimit], jobs: &[SharingJob]) -> Self {
        let (mut locks, mut buckets, mut things) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for SharingJob { queue, kind, needs } in jobs {
            for (limit, key) in SharedRooms::buckets_of(limits, queue, kind, needs) {
                locks.insert(limit.name.clone());
                buckets.extend(limit.rate.map(|_| (limit.name.clone(), key)));
            }
            for (thing, _) in needs.shared() {
                match &thing {
                    SharedResource::Key(_) => {}
                    SharedResource::Instance(_) => drop(locks.insert(run_limits::INSTANCES.into())),
                    SharedResource::Pool(pool) => drop(locks.insert(pool.clone())),
                }
                things.insert(thing);
            }
        }
        Self { locks, buckets, things }
    }

    /// What is left of it.
    async fn rooms(
        self,
        tx: &mut Transaction,
        limits: Vec<RunLimit>,
        now: Timestamp,
    ) -> Result<SharedRooms, SqlFailure> {
        let mut used: HashMap<SharedResource, Vec<SharedUse>> = HashMap::new();
        for (thing, one) in held(tx, self.things.iter().map(just)).await? {
            used.entry(thing).or_default().push(one);
        }
        let buckets = key_buckets(tx, self.buckets).await?;
        Ok(SharedRooms::new(limits, used, buckets, now))
    }
}

/// What keeps jobs from starting.
pub(crate) async fn holds(
    tx: &mut Transaction,
    jobs: &[SharingJob],
    limits: &[RunLimit],
) -> Result<Vec<Option<SharedHold>>, SqlFailure> {
    let now = tx.now().await?;
    let rooms = SharedNames::of(limits, jobs).rooms(tx, limits.to_vec(), now).await?;
    Ok(jobs.iter().map(|job| rooms.hold(&job.queue, &job.kind, &job.needs)).collect())
}

/// Locks documents in the order of their names.
fn ask_for_locks(names: &BTreeSet<Arc<str>>) -> Request {
    let mut places = Columns::default();
    for name in names {
        places.row().text(Drawer::RunBuckets.as_str()).text(name);
    }
    Statement::LockDocumentBodies.rows(places)
}

/// Makes the documents that were not there to be locked. Whoever else makes one of them at the same moment is waited
/// for; then this transaction begins again.
async fn make_missing(
    tx: &mut Transaction,
    names: &BTreeSet<Arc<str>>,
    locked: Vec<Row>,
) -> Result<(), SqlFailure> {
    let mut missing = names.clone();
    for mut row in locked {
        missing.remove(&*row.text()?);
    }
    let mut new = Columns::default();
    for name in missing {
        new.row().text(Drawer::RunBuckets.as_str()).text(&name).int(1).text("0");
    }
    tx.ask(Statement::InsertDocuments.rows(new)).await.map(drop)
}

/// The range that one thing alone is in: no name has the character behind it.
fn just(thing: &SharedResource) -> (String, String) {
    let text = thing.text();
    (text.clone(), format!("{text}\u{1}"))
}

/// The range of all keys.
pub(crate) fn all_keys() -> (String, String) {
    ("key ".to_owned(), "key!".to_owned())
}

/// The range of a pool.
pub(crate) fn pool(name: &Arc<str>) -> (String, String) {
    just(&SharedResource::Pool(name.clone()))
}

/// What runs hold of things that are shared.
pub(crate) async fn held(
    tx: &mut Transaction,
    ranges: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<(SharedResource, SharedUse)>, SqlFailure> {
    let mut wanted = Columns::default();
    for (from, end) in ranges {
        wanted.row().text(&from).text(&end);
    }
    let mut found: Vec<(String, i64, u64, JobId)> = Vec::new();
    for mut row in tx.ask(Statement::PermitsHeld.rows(wanted)).await? {
        found.push((row.text()?, row.int()?, row.total()?, row.job()?));
    }
    let shared = tx.shared.clone();
    shared.lanes.meet(tx, found.iter().map(|(_, lane, ..)| *lane)).await?;
    let mut held = Vec::with_capacity(found.len());
    for (thing, lane, amount, job) in found {
        let lane = shared.lanes.get(lane)?;
        let one = SharedUse { queue: lane.queue.clone(), kind: lane.kind.clone(), amount, job };
        held.extend(SharedResource::from_text(&thing).map(|thing| (thing, one)));
    }
    Ok(held)
}

/// What the rates of limits have left for keys.
pub(crate) async fn key_buckets(
    tx: &mut Transaction,
    wanted: BTreeSet<KeyBucket>,
) -> Result<HashMap<KeyBucket, RunBucket>, SqlFailure> {
    let mut places = Columns::default();
    let mut names: HashMap<String, KeyBucket> = HashMap::new();
    for of in wanted {
        let name = run_limits::key_bucket(&of);
        places.row().text(Drawer::KeyBuckets.as_str()).text(&name);
        names.insert(name, of);
    }
    let mut buckets = HashMap::new();
    for mut row in tx.ask(Statement::DocumentBodies.rows(places)).await? {
        let (name, body) = (row.text()?, row.text_if_any()?.unwrap_or_default());
        buckets.extend(names.remove(&name).map(|of| (of, run_limits::bucket(&body))));
    }
    Ok(buckets)
}
