//! The sum of what a transaction changed, as rows to write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backstop_core::alert::Notice;
use backstop_core::event::Event;
use backstop_core::failure::{Cause, Fingerprint};
use backstop_core::job::{Attempt, Priority, Record, SharedResource, Spec, State, StoredJob};
use backstop_core::workflow::{EndDocument, EndNote};
use backstop_core::{Fence, JobId, Timestamp};

use super::{ClaimRow, IncidentCount, LoadedJob, Origin, WorkingSet, lane_of};
use crate::{NoteDocument, outbox_document};

/// Set in the stored version of lanes whose jobs share something: no program of an earlier version claims from them.
const SHARES: u32 = 1 << 31;

/// Jobs of one queue, kind, version and priority form a lane. Those that share something have one of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey {
    /// Their queue.
    pub queue: Arc<str>,
    /// Their kind.
    pub kind: Arc<str>,
    /// The version of their payload.
    pub version: u32,
    /// Their priority.
    pub priority: Priority,
    /// True when they take turns with others: see [`crate::sharing`].
    pub shares: bool,
}

impl LaneKey {
    /// The version as stores keep it.
    #[must_use]
    pub const fn stored_version(&self) -> u32 {
        if self.shares { self.version | SHARES } else { self.version }
    }

    /// The lane with a version as stores keep it.
    #[must_use]
    pub fn with_stored_version(self, stored: u32) -> Self {
        Self { version: stored & !SHARES, shares: stored & SHARES != 0, ..self }
    }
}

/// A row of the index by turn keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// The lane of the job.
    pub lane: LaneKey,
    /// Under what it waits.
    pub key: String,
    /// When it is due.
    pub run_at: Timestamp,
    /// The job.
    pub id: JobId,
}

/// What a run holds of something shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitRow {
    /// What it is.
    pub shared: SharedResource,
    /// The job that runs.
    pub id: JobId,
    /// Its lane.
    pub lane: LaneKey,
    /// How much it holds.
    pub amount: u32,
}

impl PermitRow {
    /// What a run of this job holds.
    pub fn of(spec: &Spec) -> impl Iterator<Item = Self> {
        let row = |(shared, amount)| Self { shared, id: spec.id, lane: lane_of(spec), amount };
        spec.needs.iter().flat_map(|needs| needs.shared()).map(row)
    }
}

/// A row of `ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyRow {
    /// Its lane.
    pub lane: LaneKey,
    /// When it is due.
    pub run_at: Timestamp,
    /// The job.
    pub id: JobId,
    /// It must not start after this.
    pub expires_at: Option<Timestamp>,
    /// True when the job has a row in `record`.
    pub rowed: bool,
}

/// A row of `record`.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRow {
    /// The job.
    pub id: JobId,
    /// Its lane.
    pub lane: LaneKey,
    /// What it has gone through. Never with a hold: a running job is written as it waited.
    pub record: Record,
}

/// A row of `done`.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The job.
    pub id: JobId,
    /// Its lane.
    pub lane: LaneKey,
    /// Its last record.
    pub record: Record,
    /// Its last run, when this row is the ledger's row of it.
    pub run: Option<Attempt>,
}

/// Changes of a lane's counts, in the order of [`Writes::COUNTED`].
pub type Tally = [i64; 7];

