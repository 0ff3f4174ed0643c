//! The store itself: each verb is a transaction of its own.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop_core::explain::ExplainContext;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{
    Attempt, JobDetail, JobSummary, JobView, NewJob, Operated, Operation, Retention, Stale, State,
};
use backstop_core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop_store::desk::{LaneKey, lane_of};
use backstop_store::show::PauseNote;
use backstop_store::{
    Amend, Amended, Answer, Archived, Claim, Claimed, Clock, DocumentRange, Documents, Duty, Error, Finding,
    Finish, HandedRun, HeldLane, Holdings, Incident, IncidentFilter, JobFilter, NameRange, NewWorker, Note,
    Observer, Orphan, Overdue, Page, PageRequest, Peek, QueueRange, QueueView, Renewed, Store, StoreInfo,
    Submit, Submitted, Survey, Term, Terms, WorkerView,
};
use futures_util::future::BoxFuture;

use crate::access::Class;
use crate::error::Failure;
use crate::open;
use crate::session::{self, Prefix};
use crate::shared::Shared;
use crate::unit::{Call, Unit};
use crate::{archive, check, claim, document, duty, fence, finish, incident, list, operate, purge, query};
use crate::{schema, sql, submit, worker};

/// What a renewal may take at least, however short the lease is.
const SHORTEST_RENEWAL: Duration = Duration::from_secs(1);

/// How a store is opened. The URL can say most of it too.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// A clock to go by instead of the server's; for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// What the names of the tables begin with.
    pub prefix: Prefix,
    /// Connections that all calls share, at most. Heartbeats, endings and duties have one more each. Each is made when
    /// it is needed and closed when nobody uses it.
    pub connections: usize,
    /// How long one call may take.
    pub deadline: Duration,
    /// How long a lock that another transaction holds is waited for, in whole seconds, before the call is refused as
    /// busy.
    pub lock_wait: Duration,
    /// Bring the tables to this program's version.
    pub migrate: bool,
    /// The age from which `check` complains of a transaction: it keeps dead rows from being removed.
    pub old_transaction: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            prefix: Prefix::default(),
            connections: 7,
            deadline: Duration::from_secs(30),
            lock_wait: Duration::from_secs(3),
            migrate: true,
            old_transaction: Duration::from_secs(300),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("prefix", &self.prefix)
            .field("connections", &self.connections)
            .field("deadline", &self.deadline)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}

/// A store in a MariaDB or MySQL database.
pub struct MysqlStore {
    shared: Arc<Shared>,
    found: Option<i64>,
}

impl MysqlStore {
    /// Connects, and makes or migrates the tables as `options` allow. Must be called inside a tokio runtime, which has
    /// to last as long as the store: its connections live there, and without them every call fails as unavailable.
    ///
    /// # Errors
    /// [`Error::Unusable`] says in one sentence what is wrong and what to do about it; [`Error::Unavailable`] when the
    /// server cannot be reached.
    pub async fn open(url: &str, mut options: Options) -> Result<Self, Error> {
        let place = open::protect(open::place(url, &mut options)?).await?;
        let pool = open::pool(&place, &options);
        let found = open::prepare(&pool, &place.location, &options).await?;
        let shared = Arc::new(Shared::new(place, pool, options));
        // What cannot be seen or raised now, or by this user, is found by the claim that meets it.
        let _ = fence::look(&shared).await;
        Ok(Self { shared, found })
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
    pub async fn apply_roles(url: &str) -> Result<(), Error> {
        let mut options = Options::default();
        let place = open::place(url, &mut options)?;
        open::apply(place, &options, crate::roles(url)?).await
    }

    /// The statements that make the tables, for those who let only a person run such. Each can be run again; MySQL
    /// complains then of columns and indexes that are there already, which does no harm.
    #[must_use]
    pub fn migrations(prefix: &Prefix) -> Vec<String> {
        let each = |query| session::packets(&[query], prefix).into_iter().map(|packet| packet.text);
        schema::steps(0).flatten().flat_map(each).collect()
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

    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        self.call(Call::new(sql::BEGIN_WRITE, Class::Write), verb)
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        call: Call,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync + 'a,
    ) -> Answer<'a, T> {
        Box::pin(self.shared.transact(call, verb))
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
        self.call(Call::new(sql::BEGIN_READ, Class::Read), question)
    }
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStore").field("location", &self.shared.location).finish_non_exhaustive()
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

impl Store for MysqlStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { backend: "mysql", location: self.shared.location.clone() }
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.shared.observe(observer);
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        self.read(|unit| Box::pin(unit.now()))
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        let submit = Arc::new(submit);
        // Plain jobs are stored without a look at first. When that meets a repeated id, the next try looks.
        let tried = Arc::new(std::sync::atomic::AtomicBool::new(false));
        self.write(move |unit| {
            let (submit, first) = (submit.clone(), !tried.swap(true, Ordering::Relaxed));
            Box::pin(async move { submit::submit(unit, &submit, first).await })
        })
    }

    fn prepare(&self, jobs: &[NewJob]) -> Answer<'_, ()> {
        let lanes: BTreeSet<LaneKey> = jobs.iter().map(|job| lane_of(&job.spec)).collect();
        if self.shared.lanes.know_all(&lanes) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.write(move |unit| {
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
        self.write(verb!(fence::claim, claim))
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
        self.call(Call::new(sql::BEGIN_WRITE, Class::Ending), move |unit| {
            let endings = endings.clone();
            Box::pin(async move { finish::finish(unit, &endings, None).await })
        })
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), Stale>>> {
        self.write(verb!(finish::annotate, notes))
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        let enlisted =
            self.call(Call::new(sql::BEGIN_WRITE, Class::Heartbeat), verb!(worker::enlist, worker));
        Box::pin(async move {
            enlisted.await?;
            self.shared.observer().work_arrived();
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
        let asked: Arc<str> = queue.into();
        let pause = Arc::new(paused.then(|| PauseNote(note.map(ToOwned::to_owned))));
        let changed = self.write(move |unit| {
            let (asked, pause) = (asked.clone(), pause.clone());
            Box::pin(async move { operate::pause_queue(unit, &asked, (*pause).as_ref()).await })
        });
        Box::pin(async move {
            let changed = changed.await?;
            if changed && !paused {
                self.shared.observer().work_arrived();
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
        self.read(|unit| Box::pin(check::check(unit)))
    }
}
