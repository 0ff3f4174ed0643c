//! The errors an application meets.

use backstop_core::job::{NoteError, Stale, StepsChanged};
use backstop_core::{Refusal, Timestamp};
use backstop_store::Error as StoreError;

use crate::outcome::BoxError;

/// Why an engine could not be opened or a worker could not go on.
///
/// ```
/// # use backstop::prelude::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = Backstop::open("redis://localhost").await.unwrap_err();
/// assert!(matches!(error, backstop::Error::UnknownStore { .. }));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL names no store that this build knows.
    #[error("`{url}` is not the URL of a store: {problem}")]
    UnknownStore {
        /// What was given, without credentials.
        url: String,
        /// What is wrong with it, and what to write instead.
        problem: String,
    },
    /// A worker was started without anything to do.
    #[error("the worker has no {what}: call `.{call}` before it runs")]
    NothingToDo {
        /// What is missing.
        what: &'static str,
        /// The call that adds it.
        call: &'static str,
    },
    /// A limit is higher than stores can hold.
    #[error("limit `{limit}` is {given}, and a store can hold {most} at most: lower it")]
    LimitTooHigh {
        /// The limit, as [`Limits`](crate::Limits) names it.
        limit: &'static str,
        /// What was given; seconds for `delay`.
        given: u64,
        /// What stores can hold.
        most: u64,
    },
    /// Two types of a worker have the same kind, so that one of them would get the jobs of the other.
    #[error(
        "the worker has two handlers for kind `{kind}`, {first} and {second}: give one of them another kind"
    )]
    TwoHandlers {
        /// The kind.
        kind: &'static str,
        /// The type that was registered first.
        first: &'static str,
        /// The type that was registered after it.
        second: &'static str,
    },
    /// Every job of this program asks for another context than the worker has.
    #[error(
        "no job of this program can run in a worker with context {worker}: `{kind}`, for one, asks for {context}"
    )]
    OtherContext {
        /// One of the jobs.
        kind: &'static str,
        /// The context that it asks for.
        context: &'static str,
        /// The context that the worker has.
        worker: &'static str,
    },
    /// A kind is to be isolated, and no process can be started for it (E2).
    #[error("kind `{kind}` cannot be isolated: {problem}")]
    Isolation {
        /// The kind.
        kind: String,
        /// What happened to the process.
        problem: String,
    },
    /// A dependency has a check or a circuit, and no kind needs it (H1, H3).
    #[error(
        "no kind needs dependency `{dependency}`, which has a check or a circuit: correct its name, or remove them"
    )]
    UnusedDependency {
        /// The dependency.
        dependency: String,
    },
    /// A limit or a circuit of the configuration cannot be meant (H3, H5).
    #[error("the configuration of {what} cannot be used: {problem}")]
    Configuration {
        /// Which one.
        what: String,
        /// What is wrong with it.
        problem: Refusal,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a submit did not store a job.
///
/// ```
/// # use backstop::prelude::*;
/// use backstop::{Refusal, SubmitError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// # let engine = Backstop::open("memory:").await?;
/// engine.enqueue_raw("reindex", "{}").business_key("shop-7").submit().await?;
/// match engine.enqueue_raw("reindex", "{}").business_key("shop-7").submit().await {
///     Err(SubmitError::Refused(Refusal::BusinessKeyConflict { holder, .. })) => println!("{holder} is on its way"),
///     Err(SubmitError::Store(error)) => println!("try again: {error}"),
///     other => println!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The request cannot be had; nothing was stored.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed. Submitting again with the same idempotency key cannot make a second job.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an operation did not change a job.
///
/// ```
/// # use backstop::prelude::*;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// # let engine = Backstop::open("memory:").await?;
/// let error: backstop::OperateError = engine.pause(backstop::job_id()).await.unwrap_err();
/// assert_eq!(error.code(), "no_such_job");
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperateError {
    /// The job cannot be moved so.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a handler's own transaction does not complete its job (L14).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// The job was canceled or taken by others meanwhile: the transaction must not be committed.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The completion could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The steps of the run went wrong, so that it has failed: roll back (W7).
    #[error("the job cannot be completed: {problem}")]
    Steps {
        /// What is wrong with them.
        problem: String,
    },
    /// Rejects of items are not written yet, or there are too many of them (W9). They are stored apart from the
    /// transaction, which may hold the store up: write them before it begins.
    #[error("the job cannot be completed: {problem}")]
    Rejects {
        /// Which of the two.
        problem: String,
    },
}

/// Why an item was not rejected in an orderly way (W9).
///
/// [`RejectError::OverLimit`] and [`RejectError::Sink`] fail the run, whatever the handler makes of them, and so does a
/// store that is away unless the settings say to go on.
///
/// ```
/// use backstop::prelude::*;
/// use backstop::RejectError;
///
/// async fn drop_row(cx: &JobContext<()>, row: &str) -> JobResult {
///     match cx.reject(row, "it has no name").await {
///         Err(RejectError::OverLimit { problem }) => Err(format!("stopped: {problem}").into()),
///         other => Ok(other?),
///     }
/// }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RejectError {
    /// The run has rejected more than it may.
    #[error("{problem}")]
    OverLimit {
        /// How many, and what the limit is.
        problem: String,
    },
    /// The sink did not take the rejects.
    #[error("the reject sink `{sink}` does not take rejects: {source}")]
    Sink {
        /// Its name.
        sink: String,
        /// What it says.
        source: BoxError,
    },
    /// The item cannot be told from others, or cannot be kept.
    #[error("the item cannot be rejected: {problem}")]
    Item {
        /// What is wrong with it.
        problem: String,
    },
    /// The work on an item failed with an error that is not about the item.
    #[error("{0}")]
    Failed(#[source] BoxError),
    /// The job was canceled or taken by others meanwhile; nothing was stored.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl std::fmt::Debug for RejectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // As the error itself: the type of a failure is read from here.
            Self::Failed(error) => error.fmt(f),
            other => write!(f, "RejectError({other})"),
        }
    }
}

