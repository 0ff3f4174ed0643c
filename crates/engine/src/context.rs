//! What a handler sees of its job and of the world around it (E1).

mod complete;
pub(crate) mod rejects;
mod signal;
pub(crate) mod steps;
mod submit;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::job::{FiredBy, ParentEnd, Progress, Record, StoredJob};
use backstop_core::workflow::{PartOf, WorkflowEnd};
use backstop_core::{JobId, Lease, Refusal, admit, text};
use backstop_store::Note;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::engine::Backstop;
use crate::error::OperateError;
use crate::parts::EngineParts;
use crate::run::children::ChildJobs;
use crate::run::listener::RunListener;
use crate::run::output::RunOutput;
use crate::run::rejects::RunRejects;
use crate::run::steps::RunSteps;
use crate::sealing::{self, ShownPayload};
use crate::workflows::NamesStep;
use crate::workflows::inputs::Inputs;

pub use self::signal::{SignalCall, Signaled};

/// Longest time to tidy up: it has to fit into the last writes of a worker that stops.
const COURTESY_MAX: Duration = Duration::from_secs(9);

/// A handler's view of its run. Clones are cheap and speak of the same run.
///
/// ```
/// use backstop::prelude::*;
///
/// #[job]
/// async fn import(cx: JobContext<()>, files: Vec<String>) -> JobResult<usize> {
///     for (done, file) in files.iter().enumerate() {
///         if cx.is_canceled() {
///             return Err("stopped".into());
///         }
///         cx.log(format!("reading {file}"));
///         cx.progress((done * 100 / files.len()) as u8, file).await?;
///     }
///     Ok(files.len())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// # let engine = Backstop::open("memory:").await?;
/// let job = engine.enqueue(Import { files: vec!["a.csv".into(), "b.csv".into()] }).submit().await?;
/// # engine.worker(()).register::<Import>().queue("default", 4).inline()?.drain(10).await?;
/// assert_eq!(job.result().await?, 2);
/// # Ok(()) }
/// ```
pub struct JobContext<C> {
    app: Arc<C>,
    run: Arc<Run>,
}

/// What one run carries, whatever the application's context is.
pub(crate) struct Run {
    pub(crate) job: Arc<StoredJob>,
    pub(crate) record: Record,
    pub(crate) lease: Lease,
    pub(crate) canceled: CancellationToken,
    pub(crate) output: Mutex<RunOutput>,
    pub(crate) engine: Backstop,
    pub(crate) code_version: Option<Arc<str>>,
    /// Milliseconds the handler may tidy up after it was told to stop.
    pub(crate) courtesy: AtomicU64,
    /// True once the handler has tried to complete its job in a transaction of its own (L14).
    pub(crate) completes: AtomicBool,
    /// What is to be submitted when the run has gone well (L23).
    pub(crate) children: ChildJobs,
    /// What the steps before this one returned, by their names (W1).
    pub(crate) inputs: Inputs,
    /// Its durable steps (W7).
    pub(crate) steps: RunSteps,
    /// Items that it rejects (W9).
    pub(crate) rejects: RunRejects,
    /// Who hears at once what the handler says; none for most.
    pub(crate) listener: Option<Arc<dyn RunListener>>,
}

impl<C> Clone for JobContext<C> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), run: self.run.clone() }
    }
}

impl<C> JobContext<C> {
    pub(crate) const fn new(app: Arc<C>, run: Arc<Run>) -> Self {
        Self { app, run }
    }

    /// What the run carries, for whoever needs it after the handler took the context.
    pub(crate) fn run(&self) -> Arc<Run> {
        self.run.clone()
    }

    /// The same run for a handler that shares nothing with others.
    pub(crate) fn without_app(self) -> JobContext<()> {
        JobContext::new(Arc::new(()), self.run)
    }

    /// The application's own context, as it was given to the worker.
    #[must_use]
    pub fn app(&self) -> &C {
        &self.app
    }

    /// The same to keep.
    pub(crate) fn shared_app(&self) -> Arc<C> {
        self.app.clone()
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.run.job.spec.id
    }

