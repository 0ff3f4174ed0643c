//! One transaction of a store that works in sets: what it has loaded, what the rules made of it, what to write.
//!
//! A server's database is asked in few, large questions. So a verb there has three steps: load and lock all that the
//! call is about into a [`WorkingSet`]; let the core's rules move the records, item by item and in order, in memory;
//! write the sum of it ([`Writes`]) in a handful of statements. This module is the middle step, the same for every such
//! store. It never waits, reads or writes by itself, and it knows no SQL.
//!
//! # Where a job's row is
//! - `ready`: it is pending. The row is thin: lane, due time, id.
//! - a [`ClaimRow`]: workers hold jobs by the claim, one row for many; a slot in it is one job.
//! - `done`: it succeeded; the same row is the ledger's row of that last run.
//! - `record`: everything a job has gone through, once it has a past: counters, pauses, its death. A job that was never
//!   run or touched has none, and most jobs go from `ready` through a claim to `done` without one.
//!
//! A running job's record is its waiting record with the claim done again by the core's own function: claims write no
//! record at all.
//!
//! # Layout
//! - [`claim_row`]: claims and their slots. [`held_jobs`]: claims that are remembered. [`writes`]: the sum of changes
//!   as rows. [`commit_order`]: news in the order of commits.
//! - `submit`, `run`, `operate`: the verbs. `incident`: failures that are counted, and what follows from the sums.

pub mod claim_row;
pub mod commit_order;
mod fences;
pub mod held_jobs;
mod incident;
mod operate;
mod run;
mod submit;
#[cfg(test)]
mod tests;
pub mod writes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use backstop_core::alert::Notice;
use backstop_core::depth::DepthScope;
use backstop_core::event::{self, Event};
use backstop_core::job::{Attempt, Ending, FailureRecord, NewJob, Record, Spec, Stale, State, StoredJob};
use backstop_core::outbox::{OutboxMessage, SinkTopic, Sinks};
use backstop_core::{Fence, JobId, Lease, Timestamp};

use crate::{NoteDocument, Observer};

pub use claim_row::ClaimRow;
pub use commit_order::{CommitOrder, Turn};
pub use fences::Fences;
pub use held_jobs::HeldJobs;
pub use incident::{Aftermath, IncidentCount, Seen};
pub use submit::SubmitNeeds;
pub use writes::{Done, LaneKey, LineWrites, PermitRow, PlainWrites, ReadyRow, RecordRow, TurnRow, Writes};

/// A job with its record, as it was loaded.
#[derive(Debug, Clone)]
pub struct LoadedJob {
    /// What was submitted.
    pub job: Arc<StoredJob>,
    /// Where it is.
    pub record: Record,
    /// True when it has a row in `record`.
    pub rowed: bool,
}

impl LoadedJob {
    /// A job that has no past: its record follows from what was submitted.
    #[must_use]
    pub fn fresh(job: Arc<StoredJob>, run_at: Timestamp) -> Self {
        let record = Record::new(&job.spec, run_at);
        Self { job, record, rowed: false }
    }
}

/// What was stored of a job before this transaction.
#[derive(Debug, Clone)]
struct Origin {
    record: Record,
    rowed: bool,
}

/// What one transaction has before it.
#[derive(Debug)]
pub struct WorkingSet {
    /// The moment of the transaction, by the store's clock.
    pub now: Timestamp,
    wants: Wants,
    jobs: HashMap<JobId, LoadedJob>,
    /// Jobs that were changed, with what they were; none for those that are new.
    origins: BTreeMap<JobId, Option<Origin>>,
    /// Jobs whose row in `ready` the store has removed while loading them.
    dequeued: HashSet<JobId>,
    idempotency: HashMap<String, JobId>,
    holders: HashMap<String, JobId>,
    /// How many jobs wait in each place that is limited (H12).
    depths: HashMap<DepthScope, u64>,
    archived: HashMap<JobId, State>,
    claims: BTreeMap<Fence, ClaimRow>,
    changed_claims: HashSet<Fence>,
    new_keys: Vec<(String, JobId)>,
    /// New jobs with an ordering key, in the order of the submits (L21).
    joined_lines: Vec<(Arc<str>, JobId)>,
    runs: Vec<(JobId, Attempt)>,
    /// Runs that had ended before, of leases that are shown again.
    ended: HashMap<(JobId, Fence), Attempt>,
    incidents: BTreeMap<String, IncidentCount>,
    events: Vec<Event>,
    alerts: Vec<Notice>,
    /// What runs have said that stands beside their records: results of steps, rejects (W7, W9).
    noted: Vec<NoteDocument>,
    /// What sinks are to be sent, beside events (B2).
    messages: Vec<OutboxMessage>,
    work_arrived: bool,
}

