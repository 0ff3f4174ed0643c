//! A store in memory that really stores: the reference of the semantics.
//!
//! Plain maps under one lock, and every verb is one short function over them. Other stores are compared with this
//! one, so it must stay readable; it must not trade that for speed, and it must not decide anything that
//! `backstop_core` decides. Nothing survives the process.
//!
//! # Layout
//! - `tables`: the maps, and what all verbs ask of them.
//! - `submit`, `claim`, `finish`, `operate`, `worker`, `duty`, `archive`: the verbs that write.
//! - `incident`, `document`: what belongs to failures and to the engine itself.
//! - `lines`: whose turn it is among jobs of one ordering key.
//! - `query`, `lanes`: the verbs that read, and the counts they show.

mod archive;
mod claim;
mod document;
mod duty;
mod finish;
mod incident;
mod lanes;
mod lines;
mod operate;
mod query;
mod run_limits;
mod submit;
mod tables;
mod worker;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::explain::ExplainContext;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{
    Attempt, JobDetail, JobSummary, JobView, NoteError, Operated, Operation, Retention, Stale, State,
};
use backstop_core::run_limit::{RunLimit, RunLimitView, SharedHold, SharingJob};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};

use self::tables::{ModelCommit, Tables};
use crate::sharing::{LastTurn, SharingWork};
use crate::show::{PauseNote, queue_page};
use crate::working_set::Wants;
use crate::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Clock, Document, DocumentRange, Documents, Drawer,
    Duty, Error, Finding, Finish, HandedRun, HeldLane, Holdings, Incident, IncidentFilter, InspectStore,
    JobFilter, Level, LineRange, LineView, NewWorker, Note, Observer, Orphan, OutboxBacklog, Overdue, Page,
    PageRequest, Peek, QueueRange, QueueView, Renewed, Silent, StoreInfo, Submit, Submitted, Survey,
    SystemClock, Term, Terms, WorkStore, WorkerView,
};

/// A store that keeps everything in memory.
pub struct ModelStore {
    clock: Arc<dyn Clock>,
    shared: Mutex<Shared>,
}

struct Shared {
    tables: Tables,
    observer: Arc<dyn Observer>,
}

impl ModelStore {
    /// An empty store that reads the time from `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared { tables: Tables::default(), observer: Arc::new(Silent) };
        Self { clock, shared: Mutex::new(shared) }
    }

    /// Forgets what the process of another store forgets when it is started again: whose turn was the last one (H5).
    pub fn restart(&self) {
        self.lock().tables.turns = LastTurn::default();
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no verb of the model panics while it holds the tables")
    }

    /// Runs a verb that only reads.
    fn read<T>(&self, verb: impl FnOnce(&Tables, Timestamp) -> Result<T, Error>) -> Result<T, Error> {
        let shared = self.lock();
        verb(&shared.tables, self.clock.now())
    }

    /// Runs a verb that writes, and tells the observer.
    ///
    /// The lock is held until the observer has heard it all: that is what keeps events in commit order.
    fn write<T>(
        &self,
        verb: impl FnOnce(&mut Tables, &mut ModelCommit) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut shared = self.lock();
        let mut commit = ModelCommit::at(self.clock.now(), Wants::of(&*shared.observer));
        let answer = verb(&mut shared.tables, &mut commit)?;
        shared.tables.advance_lines(&mut commit);
        shared.tables.note_ends(&mut commit);
        shared.tables.note_messages(&commit);
        if !shared.observer.wants_events() {
            commit.events.retain(Event::is_of_expiry);
        }
        if !commit.events.is_empty() {
            shared.observer.committed(commit.events);
        }
        if commit.work_arrived {
            shared.observer.work_arrived();
        }
        Ok(answer)
    }
}

impl Default for ModelStore {
    /// An empty store on the machine's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::default()))
    }
}

impl fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStore").finish_non_exhaustive()
    }
}

