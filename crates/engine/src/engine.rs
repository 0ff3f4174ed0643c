//! The handle that applications hold.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::redact::sanitize;
use backstop_core::job::{Attempt, JobDefaults, JobDetail, JobView, NewJob, Operated, Operation, Spec};
use backstop_core::{JobId, Refusal, WorkerId};
use backstop_store::{
    Error as StoreError, Finish, JobFilter, Observer, Page, PageRequest, Store, Submit, Submitted, WorkerView,
};
use tokio::sync::Notify;

use crate::budget::Budgets;
use crate::config::Config;
use crate::crowd::Crowd;
use crate::error::{Error, OperateError, SubmitError};
use crate::events::{Bus, Events};
use crate::figures::{Figures, Metered};
use crate::job::{Job, ResultOf};
use crate::loops::{Complaints, Loops};
use crate::maintenance::{Maintenance, Slot};
use crate::remote::Remotes;
use crate::rule::RuleCache;
use crate::runs::LocalRuns;
use crate::submit::Enqueue;
use crate::worker::WorkerBuilder;

/// An engine: submit jobs, ask about them, and run workers. Clones are cheap and share everything.
///
/// What is about queues, incidents, re-drive plans, failure rules and ended jobs is behind a method each:
/// [`queues`](Self::queues), [`incidents`](Self::incidents), [`redrives`](Self::redrives), [`rules`](Self::rules),
/// [`archive`](Self::archive).
///
/// ```
/// use backstop::State;
/// use backstop::prelude::*;
///
/// #[job]
/// async fn greet(name: String) -> JobResult<String> {
///     Ok(format!("hello {name}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let job = engine.enqueue(Greet { name: "ann".into() }).submit().await?;
/// engine.worker(()).register::<Greet>().queue("default", 4).inline()?.drain(10).await?;
/// let found = engine.job(job.id).await?.ok_or("a job is never lost")?;
/// assert_eq!(found.view.state(), State::Succeeded);
/// assert_eq!(job.result().await?, "hello ann");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Backstop {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) bus: Arc<Bus>,
    pub(crate) runs: LocalRuns,
    pub(crate) rules: RuleCache,
    pub(crate) budgets: Budgets,
    pub(crate) crowd: Crowd,
    pub(crate) remotes: Remotes,
    pub(crate) figures: Arc<Figures>,
    /// Rung when somebody here changes a re-drive plan.
    pub(crate) plans_changed: Notify,
    /// When the marks of re-drive plans were last compared with the plans.
    pub(crate) plans_marked: crate::redrive::mark::Compared,
    /// What runs of maintenance, at most once.
    pub(crate) maintenance: Slot,
    /// What the loops of this process complain of.
    pub(crate) complaints: Arc<Complaints>,
}

impl Inner {
    /// Gives endings their places before they are written: retries in the budget of their kind (F19), failures among
    /// the incidents of their tenant (E13).
    pub(crate) async fn place(&self, endings: &mut [Finish]) {
        self.budgets.smear(&*self.store, &self.config, endings).await;
        self.crowd.gather(&*self.store, &self.config, endings).await;
    }
}

impl std::fmt::Debug for Backstop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backstop").field("store", &self.inner.store.info()).finish_non_exhaustive()
    }
}