/// What the store's observer wants to know.
#[derive(Debug, Clone, Default)]
pub struct Wants {
    /// Events of the commit.
    pub events: bool,
    /// Raised alerts, in their drawer.
    pub alerts: bool,
    /// Messages for these, in the outbox (B2).
    pub sinks: Sinks,
}

impl Wants {
    /// What `observer` wants.
    #[must_use]
    pub fn of(observer: &dyn Observer) -> Self {
        let wants = Self::of_sinks(observer.sinks());
        Self { events: wants.events || observer.wants_events(), alerts: observer.wants_alerts(), ..wants }
    }

    /// Nothing but messages for these sinks: what is asked for in a caller's transaction, of whose commit nobody hears.
    #[must_use]
    pub fn of_sinks(sinks: Sinks) -> Self {
        Self { events: sinks.takes_any(SinkTopic::Events), alerts: false, sinks }
    }
}

impl WorkingSet {
    /// An empty working set at `now`.
    #[must_use]
    pub fn new(now: Timestamp, wants: Wants) -> Self {
        Self {
            now,
            wants,
            jobs: HashMap::new(),
            origins: BTreeMap::new(),
            dequeued: HashSet::new(),
            idempotency: HashMap::new(),
            holders: HashMap::new(),
            depths: HashMap::new(),
            archived: HashMap::new(),
            claims: BTreeMap::new(),
            changed_claims: HashSet::new(),
            new_keys: Vec::new(),
            joined_lines: Vec::new(),
            runs: Vec::new(),
            ended: HashMap::new(),
            incidents: BTreeMap::new(),
            events: Vec::new(),
            alerts: Vec::new(),
            noted: Vec::new(),
            messages: Vec::new(),
            work_arrived: false,
        }
    }

    /// Makes room for so many jobs: a table that grows moves all its records each time.
    pub fn expect(&mut self, jobs: usize) {
        self.jobs.reserve(jobs);
    }

    /// Adds a loaded job.
    pub fn put(&mut self, loaded: LoadedJob) {
        self.jobs.insert(loaded.job.spec.id, loaded);
    }

    /// Adds a pending job whose row in `ready` was removed as it was loaded.
    pub fn put_dequeued(&mut self, loaded: LoadedJob) {
        self.dequeued.insert(loaded.job.spec.id);
        self.put(loaded);
    }

    /// Adds a claim, with the lock on its row.
    pub fn put_claim(&mut self, claim: ClaimRow) {
        self.claims.insert(claim.fence, claim);
    }

    /// Adds the ledger's row of a run whose lease is shown again.
    pub fn put_ended(&mut self, job: JobId, run: Attempt) {
        self.ended.insert((job, run.fence), run);
    }

    /// True when a lease is the current hold of its job, as far as the working set knows.
    #[must_use]
    pub fn holds(&self, lease: &Lease) -> bool {
        self.job(lease.job).is_some_and(|loaded| loaded.record.held_by(lease).is_ok())
    }

    /// The job that first brought an idempotency key.
    pub fn put_idempotency_key(&mut self, key: String, owner: JobId) {
        self.idempotency.insert(key, owner);
    }

    /// The live job that holds a business key.
    pub fn put_business_key(&mut self, key: String, holder: JobId) {
        self.holders.insert(key, holder);
    }

    /// How many jobs wait in a place that is limited (H12).
    pub fn put_depth(&mut self, scope: DepthScope, depth: u64) {
        self.depths.insert(scope, depth);
    }

    /// The state in which a job was archived.
    pub fn put_archived(&mut self, id: JobId, state: State) {
        self.archived.insert(id, state);
    }

