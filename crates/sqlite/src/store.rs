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
    Attempt, JobDetail, JobSummary, JobView, NoteError, Operated, Operation, Retention, Stale, State,
};
use backstop_core::run_limit::{RunLimit, RunLimitView, SharedHold, SharingJob};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop_store::sharing::SharingWork;
use backstop_store::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Document, DocumentRange, Documents, Drawer, Duty,
    Error, Finding, Finish, HandedRun, HeldLane, Holdings, Incident, IncidentFilter, InspectStore, JobFilter,
    LineRange, LineView, NameRange, NewWorker, Note, Observer, Orphan, OutboxBacklog, Overdue, Page,
    PageRequest, Peek, QueueRange, QueueView, Renewed, StoreInfo, Submit, Submitted, Survey, Term, Terms,
    WorkStore, WorkerView,
};

use crate::context::StoreContext;
use crate::error::SqliteFailure;
use crate::options::Options;
use crate::query::Snapshot;
use crate::readers::{Readers, cannot_spawn};
use crate::transaction::WriteTransaction;
use crate::writer::Writer;
use crate::{
    archive, check, claim, document, duty, fence, finish, incident, lines, open, operate, purge, queue,
    run_limits, sharing, sharing_work, submit, worker,
};

/// A store in one SQLite file.
///
/// Dropping it runs the calls that are queued, then closes the file.
pub struct SqliteStore {
    context: Arc<StoreContext>,
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
        let context = Arc::new(StoreContext::new(path.to_owned(), &options));
        // What cannot be seen or raised now is found by the claim that meets it.
        let _ = fence::check(&conn, &context.fences);
        let readers = Readers::start(options.readers, &context)?;
        let writer =
            Writer::start(conn, context.clone()).map_err(|problem| cannot_spawn(&context, problem))?;
        Ok(Self { context, readers, writer })
    }

    /// Transactions this store has committed. Group commit keeps it far below the number of calls.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.context.commits.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Runs a verb on the writer thread. `rows` is about how many rows it touches.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        rows: usize,
        verb: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(
            async move { self.writer.send(rows, verb).await.unwrap_or_else(|_| Err(self.context.closed())) },
        )
    }

    fn read<T: Send + 'static>(
        &self,
        question: impl FnMut(&mut Snapshot<'_>) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(
            async move { self.readers.send(question).await.unwrap_or_else(|_| Err(self.context.closed())) },
        )
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("location", &self.context.location).finish_non_exhaustive()
    }
}

