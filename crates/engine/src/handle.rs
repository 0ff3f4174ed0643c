//! What a submit answers, and how a caller waits for what became of the job.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::JobId;
use backstop_core::failure::TerminalReason;
use backstop_core::job::{JobDetail, JobJson, Operated, State};
use backstop_store::{Error as StoreError, Store, Submitted};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::engine::Backstop;
use crate::error::OperateError;
use crate::job::{Job, ResultOf};
use crate::parts::EngineParts;
use crate::sealing;

/// How long a wait leaves the store alone at first when no event of this process tells of the job, and at last.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
const LOOK_SELDOM: Duration = Duration::from_secs(2);

/// A job that was submitted. `T` is what its handler returns; of a job that was submitted by name it is JSON.
///
/// ```
/// use backstop::prelude::*;
///
/// #[job]
/// async fn add(a: u32, b: u32) -> JobResult<u32> {
///     Ok(a + b)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let worker = engine.worker(()).register::<Add>().queue("default", 1).start().await?;
/// let job = engine.enqueue(Add { a: 2, b: 3 }).submit().await?;
/// let sum: u32 = job.result().await?;
/// assert_eq!(sum, 5);
/// worker.stop().await;
/// # Ok(()) }
/// ```
pub struct JobHandle<T = Value> {
    /// The job's id; of a duplicate, that of the job that is there.
    pub id: JobId,
    /// Where the job was when the submit was answered.
    pub state: State,
    /// True when a key or an id led to a job that was there already.
    pub deduplicated: bool,
    parts: Arc<EngineParts>,
    result: PhantomData<fn() -> T>,
}

impl<T> JobHandle<T> {
    pub(crate) fn new(parts: Arc<EngineParts>, submitted: Submitted) -> Self {
        let Submitted { id, state, deduplicated } = submitted;
        Self { id, state, deduplicated, parts, result: PhantomData }
    }

    /// Waits until the job has ended, and answers how; none when it was never stored or is gone from the store.
    ///
    /// Wrap it in [`tokio::time::timeout`] to wait for a limited time: nothing is lost when it is dropped.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn wait(&self) -> Result<Option<JobDetail>, StoreError> {
        wait(&self.parts, self.id).await
    }

    /// Calls the job off (L7). Answers whether that changed anything: it may have ended already.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<Operated, OperateError> {
        self.parts.cancel(self.id, &reason.into()).await
    }
}

impl<T: DeserializeOwned> JobHandle<T> {
    /// Waits until the job has ended, and answers what its handler returned.
    ///
    /// # Errors
    /// [`ResultError`] says what became of a job that did not succeed.
    pub async fn result(&self) -> Result<T, ResultError> {
        decoded(&self.parts, self.id).await
    }

    /// The same, waiting no longer than `time`. The job goes on, and its result can be asked for again.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # use backstop::ResultError;
    /// # use std::time::Duration;
    /// # #[job]
    /// # async fn add(a: u32, b: u32) -> JobResult<u32> { Ok(a + b) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue(Add { a: 2, b: 3 }).submit().await?;
    /// let answer = job.result_within(Duration::from_millis(20)).await;
    /// assert!(matches!(answer, Err(ResultError::NotYet { .. })), "no worker runs here");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ResultError::NotYet`] when it has not ended by then; otherwise as [`JobHandle::result`].
    pub async fn result_within(&self, time: Duration) -> Result<T, ResultError> {
        let not_yet = ResultError::NotYet { job: self.id, waited: time };
        tokio::time::timeout(time, self.result()).await.unwrap_or(Err(not_yet))
    }
}

impl<T> Clone for JobHandle<T> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), ..*self }
    }
}

impl<T> fmt::Debug for JobHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobHandle")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("deduplicated", &self.deduplicated)
            .finish_non_exhaustive()
    }
}

