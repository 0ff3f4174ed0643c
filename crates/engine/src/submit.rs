//! The builder of one submit: every option of the L and F rules.

mod many;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::admit::admit;
use backstop_core::failure::Backoff;
use backstop_core::job::{Callback, JobDefaults, NewJob, OnConflict, Policy, Priority, Spec, Start};
use backstop_core::workflow::PartOf;
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::Submit;
use serde::Serialize;
use serde_json::Value;

use crate::error::SubmitError;
use crate::handle::JobHandle;
use crate::job::Job;
use crate::outcome::IntoReply;
use crate::parts::EngineParts;
use crate::{sealing, signing};

/// A job about to be submitted. `T` is what its handler returns; of a job that is named, and not typed, it is JSON.
///
/// ```
/// # use backstop::prelude::*;
/// # #[derive(Serialize, Deserialize)] struct Charge { cents: u32 }
/// # impl Job for Charge {
/// #     const KIND: &'static str = "charge";
/// #     type Context = ();
/// #     type Output = JobResult;
/// #     async fn run(self, _: JobContext<()>) -> JobResult { Ok(()) }
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let engine = Backstop::open("memory:").await?;
/// let first = engine.enqueue(Charge { cents: 990 }).idempotency_key("order-17").submit().await?;
/// let again = engine.enqueue(Charge { cents: 990 }).idempotency_key("order-17").submit().await?;
/// assert!(again.deduplicated && again.id == first.id);
/// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[must_use = "nothing is stored before `.submit().await`"]
pub struct Enqueue<T = Value> {
    parts: Arc<EngineParts>,
    /// A payload that could not be written as JSON is refused at submit, like every other bad input.
    job: Result<NewJob, Refusal>,
    /// What this submit says of retries, backoff and times: field by field, over everything else (L19).
    said: JobDefaults,
    /// A policy that this submit brings as a whole: then kind and queue have no say in it.
    whole: Option<Policy>,
    /// What the code of the kind declares.
    declared: JobDefaults,
    /// True when this submit says itself when the job may first run.
    start_is_own: bool,
    result: PhantomData<fn() -> T>,
}

impl<T> Enqueue<T> {
    pub(crate) fn new(parts: &Arc<EngineParts>, job: Result<NewJob, Refusal>, declared: JobDefaults) -> Self {
        let (parts, said) = (parts.clone(), JobDefaults::default());
        Self { parts, job, said, whole: None, declared, start_is_own: false, result: PhantomData }
    }

    pub(crate) fn typed<J: Job<Output: IntoReply<Value = T>>>(parts: &Arc<EngineParts>, job: &J) -> Self {
        Self::of_kind::<J>(parts, payload(job))
    }

    /// A job of this kind with its payload as it is stored.
    pub(crate) fn of_kind<J: Job<Output: IntoReply<Value = T>>>(
        parts: &Arc<EngineParts>,
        payload: Result<Arc<str>, Refusal>,
    ) -> Self {
        let defaults = J::defaults();
        let spec = payload.map(|payload| {
            let mut spec = Spec::new(crate::ids::job_id(), J::KIND, payload);
            spec.version = J::VERSION;
            spec.priority = defaults.priority;
            if let Some(queue) = defaults.queue {
                spec.queue = queue.into();
            }
            spec
        });
        Self::new(parts, spec.map(NewJob::new), defaults.jobs)
    }

    /// A job by the name of its kind.
    pub(crate) fn raw(parts: &Arc<EngineParts>, kind: &str, payload: impl Into<Arc<str>>) -> Self {
        let spec = Spec::new(crate::ids::job_id(), kind, payload);
        Self::new(parts, Ok(NewJob::new(spec)), JobDefaults::default())
    }

    /// The same job under another id.
    pub(crate) fn with_id(self, id: JobId) -> Self {
        self.with(|job| job.spec.id = id)
    }

    /// Makes it a part of a workflow or a batch (W1-W6).
    pub(crate) fn part_of(self, part: PartOf) -> Self {
        self.with(|job| job.spec.provenance_mut().part_of = Some(part))
    }