    /// A job in the working set, as it is by now.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&LoadedJob> {
        self.jobs.get(&id)
    }

    fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.wants.events {
            self.events.push(event());
        }
    }

    /// Replaces the record of a job that is in the working set.
    fn save(&mut self, id: JobId, record: Record) {
        let Some(loaded) = self.jobs.get_mut(&id) else { return };
        let origin = || Some(Origin { record: loaded.record.clone(), rowed: loaded.rowed });
        self.origins.entry(id).or_insert_with(origin);
        self.follow_key(id, &record);
        if let Some((queue, before)) =
            self.jobs.get(&id).map(|loaded| (loaded.job.spec.queue.clone(), loaded.record.state))
        {
            self.follow_depth(&queue, Some(before), record.state);
        }
        if let Some(loaded) = self.jobs.get_mut(&id) {
            loaded.record = record;
        }
    }

    /// Keeps track of how many jobs wait where that is limited, while one of them moves (H12).
    fn follow_depth(&mut self, queue: &str, before: Option<State>, after: State) {
        let (was, is) = (before.is_some_and(State::adds_depth), after.adds_depth());
        for (_, depth) in self.depths.iter_mut().filter(|(scope, _)| was != is && scope.holds(queue)) {
            *depth = if is { depth.saturating_add(1) } else { depth.saturating_sub(1) };
        }
    }

    /// Keeps track of who holds a business key while a record moves (L11).
    fn follow_key(&mut self, id: JobId, after: &Record) {
        let Some(loaded) = self.jobs.get(&id) else { return };
        let Some(key) = &loaded.job.spec.business_key else { return };
        match (loaded.record.state.is_live(), after.state.is_live()) {
            (true, false) if self.holders.get(key) == Some(&id) => {
                self.holders.remove(key);
            }
            (false, true) => {
                self.holders.insert(key.clone(), id);
            }
            _ => {}
        }
    }

    /// Stores a job whose checks have passed; none when its id is there already, which changes nothing.
    fn insert(&mut self, new: &NewJob) -> Option<State> {
        let spec = &new.spec;
        if self.jobs.contains_key(&spec.id) {
            return None;
        }
        let job = Arc::new(StoredJob { spec: spec.clone(), created_at: self.now });
        let loaded = LoadedJob::fresh(job, new.start.run_at(self.now));
        let (record, now) = (loaded.record.clone(), self.now);
        self.jobs.insert(spec.id, loaded);
        self.origins.insert(spec.id, None);
        if let Some(key) = &spec.idempotency_key {
            self.idempotency.insert(key.clone(), spec.id);
            self.new_keys.push((key.clone(), spec.id));
        }
        if let Some(key) = &spec.business_key {
            self.holders.insert(key.clone(), spec.id);
        }
        if let Some(key) = &spec.ordering_key {
            self.joined_lines.push((key.clone(), spec.id));
        }
        self.follow_depth(&spec.queue, None, record.state);
        self.work_arrived = true;
        self.tell(|| event::enqueued(new, &record, now));
        Some(record.state)
    }

    /// Gives a job its turn (L21): it must be in the working set. Answers whether it was in a line, and whether it
    /// blocks that line.
    pub fn take_turn(&mut self, id: JobId) -> Option<bool> {
        let mut record = self.job(id)?.record.clone();
        if !record.take_turn() {
            return None;
        }
        let blocked = record.blocks_line();
        self.work_arrived |= record.state == State::Pending;
        self.save(id, record);
        Some(blocked)
    }

    /// Fails a job whose time to start has passed, and answers the callback it asks for (L19, F14).
    pub fn expire(&mut self, id: JobId) -> Option<NewJob> {
        let loaded = self.jobs.get(&id)?;
        let (job, mut record, now) = (loaded.job.clone(), loaded.record.clone(), self.now);
        if !record.expire(&job.spec, now) {
            return None;
        }
        // Told whether anybody listens or not: no run has ended, so nobody else can say that it died (F12).
        self.events.extend(event::expired(&job.spec.header(), &record, now));
        self.raise_alert(&job, &record, None, None);
        let header = job.spec.header();
        self.messages.extend(OutboxMessage::result_without_run(&self.wants.sinks, &header, &record, now));
        self.send_dead_letter(&job, &record, None);
        let follow_up = job.follow_up(&record, false);
        self.save(id, record);
        follow_up
    }

    /// Notes an alert that this transaction raises (D3).
    fn raise_alert(
        &mut self,
        job: &StoredJob,
        record: &Record,
        failure: Option<&FailureRecord>,
        code_version: Option<&str>,
    ) {
        if self.wants.alerts {
            self.alerts.extend(Notice::of(job, record, failure, code_version, self.now));
        }
    }

    /// Notes what sinks are sent of a dead letter (D6).
    fn send_dead_letter(&mut self, job: &StoredJob, record: &Record, ending: Option<&Ending>) {
        let failure = ending.and_then(|ending| ending.failure.as_ref());
        let code_version = ending.and_then(|ending| ending.code_version.as_deref());
        let sinks = &self.wants.sinks;
        let letter = OutboxMessage::dead_letter(sinks, job, record, failure, code_version, self.now);
        self.messages.extend(letter);
    }

    /// Stores a callback; one whose id is there already is the same one, told of twice.
    pub fn insert_callback(&mut self, callback: &NewJob) {
        self.insert(callback);
    }
}

/// The answer to a lease that is not the current hold.
#[must_use]
pub const fn stale(lease: &Lease) -> Stale {
    Stale { job: lease.job, fence: lease.fence }
}

/// The lane of a job.
#[must_use]
pub fn lane_of(spec: &Spec) -> LaneKey {
    LaneKey {
        queue: spec.queue.clone(),
        kind: spec.kind.clone(),
        version: spec.version,
        priority: spec.priority,
        shares: spec.needs.is_some(),
    }
}
