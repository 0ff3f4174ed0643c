//! The handle that applications hold: opening an engine, and asking about single jobs.
//!
//! What an engine can do besides stands where it is done: submitting in `submit`, workers in `worker`, maintenance in
//! `maintenance`, and so on. Each takes from here the parts that it needs.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::health::WorkerReport;
use backstop_core::job::{Attempt, JobDetail, JobView, Mask, Operated, Operation, Spec};
use backstop_core::{JobId, WorkerId};
use backstop_store::{Error as StoreError, JobFilter, Page, PageRequest, Store, WorkerView};

use crate::config::Config;
use crate::error::{Error, OperateError};
use crate::events::Events;
use crate::figures::Figures;
use crate::loops::Loops;
use crate::maintenance::running::MaintenanceSlot;
use crate::parts::EngineParts;
use crate::remote::memory::RemoteMemory;
use crate::run_checks::RunCheck;
use crate::{sealing, worker_reports};

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
    pub(crate) parts: Arc<EngineParts>,
    /// What this process remembers of remote workers.
    pub(crate) remote_memory: Arc<RemoteMemory>,
    /// What runs of maintenance, at most once.
    pub(crate) maintenance: Arc<MaintenanceSlot>,
}

impl std::fmt::Debug for Backstop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backstop").field("store", &self.parts.store.info()).finish_non_exhaustive()
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
        #[cfg(target_os = "linux")]
        if crate::isolate::is_isolated_child() {
            // Its worker has the store, and asks it for what a handler needs.
            return Ok(Self::on(crate::isolate::store::child_store(), config));
        }
        let store = crate::open::open(url).await?;
        let engine = Self::on(store, config);
        // Also a program that only submits leaves messages for those who take events.
        engine.parts.sinks.expect(&*engine.parts.store, &engine.parts.events).await;
        Ok(engine)
    }

    /// An engine on a store that is open already.
    #[must_use]
    pub fn on(store: Arc<dyn Store>, config: Config) -> Self {
        #[cfg(target_os = "linux")]
        let store: Arc<dyn Store> =
            if crate::isolate::is_isolated_child() { crate::isolate::store::child_store() } else { store };
        let parts = EngineParts::new(store, config);
        Self { parts, remote_memory: Arc::default(), maintenance: Arc::default() }
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.parts.store
    }

    /// The settings it was opened with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.parts.config
    }

    /// What was counted and timed since this engine was opened (V3).
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.parts.figures
    }

    /// A set of loops for tasks that run beside the engine for as long as the process does (H11).
    #[must_use]
    pub fn loops(&self) -> Arc<Loops> {
        Loops::new(self.parts.error_throttle.clone())
    }

    /// Listens to what happens in this process from now on (V2).
    #[must_use]
    pub fn events(&self) -> Events {
        self.parts.events.subscribe()
    }

    /// Asks `check` before every run that begins in this process or is handed out by it, for as long as the check is
    /// there.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use backstop::prelude::*;
    /// use backstop::{RunCheck, RunCheckAnswer};
    /// use backstop_core::job::{Spec, StoredJob};
    ///
    /// /// Nothing is sent for orders that were taken back.
    /// struct Orders;
    ///
    /// impl RunCheck for Orders {
    ///     fn is_for(&self, job: &Spec) -> bool {
    ///         &*job.kind == "send_order"
    ///     }
    ///
    ///     fn check<'a>(&'a self, job: &'a StoredJob) -> RunCheckAnswer<'a> {
    ///         Box::pin(async move {
    ///             let taken_back = job.spec.payload.contains("taken back");
    ///             if taken_back { Err(Outcome::cancel("the order was taken back").into()) } else { Ok(()) }
    ///         })
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let orders: Arc<dyn RunCheck> = Arc::new(Orders);
    /// engine.check_runs(&orders);
    /// # Ok(()) }
    /// ```
    pub fn check_runs(&self, check: &Arc<dyn RunCheck>) {
        self.parts.run_checks.add(check);
    }

    /// Calls a job off (L7). Answers false when it had ended already.
    ///
    /// # Errors
    /// When there is no such job, or the store is away.
    pub async fn cancel(&self, job: JobId, reason: impl Into<String>) -> Result<Operated, OperateError> {
        self.parts.cancel(job, &reason.into()).await
    }

    /// Holds a job back (L8).
    ///
    /// # Errors
    /// When its state does not allow it, there is no such job, or the store is away.
    pub async fn pause(&self, job: JobId) -> Result<Operated, OperateError> {
        self.parts.operate(job, Operation::Pause).await
    }

    /// Lets a paused job go again (L8).
    ///
    /// # Errors
    /// As [`Backstop::pause`].
    pub async fn resume(&self, job: JobId) -> Result<Operated, OperateError> {
        self.parts.operate(job, Operation::Resume).await
    }

    /// Drives a dead letter again (L9).
    ///
    /// # Errors
    /// As [`Backstop::pause`].
    pub async fn retry(&self, job: JobId) -> Result<Operated, OperateError> {
        self.parts.operate(job, Operation::Retry).await
    }

    /// Looks a job up; none when there is no such job, or it was archived (L16): see [`Backstop::archive`].
    ///
    /// # Errors
    /// When the store is away.
    pub async fn job(&self, job: JobId) -> Result<Option<JobDetail>, StoreError> {
        let mut found = self.parts.job(job).await?;
        self.parts.mark_held(found.iter_mut().map(|detail| &mut detail.view)).await?;
        Ok(found)
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
        self.parts.config.check_page(page.limit)?;
        let mut found = self.parts.store.list(filter, page).await?;
        self.parts.mark_held(&mut found.items).await?;
        Ok(found)
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
        self.parts.config.check_page(page.limit)?;
        self.parts.store.attempts(job, page).await
    }

    /// Every worker the store knows.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, StoreError> {
        self.parts.store.workers().await
    }

    /// What these workers tell of their health: their dependencies, and whether their failures keep them from claiming
    /// (H1, H8). A worker that has nothing to tell is left out.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn worker_reports(
        &self,
        workers: &[WorkerView],
    ) -> Result<HashMap<WorkerId, WorkerReport>, StoreError> {
        Ok(worker_reports::by_worker(worker_reports::all(&*self.parts.store).await?, workers))
    }

    /// What everything passes through that is shown: see [`JobView::masked`].
    #[must_use]
    pub fn mask(&self) -> Mask<'_> {
        self.parts.config.mask()
    }

    /// The job with its sealed data opened, for somebody who may see it; what these keys do not open stays closed.
    #[must_use]
    pub fn revealed(&self, view: &JobView) -> JobView {
        sealing::revealed(&self.parts.config, view)
    }

    /// The same for a run of this job.
    #[must_use]
    pub fn revealed_run(&self, job: &Spec, run: &Attempt) -> Attempt {
        sealing::revealed_run(&self.parts.config, job, run)
    }
}