/// Why there is no result of a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// It is a dead letter.
    #[error("job {job} failed ({reason}): {error}")]
    Failed {
        /// The job.
        job: JobId,
        /// Why it is dead (F13).
        reason: TerminalReason,
        /// The sanitized error of its last run.
        error: String,
        /// What its handler gave to [`Outcome::failure`](crate::Outcome::failure).
        value: Option<Value>,
    },
    /// It was called off.
    #[error("job {job} was canceled: {reason}")]
    Canceled {
        /// The job.
        job: JobId,
        /// Why, in words.
        reason: String,
    },
    /// It has not ended in the time that the caller waits.
    #[error("job {job} has not ended within {waited:?}")]
    NotYet {
        /// The job.
        job: JobId,
        /// How long the caller has waited.
        waited: Duration,
    },
    /// It was never stored, or it was removed after its end.
    #[error("there is no job {job}: it was never stored, or it was removed after its end")]
    NoSuchJob {
        /// The id that was asked for.
        job: JobId,
    },
    /// It succeeded, and what it returned is not there in this shape.
    #[error("the result of job {job} cannot be read: {problem}")]
    Unreadable {
        /// The job.
        job: JobId,
        /// Why: it was too large to keep (L6), or it has another shape.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Backstop {
    /// Waits until a job has ended, and answers how; none when there is no such job, or it was archived.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn wait(&self, job: JobId) -> Result<Option<JobDetail>, StoreError> {
        wait(&self.parts, job).await
    }

    /// Waits until a job of a known kind has ended, and answers what its handler returned. For a job whose
    /// [`JobHandle`] is gone, such as one that another request has submitted; an archived job answers too.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # #[job]
    /// # async fn add(a: u32, b: u32) -> JobResult<u32> { Ok(a + b) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let id = engine.enqueue(Add { a: 2, b: 3 }).submit().await?.id;
    /// # engine.worker(()).register::<Add>().queue("default", 1).inline()?.drain(1).await?;
    /// assert_eq!(engine.result::<Add>(id).await?, 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`JobHandle::result`].
    pub async fn result<J: Job>(&self, job: JobId) -> Result<ResultOf<J>, ResultError>
    where
        ResultOf<J>: DeserializeOwned,
    {
        decoded(&self.parts, job).await
    }
}

async fn wait(parts: &EngineParts, job: JobId) -> Result<Option<JobDetail>, StoreError> {
    let mut events = parts.events.subscribe();
    let mut pause = LOOK_AGAIN;
    loop {
        let detail = parts.job(job).await?;
        if detail.as_ref().is_none_or(|detail| detail.view.record.state.is_terminal()) {
            return Ok(detail);
        }
        // Events tell of this process at once; looking again now and then covers all others.
        let about_it = async {
            while events.next().await.is_some_and(|event| event.job.as_ref().is_none_or(|it| it.id != job)) {}
        };
        if tokio::time::timeout(pause, about_it).await.is_err() {
            pause = (pause * 2).min(LOOK_SELDOM);
        }
    }
}

async fn decoded<T: DeserializeOwned>(parts: &EngineParts, job: JobId) -> Result<T, ResultError> {
    let ended = match wait(parts, job).await? {
        Some(detail) => detail.reads(),
        None => archived_reads(&*parts.store, job).await?.ok_or(ResultError::NoSuchJob { job })?,
    };
    let JobJson { kind, result, .. } = &ended;
    let result = result.as_ref().map(|result| sealing::opened_result(&parts.config, job, kind, result));
    read(job, ended.status, result, ended)
}

async fn archived_reads(store: &dyn Store, job: JobId) -> Result<Option<JobJson>, StoreError> {
    #[derive(Deserialize)]
    struct Document {
        job: JobJson,
    }
    let Some(archived) = store.archived(vec![job]).await?.pop().flatten() else { return Ok(None) };
    let document: Document =
        serde_json::from_str(&archived.document).map_err(|problem| StoreError::Corrupt {
            location: store.info().location,
            problem: format!("archived job {job}: {problem}"),
        })?;
    Ok(Some(document.job))
}

/// What an ended job comes to for its caller.
fn read<T: DeserializeOwned>(
    job: JobId,
    state: State,
    result: Option<Value>,
    ended: JobJson,
) -> Result<T, ResultError> {
    let error = ended.last_error.unwrap_or_default();
    match state {
        State::Succeeded => serde_json::from_value(result.unwrap_or_default()).map_err(|problem| {
            ResultError::Unreadable { job, problem: ended.warning.unwrap_or_else(|| problem.to_string()) }
        }),
        State::Canceled => {
            Err(ResultError::Canceled { job, reason: ended.cancel_reason.unwrap_or_default() })
        }
        _ => {
            let reason = ended.terminal_reason.unwrap_or(TerminalReason::RetryExhausted);
            Err(ResultError::Failed { job, reason, error, value: result })
        }
    }
}
