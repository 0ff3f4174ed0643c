//! Batches (W3): jobs without an order, and what follows when all of them have ended.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Callback, NewJob, Operation};
use backstop_core::workflow::{BatchProgress, BatchRule, PartOf, Workflow, WorkflowBody, WorkflowStatus};
use backstop_core::{Refusal, WorkflowId, admit};
use backstop_store::{Amend, Amended, Drawer, Expect};
use futures_core::Stream;

use super::batch_stream::{BatchStream, copies};
use super::callback::callback_job;
use super::problem::{WorkflowProblem, check_name};
use super::queues;
use super::stored::{self, StoredWorkflow};
use super::submit::{check_part, seal};
use super::told::WorkflowNews;
use super::view::{self, WorkflowView};
use crate::job::Job;
use crate::parts::EngineParts;
use crate::submit::{Enqueue, callback_of};

/// Jobs that are stored in one transaction.
const CHUNK: usize = 1_000;

/// Times that a change is tried while jobs of the batch end.
const TRIES: u32 = 100;

/// The tag that jobs of a batch have.
pub(super) fn tag(id: WorkflowId) -> String {
    format!("batch:{id}")
}

/// A batch under construction: see [`Backstop::batch`](crate::Backstop::batch).
#[must_use = "nothing is stored before `for_each`, `from_stream` or `open`"]
pub struct BatchBuilder {
    parts: Arc<EngineParts>,
    name: Arc<str>,
    key: Option<String>,
    tenant: Option<Arc<str>>,
    rule: BatchRule,
    on_success: Option<Result<Callback, Refusal>>,
    on_failure: Option<Result<Callback, Refusal>>,
}

/// A batch that is stored.
#[derive(Debug, Clone)]
pub struct BatchHandle {
    parts: Arc<EngineParts>,
    /// Its identity.
    pub id: WorkflowId,
    /// True when it had been submitted before, under the same key, and nothing was added now.
    pub deduplicated: bool,
}

impl BatchBuilder {
    pub(super) fn new(parts: &Arc<EngineParts>, name: Arc<str>) -> Self {
        let rule = BatchRule::default();
        let (parts, key, tenant) = (parts.clone(), None, None);
        Self { parts, name, key, tenant, rule, on_success: None, on_failure: None }
    }

    /// Submitting the same key again answers with the first batch.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The tenant whose queues its jobs are on; it is that of its first job when a batch is not opened empty (E13).
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// It has succeeded when at least this share of its jobs has, from 0 to 1. Without a rule no job may fail.
    pub const fn success_rate_at_least(mut self, share: f64) -> Self {
        self.rule.success_rate_at_least = Some(share);
        self
    }

    /// It has succeeded when at most so many of its jobs failed or were called off.
    pub const fn failures_at_most(mut self, most: u64) -> Self {
        self.rule.failures_at_most = Some(most);
        self
    }

    /// Submits `callback`, once, when all its jobs have ended and it has succeeded.
    pub fn then_on_success<J: Job>(mut self, callback: J) -> Self {
        self.on_success = Some(callback_of(&callback));
        self
    }

    /// Submits `callback`, once, when all its jobs have ended and it has failed.
    pub fn then_on_failure<J: Job>(mut self, callback: J) -> Self {
        self.on_failure = Some(callback_of(&callback));
        self
    }

    /// The same with jobs by their names.
    pub fn callbacks_raw(mut self, on_success: Option<Callback>, on_failure: Option<Callback>) -> Self {
        self.on_success = on_success.map(Ok).or(self.on_success);
        self.on_failure = on_failure.map(Ok).or(self.on_failure);
        self
    }

    /// Stores a job for each item, and seals the batch. Items are taken a thousand at a time; the first jobs may run
    /// while the last ones are made. Up to a thousand are stored together, or none.
    ///
    /// Who was stopped in the middle of it repeats it under the same [`key`](BatchBuilder::key), with the same items in
    /// the same order: those that are stored are passed over, and the rest is added. Two who do so at once add each
    /// item once.
    ///
    /// # Errors
    /// When a job is refused, or the store is away. Jobs of the thousands before are stored then, and the batch is not
    /// sealed: repeating it goes on, or [`BatchHandle::add`] does, or [`BatchHandle::cancel`] calls it off.
    pub async fn for_each<I, T>(
        self,
        items: impl IntoIterator<Item = I>,
        job: impl FnMut(I) -> Enqueue<T>,
    ) -> Result<BatchHandle, WorkflowProblem> {
        let mut jobs = items.into_iter().map(job).map(Enqueue::untyped).peekable();
        let first: Vec<Enqueue> = jobs.by_ref().take(CHUNK).collect();
        let whole = jobs.peek().is_none();
        let (copy, count) = (self.key.is_some().then(|| copies(&first)), first.len() as u64);
        let batch = self.begin(first, whole, true).await?;
        if whole && !batch.deduplicated {
            return Ok(batch);
        }
        let mut stream = match BatchStream::of(&batch, count).await? {
            Some(stream) => stream,
            None => return Ok(batch),
        };
        if let (true, Some(first)) = (batch.deduplicated, copy) {
            stream.at = 0;
            stream.add(first).await?;
        }
        while jobs.peek().is_some() {
            stream.add(jobs.by_ref().take(CHUNK).collect()).await?;
        }
        stream.end().await
    }

