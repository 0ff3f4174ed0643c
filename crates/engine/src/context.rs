//! What a handler sees of its job and of the world around it (E1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::failure::{HookAnswer, RuleSet};
use backstop_core::job::{LogLines, NewJob, ParentEnd, Progress, Record, Stale, State, StoredJob};
use backstop_core::{JobId, Lease, Refusal, admit, text};
use backstop_store::{Error as StoreError, Finish, Note};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::children::Children;
use crate::engine::Backstop;
use crate::error::{CompleteError, OperateError, SubmitError};
use crate::job::{Job, ResultOf};
use crate::outcome::Reply;
use crate::registry::Shown;
use crate::submit::Enqueue;
use crate::tx::CallerTransaction;
use crate::worker::conclude::{Happened, conclude};

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
    pub(crate) output: Mutex<Output>,
    pub(crate) engine: Backstop,
    pub(crate) code_version: Option<Arc<str>>,
    /// Milliseconds the handler may tidy up after it was told to stop.
    pub(crate) courtesy: AtomicU64,
    /// True once the handler has tried to complete its job in a transaction of its own (L14).
    pub(crate) completes: AtomicBool,
    /// What is to be submitted when the run has gone well (L23).
    pub(crate) children: Children,
}

/// What the handler logged, up to a limit.
#[derive(Debug)]
pub(crate) struct Output {
    lines: LogLines,
    limit: usize,
}