impl WorkStore for ModelStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { backend: "memory", location: "memory:".to_owned() }
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.lock().observer = observer;
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async move { Ok(self.clock.now()) })
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        Box::pin(async move { self.write(|tables, commit| tables.submit(&submit, commit)) })
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move { self.write(|tables, commit| tables.claim(&claim, commit)) })
    }

    fn peek(&self, claim: &Claim) -> Answer<'_, Peek> {
        let claim = claim.clone();
        Box::pin(async move { self.read(|tables, now| Ok(tables.peek(&claim, now))) })
    }

    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        Box::pin(async move { self.write(|tables, commit| Ok(tables.start(&leases, commit))) })
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        Box::pin(async move { self.write(|tables, commit| Ok(tables.finish(&endings, commit))) })
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        Box::pin(async move { self.write(|tables, commit| Ok(tables.annotate(notes, commit))) })
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        Box::pin(async move {
            self.write(|tables, commit| {
                tables.enlist(worker, commit);
                Ok(())
            })
        })
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        Box::pin(async move { self.write(|tables, commit| tables.renew(worker, lease, held, commit.now)) })
    }

    fn retire(&self, worker: WorkerId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.write(|tables, _| {
                tables.workers.remove(&worker);
                Ok(())
            })
        })
    }

    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>> {
        Box::pin(async move { self.write(|tables, commit| Ok(tables.lead(node, &duties, ttl, commit.now))) })
    }

    fn fold(&self, _limit: usize) -> Answer<'_, usize> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn handed_out(&self) -> Answer<'_, Vec<HandedRun>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.handed_out(now))) })
    }

    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.orphans(limit, now))) })
    }

    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        Box::pin(async move { self.write(|tables, commit| tables.rescue(&term, &endings, commit)) })
    }

    fn overdue(&self, after: Option<Overdue>, limit: usize) -> Answer<'_, Vec<Overdue>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.overdue(after, limit, now))) })
    }

    fn expire(&self, term: Term, jobs: Vec<Overdue>) -> Answer<'_, usize> {
        Box::pin(async move { self.write(|tables, commit| tables.expire(&term, &jobs, commit)) })
    }

    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize> {
        Box::pin(
            async move { self.write(|tables, commit| tables.archive(&term, &retention, limit, commit.now)) },
        )
    }

    fn retire_lanes(&self, term: Term, idle: Duration, limit: usize) -> Answer<'_, usize> {
        Box::pin(
            async move { self.write(|tables, commit| tables.retire_lanes(&term, idle, limit, commit.now)) },
        )
    }

    fn retire_incidents(
        &self,
        term: Term,
        fingerprints: Vec<Fingerprint>,
        keep: Duration,
    ) -> Answer<'_, usize> {
        Box::pin(async move {
            self.write(|tables, commit| tables.retire_incidents(&term, &fingerprints, keep, commit.now))
        })
    }

    fn documents(&self, range: DocumentRange) -> Answer<'_, Documents> {
        Box::pin(async move { self.read(|tables, now| tables.read_documents(&range, now)) })
    }

    fn named_documents(&self, names: Vec<(Drawer, String)>) -> Answer<'_, Vec<Option<Document>>> {
        Box::pin(async move { self.read(|tables, _| tables.named_documents(&names)) })
    }

    fn outbox_backlog(&self, sink: &str) -> Answer<'_, OutboxBacklog> {
        let sink = sink.to_owned();
        Box::pin(async move { self.read(|tables, now| Ok(tables.outbox_backlog(&sink, now))) })
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move { self.write(|tables, commit| tables.amend(&amend, commit)) })
    }

    fn prune(&self, term: Term, keep: Duration, limit: usize) -> Answer<'_, usize> {
        Box::pin(async move { self.write(|tables, commit| tables.prune(&term, keep, limit, commit.now)) })
    }
}

