//! One store for all database servers: each verb is a transaction of its own.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_core::explain::ExplainContext;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{
    Attempt, JobDetail, JobSummary, JobView, NewJob, NoteError, Operated, Operation, Retention, Stale, State,
};
use backstop_core::run_limit::{RunLimit, RunLimitView, SharedHold, SharingJob};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop_store::sharing::SharingWork;
use backstop_store::working_set::{LaneKey, SubmitNeeds, lane_of};
use backstop_store::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Document, DocumentRange, Documents, Drawer, Duty,
    Finding, Finish, HandedRun, HeldLane, Holdings, Incident, IncidentFilter, InspectStore, JobFilter,
    LineRange, LineView, NameRange, NewWorker, Note, Observer, Orphan, OutboxBacklog, Overdue, Page,
    PageRequest, Peek, QueueRange, QueueView, Renewed, StoreInfo, Submit, Submitted, Survey, Term, Terms,
    WorkStore, WorkerView,
};
use futures_util::future::BoxFuture;

use crate::access::Class;
use crate::connection::Mode;
use crate::failure::SqlFailure;
use crate::server::Server;
use crate::shared::Shared;
use crate::transaction::{Call, Transaction};
use crate::{
    archive, document, duty, fence, finish, incident, lines, list, operate, purge, query, run_limits,
    sharing, submit, worker,
};

/// What a renewal may take at least, however short the lease is.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);

/// For the verbs of every run.
const BY_KEY: Call = Call::new(Mode::WriteByKey, Class::Work);

/// A store in a database of a server.
pub struct ServerStore {
    shared: Arc<Shared>,
    server: Arc<dyn Server>,
}

impl ServerStore {
    /// A store that shares its connections with nobody else.
    #[must_use]
    pub fn new(shared: Arc<Shared>, server: Arc<dyn Server>) -> Self {
        Self { shared, server }
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::write(), verb)
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        call: Call,
        verb: impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        Box::pin(self.shared.transact(call, verb))
    }

    /// A duty of a leader, over a connection that is kept for duties.
    fn duty<'a, T: Send + 'a>(
        &'a self,
        verb: impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::new(Mode::Write, Class::Duty), verb)
    }

    /// A question of somebody who may wait.
    fn ask<'a, T: Send + 'a>(
        &'a self,
        question: impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::question(), question)
    }

    /// A question about jobs by their ids, which is short.
    fn look_up<'a, T: Send + 'a>(
        &'a self,
        question: impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::new(Mode::Read, Class::Lookup), question)
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        question: impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::read(), question)
    }
}

impl fmt::Debug for ServerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStore").field("location", &self.shared.location()).finish_non_exhaustive()
    }
}

/// A verb with its arguments, which it may need more than once.
macro_rules! verb {
    ($function:path, $($argument:ident),*) => {{
        $(let $argument = Arc::new($argument);)*
        move |tx: &mut Transaction| -> BoxFuture<'_, _> {
            $(let $argument = $argument.clone();)*
            Box::pin(async move { $function(tx, $(&$argument),*).await })
        }
    }};
}