    /// Its id; none for a payload that could not be written.
    pub(crate) fn id(&self) -> Option<JobId> {
        self.job.as_ref().ok().map(|job| job.spec.id)
    }

    pub(crate) fn queue_name(&self) -> Option<Arc<str>> {
        self.job.as_ref().ok().map(|job| job.spec.queue.clone())
    }

    pub(crate) fn kind_name(&self) -> Option<Arc<str>> {
        self.job.as_ref().ok().map(|job| job.spec.kind.clone())
    }

    /// What a job of a workflow or a batch cannot have, if it has it, and why.
    pub(crate) fn field_against_parts(&self) -> Option<(&'static str, &'static str)> {
        let NewJob { spec, supersedes, on_conflict, .. } = self.job.as_ref().ok()?;
        let key =
            "a job of a workflow or a batch cannot have one: the workflow or batch has a key of its own";
        let skip =
            "a job of a workflow or a batch that is skipped would be waited for without end: use `reject`";
        let skips = spec.business_key.is_some() && *on_conflict == OnConflict::Skip;
        let fields = [
            ("idempotency_key", spec.idempotency_key.is_some(), key),
            ("ordering_key", spec.ordering_key.is_some(), key),
            ("replaces", supersedes.is_some(), key),
            ("on_conflict", skips, skip),
        ];
        fields.into_iter().find(|(_, has, _)| *has).map(|(field, _, problem)| (field, problem))
    }

    /// The same job once more, for whoever may have to submit it to another batch.
    pub(crate) fn copied(&self) -> Self {
        let Self { parts, job, said, whole, declared, start_is_own, result } = self;
        Self {
            parts: parts.clone(),
            job: job.clone(),
            said: *said,
            whole: whole.clone(),
            declared: *declared,
            start_is_own: *start_is_own,
            result: *result,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            change(job);
        }
        self
    }

    /// The same job with its result as JSON, so that jobs of several kinds fit into one list.
    pub fn untyped(self) -> Enqueue {
        let Self { parts, job, said, whole, declared, start_is_own, .. } = self;
        Enqueue { parts, job, said, whole, declared, start_is_own, result: PhantomData }
    }

    /// Ties it to the job whose handler submits it (L23).
    pub(crate) fn caused_by(self, parent: &Spec) -> Self {
        self.with(|job| {
            job.spec.correlation_id.clone_from(&parent.correlation_id);
            if let Some(trace) = parent.trace() {
                job.spec.provenance_mut().trace = Some(trace.clone());
            }
        })
    }

    /// What is said of this job, field by field: by this submit, its kind, its queue, the engine (L19).
    fn defaults(&self) -> JobDefaults {
        let Ok(NewJob { spec, .. }) = &self.job else { return self.said };
        self.said.over(self.parts.config.defaults(&spec.kind, &spec.queue, self.declared))
    }

    fn resolved(&self) -> Policy {
        match &self.whole {
            Some(policy) => self.said.applied_to(policy.clone()),
            None => self.defaults().applied_to(Policy::default()),
        }
    }

    /// Submits to another queue.
    pub fn queue(self, queue: impl Into<Arc<str>>) -> Self {
        self.with(|job| job.spec.queue = queue.into())
    }

    /// How urgent it is (L3).
    pub fn priority(self, priority: Priority) -> Self {
        self.with(|job| job.spec.priority = priority)
    }

    /// Version of the payload's shape, for a job that is submitted by name (H10).
    pub fn version(self, version: u32) -> Self {
        self.with(|job| job.spec.version = version)
    }

    /// Runs it no earlier than this long from now, by the store's clock (L19).
    pub fn delay(mut self, delay: Duration) -> Self {
        self.start_is_own = true;
        self.with(|job| job.start = Start::After(delay))
    }

    /// Runs it no earlier than this moment (L19).
    pub fn run_at(mut self, moment: Timestamp) -> Self {
        self.start_is_own = true;
        self.with(|job| job.start = Start::At(moment))
    }