    /// The job's kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.run.job.spec.kind
    }

    /// The job's queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.run.job.spec.queue
    }

    /// Which attempt this is, from 1. Runs that were not charged do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.run.record.attempt.saturating_add(1)
    }

    /// Which run this is, from 1. Every start counts, also after crashes and snoozes.
    #[must_use]
    pub fn run_number(&self) -> u32 {
        self.run.record.runs
    }

    /// How many charged runs may follow the first.
    #[must_use]
    pub fn max_retries(&self) -> u32 {
        self.run.job.spec.policy.max_retries
    }

    /// A key for outside effects that stays the same over every run of this job.
    #[must_use]
    pub fn effect_key(&self) -> String {
        self.id().to_string()
    }

    /// The right to write about this run; other systems can use its fence.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.run.lease
    }

    /// Which fire of which schedule made this job; none for most (W11).
    #[must_use]
    pub fn schedule(&self) -> Option<&FiredBy> {
        self.run.job.spec.schedule()
    }

    /// What the steps before this one returned, by their names: those that it follows and that succeeded (W1). In the
    /// callback of a workflow, what that came to: the results of the steps that succeeded and behind which none did.
    /// Empty for every other job.
    #[must_use]
    pub fn inputs(&self) -> &BTreeMap<String, Value> {
        &self.run.inputs
    }

    /// What a step before this one returned (W1): see [`StepName`](crate::workflows::StepName) for names that know what
    /// that is.
    ///
    /// # Errors
    /// When this job does not follow such a step, or its result has another shape.
    pub fn input<T: DeserializeOwned>(&self, step: impl NamesStep<T>) -> Result<T, serde_json::Error> {
        let step = step.into_name();
        let value = self.run.inputs.get(&*step);
        let missing =
            || serde::de::Error::custom(format!("there is no result of a step `{step}` before this one"));
        serde_json::from_value(value.cloned().ok_or_else(missing)?)
    }

    /// The workflow or batch that this job is a part of, and the name of its step (W1-W6).
    #[must_use]
    pub fn part_of(&self) -> Option<&PartOf> {
        self.run.job.spec.part_of()
    }

    /// The job's tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.run.job.spec.tags
    }

    /// The job's params, decoded; missing params decode as the empty object.
    ///
    /// # Errors
    /// When they do not have the shape of `T`.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.run.job.spec.params.as_deref().unwrap_or("{}"))
    }

    /// What ties the job to a request or a trace outside.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&str> {
        self.run.job.spec.correlation_id.as_deref()
    }

    /// The trace the job belongs to, as a W3C `traceparent`.
    #[must_use]
    pub fn trace_parent(&self) -> Option<&str> {
        self.run.job.spec.trace().map(|trace| &**trace)
    }

    /// The tenant whose job this is (E13).
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.run.job.spec.tenant()
    }

    /// The engine that runs the job.
    #[must_use]
    pub fn engine(&self) -> &Backstop {
        &self.run.engine
    }

    /// How much of its payload views of the job show; `payload` is what the handler gets.
    pub(crate) fn shown_payload(&self, payload: &Arc<str>) -> ShownPayload {
        sealing::shown_payload(&self.run.engine.parts.config, &self.run.job.spec, payload)
    }

    /// The job's business key.
    #[must_use]
    pub fn business_key(&self) -> Option<&str> {
        self.run.job.spec.business_key.as_deref()
    }

    /// The job whose callback this is.
    #[must_use]
    pub fn callback_of(&self) -> Option<JobId> {
        self.run.job.spec.callback_of
    }

    /// How the workflow or batch ended whose callback this is (F14); none for every other job. What its last steps
    /// returned is read with [`input`](Self::input).
    ///
    /// ```
    /// use backstop::prelude::*;
    /// use backstop::workflows::{DeadPart, StepName, WorkflowEnd};
    ///
    /// const RESERVED: StepName<String> = StepName::new("reserved");
    /// # #[job]
    /// # async fn reserve(order: u32) -> JobResult<String> { Ok(format!("room for order {order}")) }
    ///
    /// #[job]
    /// async fn confirm(cx: JobContext<()>) -> JobResult<String> {
    ///     let end: WorkflowEnd = cx.workflow_end().ok_or("this follows no workflow")?;
    ///     Ok(format!("{} has {}", end.name, cx.input(RESERVED)?))
    /// }
    ///
    /// #[job]
    /// async fn apologize(cx: JobContext<()>) -> JobResult<String> {
    ///     let dead: Option<DeadPart> = cx.workflow_end().and_then(|end| end.failed);
    ///     Ok(dead.and_then(|dead| dead.error).map(|error| error.message).unwrap_or_default())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let mut order = engine.workflow("order 7").on_success(&Confirm {}).on_failure(&Apologize {});
    /// order.step(RESERVED, engine.enqueue(Reserve { order: 7 })).add();
    /// order.submit().await?;
    /// # let worker = engine.worker(()).register::<Reserve>().register::<Confirm>().queue("default", 4).inline()?;
    /// # assert_eq!(worker.drain(10).await?.len(), 2);
    /// # let jobs = engine.jobs(Default::default(), backstop::query::PageRequest::first(10)).await?.items;
    /// # let results: Vec<_> = jobs.iter().filter_map(|job| job.result.as_deref()).collect();
    /// # assert!(results.contains(&"\"order 7 has room for order 7\""), "{results:?}");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn workflow_end(&self) -> Option<WorkflowEnd> {
        WorkflowEnd::read(&self.run.job.spec)
    }

    /// How the job ended whose callback this is (F14); none for a job that is no callback.
    #[must_use]
    pub fn parent(&self) -> Option<ParentEnd> {
        self.callback_of()?;
        serde_json::from_str(self.run.job.spec.params.as_deref()?).ok()
    }

    /// How long this run may take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.run.job.spec.policy.timeout
    }

    /// Keeps a line with the run, up to the output limit (F15).
    pub fn log(&self, line: impl AsRef<str>) {
        self.run.log(line.as_ref());
    }

    /// Stores how far the run is. A stale lease is not an error here: the run is being stopped already.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn progress(&self, percent: u8, note: impl Into<String>) -> Result<(), backstop_store::Error> {
        let parts = &self.run.engine.parts;
        let progress = Progress { percent: percent.min(100), note: parts.config.sanitized(&note.into()) };
        parts.store.annotate(vec![Note::progress(self.run.lease, progress)]).await?;
        Ok(())
    }

    /// Tells every subscriber something of the handler's own (E6). It is told at once, so a run that
    /// fails later has told it all the same, and its next run tells it again.
    ///
    /// Subscribers see what a view of the job would show: fields that are masked for its kind are hidden (F11), and
    /// of a kind whose data is sealed they learn that there was something (E12).
    ///
    /// # Errors
    /// When the name is longer than that of a kind may be or the data larger than a payload, or when the store, whose
    /// clock dates it, is away.
    pub async fn publish(
        &self,
        name: impl Into<String>,
        data: serde_json::Value,
    ) -> Result<(), OperateError> {
        let EngineParts { store, config, events, .. } = &*self.run.engine.parts;
        let (name, limits) = (name.into(), &config.limits);
        admit::name("name", &name, limits)?;
        let (actual, limit) = (data.to_string().len(), limits.payload_bytes);
        if actual > limit {
            return Err(Refusal::TooLarge { field: "data", actual, limit, unit: "bytes" }.into());
        }
        let spec = &self.run.job.spec;
        match &self.run.listener {
            Some(listener) => listener.published(&name, sealing::told(config, spec, data)),
            // What nobody hears costs no call to the store.
            None if !events.is_wanted("published") => {}
            None => {
                let what = EventKind::Published { name, data: sealing::told(config, spec, data) };
                events.publish(Event { at: store.now().await?, node: None, job: Some(spec.header()), what });
            }
        }
        Ok(())
    }

    /// Asks for up to `time` between the moment at which the run should stop ([`JobContext::canceled`]) and the one at
    /// which its future is dropped, at most 9 s. Its slot is kept meanwhile, and a worker that stops waits for it. For
    /// handlers that must end something outside this process.
    pub fn tidies_up_within(&self, time: Duration) {
        let millis = u64::try_from(time.min(COURTESY_MAX).as_millis()).unwrap_or(0);
        self.run.courtesy.store(millis, Ordering::SeqCst);
        if let Some(listener) = &self.run.listener {
            listener.tidies_up_within(Duration::from_millis(millis));
        }
    }

    /// Resolves when the run should stop: its job was canceled, its lease was lost, its time is up.
    pub async fn canceled(&self) {
        self.run.canceled.cancelled().await;
    }

    /// True when the run should stop.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.run.canceled.is_cancelled()
    }

    /// The token behind [`JobContext::canceled`], to hand to other code.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.run.canceled.clone()
    }
}

impl Run {
    /// Keeps a line with the run, up to the output limit (F15).
    pub(crate) fn log(&self, line: &str) {
        let line = text::storable(line);
        if let Some(listener) = &self.listener {
            listener.logged(&line);
        }
        if let Ok(mut output) = self.output.lock() {
            output.push(&line);
        }
    }

    /// How long the handler may tidy up after it was told to stop.
    pub(crate) fn courtesy(&self) -> Duration {
        Duration::from_millis(self.courtesy.load(Ordering::SeqCst))
    }
}