impl Output {
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: LogLines::default(), limit }
    }

    pub(crate) fn push(&mut self, line: &str) {
        self.lines.push(line, self.limit);
    }

    /// What was logged, with a last line that says how much did not fit.
    pub(crate) fn text(&self) -> Option<String> {
        self.lines.text()
    }
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

    /// The same run for a handler that shares nothing with others.
    pub(crate) fn without_app(self) -> JobContext<()> {
        JobContext::new(Arc::new(()), self.run)
    }

    /// The application's own context, as it was given to the worker.
    #[must_use]
    pub fn app(&self) -> &C {
        &self.app
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

    /// Prepares another job, as [`Backstop::enqueue`] does; it carries the correlation id and the trace of this one
    /// (L23).
    ///
    /// `.submit().await` stores it at once, so a run that fails later and is tried again submits it again: give it an
    /// idempotency key, or hand it to [`JobContext::submit_with_completion`]. In the transaction that completes this
    /// job, use `.submit_in(&mut tx)`.
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue<ResultOf<J>> {
        self.run.engine.enqueue(job).caused_by(&self.run.job.spec)
    }

    /// The same for a job by the name of its kind, with its payload as JSON text.
    pub fn enqueue_raw(&self, kind: &str, payload: impl Into<Arc<str>>) -> Enqueue {
        self.run.engine.enqueue_raw(kind, payload).caused_by(&self.run.job.spec)
    }

    /// Submits a job together with the completion of this run: in the transaction that completes it, also in that of
    /// [`JobContext::complete_in`]. A run that fails or loses its job submits nothing, so nothing is doubled when it is
    /// tried again (L23).
    ///
    /// ```standalone_crate
    /// use std::time::Duration;
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn sign_up(cx: JobContext<()>, user: u64) -> JobResult {
    ///     cx.submit_with_completion(cx.enqueue(Welcome { user })).await?;
    ///     let survey = cx.enqueue(Survey { user }).delay(Duration::from_secs(7 * 24 * 60 * 60));
    ///     cx.submit_with_completion(survey).await?;
    ///     Ok(())
    /// }
    ///
    /// #[job]
    /// async fn welcome(user: u64) {}
    ///
    /// #[job]
    /// async fn survey(user: u64) {}
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// engine.enqueue(SignUp { user: 7 }).submit().await?;
    /// let worker = engine.worker(()).register_all().queue("default", 1).inline()?;
    /// let ran: Vec<_> = worker.drain(10).await?.into_iter().map(|run| run.kind.to_string()).collect();
    /// assert_eq!(ran, ["sign_up", "welcome"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the job is refused. It can have no keys and replace no other job: a completion is not refused because of
    /// another job.
    pub async fn submit_with_completion<T>(&self, job: Enqueue<T>) -> Result<JobId, SubmitError> {
        if self.run.completes.load(Ordering::SeqCst) {
            return Err(Children::too_late().into());
        }
        let child = job.prepared().await?;
        let id = child.spec.id;
        self.run.children.add(child, self.run.engine.inner.config.limits.batch)?;
        Ok(id)
    }

    /// How much of its payload views of the job show; `payload` is what the handler gets.
    pub(crate) fn how_shown(&self, payload: &Arc<str>) -> Shown {
        let spec = &self.run.job.spec;
        if backstop_core::sealing::is_sealed(&spec.payload) {
            return Shown::Sealed;
        }
        let shown = self.run.engine.inner.config.mask().text(Some(&spec.kind), payload);
        if shown == *payload { Shown::Whole } else { Shown::Masked }
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
        let progress = Progress { percent: percent.min(100), note: self.run.engine.words(&note.into()) };
        self.run.engine.inner.store.annotate(vec![Note::progress(self.run.lease, progress)]).await?;
        Ok(())
    }

    /// Tells every subscriber of this process something of the handler's own (E6). It is told at once, so a run that
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
        let inner = &self.run.engine.inner;
        let (name, limits) = (name.into(), &inner.config.limits);
        admit::name("name", &name, limits)?;
        let (actual, limit) = (data.to_string().len(), limits.payload_bytes);
        if actual > limit {
            return Err(Refusal::TooLarge { field: "data", actual, limit, unit: "bytes" }.into());
        }
        let (at, job) = (inner.store.now().await?, self.run.job.spec.header());
        let data = crate::sealing::told(&inner.config, &self.run.job.spec, data);
        let what = EventKind::Published { name, data };
        inner.bus.tell(Event { at, node: None, job: Some(job), what });
        Ok(())
    }

    /// Asks for up to `time` between the moment at which the run should stop ([`JobContext::canceled`]) and the one at
    /// which its future is dropped, at most 9 s. Its slot is kept meanwhile, and a worker that stops waits for it. For
    /// handlers that must end something outside this process.
    pub fn tidies_up_within(&self, time: Duration) {
        let millis = u64::try_from(time.min(COURTESY_MAX).as_millis()).unwrap_or(0);
        self.run.courtesy.store(millis, Ordering::SeqCst);
    }

    /// Completes the job inside the handler's own transaction: what the handler wrote there and the completion, with
    /// `result` and the `on_success` callback, commit together or not at all (L14).
    ///
    /// Commit the transaction next, and then return `Ok`; what the handler returns is not kept, `result` is. A handler
    /// that returns `Ok` although the transaction was not committed has failed: its run is tried again. A handler that
    /// fails or dies after the commit has completed its job all the same.
    ///
    /// # Errors
    /// [`CompleteError::Stale`] when the job was canceled or taken by others meanwhile: roll back, which `?` does with
    /// every driver. [`CompleteError::Store`] when the completion could not be written.
    pub async fn complete_in(
        &self,
        tx: &mut impl CallerTransaction,
        result: impl Serialize,
    ) -> Result<(), CompleteError> {
        let finish = self.run.completion(&result);
        // Dropped here: what is not `Send` must not be held while the database works.
        drop(result);
        let store = self.run.engine.inner.store.clone();
        let new = finish.ending.follow_up.as_deref().into_iter().chain(&finish.ending.children);
        let new: Vec<NewJob> = new.cloned().collect();
        if !new.is_empty() {
            // What others share with these jobs must not hang on the handler's transaction.
            store.prepare(&new).await?;
        }
        self.run.completes.store(true, Ordering::SeqCst);
        completed(tx.finish(&store.info(), finish).await)
    }

    /// The same for a transaction that blocks the thread, such as rusqlite's: call it where the transaction is, inside
    /// `spawn_blocking`, with a clone of this context.
    ///
    /// # Errors
    /// As [`JobContext::complete_in`].
    #[cfg(feature = "sqlite")]
    pub fn complete_in_blocking(
        &self,
        tx: &backstop_sqlite::rusqlite::Connection,
        result: impl Serialize,
    ) -> Result<(), CompleteError> {
        let finish = self.run.completion(&result);
        let store = self.run.engine.inner.store.info();
        self.run.completes.store(true, Ordering::SeqCst);
        completed(crate::tx::sqlite::finish(tx, &store, finish))
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
        if let Ok(mut output) = self.output.lock() {
            output.push(&line);
        }
    }

    /// How long the handler may tidy up after it was told to stop.
    pub(crate) fn courtesy(&self) -> Duration {
        Duration::from_millis(self.courtesy.load(Ordering::SeqCst))
    }

    /// The end of a run that went well, as the engine itself would write it.
    fn completion(&self, result: &impl Serialize) -> Finish {
        let happened = Happened {
            job: self.job.clone(),
            record: self.record.clone(),
            reply: Reply::of_value(result),
            output: self.output.lock().ok().and_then(|output| output.text()),
            code_version: self.code_version.clone(),
        };
        // A success: no rule is about it.
        let no_rules = RuleSet::default();
        let mut ending =
            conclude(&self.engine.inner.config, &no_rules, happened, |_, _| HookAnswer::default()).ending;
        self.children.join(&mut ending);
        Finish { lease: self.lease, ending }
    }
}

fn completed(answer: Result<Result<State, Stale>, StoreError>) -> Result<(), CompleteError> {
    answer??;
    Ok(())
}
