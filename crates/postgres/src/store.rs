//! The store itself: each verb is a transaction of its own.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::explain::ExplainContext;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{
    Attempt, JobDetail, JobSummary, JobView, NewJob, Operated, Operation, Retention, Stale, State,
};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop_store::desk::{LaneKey, lane_of};
use backstop_store::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Clock, DocumentRange, Documents, Duty, Error, Finding,
    Finish, HandedRun, HeldLane, Holdings, Incident, IncidentFilter, JobFilter, NameRange, NewWorker, Note,
    Observer, Orphan, Overdue, Page, PageRequest, Peek, QueueRange, QueueView, Renewed, Signal, Store,
    StoreInfo, Submit, Submitted, Survey, Term, Terms, WorkerView,
};
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use crate::access::Class;
use crate::error::Failure;
use crate::migrate;
use crate::open::{self, Place};
use crate::session::Schema;
use crate::shared::Shared;
use crate::unit::{Call, Unit};
use crate::{
    archive, cancel, check, claim, collect, document, duty, fence, finish, incident, list, listen, offers,
    operate, purge, query, sql, worker,
};

/// What a renewal may take at least, however short the lease is.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);

/// How a store is opened. The URL can say most of it too.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// A clock to go by instead of the server's; for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// The schema that holds the tables.
    pub schema: Schema,
    /// Connections that all calls share, at most. Heartbeats, endings and duties have one more each, and one listens.
    /// Each is made when it is needed and closed when nobody uses it.
    pub connections: usize,
    /// How long one call may take.
    pub deadline: Duration,
    /// How long a lock that another transaction holds is waited for, before the call is refused as busy.
    pub lock_wait: Duration,
    /// How long a connection that nobody uses is kept.
    pub keep_idle: Duration,
    /// Where notices of other processes are heard.
    pub listen: Listen,
    /// How often the connection for notices is proved to be alive.
    pub probe: Duration,
    /// Bring the tables to this program's version.
    pub migrate: bool,
    /// A transaction that is open for longer is named by `doctor`: it keeps dead rows from being removed.
    pub old_transaction: Duration,
    /// Claims go the short way even while somebody listens to events; for tests. What is told of a start may then come
    /// after what is told of something later.
    pub short_claims: bool,
}