impl InspectStore for ModelStore {
    fn terms(&self) -> Answer<'_, Terms> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.terms(now))) })
    }

    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        Box::pin(async move { self.write(|tables, commit| Ok(tables.operate(&jobs, &operation, commit))) })
    }

    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool> {
        let queue = queue.to_owned();
        let pause = paused.then(|| PauseNote(note.map(ToOwned::to_owned)));
        Box::pin(async move { self.write(|tables, commit| Ok(tables.pause_queue(queue, pause, commit))) })
    }

    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>> {
        Box::pin(async move {
            self.read(|tables, now| Ok(ids.iter().map(|id| tables.detail(*id, now)).collect()))
        })
    }

    fn job_summaries(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobSummary>>> {
        Box::pin(async move {
            self.read(|tables, _| Ok(ids.iter().map(|id| tables.job_summaries(*id)).collect()))
        })
    }

    fn archived(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Archived>>> {
        Box::pin(async move { self.read(|tables, _| Ok(tables.archived(&ids))) })
    }

    fn list(&self, filter: JobFilter, page: PageRequest<JobId>) -> Answer<'_, Page<JobView, JobId>> {
        Box::pin(async move { self.read(|tables, now| tables.list(&filter, page, now)) })
    }

    fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Answer<'_, Page<Attempt, u32>> {
        Box::pin(async move { self.read(|tables, _| tables.attempts(job, page)) })
    }

    fn surroundings(&self, job: JobId) -> Answer<'_, Option<(JobView, ExplainContext)>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.surroundings(job, now))) })
    }

    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.queues(now))) })
    }

    fn queue_page(&self, range: QueueRange) -> Answer<'_, Page<QueueView, String>> {
        Box::pin(async move { self.read(|tables, now| Ok(queue_page(tables.queues(now), &range))) })
    }

    fn holdings(&self, tenant: String, most: usize) -> Answer<'_, Holdings> {
        Box::pin(async move { self.read(|tables, _| Ok(tables.holdings(&tenant, most))) })
    }

    fn workers(&self) -> Answer<'_, Vec<WorkerView>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.workers(now))) })
    }

    fn incidents_like(&self, filter: IncidentFilter, limit: usize) -> Answer<'_, Vec<Incident>> {
        Box::pin(async move { self.read(|tables, _| tables.incidents(&filter, limit)) })
    }

    fn incidents_of(&self, fingerprints: Vec<Fingerprint>) -> Answer<'_, Vec<Option<Incident>>> {
        Box::pin(async move { self.read(|tables, _| Ok(tables.incidents_of(&fingerprints))) })
    }

    fn say(
        &self,
        fingerprints: Vec<Fingerprint>,
        statement: IncidentUpdate,
    ) -> Answer<'_, Vec<Option<Incident>>> {
        Box::pin(
            async move { self.write(|tables, commit| Ok(tables.say(&fingerprints, &statement, commit.now))) },
        )
    }

    fn survey(&self, filter: JobFilter, most: usize) -> Answer<'_, Survey> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.survey(&filter, most, now))) })
    }

    fn purge(&self, jobs: Vec<JobId>, only: Option<State>) -> Answer<'_, Vec<Result<State, Refusal>>> {
        Box::pin(async move { self.write(|tables, _| Ok(tables.purge(&jobs, only))) })
    }

    fn prunable(&self, keep: Duration, most: usize) -> Answer<'_, usize> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.outworn(keep, now).len().min(most))) })
    }

    fn archive_page(&self, page: PageRequest<JobId>) -> Answer<'_, Page<(JobId, Archived), JobId>> {
        Box::pin(async move { self.read(|tables, _| tables.archive_page(page)) })
    }

    fn held_lanes(&self) -> Answer<'_, Vec<HeldLane>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.held_lanes(now))) })
    }

    fn run_limits(&self, limits: Vec<RunLimit>) -> Answer<'_, Vec<RunLimitView>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.run_limits(limits, now))) })
    }

    fn shared_holds(
        &self,
        jobs: Vec<SharingJob>,
        limits: Vec<RunLimit>,
    ) -> Answer<'_, Vec<Option<SharedHold>>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.shared_holds(&jobs, &limits, now))) })
    }

    fn sharing_work(
        &self,
        queues: Vec<String>,
        limits: Vec<RunLimit>,
        most: usize,
    ) -> Answer<'_, Vec<SharingWork>> {
        Box::pin(async move { self.read(|tables, now| Ok(tables.sharing_work(&queues, &limits, most, now))) })
    }

    fn lines(&self, range: LineRange) -> Answer<'_, Page<LineView, String>> {
        Box::pin(async move { self.read(|tables, _| tables.lines_like(&range)) })
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        Box::pin(async move {
            Ok(vec![Finding {
                level: Level::Bad,
                subject: "durability".to_owned(),
                message: "this store lives in memory: every job is gone when the process ends".to_owned(),
                hint: Some("use a store on disk, such as sqlite:backstop.db".to_owned()),
            }])
        })
    }
}
