//! A unit of work: what the writing verbs share while one transaction is open.
//!
//! It loads and saves records, sums up the counts of lanes and collects what is to be told after the commit. It
//! must not open or end transactions: that is for the writer, or for the caller whose transaction it is.

use std::sync::Arc;

use backstop_core::alert::Notice;
use backstop_core::event::{self, Event};
use backstop_core::job::{
    Attempt, Ending, FailureRecord, NewJob, Operation, Record, Spec, Stale, State, StoredJob,
};
use backstop_core::{JobId, Lease, Timestamp, WorkerId};
use backstop_store::Error;
use backstop_store::working_set::{Fences, Wants};
use rusqlite::{CachedStatement, Connection, params};

use crate::document;
use crate::error::Failure;
use crate::held::Held;
use crate::incident::Tally;
use crate::lanes::{Lanes, Moves};
use crate::rows::{self, Stored};
use crate::sql;
use crate::stretch::{Change, Stretch};

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
struct Hot<'c> {
    state_by_id: Option<CachedStatement<'c>>,
    update: Option<CachedStatement<'c>>,
    lane_due: Option<CachedStatement<'c>>,
    state_insert: Option<CachedStatement<'c>>,
    job_insert: Option<CachedStatement<'c>>,
    state_and_job: Option<CachedStatement<'c>>,
    attempt_insert: Option<CachedStatement<'c>>,
}

fn warm<'s, 'c>(
    slot: &'s mut Option<CachedStatement<'c>>,
    conn: &'c Connection,
    sql: &str,
) -> Result<&'s mut CachedStatement<'c>, Failure> {
    match slot {
        Some(statement) => Ok(statement),
        None => Ok(slot.insert(conn.prepare_cached(sql)?)),
    }
}

/// What a writing connection remembers from one transaction to the next.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    lanes: Lanes,
    held: Held,
    fences: Arc<Fences>,
}

impl Memory {
    /// Nothing yet; what is learned of fences is told to `fences`.
    pub(crate) fn telling(fences: Arc<Fences>) -> Self {
        Self { fences, ..Self::default() }
    }

    /// Another connection has written: lanes stay what they are, records may not.
    pub(crate) fn doubt(&mut self) {
        self.held.forget();
    }

    /// A transaction was rolled back: what it made is not there.
    pub(crate) fn forget(&mut self) {
        self.lanes.forget();
        self.held.forget();
    }
}

/// One transaction under way.
pub(crate) struct Unit<'c> {
    pub(crate) conn: &'c Connection,
    /// The moment of the command that runs now.
    pub(crate) now: Timestamp,
    pub(crate) lanes: &'c mut Lanes,
    held: &'c mut Held,
    pub(crate) news: News,
    wants_alerts: bool,
    /// What is known of the counter of fences.
    pub(crate) fences: Arc<Fences>,
    moves: Moves,
    pub(crate) incidents: Tally,
    /// Records that are saved and not yet written.
    stretch: Option<Stretch>,
    hot: Hot<'c>,
}

impl<'c> Unit<'c> {
    /// Starts inside a transaction that is open on `conn`.
    pub(crate) fn new(conn: &'c Connection, memory: &'c mut Memory, now: Timestamp, wants: Wants) -> Self {
        let Memory { lanes, held, fences } = memory;
        let memory_fences = fences.clone();
        Self {
            conn,
            now,
            lanes,
            held,
            news: News { wanted: wants.events, ..News::default() },
            wants_alerts: wants.alerts,
            fences: memory_fences,
            moves: Moves::default(),
            incidents: Tally::default(),
            stretch: None,
            hot: Hot::default(),
        }
    }