/// Where notices of other processes are heard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Listen {
    /// Over a connection of its own to the store's URL.
    #[default]
    On,
    /// Nowhere: polling is enough.
    Off,
    /// At this URL, because a pooler stands before the store's own.
    At(String),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            schema: Schema::default(),
            connections: 7,
            deadline: Duration::from_secs(30),
            lock_wait: Duration::from_secs(3),
            keep_idle: Duration::from_secs(60),
            listen: Listen::On,
            probe: Duration::from_secs(20),
            migrate: true,
            old_transaction: Duration::from_secs(300),
            short_claims: false,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("deadline", &self.deadline)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    shared: Arc<Shared>,
    found: Option<i64>,
    listen: Option<Arc<Place>>,
    probe: Duration,
    token: Arc<str>,
    runtime: tokio::runtime::Handle,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Connects, and makes or migrates the tables as `options` allow. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Unusable`] says in one sentence what is wrong and what to do about it; [`Error::Unavailable`] when the
    /// server cannot be reached.
    pub async fn open(url: &str, mut options: Options) -> Result<Self, Error> {
        let place = open::place(url, &mut options)?;
        let listen = open::listen_place(&place, &options)?;
        let connector = open::connector(&place)?;
        let pool = open::pool(&place, connector.clone(), &options)?;
        let found = migrate::prepare(&pool, &place.location, &options).await?;
        let probe = options.probe;
        let direct = cancel::is_direct(&pool, &place).await;
        let shared = Arc::new(Shared::new(place, pool, connector, direct, options));
        // What cannot be seen or raised now, or by this user, is found by the claim that meets it.
        let _ = fence::look(&shared).await;
        let token = listen::token();
        let runtime = tokio::runtime::Handle::current();
        let teller = runtime.spawn(listen::notify(Arc::downgrade(&shared), token.clone()));
        Ok(Self { shared, found, listen, probe, token, runtime, tasks: Mutex::new(vec![teller]) })
    }

    /// The version of the tables when the store was opened; none when there were none.
    #[must_use]
    pub const fn found_version(&self) -> Option<i64> {
        self.found
    }

    /// Makes the roles of [`roles`](crate::roles), or brings them up to date.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the user may not.
    pub async fn apply_roles(&self) -> Result<(), Error> {
        let failed = |failure: Failure| failure.into_error(&self.shared.location, false);
        let client =
            self.shared.pool.get().await.map_err(|problem| failed(crate::unit::no_connection(problem)))?;
        let text = crate::roles(&self.shared.schema);
        client.batch_execute(&text).await.map_err(|error| failed(error.into()))
    }

    /// Statements this store has sent, without those that begin and end transactions.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.shared.statements.load(Ordering::Relaxed)
    }

    /// Transactions this store has committed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// Workers of this process that wait to be handed what is stored.
    #[must_use]
    pub fn standing_offers(&self) -> usize {
        self.shared.offers.standing()
    }

    /// True while notices of other processes are heard.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.shared.listening.load(Ordering::Acquire)
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::new(sql::BEGIN_WRITE, Class::Write), verb)
    }

    /// Like [`PostgresStore::write`], for the verbs of every run: each of their statements goes by a key, so it has one
    /// plan only, or brings its settings along.
    fn write_by_key<'a, T: Send + 'a>(
        &'a self,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::new(sql::BEGIN_PLAIN, Class::Write), verb)
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        call: Call,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        Box::pin(self.shared.transact_as(call, verb))
    }

    /// A duty of a leader, over a connection that is kept for duties.
    fn duty<'a, T: Send + 'a>(
        &'a self,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::new(sql::BEGIN_WRITE, Class::Duty), verb)
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        question: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        Box::pin(self.shared.transact(sql::BEGIN_READ, question))
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("location", &self.shared.location).finish_non_exhaustive()
    }
}

/// A verb with its arguments, which it may need more than once.
macro_rules! verb {
    ($function:path, $($argument:ident),*) => {{
        $(let $argument = Arc::new($argument);)*
        move |unit: &mut Unit| -> BoxFuture<'_, _> {
            $(let $argument = $argument.clone();)*
            Box::pin(async move { $function(unit, $(&$argument),*).await })
        }
    }};
}

impl Store for PostgresStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { backend: "postgres", location: self.shared.location.clone() }
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.shared.observe(observer);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // The first task tells others; the second one, started once somebody wants to hear, listens to them.
        if let Some(place) = self.listen.as_ref().filter(|_| tasks.len() == 1) {
            let (store, token) = (Arc::downgrade(&self.shared), self.token.clone());
            let ear = listen::listen(store, place.clone(), token, self.probe);
            tasks.push(self.runtime.spawn(ear));
        }
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.read(|unit| Box::pin(unit.now()))
    }

    fn submit(&self, mut submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        match submit.jobs.pop() {
            Some(job) if submit.jobs.is_empty() => Box::pin(collect::submit_one(&self.shared, job)),
            last => {
                submit.jobs.extend(last);
                Box::pin(collect::store(&self.shared, submit))
            }
        }
    }

    fn prepare(&self, jobs: &[NewJob]) -> Answer<'_, ()> {
        let lanes: BTreeSet<LaneKey> = jobs.iter().map(|job| lane_of(&job.spec)).collect();
        if self.shared.lanes.know_all(&lanes) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.write_by_key(move |unit| {
            let (shared, lanes) = (unit.shared.clone(), lanes.clone());
            Box::pin(async move {
                let found = shared.lanes.ids(unit, lanes).await?;
                unit.commit(Vec::new()).await?;
                shared.lanes.remember(found);
                Ok(())
            })
        })
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        self.write_by_key(verb!(fence::claim, claim))
    }

    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        Box::pin(offers::offer(&self.shared, claim, withdrawn))
    }

    fn peek(&self, claim: &Claim) -> Answer<'_, Peek> {
        let claim = claim.clone();
        self.write(verb!(claim::peek, claim))
    }

    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.call(Call::new(sql::BEGIN_WRITE, Class::Ending), verb!(claim::start, leases))
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        let endings = Arc::new(endings);
        self.call(Call::new(sql::BEGIN_PLAIN, Class::Ending), move |unit| {
            let endings = endings.clone();
            Box::pin(async move { finish::finish(unit, &endings, None).await })
        })
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.write(verb!(finish::annotate, notes))
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        let queues = worker.queues.clone();
        self.shared.serve(&queues);
        let enlisted =
            self.call(Call::new(sql::BEGIN_WRITE, Class::Heartbeat), verb!(worker::enlist, worker));
        Box::pin(async move {
            enlisted.await?;
            self.shared.work_arrived(queues);
            Ok(())
        })
    }

    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed> {
        let held = Arc::new(held);
        // Short enough to be tried again before the lease has run out.
        let call = Call::new(sql::BEGIN_WRITE, Class::Heartbeat).within((lease / 3).max(SHORTEST_RENEWAL));
        self.call(call, move |unit| {
            let held = held.clone();
            Box::pin(async move { worker::renew(unit, worker, lease, &held).await })
        })
    }

    fn retire(&self, worker: WorkerId) -> Answer<'_, ()> {
        self.duty(move |unit| Box::pin(worker::retire(unit, worker)))
    }

    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>> {
        let duties = Arc::new(duties);
        self.duty(move |unit| {
            let duties = duties.clone();
            Box::pin(async move { duty::lead(unit, node, &duties, ttl).await })
        })
    }

    fn terms(&self) -> Answer<'_, Terms> {
        self.read(|unit| Box::pin(duty::terms(unit)))
    }

    fn fold(&self, limit: usize) -> Answer<'_, usize> {
        self.write(move |unit| Box::pin(duty::fold(unit, limit)))
    }

    fn handed_out(&self) -> Answer<'_, Vec<HandedRun>> {
        self.read(move |unit| Box::pin(worker::handed_out(unit)))
    }

    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>> {
        self.call(Call::new(sql::BEGIN_READ, Class::Duty), move |unit| Box::pin(worker::orphans(unit, limit)))
    }

    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        let endings = Arc::new(endings);
        self.duty(move |unit| {
            let endings = endings.clone();
            Box::pin(async move { finish::finish(unit, &endings, Some(&term)).await })
        })
    }

    fn overdue(&self, after: Option<Overdue>, limit: usize) -> Answer<'_, Vec<Overdue>> {
        self.duty(move |unit| Box::pin(async move { duty::overdue(unit, after, limit).await }))
    }

    fn expire(&self, term: Term, jobs: Vec<Overdue>) -> Answer<'_, usize> {
        let jobs = Arc::new(jobs);
        self.duty(move |unit| {
            let jobs = jobs.clone();
            Box::pin(async move { duty::expire(unit, &term, &jobs).await })
        })
    }

    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize> {
        self.duty(move |unit| Box::pin(async move { archive::archive(unit, &term, &retention, limit).await }))
    }

    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>> {
        self.write(verb!(operate::operate, jobs, operation))
    }

    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool> {
        let name: Arc<str> = queue.into();
        let (asked, note) = (name.clone(), note.map(Arc::<str>::from));
        let changed = self.write(move |unit| {
            let (asked, note) = (asked.clone(), note.clone());
            Box::pin(async move { operate::pause_queue(unit, &asked, paused, note.as_deref()).await })
        });
        Box::pin(async move {
            let changed = changed.await?;
            if changed && !paused {
                self.shared.work_arrived([name]);
            }
            Ok(changed)
        })
    }

    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>> {
        self.read(verb!(query::jobs, ids))
    }

    fn job_summaries(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobSummary>>> {
        self.read(verb!(query::glance, ids))
    }

    fn archived(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Archived>>> {
        self.read(verb!(archive::archived, ids))
    }

    fn list(&self, filter: JobFilter, page: PageRequest<JobId>) -> Answer<'_, Page<JobView, JobId>> {
        let filter = Arc::new(filter);
        self.read(move |unit| {
            let filter = filter.clone();
            Box::pin(async move { list::list(unit, &filter, page).await })
        })
    }

    fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Answer<'_, Page<Attempt, u32>> {
        self.read(move |unit| Box::pin(query::attempts(unit, job, page)))
    }

    fn surroundings(&self, job: JobId) -> Answer<'_, Option<(JobView, ExplainContext)>> {
        self.read(move |unit| Box::pin(query::surroundings(unit, job)))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        self.read(|unit| Box::pin(async move { query::queues(unit, &NameRange::default()).await }))
    }

    fn queue_page(&self, range: QueueRange) -> Answer<'_, Page<QueueView, String>> {
        self.read(verb!(query::queue_page, range))
    }

    fn holdings(&self, tenant: String, most: usize) -> Answer<'_, Holdings> {
        let tenant: Arc<str> = tenant.into();
        self.read(move |unit| {
            let tenant = tenant.clone();
            Box::pin(async move { query::holdings(unit, &tenant, most).await })
        })
    }

    fn retire_lanes(&self, term: Term, idle: Duration, limit: usize) -> Answer<'_, usize> {
        self.duty(move |unit| Box::pin(async move { duty::retire_lanes(unit, &term, idle, limit).await }))
    }

    fn workers(&self) -> Answer<'_, Vec<WorkerView>> {
        self.read(|unit| Box::pin(worker::workers(unit)))
    }

    fn incidents_like(&self, filter: IncidentFilter, limit: usize) -> Answer<'_, Vec<Incident>> {
        let filter = Arc::new(filter);
        self.read(move |unit| {
            let filter = filter.clone();
            Box::pin(async move { incident::incidents(unit, &filter, limit).await })
        })
    }

    fn incidents_of(&self, fingerprints: Vec<Fingerprint>) -> Answer<'_, Vec<Option<Incident>>> {
        self.read(verb!(incident::incidents_of, fingerprints))
    }

    fn say(
        &self,
        fingerprints: Vec<Fingerprint>,
        statement: IncidentUpdate,
    ) -> Answer<'_, Vec<Option<Incident>>> {
        self.write(verb!(incident::say, fingerprints, statement))
    }

    fn retire_incidents(
        &self,
        term: Term,
        fingerprints: Vec<Fingerprint>,
        keep: Duration,
    ) -> Answer<'_, usize> {
        let fingerprints = Arc::new(fingerprints);
        self.duty(move |unit| {
            let fingerprints = fingerprints.clone();
            Box::pin(async move { incident::retire(unit, &term, &fingerprints, keep).await })
        })
    }

    fn survey(&self, filter: JobFilter, most: usize) -> Answer<'_, Survey> {
        let filter = Arc::new(filter);
        self.read(move |unit| {
            let filter = filter.clone();
            Box::pin(async move { list::survey(unit, &filter, most).await })
        })
    }

    fn documents(&self, shelf: DocumentRange) -> Answer<'_, Documents> {
        self.read(verb!(document::documents, shelf))
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        self.write(verb!(document::amend, amend))
    }

    fn purge(&self, jobs: Vec<JobId>, only: Option<State>) -> Answer<'_, Vec<Result<State, Refusal>>> {
        self.write(move |unit| {
            let jobs = jobs.clone();
            Box::pin(async move { purge::purge(unit, &jobs, only).await })
        })
    }

    fn prune(&self, term: Term, keep: Duration, limit: usize) -> Answer<'_, usize> {
        self.duty(move |unit| Box::pin(async move { purge::prune(unit, &term, keep, limit).await }))
    }

    fn prunable(&self, keep: Duration, most: usize) -> Answer<'_, usize> {
        self.read(move |unit| Box::pin(purge::prunable(unit, keep, most)))
    }

    fn archive_page(&self, page: PageRequest<JobId>) -> Answer<'_, Page<(JobId, Archived), JobId>> {
        self.read(move |unit| Box::pin(archive::archive_page(unit, page)))
    }

    fn held_lanes(&self) -> Answer<'_, Vec<HeldLane>> {
        self.read(|unit| Box::pin(query::held_lanes(unit)))
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        let findings = self.read(|unit| Box::pin(check::check(unit)));
        // Notices may come another way, which the statements above have not gone.
        let another = self.listen.as_ref().map(|place| &place.encryption);
        let notices = another.filter(|encryption| **encryption != self.shared.encryption).map(|encryption| {
            Finding { subject: "notices".to_owned(), ..encryption.finding(encryption.promised(), None) }
        });
        Box::pin(async move { Ok(findings.await?.into_iter().chain(notices).collect()) })
    }
}