    /// Never starts it later than this moment (L19).
    pub fn expires_at(self, moment: Timestamp) -> Self {
        self.with(|job| job.spec.expires_at = Some(moment))
    }

    /// Fails it as expired when it has been due this long without starting (L19).
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.said.max_wait = Some(wait);
        self
    }

    /// Charged runs after the first (F5).
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.said.max_retries = Some(retries);
        self
    }

    /// Crashes that are forgiven (C1).
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.said.max_crashes = Some(crashes);
        self
    }

    /// How long to wait between charged runs (F8).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.said = self.said.backoff(backoff);
        self
    }

    /// The same, starting from what the kind's or the queue's settings say; name the queue before.
    pub fn adjust_backoff(self, change: impl FnOnce(Backoff) -> Backoff) -> Self {
        let backoff = change(self.resolved().backoff);
        self.backoff(backoff)
    }

    /// How long one run may take (F10).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.said.timeout = Some(timeout);
        self
    }

    /// Retries, backoff and times at once: whatever kind and queue say of them.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.said = JobDefaults {
            delay: self.said.delay,
            expires_in: self.said.expires_in,
            ..JobDefaults::default()
        };
        self.whole = Some(policy);
        self
    }

    /// Never starts it later than this long after the moment at which it may first run (L19).
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.said.expires_in = Some(time);
        self
    }

    /// Submitting the same key again, ever, answers with the first job (L10).
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.with(|job| job.spec.idempotency_key = Some(key.into()))
    }

    /// No two live jobs share this key (L11).
    pub fn business_key(self, key: impl Into<String>) -> Self {
        self.with(|job| job.spec.business_key = Some(key.into()))
    }

    /// Jobs with the same key run one at a time, in the order of their submits; one that fails for good holds up those
    /// behind it until it is retried or skipped (L21). See [`Backstop::ordering_keys`](crate::Backstop::ordering_keys).
    pub fn ordering_key(self, key: impl Into<Arc<str>>) -> Self {
        self.with(|job| job.spec.ordering_key = Some(key.into()))
    }

    /// What limits by key count, such as a customer: jobs with different keys share their queue by turns (H5). See
    /// [`Backstop::limits`](crate::Backstop::limits).
    pub fn limit_key(self, key: impl Into<Arc<str>>) -> Self {
        self.with(|job| job.spec.needs_mut().limit_key = Some(key.into()))
    }

    /// Of all jobs with this name one runs at a time; the others wait and are charged nothing (H6).
    pub fn single_instance(self, name: impl Into<Arc<str>>) -> Self {
        self.with(|job| job.spec.needs_mut().single_instance = Some(name.into()))
    }

    /// Holds so many permits of a pool while it runs; a pool is a limit with permits, of that name (H5).
    pub fn permits(self, pool: impl Into<Arc<str>>, permits: u32) -> Self {
        self.with(|job| {
            job.spec.needs_mut().permits.insert(pool.into(), permits);
        })
    }

    /// How long it may be kept from running, by limits, an open circuit or endings that charge nothing; then it fails
    /// as `deferral_exhausted` (H7). For ever unless said.
    pub fn max_deferral(mut self, most: Duration) -> Self {
        self.said.max_deferral = Some(most);
        self
    }

    /// What this job needs that may be away, in place of what its kind needs: while that fails, its circuit is open and
    /// the job is put off at no cost, and other jobs of its kind go on (H3).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue_raw("order", r#"{"number":7}"#).dependency("partner-eu").submit().await?;
    /// let stored = engine.job(job.id).await?.expect("it is stored").view.job;
    /// assert_eq!(stored.spec.dependency.as_deref(), Some("partner-eu"));
    /// # Ok(()) }
    /// ```
    pub fn dependency(self, name: impl Into<Arc<str>>) -> Self {
        self.with(|job| job.spec.dependency = Some(name.into()))
    }

    /// What to do when a live job holds the business key (L11).
    pub fn on_conflict(self, policy: OnConflict) -> Self {
        self.with(|job| job.on_conflict = policy)
    }

    /// Cancels an unstarted job and takes its place, in one transaction (L22).
    pub fn replaces(self, job: JobId) -> Self {
        self.with(|new| new.supersedes = Some(job))
    }

    /// Ties it to a request or a trace outside.
    pub fn correlation_id(self, id: impl Into<String>) -> Self {
        self.with(|job| job.spec.correlation_id = Some(id.into()))
    }

    /// The trace it belongs to, as the `traceparent` of W3C Trace Context; its callbacks belong to the same one.
    ///
    /// Anything else is refused at submit.
    pub fn trace_parent(self, trace: impl Into<Arc<str>>) -> Self {
        self.with(|job| job.spec.provenance_mut().trace = Some(trace.into()))
    }

    /// A word to find it by.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.with(|job| job.spec.tags.push(tag.into()))
    }

    /// Settings beside the payload: anything that serializes to a JSON object.
    pub fn params(mut self, params: impl Serialize) -> Self {
        match serde_json::to_string(&params) {
            Ok(text) => self.with(|job| job.spec.params = Some(text.into())),
            Err(problem) => {
                self.job = Err(Refusal::invalid("params", problem.to_string()));
                self
            }
        }
    }

    /// Submits `callback` when this job has succeeded, in the same transaction (F14).
    pub fn on_success<J: Job>(self, callback: J) -> Self {
        self.callback(&callback, |spec, callback| spec.on_success = Some(callback))
    }

    /// Submits `callback` when this job has failed for good, in the same transaction (F14).
    pub fn on_failure<J: Job>(self, callback: J) -> Self {
        self.callback(&callback, |spec, callback| spec.on_failure = Some(callback))
    }

    /// Submits `callback`, a job by its name, when this job has succeeded (F14).
    pub fn on_success_raw(self, callback: Callback) -> Self {
        self.with(|job| job.spec.on_success = Some(callback))
    }

    /// Submits `callback`, a job by its name, when this job has failed for good (F14).
    pub fn on_failure_raw(self, callback: Callback) -> Self {
        self.with(|job| job.spec.on_failure = Some(callback))
    }

    fn callback<J: Job>(mut self, job: &J, set: impl FnOnce(&mut Spec, Callback)) -> Self {
        match callback_of(job) {
            Ok(callback) => self.with(|new| set(&mut new.spec, callback)),
            Err(refusal) => {
                self.job = Err(refusal);
                self
            }
        }
    }

    /// The job as it would be stored, sealed and signed, or why it would be refused. What is counted from the submit is
    /// counted here from the moment the job was made, by the clock of this process.
    ///
    /// # Errors
    /// The first check that refuses it (L12).
    pub fn into_new_job(self) -> Result<NewJob, Refusal> {
        let made = self.job.as_ref().map_or(Timestamp::EPOCH, |job| crate::ids::made_at(job.spec.id));
        self.into_new_job_at(made)
    }

    /// The same at a moment of the store's clock.
    fn into_new_job_at(self, now: Timestamp) -> Result<NewJob, Refusal> {
        let (defaults, policy) = (self.defaults(), self.resolved());
        let config = &self.parts.config;
        let admitted = self.job.and_then(|mut job| {
            job.spec.policy = policy;
            if let (false, Some(delay)) = (self.start_is_own, defaults.delay) {
                job.start = Start::After(delay);
            }
            let due = job.start.run_at(now).max(now);
            job.spec.expires_at = job.spec.expires_at.or_else(|| Some(due.after(defaults.expires_in?)));
            admit(&job, &config.limits, &config.gate(&job.spec.queue))?;
            job.depth_limits = config.depth_limits(&job.spec.queue);
            // Sealed first: what is signed is what is stored.
            sealing::close(config, &mut job.spec)?;
            signing::vouch(config, &mut job.spec);
            Ok(job)
        });
        admitted.inspect_err(|refusal| self.parts.figures.refused(refusal))
    }

    /// The job as a schedule keeps it: with everything that is said of it by now, neither sealed nor signed, and how
    /// long each one made of it may wait to start.
    pub(crate) fn into_template(self) -> Result<(NewJob, Option<Duration>), Refusal> {
        let (defaults, policy) = (self.defaults(), self.resolved());
        let mut job = self.job?;
        job.spec.policy = policy;
        job.spec.id = JobId::from_u128(0);
        if let (false, Some(delay)) = (self.start_is_own, defaults.delay) {
            job.start = Start::After(delay);
        }
        admit(&job, &self.parts.config.limits, &self.parts.config.gate(&job.spec.queue))?;
        Ok((job, defaults.expires_in))
    }

    /// Stores the job; an `Ok` means it is durable.
    ///
    /// # Errors
    /// [`SubmitError::Refused`] names what is wrong; [`SubmitError::Store`] means the store is away.
    pub async fn submit(self) -> Result<JobHandle<T>, SubmitError> {
        let parts = self.parts.clone();
        let job = self.prepared().await?;
        let mut answers = parts.store.submit(Submit { jobs: vec![job], atomic: true }).await?;
        let submitted = answers.pop().unwrap_or(Err(Refusal::BatchRefused { index: 0 }))?;
        Ok(JobHandle::new(parts, submitted))
    }

    /// The job as it is stored. The store's clock is asked only when something is counted by it.
    pub(crate) async fn prepared(self) -> Result<NewJob, SubmitError> {
        let now = if self.counts_from_now() { self.parts.store.now().await? } else { Timestamp::EPOCH };
        let parts = self.parts.clone();
        let job = self.into_new_job_at(now)?;
        parts.circuits.own.mark(&*parts.store, std::slice::from_ref(&job)).await;
        Ok(job)
    }

    fn counts_from_now(&self) -> bool {
        let has_none = |job: &NewJob| job.spec.expires_at.is_none();
        self.defaults().expires_in.is_some() && self.job.as_ref().is_ok_and(has_none)
    }

    /// Stores the job inside the caller's own transaction: its commit makes the job, its rollback leaves none (L14).
    /// Before the commit there is nothing that its handle could wait for.
    ///
    /// # Errors
    /// As [`Enqueue::submit`].
    pub async fn submit_in(
        self,
        tx: &mut impl crate::tx::CallerTransaction,
    ) -> Result<JobHandle<T>, SubmitError> {
        let parts = self.parts.clone();
        let store = &parts.store;
        let job = [self.prepared().await?];
        // What others share with this job must not hang on the caller's transaction.
        store.prepare(&job).await?;
        let [job] = job;
        let submitted = tx.submit(&parts.transaction_context(), job).await?;
        Ok(JobHandle::new(parts, submitted))
    }

    /// The same for a transaction that blocks the thread, such as rusqlite's, for code that is not async.
    ///
    /// # Errors
    /// As [`Enqueue::submit`].
    #[cfg(feature = "sqlite")]
    pub fn submit_in_blocking(
        self,
        tx: &backstop_sqlite::rusqlite::Connection,
    ) -> Result<JobHandle<T>, SubmitError> {
        let parts = self.parts.clone();
        let submitted = crate::tx::sqlite::submit(tx, &parts.transaction_context(), self.into_new_job()?)?;
        Ok(JobHandle::new(parts, submitted))
    }
}

/// A typed job as a callback.
pub(crate) fn callback_of<J: Job>(job: &J) -> Result<Callback, Refusal> {
    let queue = J::defaults().queue.unwrap_or("default").into();
    Ok(Callback { kind: J::KIND.into(), version: J::VERSION, queue, payload: payload(job)? })
}

fn payload(job: &impl Serialize) -> Result<Arc<str>, Refusal> {
    serde_json::to_string(job)
        .map(Into::into)
        .map_err(|problem| Refusal::invalid("payload", format!("it cannot be serialized as JSON: {problem}")))
}
