//! A worker before it runs: what it knows, what it serves, how it keeps time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::execute::Executor;
use super::health::WorkerNeeds;
use super::hooks::{Hook, Hooked};
use super::inline::InlineWorker;
use super::kinds::WorkerKinds;
use super::parts::{ServedQueue, WorkerParts};
use super::runtime::{Stopped, WorkerHandle};
use crate::config::WorkerTimes;
use crate::dependency::check::DependencyCheck;
use crate::engine::Backstop;
use crate::error::Error;
#[cfg(target_os = "linux")]
use crate::isolate::pool::ChildProcesses;
use crate::job::Job;
use crate::outcome::BoxError;
use crate::registry::Registry;
use crate::workflows::PredicateHandler;

/// Builds a worker whose handlers share an application context of type `C`.
///
/// ```
/// use std::time::Duration;
/// use backstop::prelude::*;
/// use backstop::{Stopped, WorkerHandle};
///
/// # #[job]
/// # async fn greet() {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let worker: WorkerHandle = engine
///     .worker(())
///     .register::<Greet>()
///     .queue("default", 16)
///     .code_version("1.4.0")
///     .grace(Duration::from_secs(20))
///     .start()
///     .await?;
/// // Until the service is told to stop.
/// let Stopped { interrupted, .. } = worker.stop().await;
/// assert_eq!(interrupted, 0);
/// # Ok(()) }
/// ```
#[must_use = "a worker does nothing before it runs"]
pub struct WorkerBuilder<C> {
    engine: Backstop,
    app: Arc<C>,
    registry: Registry<C>,
    hooks: Vec<Hooked>,
    queues: Vec<ServedQueue>,
    name: Option<String>,
    code_version: Option<Arc<str>>,
    times: WorkerTimes,
    maintenance: bool,
    checks: BTreeMap<String, DependencyCheck>,
}

impl Backstop {
    /// Prepares a worker that shares `app` with its handlers.
    pub fn worker<C: Send + Sync + 'static>(&self, app: C) -> WorkerBuilder<C> {
        self.worker_sharing(Arc::new(app))
    }

    /// The same with a context that others hold too, such as a test that looks into it afterwards.
    pub fn worker_sharing<C: Send + Sync + 'static>(&self, app: Arc<C>) -> WorkerBuilder<C> {
        WorkerBuilder {
            engine: self.clone(),
            app,
            registry: Registry::new(),
            hooks: Vec::new(),
            queues: Vec::new(),
            name: None,
            code_version: None,
            times: WorkerTimes::default(),
            maintenance: true,
            checks: BTreeMap::new(),
        }
    }
}

