//! The store itself: each verb goes to the writer or to a reader.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop_core::explain::ExplainContext;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{
    Attempt, JobDetail, JobSummary, JobView, Operated, Operation, Retention, Stale, State,
};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop_store::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Clock, DocumentRange, Documents, Duty, Error, Finding,
    Finish, HandedRun, HeldLane, Holdings, Incident, IncidentFilter, InspectStore, JobFilter, NameRange,
    NewWorker, Note, Observer, Orphan, Overdue, Page, PageRequest, Peek, QueueRange, QueueView, Renewed,
    StoreInfo, Submit, Submitted, Survey, SystemClock, Term, Terms, WorkStore, WorkerView,
};

use crate::error::Failure;
use crate::query::Snapshot;
use crate::readers::{Readers, cannot_spawn};
use crate::shared::Shared;
use crate::unit::Unit;
use crate::writer::Writer;
use crate::{
    archive, check, claim, document, duty, fence, finish, incident, lanes, open, operate, purge, submit,
    worker,
};

/// How a file is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The clock that due times, leases and terms go by.
    pub clock: Arc<dyn Clock>,
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// Threads that read.
    pub readers: usize,
    /// How long to wait for other processes before a call fails as unavailable.
    pub busy_timeout: Duration,
    /// Create the file when it does not exist.
    pub create: bool,
    /// Bring the file to this program's schema.
    pub migrate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            synchronous: Synchronous::Full,
            readers: 2,
            busy_timeout: Duration::from_secs(30),
            create: true,
            migrate: true,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("synchronous", &self.synchronous)
            .field("readers", &self.readers)
            .field("busy_timeout", &self.busy_timeout)
            .field("create", &self.create)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it has reached the disk.
    #[default]
    Full,
    /// When the operating system has it. A crash of the process loses nothing; a power failure can lose the last
    /// acknowledged calls.
    Normal,
}

/// A store in one SQLite file.
///
/// Dropping it runs the calls that are queued, then closes the file.
pub struct SqliteStore {
    shared: Arc<Shared>,
    // Readers go first, so that the last connection to close is the one that can tidy up the log.
    readers: Readers,
    writer: Writer,
}

impl SqliteStore {
    /// Opens the file, creating and migrating it as `options` allow. Blocks while it does.
    ///
    /// # Errors
    /// [`Error::Unusable`] says in one sentence what is wrong with the file and what to do about it;
    /// [`Error::Unavailable`] when other processes kept it locked.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let conn = open::writer(path, &options)?;
        let shared = Arc::new(Shared::new(path.to_owned(), &options));
        // What cannot be seen or raised now is found by the claim that meets it.
        let _ = fence::look(&conn, &shared.fences);
        let readers = Readers::start(options.readers, &shared)?;
        let writer = Writer::start(conn, shared.clone()).map_err(|problem| cannot_spawn(&shared, problem))?;
        Ok(Self { shared, readers, writer })
    }

    /// Transactions this store has committed. Group commit keeps it far below the number of calls.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Runs a verb on the writer thread. `rows` is about how many rows it touches.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        rows: usize,
        verb: impl FnMut(&mut Unit<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(
            async move { self.writer.send(rows, verb).await.unwrap_or_else(|_| Err(self.shared.closed())) },
        )
    }

    fn read<T: Send + 'static>(
        &self,
        question: impl FnMut(&mut Snapshot<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(
            async move { self.readers.send(question).await.unwrap_or_else(|_| Err(self.shared.closed())) },
        )
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("location", &self.shared.location).finish_non_exhaustive()
    }
}

impl WorkStore for SqliteStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { backend: "sqlite", location: self.shared.location.clone() }
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.shared.observe(observer);
        // The writer may be asleep without a timeout, because nobody wanted to hear of other processes.
        drop(self.writer.send(0, |_| Ok(())));
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async move { Ok(self.shared.clock.now()) })
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        self.write(submit.jobs.len(), move |unit| submit::submit(unit, &submit))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        let rows = claim.queues.iter().map(|wanted| wanted.limit).sum();
        self.write(rows, move |unit| claim::claim(unit, &claim))
    }

    fn peek(&self, claim: &Claim) -> Answer<'_, Peek> {
        let claim = claim.clone();
        self.read(move |snapshot| claim::peek(snapshot.conn, snapshot.lanes, snapshot.now, &claim))
    }

    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.write(leases.len(), move |unit| claim::start(unit, &leases))
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        self.write(endings.len(), move |unit| finish::finish(unit, &endings))
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.write(notes.len(), move |unit| finish::annotate(unit, &notes))
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        self.write(1, move |unit| worker::enlist(unit, &worker))
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        self.write(held.len(), move |unit| worker::renew(unit, worker, lease, &held))
    }

    fn retire(&self, worker: WorkerId) -> Answer<'_, ()> {
        self.write(1, move |unit| worker::retire(unit, worker))
    }

    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>> {
        self.write(duties.len(), move |unit| duty::lead(unit, node, &duties, ttl))
    }

    fn fold(&self, _limit: usize) -> Answer<'_, usize> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn handed_out(&self) -> Answer<'_, Vec<HandedRun>> {
        self.read(move |snapshot| worker::handed_out(snapshot.conn, snapshot.now))
    }

    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>> {
        self.read(move |snapshot| worker::orphans(snapshot.conn, snapshot.lanes, snapshot.now, limit))
    }

    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        self.write(endings.len(), move |unit| finish::rescue(unit, &term, &endings))
    }

    fn overdue(&self, after: Option<Overdue>, limit: usize) -> Answer<'_, Vec<Overdue>> {
        self.read(move |snapshot| duty::overdue(snapshot.conn, snapshot.now, after, limit))
    }

    fn expire(&self, term: Term, jobs: Vec<Overdue>) -> Answer<'_, usize> {
        self.write(jobs.len(), move |unit| duty::expire(unit, &term, &jobs))
    }

    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize> {
        self.write(limit, move |unit| archive::archive(unit, &term, &retention, limit))
    }

    fn retire_lanes(&self, term: Term, idle: Duration, limit: usize) -> Answer<'_, usize> {
        self.write(limit, move |unit| lanes::retire(unit, &term, idle, limit))
    }

    fn retire_incidents(
        &self,
        term: Term,
        fingerprints: Vec<Fingerprint>,
        keep: Duration,
    ) -> Answer<'_, usize> {
        self.write(fingerprints.len(), move |unit| incident::retire(unit, &term, &fingerprints, keep))
    }

    fn documents(&self, shelf: DocumentRange) -> Answer<'_, Documents> {
        self.read(move |snapshot| document::documents(snapshot, &shelf))
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        let rows = amend.edits.len() + amend.operations.len();
        self.write(rows, move |unit| document::amend(unit, &amend))
    }

    fn prune(&self, term: Term, keep: Duration, limit: usize) -> Answer<'_, usize> {
        self.write(limit, move |unit| purge::prune(unit, &term, keep, limit))
    }
}