/// Why a durable step or an effect has no result (W7, W8).
///
/// All but [`StepError::Failed`] and [`StepError::Stale`] end the run, whatever the handler makes of them.
///
/// ```
/// use backstop::prelude::*;
/// use backstop::StepError;
///
/// async fn fetch(cx: &JobContext<()>) -> JobResult<u32> {
///     match cx.step("fetch", || async { Err::<u32, _>("it is away") }).await {
///         Err(StepError::Failed(error)) => Err(format!("the first step failed: {error}").into()),
///         other => Ok(other?),
///     }
/// }
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Its own code failed with this.
    #[error("{0}")]
    Failed(#[source] BoxError),
    /// The code calls other steps than the ones that are stored.
    #[error(transparent)]
    Changed(#[from] StepsChanged),
    /// Two steps of one run have the same name.
    #[error("step `{name}` is called twice in one run: give each call a name of its own, such as `{name}-2`")]
    CalledTwice {
        /// Its name.
        name: String,
    },
    /// Its name or its key is not one, or there are too many steps.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Its result cannot be stored, so it would run again.
    #[error(
        "the result of step `{name}` cannot be stored: {problem}; keep large data elsewhere and return where it is"
    )]
    Unstorable {
        /// Its name.
        name: String,
        /// Why.
        problem: String,
    },
    /// Its stored result is not what the code expects.
    #[error(
        "the stored result of step `{name}` cannot be read: {problem}; run the job with the code that stored it"
    )]
    Unreadable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An effect may have happened, and a person has to find out (W8).
    #[error(
        "effect `{name}` with key `{key}` may have happened: run {run} began it and did not store how it ended; find \
         out, then drive the job again to let it be called again"
    )]
    Unknown {
        /// Its name.
        name: String,
        /// What the other side knows it by.
        key: String,
        /// The run that began it.
        run: u32,
    },
    /// Nobody has sent the signal yet: return, and the job waits (W10).
    #[error("the job waits for signal `{signal}` until {until}: return this error, and it goes on then")]
    Waiting {
        /// The key of the signal.
        signal: String,
        /// When it goes on without one.
        until: Timestamp,
    },
    /// The job was canceled or taken by others meanwhile; nothing was stored.
    #[error(transparent)]
    Stale(Stale),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<NoteError> for StepError {
    fn from(refused: NoteError) -> Self {
        match refused {
            NoteError::Stale(stale) => Self::Stale(stale),
            NoteError::StepsChanged(changed) => Self::Changed(changed),
            NoteError::MoreRejects { .. } => Self::Failed(refused.into()),
        }
    }
}

impl std::fmt::Debug for StepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // As the error itself: the type of a failure is read from here.
            Self::Failed(error) => error.fmt(f),
            other => write!(f, "StepError({other})"),
        }
    }
}

macro_rules! coded {
    ($name:ident) => {
        impl $name {
            /// The stable code that machines switch on.
            #[must_use]
            pub fn code(&self) -> &'static str {
                match self {
                    Self::Refused(refusal) => refusal.code(),
                    Self::Store(error) => error.code(),
                }
            }

            /// The refusal, if it is one.
            #[must_use]
            pub const fn refusal(&self) -> Option<&Refusal> {
                match self {
                    Self::Refused(refusal) => Some(refusal),
                    Self::Store(_) => None,
                }
            }
        }
    };
}

coded!(SubmitError);
coded!(OperateError);