/// All that a transaction writes. Everything is sorted, so that transactions lock rows in one order.
#[derive(Debug, Default)]
pub struct Writes {
    /// New jobs, with when each is first due.
    pub jobs: Vec<(Arc<StoredJob>, Timestamp)>,
    /// Idempotency keys to remember.
    pub idempotency: Vec<(String, JobId)>,
    /// Business keys that are free now.
    pub keys_out: Vec<(String, JobId)>,
    /// Business keys that are held now.
    pub keys_in: Vec<(String, JobId)>,
    /// Rows to take out of `ready`.
    pub ready_out: Vec<ReadyRow>,
    /// Rows to put into `ready`.
    pub ready_in: Vec<ReadyRow>,
    /// Rows to take out of the index by turn keys (H5).
    pub turns_out: Vec<TurnRow>,
    /// Rows to put into it.
    pub turns_in: Vec<TurnRow>,
    /// What runs that ended do not hold any more (H5, H6).
    pub permits_out: Vec<PermitRow>,
    /// Rows to write into `record`, whether they are there or not.
    pub records_in: Vec<RecordRow>,
    /// Rows to take out of `record`.
    pub records_out: Vec<JobId>,
    /// Rows to put into `done`.
    pub done: Vec<Done>,
    /// Rows to put into the ledger.
    pub attempts: Vec<(JobId, Attempt)>,
    /// Claims that changed; a spent one is to be taken out.
    pub claims: Vec<ClaimRow>,
    /// Failures to count.
    pub incidents: Vec<IncidentCount>,
    /// How the numbers of open dead letters change, by fingerprint. Never zero. To be written after `incidents`.
    pub open: BTreeMap<String, i64>,
    /// Alerts to put into their drawer (D3).
    pub alerts: Vec<Notice>,
    /// Jobs of workflows and batches that have ended, to be noted in their drawer (W1-W6).
    pub ended: Vec<EndNote>,
    /// What runs have said, to put into drawers: results of steps, rejects (W7, W9).
    pub noted: Vec<NoteDocument>,
    /// What sinks are sent, to put into drawers (B2).
    pub outbox: Vec<NoteDocument>,
    /// How the counts of lanes change.
    pub tally: BTreeMap<LaneKey, Tally>,
    /// How lines change (L21).
    pub lines: LineWrites,
    /// What to tell after the commit.
    pub events: Vec<Event>,
    /// True when something may have become claimable (L13).
    pub work_arrived: bool,
}

/// What is written when all that happened is that runs ended well.
#[derive(Debug)]
pub struct PlainWrites {
    /// Rows to put into `done`.
    pub done: Vec<Done>,
    /// Claims that changed.
    pub claims: Vec<ClaimRow>,
    /// Rows to take out of `record`.
    pub records_out: Vec<JobId>,
    /// What is noted of jobs of workflows and batches (W1-W6).
    pub ended: Vec<EndDocument>,
    /// What to tell after the commit.
    pub events: Vec<Event>,
}

/// How lines change (L21).
#[derive(Debug, Default)]
pub struct LineWrites {
    /// Jobs that join a line, in the order of their submits.
    pub joined: Vec<(Arc<str>, JobId)>,
    /// Jobs that leave their line while they wait for their turn.
    pub left: Vec<(Arc<str>, JobId)>,
    /// Heads that leave their line.
    pub heads_left: Vec<(Arc<str>, JobId)>,
    /// Whether a job blocks its line, if it is the head.
    pub blocked: Vec<(Arc<str>, JobId, bool)>,
}

impl LineWrites {
    /// The lines whose turn may have to pass on.
    #[must_use]
    pub fn changed(&self) -> BTreeSet<&Arc<str>> {
        self.joined.iter().chain(&self.left).chain(&self.heads_left).map(|(key, _)| key).collect()
    }

    /// Notes that a job that had this record leaves its line. Each place is named alone: a caller's transaction must
    /// not lock what it does not change.
    pub fn leave(&mut self, spec: &Spec, before: Option<&Record>) {
        let Some(key) = &spec.ordering_key else { return };
        match before {
            Some(before) if before.is_in_line() => self.left.push((key.clone(), spec.id)),
            Some(_) => self.heads_left.push((key.clone(), spec.id)),
            // It came and went in one transaction.
            None => self.joined.retain(|(_, id)| *id != spec.id),
        }
    }

    /// Notes that the record of a job has changed.
    fn moved(&mut self, spec: &Spec, before: Option<&Record>, after: &Record) {
        let Some(key) = &spec.ordering_key else { return };
        if after.leaves_line() {
            self.leave(spec, before);
        } else if let Some(before) = before
            && before.blocks_line() != after.blocks_line()
        {
            self.blocked.push((key.clone(), spec.id, after.blocks_line()));
        }
    }
}