    /// The same for jobs that come one after another: each thousand is stored as soon as it is there, and runs while
    /// the stream goes on. It is repeated like [`BatchBuilder::for_each`].
    ///
    /// ```
    /// use backstop::prelude::*;
    /// use futures_util::stream::{self, StreamExt as _};
    ///
    /// # #[job]
    /// # async fn import(row: u32) {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let rows = stream::iter(1..=2_500);
    /// let batch = engine.batch("import").from_stream(rows.map(|row| engine.enqueue(Import { row }))).await?;
    /// assert_eq!(batch.view().await?.counts.total, 2_500);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`BatchBuilder::for_each`].
    pub async fn from_stream<T>(
        self,
        jobs: impl Stream<Item = Enqueue<T>>,
    ) -> Result<BatchHandle, WorkflowProblem> {
        let batch = self.begin(Vec::new(), false, true).await?;
        let Some(mut stream) = BatchStream::of(&batch, 0).await? else { return Ok(batch) };
        let mut jobs = pin!(jobs);
        let mut chunk = Vec::new();
        while let Some(job) = std::future::poll_fn(|cx| jobs.as_mut().poll_next(cx)).await {
            chunk.push(job.untyped());
            if chunk.len() == CHUNK {
                stream.add(std::mem::take(&mut chunk)).await?;
            }
        }
        stream.add(chunk).await?;
        stream.end().await
    }

    /// Stores the batch without any job: [`BatchHandle::add`] them, and [`BatchHandle::seal`] it at last.
    ///
    /// # Errors
    /// When it cannot be meant, or the store is away.
    pub async fn open(self) -> Result<BatchHandle, WorkflowProblem> {
        self.begin(Vec::new(), false, false).await
    }

    /// The same with its first jobs, all of them or none.
    ///
    /// # Errors
    /// When a job is refused or the store is away: then nothing is stored.
    pub async fn open_with<T>(self, jobs: Vec<Enqueue<T>>) -> Result<BatchHandle, WorkflowProblem> {
        self.begin(jobs.into_iter().map(Enqueue::untyped).collect(), false, false).await
    }

    /// Stores the batch with its first jobs; with all of them when it is sealed at once.
    async fn begin(
        self,
        jobs: Vec<Enqueue>,
        sealed: bool,
        streamed: bool,
    ) -> Result<BatchHandle, WorkflowProblem> {
        let Self { parts, name, key, tenant, rule, on_success, on_failure } = self;
        check_name(&parts, &name)?;
        rule.check()?;
        if let Some(key) = &key {
            admit::name("key", key, &parts.config.limits)?;
        }
        let id = WorkflowId::from_uuid(crate::ids::job_id().as_uuid());
        let on = queues::of(&jobs);
        let tenant = tenant.or_else(|| queues::first_tenant(&on));
        let mut jobs = children(id, jobs).await?;
        let closed = |callback: Option<Result<Callback, Refusal>>| {
            callback.transpose()?.map(|callback| seal(&parts, id, callback)).transpose()
        };
        let total = jobs.len() as u64;
        let progress = BatchProgress { total, sealed, streamed, rule, ..BatchProgress::default() };
        let body = WorkflowBody::Batch(progress);
        let now = parts.store.now().await?;
        let mut workflow = Workflow {
            tenant: tenant.clone(),
            key: key.clone(),
            on_success: closed(on_success)?,
            on_failure: closed(on_failure)?,
            ..Workflow::new(id, name, body, now)
        };
        queues::add(&mut workflow, on)?;
        // One without a job has ended when it is sealed.
        let follows = workflow.advance(None, &[], now);
        jobs.extend(callback_job(&parts, &workflow, None, &follows).await?);
        let mut edits = stored::edits(&workflow, Expect::Absent);
        edits.extend(key.as_ref().map(|key| stored::key_edit(tenant.as_deref(), key, id)));
        match parts.store.amend(Amend { edits, jobs, ..Amend::default() }).await? {
            Amended::Done { now, .. } => {
                WorkflowNews::of(&parts, &workflow, None, &[], &follows).tell(&parts, now);
                Ok(BatchHandle { parts, id, deduplicated: false })
            }
            Amended::Refused { index, refusal } => Err(refused(index, refusal)),
            Amended::Conflict { .. } => {
                let name =
                    (Drawer::WorkflowKeys, stored::key_name(tenant.as_deref(), &key.unwrap_or_default()));
                let found = parts.store.named_documents(vec![name]).await?.pop().flatten();
                let known = found.and_then(|found| found.body.parse().ok());
                Ok(BatchHandle { parts, id: known.ok_or(WorkflowProblem::Changing(id))?, deduplicated: true })
            }
        }
    }
}

impl BatchHandle {
    pub(super) const fn parts(&self) -> &Arc<EngineParts> {
        &self.parts
    }

