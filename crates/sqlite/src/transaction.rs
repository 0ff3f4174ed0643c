//! One transaction that writes: what the verbs share while it is open.
//!
//! It loads and saves records, sums up the counts of lanes and collects what is to be told after the commit. It
//! must not open or end transactions: that is for the writer, or for the caller whose transaction it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_core::alert::Notice;
use backstop_core::event::{self, Event};
use backstop_core::job::{
    Attempt, Ending, FailureRecord, NewJob, Operation, Record, Spec, Stale, State, StoredJob,
};
use backstop_core::outbox::{OutboxMessage, SinkTopic, Sinks};
use backstop_core::workflow::EndNote;
use backstop_core::{JobId, Lease, Timestamp, WorkerId};
use backstop_store::sharing::LastTurn;
use backstop_store::working_set::{Fences, Wants};
use backstop_store::{Drawer, Error, outbox_document};
use rusqlite::{CachedStatement, Connection, params};

use crate::error::SqliteFailure;
use crate::held_records::HeldRecords;
use crate::lanes::LaneCache;
use crate::lines;
use crate::rows::{self, StateRow};
use crate::sharing;
use crate::sql;
use crate::tally::{IncidentTally, LaneTally};
use crate::update_batch::{RecordChange, UpdateBatch};

/// What is told once the transaction is committed.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// False when nobody listens, and events need not be built.
    pub(crate) wanted: bool,
    pub(crate) events: Vec<Event>,
    /// True when something may have become claimable (L13).
    pub(crate) work_arrived: bool,
}

/// The statements that run once per job. Looking one up in the connection's cache costs as much as binding it.
#[derive(Default)]
struct PreparedStatements<'c> {
    state_by_id: Option<CachedStatement<'c>>,
    update: Option<CachedStatement<'c>>,
    lane_due: Option<CachedStatement<'c>>,
    state_insert: Option<CachedStatement<'c>>,
    job_insert: Option<CachedStatement<'c>>,
    state_and_job: Option<CachedStatement<'c>>,
    attempt_insert: Option<CachedStatement<'c>>,
}

/// A statement that is prepared when it is first needed.
fn prepared<'s, 'c>(
    slot: &'s mut Option<CachedStatement<'c>>,
    conn: &'c Connection,
    sql: &str,
) -> Result<&'s mut CachedStatement<'c>, SqliteFailure> {
    match slot {
        Some(statement) => Ok(statement),
        None => Ok(slot.insert(conn.prepare_cached(sql)?)),
    }
}

/// What a writing connection remembers from one transaction to the next.
#[derive(Debug, Default)]
pub(crate) struct WriterCache {
    lanes: LaneCache,
    held: HeldRecords,
    fences: Arc<Fences>,
    turns: LastTurn,
}

impl WriterCache {
    /// Nothing yet; what is learned of fences is told to `fences`.
    pub(crate) fn with_fences(fences: Arc<Fences>) -> Self {
        Self { fences, ..Self::default() }
    }

    /// Another connection has written: lanes stay what they are, records may not.
    pub(crate) fn forget_records(&mut self) {
        self.held.forget();
    }

    /// A transaction was rolled back: what it made is not there.
    pub(crate) fn forget(&mut self) {
        self.lanes.forget();
        self.held.forget();
    }
}

/// One transaction under way.
pub(crate) struct WriteTransaction<'c> {
    pub(crate) conn: &'c Connection,
    /// The moment of the command that runs now.
    pub(crate) now: Timestamp,
    pub(crate) lanes: &'c mut LaneCache,
    held: &'c mut HeldRecords,
    pub(crate) news: News,
    wants_alerts: bool,
    /// What is known of the counter of fences.
    pub(crate) fences: Arc<Fences>,
    /// Whose turn was the last one in each queue (H5).
    pub(crate) turns: &'c LastTurn,
    counts: LaneTally,
    pub(crate) incidents: IncidentTally,
    /// Records that are saved and not yet written.
    updates: Option<UpdateBatch>,
    /// Lines whose turn may have to pass on (L21).
    pub(crate) changed_lines: BTreeSet<Arc<str>>,
    /// Jobs of workflows and batches that have ended, to be noted in their drawer (W1-W6).
    ended: Vec<EndNote>,
    /// Who takes messages (B2).
    pub(crate) sinks: Sinks,
    /// What sinks are to be sent, beside events.
    messages: Vec<OutboxMessage>,
    /// Events of which messages are written.
    sent_events: usize,
    statements: PreparedStatements<'c>,
}