impl WorkStore for ServerStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { backend: self.server.name(), location: self.shared.location().to_owned() }
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.shared.observe(observer);
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.read(|tx| Box::pin(tx.now_alone()))
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        let plain = SubmitNeeds::are_plain(&submit.jobs);
        let mode = if plain { Mode::WriteByKey } else { Mode::Write };
        let submit = Arc::new(submit);
        // Plain jobs are stored without a look at first. When that meets a repeated id, the next try looks.
        let tried = Arc::new(AtomicBool::new(false));
        self.call(Call::new(mode, Class::Submit), move |tx| {
            let (submit, first) = (submit.clone(), !tried.swap(true, Ordering::Relaxed));
            Box::pin(async move { submit::submit(tx, &submit, first).await })
        })
    }

    fn prepare(&self, jobs: &[NewJob]) -> Answer<'_, ()> {
        let lanes: BTreeSet<LaneKey> = jobs.iter().map(|job| lane_of(&job.spec)).collect();
        if self.shared.lanes.know_all(&lanes) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.call(BY_KEY, move |tx| {
            let (shared, lanes) = (tx.shared.clone(), lanes.clone());
            Box::pin(async move {
                let found = shared.lanes.ids(tx, lanes).await?;
                tx.commit(Vec::new()).await?;
                shared.lanes.remember(found);
                Ok(())
            })
        })
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        let (server, claim) = (self.server.clone(), Arc::new(claim));
        self.call(BY_KEY, move |tx| {
            let (server, claim) = (server.clone(), claim.clone());
            Box::pin(async move { fence::claim(&*server, tx, &claim).await })
        })
    }

    fn peek(&self, claim: &Claim) -> Answer<'_, Peek> {
        let (server, claim) = (self.server.clone(), Arc::new(claim.clone()));
        self.write(move |tx| {
            let (server, claim) = (server.clone(), claim.clone());
            Box::pin(async move { server.peek(tx, &claim).await })
        })
    }

    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.call(Call::new(Mode::Write, Class::Ending), verb!(finish::start, leases))
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        let (server, endings) = (self.server.clone(), Arc::new(endings));
        self.call(Call::new(Mode::WriteByKey, Class::Ending), move |tx| {
            let (server, endings) = (server.clone(), endings.clone());
            Box::pin(async move {
                match server.finish_plain(tx, &endings).await? {
                    Some(answers) => Ok(answers),
                    None => finish::finish(tx, &endings, None).await,
                }
            })
        })
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        self.write(verb!(finish::annotate, notes))
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        let queues: BTreeSet<Arc<str>> = worker.queues.iter().cloned().collect();
        let (server, worker) = (self.server.clone(), Arc::new(worker));
        let enlisted = self.call(Call::new(Mode::Write, Class::Heartbeat), move |tx| {
            let (server, worker) = (server.clone(), worker.clone());
            Box::pin(async move { worker::enlist(tx, &worker, server.recall()).await })
        });
        Box::pin(async move {
            let recalled = self.server.recalled(enlisted.await?);
            recalled.map_err(|failure| failure.into_error(self.shared.location(), false))?;
            self.shared.work_arrived(queues);
            Ok(())
        })
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        let held = Arc::new(held);
        // Short enough to be tried again before the lease has run out.
        let call = Call::new(Mode::Write, Class::Heartbeat).within((lease / 3).max(SHORTEST_RENEWAL));
        self.call(call, move |tx| {
            let held = held.clone();
            Box::pin(async move { worker::renew(tx, worker, lease, &held).await })
        })
    }

    fn retire(&self, worker: WorkerId) -> Answer<'_, ()> {
        let server = self.server.clone();
        self.duty(move |tx| Box::pin(worker::retire(tx, worker, server.keep())))
    }

    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>> {
        let (server, duties) = (self.server.clone(), Arc::new(duties));
        self.duty(move |tx| {
            let (server, duties) = (server.clone(), duties.clone());
            Box::pin(async move { duty::lead(tx, node, &duties, ttl, || server.keep()).await })
        })
    }

    fn fold(&self, limit: usize) -> Answer<'_, usize> {
        let server = self.server.clone();
        self.write(move |tx| {
            let server = server.clone();
            Box::pin(async move { server.fold(tx, limit).await })
        })
    }

    fn advance_lines(&self, limit: usize) -> Answer<'_, usize> {
        let call = Call::new(Mode::Write, Class::Duty).for_group();
        Box::pin(lines::advance_apart(&self.shared, call, limit))
    }

    fn handed_out(&self) -> Answer<'_, Vec<HandedRun>> {
        self.read(move |tx| Box::pin(worker::handed_out(tx)))
    }

    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>> {
        self.call(Call::new(Mode::Read, Class::Duty), move |tx| Box::pin(worker::orphans(tx, limit)))
    }

    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        let endings = Arc::new(endings);
        self.duty(move |tx| {
            let endings = endings.clone();
            Box::pin(async move { finish::finish(tx, &endings, Some(&term)).await })
        })
    }

    fn overdue(&self, after: Option<Overdue>, limit: usize) -> Answer<'_, Vec<Overdue>> {
        self.duty(move |tx| Box::pin(async move { duty::overdue(tx, after, limit).await }))
    }

    fn expire(&self, term: Term, jobs: Vec<Overdue>) -> Answer<'_, usize> {
        let jobs = Arc::new(jobs);
        self.duty(move |tx| {
            let jobs = jobs.clone();
            Box::pin(async move { duty::expire(tx, &term, &jobs).await })
        })
    }

    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize> {
        self.duty(move |tx| Box::pin(async move { archive::archive(tx, &term, &retention, limit).await }))
    }

    fn retire_lanes(&self, term: Term, idle: Duration, limit: usize) -> Answer<'_, usize> {
        self.duty(move |tx| Box::pin(async move { duty::retire_lanes(tx, &term, idle, limit).await }))
    }

    fn retire_incidents(
        &self,
        term: Term,
        fingerprints: Vec<Fingerprint>,
        keep: Duration,
    ) -> Answer<'_, usize> {
        let fingerprints = Arc::new(fingerprints);
        self.duty(move |tx| {
            let fingerprints = fingerprints.clone();
            Box::pin(async move { incident::retire(tx, &term, &fingerprints, keep).await })
        })
    }

    fn documents(&self, range: DocumentRange) -> Answer<'_, Documents> {
        self.read(verb!(document::documents, range))
    }

    fn named_documents(&self, names: Vec<(Drawer, String)>) -> Answer<'_, Vec<Option<Document>>> {
        self.read(verb!(document::named_documents, names))
    }

    fn outbox_backlog(&self, sink: &str) -> Answer<'_, OutboxBacklog> {
        let sink = sink.to_owned();
        self.read(verb!(document::outbox_backlog, sink))
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        self.write(verb!(document::amend, amend))
    }

    fn prune(&self, term: Term, keep: Duration, limit: usize) -> Answer<'_, usize> {
        self.duty(move |tx| Box::pin(async move { purge::prune(tx, &term, keep, limit).await }))
    }
}