    pub(super) const fn of(parts: Arc<EngineParts>, id: WorkflowId) -> Self {
        Self { parts, id, deduplicated: true }
    }

    /// Adds jobs, all or none. While the batch is paused they are stored paused, and go on with it.
    ///
    /// # Errors
    /// When one of them is refused, the batch is sealed or canceled, or the store is away.
    pub async fn add<T>(&self, jobs: Vec<Enqueue<T>>) -> Result<(), WorkflowProblem> {
        let jobs: Vec<Enqueue> = jobs.into_iter().map(Enqueue::untyped).collect();
        let on = queues::of(&jobs);
        let jobs = children(self.id, jobs).await?;
        self.change(&on, |batch| {
            batch.total += jobs.len() as u64;
            batch.streamed = false;
            jobs.clone()
        })
        .await
    }

    /// No more jobs are added: when all have ended, the batch has.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn seal(&self) -> Result<(), WorkflowProblem> {
        self.close(false).await
    }

    /// Seals it because it is called off.
    pub(super) async fn call_off(&self) -> Result<(), WorkflowProblem> {
        self.close(true).await
    }

    async fn close(&self, called_off: bool) -> Result<(), WorkflowProblem> {
        let closed = |batch: &mut BatchProgress| {
            (batch.sealed, batch.called_off) = (true, called_off);
            Vec::new()
        };
        match self.change(&BTreeSet::new(), closed).await {
            Err(WorkflowProblem::Sealed(_) | WorkflowProblem::Canceled(_)) => Ok(()),
            other => other,
        }
    }

    /// How far it is.
    ///
    /// # Errors
    /// When the store is away, or the batch is gone.
    pub async fn view(&self) -> Result<WorkflowView, WorkflowProblem> {
        view::one(&self.parts, self.id).await?.ok_or(WorkflowProblem::Unknown(self.id))
    }

    /// Calls off all of its jobs that have not ended. One that is open is sealed by that, and has failed.
    ///
    /// # Errors
    /// When the store is away, or the batch is gone.
    pub async fn cancel(&self, reason: &str) -> Result<u64, WorkflowProblem> {
        let reason = self.parts.config.sanitized(reason);
        view::operate(&self.parts, self.id, &Operation::Cancel { reason }).await
    }

    /// Changes the batch, with jobs on these queues to store beside it. What follows when that was the end of it is
    /// done too.
    pub(super) async fn change(
        &self,
        on: &BTreeSet<Arc<str>>,
        change: impl Fn(&mut BatchProgress) -> Vec<NewJob>,
    ) -> Result<(), WorkflowProblem> {
        let parts = &self.parts;
        for attempt in 0..TRIES {
            let found = stored::one(&*parts.store, &parts.workflows, self.id).await?;
            let mut stored: StoredWorkflow = found.ok_or(WorkflowProblem::Unknown(self.id))?;
            let WorkflowBody::Batch(batch) = &mut stored.workflow.body else {
                return Err(WorkflowProblem::NotABatch(self.id));
            };
            if batch.sealed {
                let off = batch.called_off;
                return Err(if off { WorkflowProblem::Canceled } else { WorkflowProblem::Sealed }(self.id));
            }
            let mut jobs = change(batch);
            let paused = stored.workflow.status == WorkflowStatus::Paused;
            let held = jobs.iter().filter(|_| paused).map(|job| (job.spec.id, Operation::Pause)).collect();
            queues::add(&mut stored.workflow, on.clone())?;
            let now = parts.store.now().await?;
            let follows = stored.workflow.advance(None, &[], now);
            jobs.extend(callback_job(parts, &stored.workflow, None, &follows).await?);
            let edits = stored.edits();
            let amend = Amend { edits, jobs, operations: held, ..Amend::default() };
            match parts.store.amend(amend).await? {
                Amended::Done { now, .. } => {
                    WorkflowNews::of(parts, &stored.workflow, None, &[], &follows).tell(parts, now);
                    return Ok(());
                }
                Amended::Refused { index, refusal } => return Err(refused(index, refusal)),
                Amended::Conflict { .. } => {
                    // Jobs of it end all the time: whoever counts them writes it too.
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=2 + u64::from(attempt))))
                        .await;
                }
            }
        }
        Err(WorkflowProblem::Changing(self.id))
    }
}

fn refused(index: usize, refusal: Refusal) -> WorkflowProblem {
    WorkflowProblem::Job { job: format!("job {index}"), refusal }
}

/// Jobs of a batch, as they are stored.
pub(super) async fn children(id: WorkflowId, jobs: Vec<Enqueue>) -> Result<Vec<NewJob>, WorkflowProblem> {
    let mut made = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.into_iter().enumerate() {
        let name = format!("job {index}");
        check_part(&job, &name)?;
        let part = PartOf { id, node: None, number: 0, follows: false, renewed: false, payload_from: None };
        made.push(job.tag(tag(id)).part_of(part).prepared().await.map_err(WorkflowProblem::job(name))?);
    }
    Ok(made)
}