impl<'c> WriteTransaction<'c> {
    /// Starts inside a transaction that is open on `conn`.
    pub(crate) fn new(
        conn: &'c Connection,
        cache: &'c mut WriterCache,
        now: Timestamp,
        wants: Wants,
    ) -> Self {
        let WriterCache { lanes, held, fences, turns } = cache;
        Self {
            conn,
            now,
            lanes,
            held,
            news: News { wanted: wants.events, ..News::default() },
            wants_alerts: wants.alerts,
            fences: fences.clone(),
            turns,
            counts: LaneTally::default(),
            incidents: IncidentTally::default(),
            updates: None,
            changed_lines: BTreeSet::new(),
            ended: Vec::new(),
            sinks: wants.sinks,
            messages: Vec::new(),
            sent_events: 0,
            statements: PreparedStatements::default(),
        }
    }

    /// Writes what was only summed up so far. Needed before counts are read and before the commit.
    pub(crate) fn flush(&mut self) -> Result<(), SqliteFailure> {
        lines::advance(self)?;
        self.write_updates()?;
        for ends in EndNote::documents(&std::mem::take(&mut self.ended)) {
            let values = params![Drawer::WorkflowEnds.as_str(), ends.key(self.now), ends.body];
            self.conn.prepare_cached(sql::DOCUMENT_PUT)?.execute(values)?;
        }
        self.write_messages()?;
        self.write_counts()?;
        self.incidents.write_open(self.conn)
    }

    /// Writes how the counts of lanes have changed so far.
    pub(crate) fn write_counts(&mut self) -> Result<(), SqliteFailure> {
        self.counts.write(self.conn)
    }

    /// Puts messages for sinks into the outbox (B2), those of all commands together: they are one commit.
    fn write_messages(&mut self) -> Result<(), SqliteFailure> {
        let messages = std::mem::take(&mut self.messages);
        let events = &self.news.events[self.sent_events..];
        for document in self.sinks.documents(&messages, events, self.now) {
            let (drawer, key, body) = outbox_document(document);
            self.conn.prepare_cached(sql::DOCUMENT_PUT)?.execute(params![drawer.as_str(), key, &*body])?;
        }
        self.sent_events = self.news.events.len();
        Ok(())
    }

    /// Notes what sinks are sent.
    pub(crate) fn send(&mut self, messages: impl IntoIterator<Item = OutboxMessage>) {
        self.messages.extend(messages);
    }

    /// Writes records that are saved and not yet written. Needed before `backstop_state` is read.
    pub(crate) fn write_updates(&mut self) -> Result<(), SqliteFailure> {
        self.updates.take().map_or(Ok(()), |updates| updates.write(self.conn))
    }