impl InspectStore for ServerStore {
    fn terms(&self) -> Answer<'_, Terms> {
        self.read(|tx| Box::pin(duty::terms(tx)))
    }

    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        self.write(verb!(operate::operate, jobs, operation))
    }

    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool> {
        let name: Arc<str> = queue.into();
        let (asked, note) = (name.clone(), note.map(Arc::<str>::from));
        let changed = self.write(move |tx| {
            let (asked, note) = (asked.clone(), note.clone());
            Box::pin(async move { operate::pause_queue(tx, &asked, paused, note.as_deref()).await })
        });
        Box::pin(async move {
            let changed = changed.await?;
            if changed && !paused {
                self.shared.work_arrived(BTreeSet::from([name]));
            }
            Ok(changed)
        })
    }

    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>> {
        self.look_up(verb!(query::jobs, ids))
    }

    fn job_summaries(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobSummary>>> {
        self.ask(verb!(query::job_summaries, ids))
    }

    fn archived(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Archived>>> {
        self.ask(verb!(archive::archived, ids))
    }

    fn list(&self, filter: JobFilter, page: PageRequest<JobId>) -> Answer<'_, Page<JobView, JobId>> {
        let filter = Arc::new(filter);
        self.ask(move |tx| {
            let filter = filter.clone();
            Box::pin(async move { list::list(tx, &filter, page).await })
        })
    }

    fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Answer<'_, Page<Attempt, u32>> {
        self.look_up(move |tx| Box::pin(query::attempts(tx, job, page)))
    }

    fn surroundings(&self, job: JobId) -> Answer<'_, Option<(JobView, ExplainContext)>> {
        self.ask(move |tx| Box::pin(query::surroundings(tx, job)))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        self.ask(|tx| Box::pin(async move { query::queues(tx, &NameRange::default()).await }))
    }

    fn queue_page(&self, range: QueueRange) -> Answer<'_, Page<QueueView, String>> {
        self.ask(verb!(query::queue_page, range))
    }

    fn holdings(&self, tenant: String, most: usize) -> Answer<'_, Holdings> {
        let tenant: Arc<str> = tenant.into();
        self.ask(move |tx| {
            let tenant = tenant.clone();
            Box::pin(async move { query::holdings(tx, &tenant, most).await })
        })
    }

    fn workers(&self) -> Answer<'_, Vec<WorkerView>> {
        self.ask(|tx| Box::pin(worker::workers(tx)))
    }

    fn incidents_like(&self, filter: IncidentFilter, limit: usize) -> Answer<'_, Vec<Incident>> {
        let filter = Arc::new(filter);
        self.ask(move |tx| {
            let filter = filter.clone();
            Box::pin(async move { incident::incidents(tx, &filter, limit).await })
        })
    }

    fn incidents_of(&self, fingerprints: Vec<Fingerprint>) -> Answer<'_, Vec<Option<Incident>>> {
        self.ask(verb!(incident::incidents_of, fingerprints))
    }

    fn say(
        &self,
        fingerprints: Vec<Fingerprint>,
        statement: IncidentUpdate,
    ) -> Answer<'_, Vec<Option<Incident>>> {
        self.write(verb!(incident::say, fingerprints, statement))
    }

    fn survey(&self, filter: JobFilter, most: usize) -> Answer<'_, Survey> {
        let filter = Arc::new(filter);
        self.ask(move |tx| {
            let filter = filter.clone();
            Box::pin(async move { list::survey(tx, &filter, most).await })
        })
    }

    fn purge(&self, jobs: Vec<JobId>, only: Option<State>) -> Answer<'_, Vec<Result<State, Refusal>>> {
        self.write(move |tx| {
            let jobs = jobs.clone();
            Box::pin(async move { purge::purge(tx, &jobs, only).await })
        })
    }

    fn prunable(&self, keep: Duration, most: usize) -> Answer<'_, usize> {
        self.ask(move |tx| Box::pin(purge::prunable(tx, keep, most)))
    }

    fn archive_page(&self, page: PageRequest<JobId>) -> Answer<'_, Page<(JobId, Archived), JobId>> {
        self.ask(move |tx| Box::pin(archive::archive_page(tx, page)))
    }

    fn held_lanes(&self) -> Answer<'_, Vec<HeldLane>> {
        self.ask(|tx| Box::pin(query::held_lanes(tx)))
    }

    fn run_limits(&self, limits: Vec<RunLimit>) -> Answer<'_, Vec<RunLimitView>> {
        self.ask(verb!(run_limits::views, limits))
    }

    fn shared_holds(
        &self,
        jobs: Vec<SharingJob>,
        limits: Vec<RunLimit>,
    ) -> Answer<'_, Vec<Option<SharedHold>>> {
        let asked = Arc::new((jobs, limits));
        self.ask(move |tx| {
            let asked = asked.clone();
            Box::pin(async move { sharing::holds(tx, &asked.0, &asked.1).await })
        })
    }

    fn sharing_work(
        &self,
        queues: Vec<String>,
        limits: Vec<RunLimit>,
        most: usize,
    ) -> Answer<'_, Vec<SharingWork>> {
        let asked = Arc::new((queues, limits));
        self.ask(move |tx| {
            let asked = asked.clone();
            Box::pin(async move { sharing::work(tx, &asked.0, &asked.1, most).await })
        })
    }

    fn lines(&self, range: LineRange) -> Answer<'_, Page<LineView, String>> {
        self.ask(verb!(lines::lines, range))
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        let server = self.server.clone();
        self.ask(move |tx| {
            let server = server.clone();
            Box::pin(async move { server.check(tx).await })
        })
    }
}