impl InspectStore for SqliteStore {
    fn terms(&self) -> Answer<'_, Terms> {
        self.read(|snapshot| duty::terms(snapshot.conn, snapshot.now))
    }

    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        self.write(jobs.len(), move |unit| operate::operate(unit, &jobs, &operation))
    }

    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool> {
        let (queue, note) = (queue.to_owned(), note.map(ToOwned::to_owned));
        self.write(1, move |unit| operate::pause_queue(unit, &queue, paused, note.as_deref()))
    }

    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>> {
        self.read(move |snapshot| snapshot.jobs(&ids))
    }

    fn job_summaries(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobSummary>>> {
        self.read(move |snapshot| snapshot.job_summaries(&ids))
    }

    fn archived(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Archived>>> {
        self.read(move |snapshot| archive::archived(snapshot.conn, &ids))
    }

    fn list(&self, filter: JobFilter, page: PageRequest<JobId>) -> Answer<'_, Page<JobView, JobId>> {
        self.read(move |snapshot| snapshot.list(&filter, page))
    }

    fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Answer<'_, Page<Attempt, u32>> {
        self.read(move |snapshot| snapshot.attempts(job, page))
    }

    fn surroundings(&self, job: JobId) -> Answer<'_, Option<(JobView, ExplainContext)>> {
        self.read(move |snapshot| snapshot.surroundings(job))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        self.read(|snapshot| snapshot.queues(&NameRange::default()))
    }

    fn queue_page(&self, range: QueueRange) -> Answer<'_, Page<QueueView, String>> {
        self.read(move |snapshot| snapshot.queue_page(&range))
    }

    fn holdings(&self, tenant: String, most: usize) -> Answer<'_, Holdings> {
        self.read(move |snapshot| snapshot.holdings(&tenant, most))
    }

    fn workers(&self) -> Answer<'_, Vec<WorkerView>> {
        self.read(|snapshot| worker::workers(snapshot.conn, snapshot.now))
    }

    fn incidents_like(&self, filter: IncidentFilter, limit: usize) -> Answer<'_, Vec<Incident>> {
        self.read(move |snapshot| incident::incidents(snapshot.conn, &filter, limit))
    }

    fn incidents_of(&self, fingerprints: Vec<Fingerprint>) -> Answer<'_, Vec<Option<Incident>>> {
        self.read(move |snapshot| incident::incidents_of(snapshot.conn, &fingerprints))
    }

    fn say(
        &self,
        fingerprints: Vec<Fingerprint>,
        statement: IncidentUpdate,
    ) -> Answer<'_, Vec<Option<Incident>>> {
        self.write(fingerprints.len(), move |unit| incident::say(unit, &fingerprints, &statement))
    }

    fn survey(&self, filter: JobFilter, most: usize) -> Answer<'_, Survey> {
        self.read(move |snapshot| snapshot.survey(&filter, most))
    }

    fn purge(&self, jobs: Vec<JobId>, only: Option<State>) -> Answer<'_, Vec<Result<State, Refusal>>> {
        self.write(jobs.len(), move |unit| purge::purge(unit, &jobs, only))
    }

    fn prunable(&self, keep: Duration, most: usize) -> Answer<'_, usize> {
        self.read(move |snapshot| purge::prunable(snapshot.conn, snapshot.now, keep, most))
    }

    fn archive_page(&self, page: PageRequest<JobId>) -> Answer<'_, Page<(JobId, Archived), JobId>> {
        self.read(move |snapshot| archive::archive_page(snapshot.conn, page))
    }

    fn held_lanes(&self) -> Answer<'_, Vec<HeldLane>> {
        self.read(|snapshot| snapshot.held_lanes())
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        let shared = self.shared.clone();
        self.read(move |snapshot| check::check(snapshot.conn, &shared))
    }
}