impl Writes {
    /// The states in the order in which a [`Tally`] counts them.
    pub const COUNTED: [State; 7] = [
        State::Pending,
        State::Running,
        State::Succeeded,
        State::Failed,
        State::Paused,
        State::Canceled,
        State::Waiting,
    ];

    /// Notes that a job of a lane moved; none stands for not being there.
    pub fn count(&mut self, lane: &LaneKey, from: Option<State>, to: Option<State>) {
        if from == to {
            return;
        }
        let tally = self.tally.entry(lane.clone()).or_default();
        for (place, state) in Self::COUNTED.into_iter().enumerate() {
            tally[place] += i64::from(to == Some(state)) - i64::from(from == Some(state));
        }
    }

    /// What is written of runs that ended well; none when anything else is to be written too. The counts follow from
    /// it.
    #[must_use]
    pub fn into_plain_ends(self) -> Option<PlainWrites> {
        // Every field by its name: one that is new has to be thought of here.
        let Self {
            jobs,
            idempotency,
            keys_out,
            keys_in,
            ready_out,
            ready_in,
            turns_out,
            turns_in,
            permits_out,
            records_in,
            records_out,
            done,
            attempts,
            claims,
            incidents,
            open,
            alerts,
            ended,
            noted,
            outbox,
            tally: _,
            lines,
            events,
            work_arrived,
        } = self;
        let LineWrites { joined, left, heads_left, blocked } = lines;
        let nothing = [
            jobs.is_empty() && idempotency.is_empty() && keys_out.is_empty() && keys_in.is_empty(),
            ready_out.is_empty() && ready_in.is_empty() && turns_out.is_empty() && turns_in.is_empty(),
            permits_out.is_empty() && records_in.is_empty() && attempts.is_empty(),
            incidents.is_empty() && open.is_empty() && alerts.is_empty(),
            noted.is_empty() && outbox.is_empty() && !work_arrived,
            joined.is_empty() && left.is_empty() && heads_left.is_empty() && blocked.is_empty(),
        ];
        if nothing.contains(&false) {
            return None;
        }
        Some(PlainWrites { done, claims, records_out, ended: EndNote::documents(&ended), events })
    }

    /// True when there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.ready_out.is_empty()
            && self.ready_in.is_empty()
            && self.records_in.is_empty()
            && self.records_out.is_empty()
            && self.done.is_empty()
            && self.attempts.is_empty()
            && self.claims.is_empty()
            && self.tally.is_empty()
    }
}

impl WorkingSet {
    /// The sum of everything that was changed in this working set.
    #[must_use]
    pub fn into_writes(mut self) -> Writes {
        let outbox = self.wants.sinks.documents(&self.messages, &self.events, self.now);
        let mut writes = Writes {
            outbox: outbox.into_iter().map(outbox_document).collect(),
            events: std::mem::take(&mut self.events),
            work_arrived: self.work_arrived,
            idempotency: std::mem::take(&mut self.new_keys),
            incidents: std::mem::take(&mut self.incidents).into_values().collect(),
            alerts: std::mem::take(&mut self.alerts),
            noted: std::mem::take(&mut self.noted),
            lines: LineWrites { joined: std::mem::take(&mut self.joined_lines), ..LineWrites::default() },
            ..Writes::default()
        };
        writes.idempotency.sort_unstable();
        let mut runs: BTreeMap<JobId, Vec<Attempt>> = BTreeMap::new();
        for (id, run) in std::mem::take(&mut self.runs) {
            runs.entry(id).or_default().push(run);
        }
        for (id, origin) in std::mem::take(&mut self.origins) {
            let Some(loaded) = self.jobs.remove(&id) else { continue };
            let dequeued = self.dequeued.contains(&id);
            let runs = runs.remove(&id).unwrap_or_default();
            writes.add(&loaded, origin.as_ref(), dequeued, runs);
        }
        writes.open.retain(|_, change| *change != 0);
        writes.keys_in.sort_unstable();
        writes.keys_out.sort_unstable();
        let touched = std::mem::take(&mut self.changed_claims);
        writes.claims = self.claims.into_values().filter(|claim| touched.contains(&claim.fence)).collect();
        writes
    }
}