impl<C: Send + Sync + 'static> WorkerBuilder<C> {
    /// Adds a kind of job. Its context type must be this worker's: the compiler checks it.
    pub fn register<J: Job<Context = C>>(mut self) -> Self {
        self.registry.add::<J>();
        self
    }

    /// Adds a kind of job that shares nothing with others, whatever this worker's own context is.
    pub fn register_without_context<J: Job<Context = ()>>(mut self) -> Self {
        self.registry.add_without_context::<J>();
        self
    }

    /// Adds every job of this program that `#[job]` has made and that asks for this worker's context or for none. So
    /// no handler is forgotten; a job that implements [`Job`] by hand is added by [`WorkerBuilder::register`].
    ///
    /// ```standalone_crate
    /// use backstop::prelude::*;
    ///
    /// struct App {
    ///     sender: &'static str,
    /// }
    ///
    /// #[job]
    /// async fn send_email(cx: JobContext<App>, to: String) {
    ///     cx.log(format!("{} writes to {to}", cx.app().sender));
    /// }
    ///
    /// #[job]
    /// async fn clean_up() {}
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// engine.enqueue(SendEmail { to: "ann@example.com".into() }).submit().await?;
    /// engine.enqueue(CleanUp {}).submit().await?;
    /// let worker = engine.worker(App { sender: "shop@example.com" }).register_all().queue("default", 1);
    /// assert_eq!(worker.inline()?.drain(10).await?.len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn register_all(mut self) -> Self {
        self.registry.add_all();
        self
    }

    /// Answers a predicate of workflows (W2): it is given what the step before returned, and says whether the step
    /// that asks runs. With several steps before, it is given their results by name. A predicate is asked by a job of
    /// the kind `predicate:NAME`, on the queue of the step that asks; one that no worker answers waits visibly.
    ///
    /// ```
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn weigh() -> JobResult<u32> {
    ///     Ok(40)
    /// }
    ///
    /// #[job]
    /// async fn send_by_truck() {}
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let mut parcel = engine.workflow("parcel");
    /// let weigh = parcel.step("weigh", engine.enqueue(Weigh {})).add();
    /// parcel.step("truck", engine.enqueue(SendByTruck {})).after(&weigh).when_predicate("heavy").add();
    /// parcel.submit().await?;
    /// let worker = engine.worker(()).register::<Weigh>().register::<SendByTruck>();
    /// let worker = worker.predicate("heavy", |kg: u32| async move { Ok(kg > 30) });
    /// assert_eq!(worker.queue("default", 1).inline()?.drain(10).await?.len(), 3);
    /// # Ok(()) }
    /// ```
    pub fn predicate<P, F, Fut>(mut self, name: &str, ask: F) -> Self
    where
        P: serde::de::DeserializeOwned + Send + 'static,
        F: Fn(P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<bool, BoxError>> + Send + 'static,
    {
        self.registry.add_named(crate::workflows::predicate_kind(name), Arc::new(PredicateHandler::new(ask)));
        self
    }

    /// Checks a dependency of its kinds (H1): at its start, every 10 seconds unless [`DependencySettings`] say
    /// otherwise, and soon after a run has found it unavailable. While the check fails, or takes longer than 5 seconds,
    /// no kind that needs the dependency is claimed; all others are.
    ///
    /// A dependency that has no check is tried again after a pause, which grows from a second to a minute.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # use std::sync::Arc;
    /// struct App { smtp: &'static str }
    ///
    /// #[job(dependency = "smtp")]
    /// async fn send_email(cx: JobContext<App>, to: String) -> JobResult {
    ///     let mut server = connect(cx.app().smtp).await.map_err(|error| Outcome::transient_from("smtp", error))?;
    ///     Ok(server.send(&to).await?)
    /// }
    ///
    /// # struct Server;
    /// # impl Server { async fn send(&mut self, _: &str) -> JobResult { Ok(()) } }
    /// # async fn connect(_: &str) -> JobResult<Server> { Ok(Server) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let worker = engine
    ///     .worker(App { smtp: "mail.internal:25" })
    ///     .register::<SendEmail>()
    ///     .queue("default", 4)
    ///     .check("smtp", |app: Arc<App>| async move { connect(app.smtp).await.map(drop) })
    ///     .start()
    ///     .await?;
    /// # worker.stop().await;
    /// # Ok(()) }
    /// ```
    ///
    /// [`DependencySettings`]: crate::DependencySettings
    pub fn check<F, Fut>(mut self, dependency: impl Into<String>, check: F) -> Self
    where
        F: Fn(Arc<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.checks.insert(dependency.into(), DependencyCheck::code(self.app.clone(), check));
        self
    }

    /// Serves `queue` with up to `concurrency` runs at once.
    pub fn queue(mut self, queue: impl Into<Arc<str>>, concurrency: usize) -> Self {
        self.queues.push(ServedQueue { name: queue.into(), concurrency, prefetch: 0 });
        self
    }

    /// Lets the queue added last claim this many jobs ahead of free slots. They are not started, and go back
    /// without blame when the worker dies (C2).
    pub fn prefetch(mut self, jobs: usize) -> Self {
        if let Some(queue) = self.queues.last_mut() {
            queue.prefetch = jobs;
        }
        self
    }

    /// Calls `hook` around every run.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Hooked { kind: None, hook: Arc::new(hook) });
        self
    }

    /// Calls `hook` around every run of one kind.
    pub fn hook_for<J: Job<Context = C>>(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Hooked { kind: Some(J::KIND), hook: Arc::new(hook) });
        self
    }

    /// The name shown to people; by default the process id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The version of the application's code, kept with every run.
    pub fn code_version(mut self, version: impl Into<Arc<str>>) -> Self {
        self.code_version = Some(version.into());
        self
    }

    /// How long it may be silent before others take its jobs back; at least 100 ms.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.times.lease = lease.max(Duration::from_millis(100));
        self
    }

    /// How often it looks for work when no wake-up comes.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.times.poll = poll.max(Duration::from_millis(1));
        self
    }

    /// How long running work may go on after a stop was asked for.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.times.grace = grace;
        self
    }

    /// How long a handler may ignore that it was told to stop before it is reported as stuck.
    pub const fn stuck_after(mut self, time: Duration) -> Self {
        self.times.stuck_after = time;
        self
    }

    /// Leaves maintenance to other workers.
    pub const fn without_maintenance(mut self) -> Self {
        self.maintenance = false;
        self
    }

    /// Queues that jobs of its kinds go to when a submit names none, and that it does not serve; each with those kinds.
    ///
    /// That is fine when another worker serves them. Otherwise their jobs wait for ever, so a worker that starts says
    /// so in the log.
    #[must_use]
    pub fn unserved(&self) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut queues = self.registry.queues();
        queues.retain(|queue, _| {
            !self.queues.iter().any(|served| &*served.name == *queue && served.concurrency > 0)
        });
        queues
    }

    /// Queues that it serves, where no kind of its own goes by itself.
    fn only_served(&self) -> Vec<&ServedQueue> {
        let own = self.registry.queues();
        self.queues.iter().filter(|served| !own.contains_key(&*served.name)).collect()
    }

    /// Tells of queues that neither it nor another live worker serves, and of those that nobody has submitted to: both
    /// are mostly names with a mistake in them.
    async fn tell_of_queues(&self) {
        let (unserved, only_served) = (self.unserved(), self.only_served());
        if unserved.is_empty() && only_served.is_empty() {
            return;
        }
        let Ok(known) = self.engine.store().queues().await else { return };
        for served in only_served {
            if !known.iter().any(|one| *one.name == *served.name) {
                tracing::info!(queue = %served.name,
                    "no job was ever submitted to this queue, and no kind of this worker uses it by default");
            }
        }
        for (queue, kinds) in unserved {
            if !known.iter().any(|one| one.name == queue && one.workers > 0) {
                let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
                tracing::warn!(queue, kinds, "no worker serves the queue that jobs of these kinds go to");
            }
        }
    }

    fn parts(self) -> Result<WorkerParts, Error> {
        self.registry.check()?;
        if self.queues.iter().all(|queue| queue.concurrency == 0) {
            return Err(Error::NothingToDo { what: "queue", call: "queue(name, concurrency)" });
        }
        let engine_parts = &self.engine.parts;
        let executor = Executor {
            kinds: WorkerKinds::new(self.registry, &self.app, &engine_parts.config, self.times.stuck_after),
            #[cfg(target_os = "linux")]
            children: Arc::new(ChildProcesses::new(engine_parts.clone())),
            engine: self.engine,
            isolates: true,
            hooks: self.hooks,
            code_version: self.code_version,
            times: self.times,
        };
        let name = self.name.unwrap_or_else(|| format!("pid-{}", std::process::id()));
        let needs = WorkerNeeds { kinds: executor.kinds.needs(), checks: self.checks };
        Ok(WorkerParts { executor, queues: self.queues, name, maintenance: self.maintenance, needs })
    }

    /// Starts it in the background.
    ///
    /// # Errors
    /// When it has no kind of job or no queue to serve, two of its types have one kind, it checks a dependency that no
    /// kind needs, or the store is away.
    pub async fn start(self) -> Result<WorkerHandle, Error> {
        #[cfg(target_os = "linux")]
        if crate::isolate::is_isolated_child() {
            let Executor { engine, kinds, .. } = self.parts()?.executor;
            crate::isolate::serve::serve(&engine, &kinds).await;
        }
        self.tell_of_queues().await;
        self.engine.parts.config.rejects.tell();
        let parts = self.parts()?;
        parts.executor.kinds.check()?;
        parts.executor.engine.parts.config.check()?;
        parts.needs.check(&parts.executor.engine.parts.config)?;
        prepare_isolation(&parts.executor).await?;
        WorkerHandle::start(parts).await
    }

    /// Runs it until `shutdown` resolves, then stops it within its grace period (L18).
    ///
    /// # Errors
    /// As [`WorkerBuilder::start`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) -> Result<Stopped, Error> {
        let worker = self.start().await?;
        shutdown.await;
        Ok(worker.stop().await)
    }

    /// Runs it until SIGINT or SIGTERM; a second signal ends the grace period at once (L18).
    ///
    /// # Errors
    /// As [`WorkerBuilder::start`].
    pub async fn run(self) -> Result<Stopped, Error> {
        // Whoever sees the worker in the store may ask it to stop: it listens before it is there.
        let asked = crate::signals::stop_asked();
        let worker = self.start().await?;
        asked.await;
        let (again, hurry) = (crate::signals::stop_asked(), worker.hurry());
        tokio::spawn(async move {
            again.await;
            hurry.cancel();
        });
        Ok(worker.stop().await)
    }

    /// A worker that runs due jobs one after another in the calling task: for tests, and to drain a queue once.
    ///
    /// # Errors
    /// When it has no kind of job or no queue to serve, or two of its types have one kind.
    pub fn inline(self) -> Result<InlineWorker, Error> {
        let mut parts = self.parts()?;
        // It runs jobs in the calling task, and nowhere else.
        parts.executor.isolates = false;
        Ok(InlineWorker::new(parts))
    }
}

/// Starts a child when a kind may need one: what keeps its runs from having it is known before the first job.
#[cfg(target_os = "linux")]
async fn prepare_isolation(executor: &Executor) -> Result<(), Error> {
    for (kind, settings) in executor.kinds.isolated() {
        let checked = executor.children.check(&settings.limits()).await;
        checked.map_err(|problem| Error::Isolation { kind: kind.to_owned(), problem })?;
    }
    Ok(())
}

/// Refuses kinds that are to be isolated.
#[cfg(not(target_os = "linux"))]
async fn prepare_isolation(executor: &Executor) -> Result<(), Error> {
    match executor.kinds.isolated().first_key_value() {
        None => Ok(()),
        Some((kind, _)) => {
            let problem = "processes can be limited and killed as a whole on Linux only".to_owned();
            Err(Error::Isolation { kind: (*kind).to_owned(), problem })
        }
    }
}
