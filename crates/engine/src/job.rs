//! The trait that a typed job implements.

use std::future::Future;
use std::time::Duration;

use backstop_core::failure::Failure;
use backstop_core::job::{JobDefaults, Priority};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bulk::handler::BulkHandler;
use crate::context::JobContext;
use crate::isolate::settings::IsolationSettings;
use crate::outcome::IntoReply;

/// A kind of job: its input as a plain struct, and the code that handles it.
///
/// ```
/// use backstop::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// struct Greet { name: String }
///
/// impl Job for Greet {
///     const KIND: &'static str = "greet";
///     type Context = ();
///     type Output = JobResult;
///     async fn run(self, cx: JobContext<()>) -> JobResult {
///         cx.log(format!("hello {}", self.name));
///         Ok(())
///     }
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name it is stored under; it must not change while jobs of it are stored.
    const KIND: &'static str;

    /// The version of its payload's shape. Raise it when older code could not read a new payload: such jobs then
    /// wait for a worker that can (H10).
    const VERSION: u32 = 1;

    /// The application's own struct that handlers share. The compiler checks that the worker has it.
    type Context: Send + Sync + 'static;

    /// What [`Job::run`] returns: usually [`crate::JobResult`] or a `Result` with your own error type.
    type Output: IntoReply + 'static;

    /// Does the work. `Ok` is done, `Err` is tried again unless it says otherwise (see [`crate::Outcome`]).
    fn run(self, cx: JobContext<Self::Context>) -> impl Future<Output = Self::Output> + Send;

    /// What jobs of this kind get unless their submit says otherwise.
    #[must_use]
    fn defaults() -> Defaults {
        Defaults::default()
    }

    /// Checks a decoded payload before it is run; an error makes the job invalid, never retried (E11).
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    /// The retry policy (F7): asked after every charged failure that is not permanent. `attempt` counts from 1.
    #[must_use]
    fn should_retry(attempt: u32, failure: &Failure) -> bool {
        let _ = (attempt, failure);
        true
    }

    /// The retry policy's wait (F7); it overrides the job's backoff.
    #[must_use]
    fn delay(attempt: u32, failure: &Failure) -> Option<Duration> {
        let _ = (attempt, failure);
        None
    }

    /// How its jobs are called many at a time; none for all but bulk kinds, which implement
    /// [`BulkJob`](crate::bulk::BulkJob) instead of this trait.
    #[doc(hidden)]
    #[must_use]
    fn bulk_handler() -> Option<BulkHandler<Self::Context>> {
        None
    }
}

/// What a run of `J` that went well leaves as its result: the `T` of a handler that returns `Result<T, _>`.
///
/// ```
/// # use backstop::prelude::*;
/// # #[job]
/// # async fn add(a: u32, b: u32) -> JobResult<u32> { Ok(a + b) }
/// let sum: backstop::ResultOf<Add> = 5_u32;
/// # let _ = sum;
/// ```
pub type ResultOf<J> = <<J as Job>::Output as IntoReply>::Value;

/// What a kind of job gets unless a submit says otherwise (L19).
///
/// ```
/// use std::time::Duration;
/// use backstop::prelude::*;
///
/// let defaults = Defaults::default()
///     .queue("mail")
///     .priority(Priority::High)
///     .dependency("smtp")
///     .policy(Policy::default().retries(20).timeout(Duration::from_secs(30)));
/// assert_eq!(defaults.jobs.max_retries, Some(20));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Defaults {
    /// Its queue; none is `default`.
    pub queue: Option<&'static str>,
    /// Its priority.
    pub priority: Priority,
    /// Its retries, backoff and times; what is left open is said by the queue's configuration.
    pub jobs: JobDefaults,
    /// Which of its runs have a process of their own, and what those may use (E2).
    pub isolation: IsolationSettings,
    /// What it needs that may be away: no worker claims it while that is red there (H1).
    pub dependency: Option<&'static str>,
    /// Where its payload says which one of several that is: a JSON pointer (H3).
    pub dependency_from: Option<&'static str>,
}

impl Defaults {
    /// Jobs of this kind wait on `queue`.
    #[must_use]
    pub const fn queue(mut self, queue: &'static str) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Jobs of this kind have `priority`.
    #[must_use]
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Which runs of this kind have a process of their own, and what those may use (E2).
    #[must_use]
    pub const fn isolation(mut self, isolation: IsolationSettings) -> Self {
        self.isolation = isolation;
        self
    }

    /// What jobs of this kind need that may be away (H1): a worker claims none of them while that is red there.
    ///
    /// A run says that it is with [`Outcome::transient`](crate::Outcome::transient) and the same name; a check, if
    /// there is one, says when it is back: see [`WorkerBuilder::check`](crate::WorkerBuilder::check).
    #[must_use]
    pub const fn dependency(mut self, name: &'static str) -> Self {
        self.dependency = Some(name);
        self
    }

    /// Where the payload of a job says which one of several it needs, as a JSON pointer (H3): with `/host` and the
    /// dependency `partner`, a job whose payload has `"host": "eu"` needs `partner:eu`. One that does not say needs
    /// `partner`.
    ///
    /// ```
    /// let defaults = backstop::Defaults::default().dependency("partner").dependency_from("/host");
    /// # assert_eq!(defaults.dependency_from, Some("/host"));
    /// ```
    #[must_use]
    pub const fn dependency_from(mut self, pointer: &'static str) -> Self {
        self.dependency_from = Some(pointer);
        self
    }

    /// Retries, backoff and times of this kind: [`JobDefaults`], or a policy.
    #[must_use]
    pub fn policy(mut self, defaults: impl Into<JobDefaults>) -> Self {
        self.jobs = defaults.into();
        self
    }
}