impl Writes {
    fn add(&mut self, loaded: &LoadedJob, origin: Option<&Origin>, dequeued: bool, mut runs: Vec<Attempt>) {
        let (spec, after) = (&loaded.job.spec, &loaded.record);
        let (id, lane) = (spec.id, lane_of(spec));
        let before = origin.map(|origin| &origin.record);
        self.count(&lane, before.map(|record| record.state), Some(after.state));
        self.add_keys(loaded, before);
        self.lines.moved(spec, before, after);
        self.ended.extend(EndNote::of(id, before, after));
        self.count_open(before.and_then(Record::incident), after.incident());
        let ready = |record: &Record, rowed: bool| ReadyRow {
            lane: lane.clone(),
            run_at: record.run_at,
            id,
            expires_at: record.expires_at,
            rowed,
        };
        // A new job that was never touched again has no past.
        let fresh = origin.is_none() && after.state == State::Pending;
        if origin.is_none() {
            // Also one that was moved in the same transaction was not run: this is still when it is first due.
            self.jobs.push((loaded.job.clone(), after.run_at));
        }
        let was_ready = before.filter(|record| record.state == State::Pending);
        let is_ready = Some(after).filter(|record| record.state == State::Pending);
        let same = was_ready.zip(is_ready).is_some_and(|(was, is)| was == is);
        if let Some(was) = was_ready.filter(|_| !same && !dequeued) {
            self.ready_out.push(ready(was, origin.is_some_and(|origin| origin.rowed)));
            self.turns_out.extend(turn(spec, was));
        }
        if let Some(is) = is_ready.filter(|_| !same || dequeued) {
            self.ready_in.push(ready(is, !fresh));
            self.turns_in.extend(turn(spec, is));
        }
        if before.is_some_and(|record| record.state == State::Running) && after.state != State::Running {
            self.permits_out.extend(PermitRow::of(spec));
        }
        let rowed = origin.is_some_and(|origin| origin.rowed);
        if after.state == State::Succeeded {
            let run = runs.pop_if(|run| is_plain_success(run));
            self.done.push(Done { id, lane, record: after.clone(), run });
            if rowed {
                self.records_out.push(id);
            }
        } else if !fresh && before != Some(after) {
            self.records_in.push(RecordRow { id, lane, record: waiting(after) });
        }
        self.attempts.extend(runs.into_iter().map(|run| (id, run)));
    }

    /// Notes that a job's mark moved from one incident to another; none stands for no dead letter.
    pub fn count_open(&mut self, from: Option<&Fingerprint>, to: Option<&Fingerprint>) {
        if from == to {
            return;
        }
        for (fingerprint, change) in [(from, -1), (to, 1)] {
            if let Some(fingerprint) = fingerprint {
                *self.open.entry(fingerprint.to_string()).or_default() += change;
            }
        }
    }

    fn add_keys(&mut self, loaded: &LoadedJob, before: Option<&Record>) {
        let Some(key) = &loaded.job.spec.business_key else { return };
        let was = before.is_some_and(|record| record.state.is_live());
        match (was, loaded.record.state.is_live()) {
            (false, true) => self.keys_in.push((key.clone(), loaded.job.spec.id)),
            (true, false) => self.keys_out.push((key.clone(), loaded.job.spec.id)),
            _ => {}
        }
    }
}

/// The row of a pending job in the index by turn keys.
fn turn(spec: &Spec, record: &Record) -> Option<TurnRow> {
    spec.turn_key().map(|key| TurnRow { lane: lane_of(spec), key, run_at: record.run_at, id: spec.id })
}

/// True when the row of `done` can be the ledger's row of this run: a success with nothing to explain.
fn is_plain_success(run: &Attempt) -> bool {
    run.cause == Cause::Succeeded && run.failure.is_none() && run.decision.is_none()
}

/// A record as it is written: a hold stands in the claim, and is done again on the waiting record when it is read.
fn waiting(record: &Record) -> Record {
    let mut record = record.clone();
    if let Some(hold) = record.hold.take() {
        record.state = State::Pending;
        record.fence = Fence::default();
        record.runs -= u32::from(hold.started_at.is_some());
    }
    record
}