    /// Notes an event, if anybody listens.
    pub(crate) fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.news.wanted {
            self.news.events.push(event());
        }
    }

    /// Runs `work` behind a savepoint; unless `keep` says yes to its answer, everything it wrote and told is undone.
    pub(crate) fn with_savepoint<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, SqliteFailure>,
        keep: impl FnOnce(&T) -> bool,
    ) -> Result<T, SqliteFailure> {
        let (told, work_arrived) = (self.news.events.len(), self.news.work_arrived);
        let (counts, incidents) = (self.counts.clone(), self.incidents.clone());
        let (changed_lines, ended) = (self.changed_lines.clone(), self.ended.clone());
        let (messages, sent_events) = (self.messages.clone(), self.sent_events);
        self.write_updates()?;
        self.conn.execute_batch("SAVEPOINT batch")?;
        let answer = work(self)?;
        self.write_updates()?;
        if !keep(&answer) {
            self.conn.execute_batch("ROLLBACK TO batch")?;
            self.lanes.forget();
            self.held.forget();
            self.news.events.truncate(told);
            self.news.work_arrived = work_arrived;
            self.counts = counts;
            self.incidents = incidents;
            self.changed_lines = changed_lines;
            self.ended = ended;
            self.messages = messages;
            self.sent_events = sent_events;
        }
        self.conn.execute_batch("RELEASE batch")?;
        Ok(answer)
    }

    /// The record of a job.
    pub(crate) fn find(&mut self, id: JobId) -> Result<Option<StateRow>, SqliteFailure> {
        if let Some(stored) = self.held.get(id) {
            return Ok(Some(stored.clone()));
        }
        self.write_updates()?;
        let select = prepared(&mut self.statements.state_by_id, self.conn, sql::STATE_BY_ID)?;
        rows::first(select, [id.as_bytes()], rows::state_row)
    }

    /// A job with its record.
    pub(crate) fn load(&mut self, seq: i64) -> Result<(StateRow, StoredJob), SqliteFailure> {
        self.write_updates()?;
        let (conn, lanes) = (self.conn, &mut *self.lanes);
        let select = prepared(&mut self.statements.state_and_job, conn, sql::STATE_AND_JOB_BY_SEQ)?;
        let found = rows::first(select, [seq], |row| {
            let stored = rows::state_row(row)?;
            let job = rows::job(row, stored.id, &*lanes.get(conn, stored.lane)?)?;
            Ok((stored, job))
        })?;
        found.ok_or_else(|| SqliteFailure::Unreadable(format!("row {seq} of `state` has no row in `job`")))
    }

    /// The statement that reads the beginning of a lane: a claim over many queues runs it for each of them.
    pub(crate) fn lane_due(&mut self) -> Result<&mut CachedStatement<'c>, SqliteFailure> {
        prepared(&mut self.statements.lane_due, self.conn, sql::LANE_DUE)
    }

    /// Writes a record back, and the move from what it was before.
    pub(crate) fn save(&mut self, stored: &StateRow, before: &Record) -> Result<(), SqliteFailure> {
        let record = &stored.record;
        let change = RecordChange::between(before, record);
        if !self.updates.as_mut().is_some_and(|updates| updates.try_add(change, stored.seq)) {
            self.write_updates()?;
            if change == RecordChange::Other {
                let update = prepared(&mut self.statements.update, self.conn, sql::STATE_UPDATE)?;
                rows::update_record(update, stored.seq, record)?;
            } else {
                self.updates = Some(UpdateBatch::of(change, stored.seq));
            }
        }
        self.counts.moved(stored.lane, before.state, record.state);
        self.incidents.moved(before.incident(), record.incident());
        self.held.note(stored);
        sharing::follow(self, stored, before)?;
        self.ended.extend(EndNote::of(stored.id, Some(before), record));
        lines::follow(self, stored, before)
    }

    /// Stores a job whose checks have passed; none when its id is there already, which changes nothing.
    pub(crate) fn insert(&mut self, new: &NewJob) -> Result<Option<State>, SqliteFailure> {
        let spec = &new.spec;
        let Some(lane) = self.lanes.of(self.conn, spec)? else { return Ok(None) };
        let lane = lane.id;
        let record = Record::new(spec, new.start.run_at(self.now));
        let insert = prepared(&mut self.statements.state_insert, self.conn, sql::STATE_INSERT)?;
        if !rows::insert_record(insert, spec, lane, &record)? {
            return Ok(None);
        }
        let seq = self.conn.last_insert_rowid();
        let insert = prepared(&mut self.statements.job_insert, self.conn, sql::JOB_INSERT)?;
        rows::insert_job(insert, seq, new, self.now)?;
        for tag in &spec.tags {
            self.conn.prepare_cached(sql::TAG_INSERT)?.execute(params![tag, spec.id.as_bytes()])?;
        }
        if let Some(key) = &spec.idempotency_key {
            self.conn.prepare_cached(sql::IDEMPOTENCY_INSERT)?.execute(params![key, spec.id.as_bytes()])?;
        }
        lines::join(self, spec)?;
        sharing::join(self.conn, seq, lane, spec.id, spec.needs.as_deref(), &record)?;
        self.counts.arrived(lane, record.state);
        self.news.work_arrived = true;
        let now = self.now;
        self.tell(|| event::enqueued(new, &record, now));
        Ok(Some(record.state))
    }

    /// Takes an ended job out of the hot tables.
    pub(crate) fn remove(&mut self, stored: &StateRow, spec: &Spec) -> Result<(), SqliteFailure> {
        let (conn, seq) = (self.conn, stored.seq);
        for tag in &spec.tags {
            conn.prepare_cached(sql::TAG_DELETE)?.execute(params![tag, spec.id.as_bytes()])?;
        }
        for position in stored.record.step_results() {
            let key = Drawer::step(stored.id, position);
            conn.prepare_cached(sql::DOCUMENT_DELETE)?.execute([Drawer::Steps.as_str(), &key])?;
        }
        conn.prepare_cached(sql::ATTEMPTS_DELETE)?.execute([seq])?;
        conn.prepare_cached(sql::JOB_DELETE)?.execute([seq])?;
        conn.prepare_cached(sql::STATE_DELETE)?.execute([seq])?;
        self.counts.left(stored.lane, stored.record.state);
        self.incidents.moved(stored.record.incident(), None);
        lines::leave(self, spec.ordering_key.as_ref(), stored.id)
    }

    /// Adds an ended run to the ledger.
    pub(crate) fn record_run(&mut self, stored: &StateRow, run: &Attempt) -> Result<(), SqliteFailure> {
        let insert = prepared(&mut self.statements.attempt_insert, self.conn, sql::ATTEMPT_INSERT)?;
        rows::insert_attempt(insert, stored.seq, stored.id, run)
    }

    /// Fails a job whose time to start has passed, and answers the callback it asks for (L19, F14).
    pub(crate) fn expire(
        &mut self,
        mut stored: StateRow,
        job: &StoredJob,
    ) -> Result<Option<NewJob>, SqliteFailure> {
        let before = stored.record.clone();
        if !stored.record.expire(&job.spec, self.now) {
            return Ok(None);
        }
        self.save(&stored, &before)?;
        // Told whether anybody listens or not: no run has ended, so nobody else can say that it died (F12).
        self.news.events.extend(event::expired(&job.spec.header(), &stored.record, self.now));
        if self.wants_alerts {
            self.put_alert(job, &stored.record, None, None)?;
        }
        let (sinks, record, now) = (&self.sinks, &stored.record, self.now);
        let result = OutboxMessage::result_without_run(sinks, &job.spec.header(), record, now);
        let letter = OutboxMessage::dead_letter(sinks, job, record, None, None, now);
        self.send(result.into_iter().chain(letter));
        Ok(job.follow_up(&stored.record, false))
    }

    /// Puts the alert of a run that ended in death into its drawer, if somebody delivers alerts (D3).
    pub(crate) fn raise_alert(&mut self, stored: &StateRow, ending: &Ending) -> Result<(), SqliteFailure> {
        if !self.wants_alerts || stored.record.state != State::Failed {
            return Ok(());
        }
        let job = self.load(stored.seq)?.1;
        self.put_alert(&job, &stored.record, ending.failure.as_ref(), ending.code_version.as_deref())
    }

    /// Notes what sinks are sent of a run's end (B2, B7, D6). The job is read for a hand-off or a dead
    /// letter that somebody takes.
    pub(crate) fn send_end(&mut self, stored: &StateRow, ending: &Ending) -> Result<(), SqliteFailure> {
        let result = OutboxMessage::result(&self.sinks, ending, &stored.record, self.now);
        self.send(result);
        let (kind, queue) = (&ending.job.kind, &ending.job.queue);
        if stored.record.state == State::Succeeded && self.sinks.hand_off(kind, queue) {
            let job = self.load(stored.seq)?.1;
            let handed = OutboxMessage::hand_off(&self.sinks, &job, ending, &stored.record, self.now);
            self.send(handed);
        }
        let letters = self.sinks.take(SinkTopic::DeadLetters, &ending.job.kind);
        if letters && stored.record.state == State::Failed {
            let (job, failure) = (self.load(stored.seq)?.1, ending.failure.as_ref());
            let (record, code_version) = (&stored.record, ending.code_version.as_deref());
            let sinks = &self.sinks;
            let letter = OutboxMessage::dead_letter(sinks, &job, record, failure, code_version, self.now);
            self.send(letter);
        }
        Ok(())
    }

    fn put_alert(
        &self,
        job: &StoredJob,
        record: &Record,
        failure: Option<&FailureRecord>,
        code_version: Option<&str>,
    ) -> Result<(), SqliteFailure> {
        if let Some(notice) = Notice::of(job, record, failure, code_version, self.now) {
            let values = params![Drawer::Alerts.as_str(), notice.key(), serde_json::to_string(&notice)?];
            self.conn.prepare_cached(sql::DOCUMENT_PUT)?.execute(values)?;
        }
        Ok(())
    }

    /// Writes that a job was superseded, and tells it.
    pub(crate) fn supersede(&mut self, stored: &StateRow, before: &Record) -> Result<(), SqliteFailure> {
        self.save(stored, before)?;
        if self.news.wanted {
            let header = self.load(stored.seq)?.1.spec.header();
            let reason = stored.record.cancel_reason.clone().unwrap_or_default();
            self.news.events.push(event::operated(header, &Operation::Cancel { reason }, self.now));
        }
        Ok(())
    }

    /// The live job that holds a business key (L11).
    pub(crate) fn key_holder(&mut self, key: &str) -> Result<Option<StateRow>, SqliteFailure> {
        self.write_updates()?;
        let holder = rows::first(&mut *self.conn.prepare_cached(sql::KEY_HOLDER)?, [key], |row| {
            Ok(rows::job_id(row, 0)?)
        })?;
        holder.map_or(Ok(None), |id| self.find(id))
    }

    /// True while a worker's lease runs.
    pub(crate) fn is_live(&self, worker: WorkerId) -> Result<bool, SqliteFailure> {
        let mut select = self.conn.prepare_cached(sql::WORKER_EXPIRY)?;
        let expiry: Option<i64> = rows::value(&mut select, [worker.as_bytes()])?;
        Ok(expiry.is_some_and(|moment| Timestamp::from_micros(moment) > self.now))
    }

    /// Refuses a worker that is not live.
    pub(crate) fn expect_live(&self, worker: WorkerId) -> Result<(), SqliteFailure> {
        if self.is_live(worker)? {
            Ok(())
        } else {
            Err(SqliteFailure::Refused(Error::NotEnlisted { worker }))
        }
    }
}

/// The answer to a lease that is not the current hold.
pub(crate) const fn stale(lease: &Lease) -> Stale {
    Stale { job: lease.job, fence: lease.fence }
}