impl WorkStore for SqliteStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { backend: "sqlite", location: self.context.location.clone() }
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.context.observe(observer);
        // The writer may be asleep without a timeout, because nobody wanted to hear of other processes.
        drop(self.writer.send(0, |_| Ok(())));
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async move { Ok(self.context.clock.now()) })
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        self.write(submit.jobs.len(), move |tx| submit::submit(tx, &submit))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        let rows = claim.queues.iter().map(|wanted| wanted.limit).sum();
        self.write(rows, move |tx| claim::claim(tx, &claim))
    }

    fn peek(&self, claim: &Claim) -> Answer<'_, Peek> {
        let claim = claim.clone();
        self.read(move |snapshot| claim::peek(snapshot.conn, snapshot.lanes, snapshot.now, &claim))
    }

    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.write(leases.len(), move |tx| claim::start(tx, &leases))
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        self.write(endings.len(), move |tx| finish::finish(tx, &endings))
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        self.write(notes.len(), move |tx| finish::annotate(tx, &notes))
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        self.write(1, move |tx| worker::enlist(tx, &worker))
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        self.write(held.len(), move |tx| worker::renew(tx, worker, lease, &held))
    }

    fn retire(&self, worker: WorkerId) -> Answer<'_, ()> {
        self.write(1, move |tx| worker::retire(tx, worker))
    }

    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>> {
        self.write(duties.len(), move |tx| duty::lead(tx, node, &duties, ttl))
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
        self.write(endings.len(), move |tx| finish::rescue(tx, &term, &endings))
    }

    fn overdue(&self, after: Option<Overdue>, limit: usize) -> Answer<'_, Vec<Overdue>> {
        self.read(move |snapshot| duty::overdue(snapshot.conn, snapshot.now, after, limit))
    }

    fn expire(&self, term: Term, jobs: Vec<Overdue>) -> Answer<'_, usize> {
        self.write(jobs.len(), move |tx| duty::expire(tx, &term, &jobs))
    }

    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize> {
        self.write(limit, move |tx| archive::archive(tx, &term, &retention, limit))
    }

    fn retire_lanes(&self, term: Term, idle: Duration, limit: usize) -> Answer<'_, usize> {
        self.write(limit, move |tx| duty::retire_lanes(tx, &term, idle, limit))
    }

    fn retire_incidents(
        &self,
        term: Term,
        fingerprints: Vec<Fingerprint>,
        keep: Duration,
    ) -> Answer<'_, usize> {
        self.write(fingerprints.len(), move |tx| incident::retire(tx, &term, &fingerprints, keep))
    }

    fn documents(&self, range: DocumentRange) -> Answer<'_, Documents> {
        self.read(move |snapshot| document::documents(snapshot, &range))
    }

    fn named_documents(&self, names: Vec<(Drawer, String)>) -> Answer<'_, Vec<Option<Document>>> {
        self.read(move |snapshot| document::named_documents(snapshot, &names))
    }

    fn outbox_backlog(&self, sink: &str) -> Answer<'_, OutboxBacklog> {
        let sink = sink.to_owned();
        self.read(move |snapshot| document::outbox_backlog(snapshot, &sink))
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        let rows = amend.edits.len() + amend.operations.len() + amend.jobs.len();
        self.write(rows, move |tx| document::amend(tx, &amend))
    }

    fn prune(&self, term: Term, keep: Duration, limit: usize) -> Answer<'_, usize> {
        self.write(limit, move |tx| purge::prune(tx, &term, keep, limit))
    }
}

impl InspectStore for SqliteStore {
    fn terms(&self) -> Answer<'_, Terms> {
        self.read(|snapshot| duty::terms(snapshot.conn, snapshot.now))
    }

    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        self.write(jobs.len(), move |tx| operate::operate(tx, &jobs, &operation))
    }

    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool> {
        let (queue, note) = (queue.to_owned(), note.map(ToOwned::to_owned));
        self.write(1, move |tx| queue::pause_queue(tx, &queue, paused, note.as_deref()))
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
        self.write(fingerprints.len(), move |tx| incident::say(tx, &fingerprints, &statement))
    }

    fn survey(&self, filter: JobFilter, most: usize) -> Answer<'_, Survey> {
        self.read(move |snapshot| snapshot.survey(&filter, most))
    }

    fn purge(&self, jobs: Vec<JobId>, only: Option<State>) -> Answer<'_, Vec<Result<State, Refusal>>> {
        self.write(jobs.len(), move |tx| purge::purge(tx, &jobs, only))
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

    fn run_limits(&self, limits: Vec<RunLimit>) -> Answer<'_, Vec<RunLimitView>> {
        self.read(move |snapshot| run_limits::views(snapshot, &limits))
    }

    fn shared_holds(
        &self,
        jobs: Vec<SharingJob>,
        limits: Vec<RunLimit>,
    ) -> Answer<'_, Vec<Option<SharedHold>>> {
        self.read(move |snapshot| {
            let rooms = sharing::rooms(snapshot.conn, snapshot.lanes, &limits, &jobs, snapshot.now)?;
            Ok(jobs.iter().map(|job| rooms.hold(&job.queue, &job.kind, &job.needs)).collect())
        })
    }

    fn sharing_work(
        &self,
        queues: Vec<String>,
        limits: Vec<RunLimit>,
        most: usize,
    ) -> Answer<'_, Vec<SharingWork>> {
        self.read(move |snapshot| sharing_work::work(snapshot, &queues, &limits, most))
    }

    fn lines(&self, range: LineRange) -> Answer<'_, Page<LineView, String>> {
        self.read(move |snapshot| lines::lines(snapshot.conn, &range))
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        let context = self.context.clone();
        self.read(move |snapshot| check::check(snapshot.conn, &context))
    }
}