impl Backstop {
    /// Opens a store by its URL: `sqlite:jobs.db`, or `memory:` for a test.
    ///
    /// # Errors
    /// One clear sentence when the URL names no store or the store cannot be opened.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, Config::default()).await
    }

    /// The same with settings.
    ///
    /// # Errors
    /// As [`Backstop::open`], and when a limit is higher than stores can hold.
    pub async fn open_with(url: &str, config: Config) -> Result<Self, Error> {
        if let Some((limit, given, most)) = config.limits.beyond_stores() {
            return Err(Error::LimitTooHigh { limit, given, most });
        }
        let store = crate::open::open(url).await?;
        Ok(Self::on(store, config))
    }

    /// An engine on a store that is open already.
    #[must_use]
    pub fn on(store: Arc<dyn Store>, config: Config) -> Self {
        let bus = Bus::new(config.node.clone(), !config.alerts.channels.is_empty());
        let figures = Figures::new();
        let store: Arc<dyn Store> = Arc::new(Metered::new(store, figures.clone()));
        store.observe(bus.clone() as Arc<dyn Observer>);
        Self {
            inner: Arc::new(Inner {
                store,
                config,
                bus,
                runs: LocalRuns::default(),
                rules: RuleCache::default(),
                budgets: Budgets::default(),
                crowd: Crowd::default(),
                remotes: Remotes::default(),
                figures,
                plans_changed: Notify::new(),
                plans_marked: crate::redrive::mark::Compared::default(),
                maintenance: Slot::default(),
                complaints: Arc::default(),
            }),
        }
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The settings it was opened with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// What was counted and timed since this engine was opened (V3).
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.inner.figures
    }

    /// Prepares a typed job; nothing is stored before [`Enqueue::submit`].
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue<ResultOf<J>> {
        Enqueue::typed(self, &job)
    }

    /// Prepares a job by the name of its kind, with its payload as JSON text.
    pub fn enqueue_raw(&self, kind: &str, payload: impl Into<Arc<str>>) -> Enqueue {
        let spec = Spec::new(crate::ids::job_id(), kind, payload);
        Enqueue::new(self, Ok(NewJob::new(spec)), JobDefaults::default())
    }

    /// Stores many jobs in one transaction. `atomic` stores all or none. Jobs of several kinds become one list with
    /// [`Enqueue::untyped`].
    ///
    /// # Errors
    /// When the store is away. Refusals are answered per job.
    pub async fn submit_all<T>(
        &self,
        jobs: Vec<Enqueue<T>>,
        atomic: bool,
    ) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
        crate::submit::submit_all(self, jobs, atomic).await
    }

    /// Stores jobs that were made by [`Enqueue::into_new_job`], here or in another program, as they are: they pass the
    /// checks of every submit, and where there are signing keys the signature that they carry is verified (L12).
    ///
    /// # Errors
    /// When the store is away. Refusals are answered per job.
    pub async fn submit_made(
        &self,
        jobs: Vec<NewJob>,
        atomic: bool,
    ) -> Result<Vec<Result<Submitted, Refusal>>, StoreError> {
        crate::submit::submit_made(self, jobs, atomic).await
    }

    /// Stores one prepared job.
    pub(crate) async fn submit_one(&self, job: NewJob) -> Result<Submitted, SubmitError> {
        let submit = Submit { jobs: vec![job], atomic: true };
        let mut answers = self.inner.store.submit(submit).await?;
        Ok(answers.pop().unwrap_or(Err(Refusal::BatchRefused { index: 0 }))?)
    }

    /// Prepares a worker that shares `app` with its handlers.
    pub fn worker<C: Send + Sync + 'static>(&self, app: C) -> WorkerBuilder<C> {
        self.worker_sharing(Arc::new(app))
    }

    /// The same with a context that others hold too, such as a test that looks into it afterwards.
    pub fn worker_sharing<C: Send + Sync + 'static>(&self, app: Arc<C>) -> WorkerBuilder<C> {
        WorkerBuilder::new(self.clone(), app)
    }

    /// Takes part in the maintenance of the store in the background (L17). Workers and the HTTP server do this by
    /// themselves; it is for programs that have neither. At most once for each engine, however often it is started.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::{Maintenance, MaintenanceHandle};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let maintenance: Maintenance = engine.maintenance();
    /// let running: MaintenanceHandle = maintenance.start();
    /// running.stop().await;
    /// # Ok(()) }
    /// ```
    pub fn maintenance(&self) -> Maintenance {
        Maintenance::new(self.clone())
    }

    /// A set of loops for tasks that run beside the engine for as long as the process does (H11).
    #[must_use]
    pub fn loops(&self) -> Arc<Loops> {
        Loops::new(self.inner.complaints.clone())
    }

    /// Does every maintenance duty that `node` gets to lead, once (L17). Workers do this by themselves; it is for
    /// programs and tests that run none. The node leads what it got for `term` from now.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn maintain(&self, node: WorkerId, term: Duration) -> Result<(), StoreError> {
        crate::maintenance::round(self, node, term).await
    }

    /// Listens to what happens in this process from now on (V2).
    #[must_use]
    pub fn events(&self) -> Events {
        self.inner.bus.subscribe()
    }

    /// Calls a job off (L7). Answers false when it had ended already.
    ///
    /// # Errors
    /// When there is no such job, or the store is away.
    pub async fn cancel(&self, job: JobId, reason: impl Into<String>) -> Result<Operated, OperateError> {
        let reason = self.words(&reason.into());
        let operated = self.operate(job, Operation::Cancel { reason }).await?;
        self.inner.runs.cancel(job);
        Ok(operated)
    }

    /// Holds a job back (L8).
    ///
    /// # Errors
    /// When its state does not allow it, there is no such job, or the store is away.
    pub async fn pause(&self, job: JobId) -> Result<Operated, OperateError> {
        self.operate(job, Operation::Pause).await
    }

    /// Lets a paused job go again (L8).
    ///
    /// # Errors
    /// As [`Backstop::pause`].
    pub async fn resume(&self, job: JobId) -> Result<Operated, OperateError> {
        self.operate(job, Operation::Resume).await
    }

    /// Drives a dead letter again (L9).
    ///
    /// # Errors
    /// As [`Backstop::pause`].
    pub async fn retry(&self, job: JobId) -> Result<Operated, OperateError> {
        self.operate(job, Operation::Retry).await
    }

    async fn operate(&self, job: JobId, operation: Operation) -> Result<Operated, OperateError> {
        let mut answers = self.inner.store.operate(vec![job], operation).await?;
        Ok(answers.pop().unwrap_or(Err(Refusal::NoSuchJob { job }))?)
    }

    /// Looks a job up; none when there is no such job, or it was archived (L16): see [`Backstop::archive`].
    ///
    /// # Errors
    /// When the store is away.
    pub async fn job(&self, job: JobId) -> Result<Option<JobDetail>, StoreError> {
        Ok(self.inner.store.jobs(vec![job]).await?.pop().flatten())
    }

    /// Lists jobs, newest first.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn jobs(
        &self,
        filter: JobFilter,
        page: PageRequest<JobId>,
    ) -> Result<Page<JobView, JobId>, StoreError> {
        self.fits(page.limit)?;
        self.inner.store.list(filter, page).await
    }

    /// A person's words, which are stored, told and shown like an error's (F11).
    pub(crate) fn words(&self, text: &str) -> String {
        let config = &self.inner.config;
        sanitize(&*config.redactor, text, config.limits.error_chars)
    }

    /// Refuses a page over the limit of this engine (L20); that of the store stands behind it.
    pub(crate) fn fits(&self, rows: usize) -> Result<(), StoreError> {
        let limit = self.inner.config.limits.page;
        if rows > limit { Err(StoreError::TooMany { what: "page", actual: rows, limit }) } else { Ok(()) }
    }

    /// The ledger of a job, latest run first.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn attempts(
        &self,
        job: JobId,
        page: PageRequest<u32>,
    ) -> Result<Page<Attempt, u32>, StoreError> {
        self.fits(page.limit)?;
        self.inner.store.attempts(job, page).await
    }

    /// Every worker the store knows.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, StoreError> {
        self.inner.store.workers().await
    }
}