    /// Writes what was only summed up so far. Needed before counts are read and before the commit.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.write_stretch()?;
        self.moves.write(self.conn)?;
        self.incidents.write_open(self.conn)
    }

    /// Writes records that are saved and not yet written. Needed before `backstop_state` is read.
    pub(crate) fn write_stretch(&mut self) -> Result<(), Failure> {
        self.stretch.take().map_or(Ok(()), |stretch| stretch.write(self.conn))
    }

    /// Notes an event, if anybody listens.
    pub(crate) fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.news.wanted {
            self.news.events.push(event());
        }
    }

    /// Runs `work`; unless `keep` likes its answer, everything it wrote and told is undone.
    pub(crate) fn undoable<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
        keep: impl FnOnce(&T) -> bool,
    ) -> Result<T, Failure> {
        let (told, work_arrived) = (self.news.events.len(), self.news.work_arrived);
        let (moves, incidents) = (self.moves.clone(), self.incidents.clone());
        self.write_stretch()?;
        self.conn.execute_batch("SAVEPOINT batch")?;
        let answer = work(self)?;
        self.write_stretch()?;
        if !keep(&answer) {
            self.conn.execute_batch("ROLLBACK TO batch")?;
            self.lanes.forget();
            self.held.forget();
            self.news.events.truncate(told);
            self.news.work_arrived = work_arrived;
            self.moves = moves;
            self.incidents = incidents;
        }
        self.conn.execute_batch("RELEASE batch")?;
        Ok(answer)
    }

    /// The record of a job.
    pub(crate) fn find(&mut self, id: JobId) -> Result<Option<Stored>, Failure> {
        if let Some(stored) = self.held.get(id) {
            return Ok(Some(stored.clone()));
        }
        self.write_stretch()?;
        let select = warm(&mut self.hot.state_by_id, self.conn, sql::STATE_BY_ID)?;
        rows::first(select, [id.as_bytes()], rows::stored)
    }

    /// A job with its record.
    pub(crate) fn load(&mut self, seq: i64) -> Result<(Stored, StoredJob), Failure> {
        self.write_stretch()?;
        let (conn, lanes) = (self.conn, &mut *self.lanes);
        let select = warm(&mut self.hot.state_and_job, conn, sql::STATE_AND_JOB_BY_SEQ)?;
        let found = rows::first(select, [seq], |row| {
            let stored = rows::stored(row)?;
            let job = rows::job(row, stored.id, &*lanes.get(conn, stored.lane)?)?;
            Ok((stored, job))
        })?;
        found.ok_or_else(|| Failure::Unreadable(format!("row {seq} of `state` has no row in `job`")))
    }

    /// The statement that reads the beginning of a lane: a claim over many queues runs it for each of them.
    pub(crate) fn lane_due(&mut self) -> Result<&mut CachedStatement<'c>, Failure> {
        warm(&mut self.hot.lane_due, self.conn, sql::LANE_DUE)
    }

    /// Writes a record back, and the move from what it was before.
    pub(crate) fn save(&mut self, stored: &Stored, before: &Record) -> Result<(), Failure> {
        let record = &stored.record;
        let change = Change::between(before, record);
        if !self.stretch.as_mut().is_some_and(|stretch| stretch.takes(change, stored.seq)) {
            self.write_stretch()?;
            if change == Change::Other {
                let update = warm(&mut self.hot.update, self.conn, sql::STATE_UPDATE)?;
                rows::update_record(update, stored.seq, record)?;
            } else {
                self.stretch = Some(Stretch::of(change, stored.seq));
            }
        }
        self.moves.moved(stored.lane, before.state, record.state);
        self.incidents.moved(before.incident(), record.incident());
        self.held.note(stored);
        Ok(())
    }

    /// Stores a job whose checks have passed; none when its id is there already, which changes nothing.
    pub(crate) fn insert(&mut self, new: &NewJob) -> Result<Option<State>, Failure> {
        let spec = &new.spec;
        let Some(lane) = self.lanes.of(self.conn, spec)? else { return Ok(None) };
        let lane = lane.id;
        let record = Record::new(spec, new.start.run_at(self.now));
        let insert = warm(&mut self.hot.state_insert, self.conn, sql::STATE_INSERT)?;
        if !rows::insert_record(insert, spec, lane, &record)? {
            return Ok(None);
        }
        let seq = self.conn.last_insert_rowid();
        let insert = warm(&mut self.hot.job_insert, self.conn, sql::JOB_INSERT)?;
        rows::insert_job(insert, seq, new, self.now)?;
        for tag in &spec.tags {
            self.conn.prepare_cached(sql::TAG_INSERT)?.execute(params![tag, spec.id.as_bytes()])?;
        }
        if let Some(key) = &spec.idempotency_key {
            self.conn.prepare_cached(sql::IDEMPOTENCY_INSERT)?.execute(params![key, spec.id.as_bytes()])?;
        }
        self.moves.arrived(lane, record.state);
        self.news.work_arrived = true;
        let now = self.now;
        self.tell(|| event::enqueued(new, &record, now));
        Ok(Some(record.state))
    }

    /// Takes an ended job out of the hot tables.
    pub(crate) fn remove(&mut self, stored: &Stored, spec: &Spec) -> Result<(), Failure> {
        let (conn, seq) = (self.conn, stored.seq);
        for tag in &spec.tags {
            conn.prepare_cached(sql::TAG_DELETE)?.execute(params![tag, spec.id.as_bytes()])?;
        }
        conn.prepare_cached(sql::ATTEMPTS_DELETE)?.execute([seq])?;
        conn.prepare_cached(sql::JOB_DELETE)?.execute([seq])?;
        conn.prepare_cached(sql::STATE_DELETE)?.execute([seq])?;
        self.moves.left(stored.lane, stored.record.state);
        self.incidents.moved(stored.record.incident(), None);
        Ok(())
    }

    /// Adds an ended run to the ledger.
    pub(crate) fn record_run(&mut self, stored: &Stored, run: &Attempt) -> Result<(), Failure> {
        let insert = warm(&mut self.hot.attempt_insert, self.conn, sql::ATTEMPT_INSERT)?;
        rows::insert_attempt(insert, stored.seq, stored.id, run)
    }

    /// Fails a job whose time to start has passed, and answers the callback it asks for (L19, F14).
    pub(crate) fn expire(&mut self, mut stored: Stored, job: &StoredJob) -> Result<Option<NewJob>, Failure> {
        let before = stored.record.clone();
        if !stored.record.expire(self.now) {
            return Ok(None);
        }
        self.save(&stored, &before)?;
        // Told whether anybody listens or not: no run has ended, so nobody else can say that it died (F12).
        self.news.events.extend(event::expired(&job.spec.header(), &stored.record, self.now));
        if self.wants_alerts {
            self.put_alert(job, &stored.record, None, None)?;
        }
        Ok(job.follow_up(&stored.record, false))
    }

    /// Puts the alert of a run that ended in death into its drawer, if somebody delivers alerts (D3).
    pub(crate) fn raise_alert(&mut self, stored: &Stored, ending: &Ending) -> Result<(), Failure> {
        if !self.wants_alerts || stored.record.state != State::Failed {
            return Ok(());
        }
        let job = self.load(stored.seq)?.1;
        self.put_alert(&job, &stored.record, ending.failure.as_ref(), ending.code_version.as_deref())
    }

    fn put_alert(
        &self,
        job: &StoredJob,
        record: &Record,
        failure: Option<&FailureRecord>,
        code_version: Option<&str>,
    ) -> Result<(), Failure> {
        match Notice::of(job, record, failure, code_version, self.now) {
            Some(notice) => document::put_alert(self.conn, &notice),
            None => Ok(()),
        }
    }

    /// Writes that a job was superseded, and tells it.
    pub(crate) fn supersede(&mut self, stored: &Stored, before: &Record) -> Result<(), Failure> {
        self.save(stored, before)?;
        if self.news.wanted {
            let header = self.load(stored.seq)?.1.spec.header();
            let reason = stored.record.cancel_reason.clone().unwrap_or_default();
            self.news.events.push(event::operated(header, &Operation::Cancel { reason }, self.now));
        }
        Ok(())
    }

    /// The live job that holds a business key (L11).
    pub(crate) fn key_holder(&mut self, key: &str) -> Result<Option<Stored>, Failure> {
        self.write_stretch()?;
        let holder = rows::first(&mut *self.conn.prepare_cached(sql::KEY_HOLDER)?, [key], |row| {
            Ok(rows::job_id(row, 0)?)
        })?;
        holder.map_or(Ok(None), |id| self.find(id))
    }

    /// True while a worker's lease runs.
    pub(crate) fn is_live(&self, worker: WorkerId) -> Result<bool, Failure> {
        let mut select = self.conn.prepare_cached(sql::WORKER_EXPIRY)?;
        let expiry: Option<i64> = rows::value(&mut select, [worker.as_bytes()])?;
        Ok(expiry.is_some_and(|moment| Timestamp::from_micros(moment) > self.now))
    }

    /// Refuses a worker that is not live.
    pub(crate) fn expect_live(&self, worker: WorkerId) -> Result<(), Failure> {
        if self.is_live(worker)? { Ok(()) } else { Err(Failure::Refused(Error::NotEnlisted { worker })) }
    }
}

/// The answer to a lease that is not the current hold.
pub(crate) const fn stale(lease: &Lease) -> Stale {
    Stale { job: lease.job, fence: lease.fence }
}
