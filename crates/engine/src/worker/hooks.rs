//! What an application can do around every run (F14).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use backstop_core::failure::{Cause, Verdict};
use backstop_core::job::{FailureRecord, Record, StoredJob};
use serde_json::Value;

use crate::outcome::BoxError;

/// What a hook returns.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// The run that a hook is called around.
#[derive(Debug, Clone)]
pub struct RunInfo {
    /// The job.
    pub job: Arc<StoredJob>,
    /// Its record at the start of the run.
    pub record: Record,
}

/// How a run ended, as a hook sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunEnd {
    /// Its cause.
    pub cause: Cause,
    /// What the handler returned; none for one that completed its job in a transaction of its own.
    pub result: Option<Value>,
    /// The sanitized error, if it failed.
    pub failure: Option<FailureRecord>,
    /// Where the job goes now.
    pub verdict: Verdict,
}

/// Called around the runs of a worker: all of them, or those of one kind.
///
/// A `before_run` that fails ends the run, and the handler is not called. Its error is read as a handler's would be: an
/// [`crate::Outcome`] counts as what it says, so `Outcome::transient` and `Outcome::snooze` cost the job nothing; any
/// other error is a failed run. A failing `after_run` changes nothing; it is reported as an event. A panic counts as
/// failing.
///
/// ```
/// use backstop::prelude::*;
/// use backstop::{Hook, HookFuture, RunEnd, RunInfo};
///
/// struct Audit;
///
/// impl Hook for Audit {
///     fn after_run<'a>(&'a self, run: &'a RunInfo, end: &'a RunEnd) -> HookFuture<'a> {
///         Box::pin(async move {
///             println!("{} ended by {}", run.job.spec.id, end.cause);
///             Ok(())
///         })
///     }
/// }
///
/// # #[job]
/// # async fn greet() {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// # let engine = Backstop::open("memory:").await?;
/// let worker = engine.worker(()).register::<Greet>().queue("default", 1).hook(Audit);
/// # worker.inline()?.drain(1).await?;
/// # Ok(()) }
/// ```
pub trait Hook: Send + Sync + 'static {
    /// Before the handler.
    fn before_run<'a>(&'a self, run: &'a RunInfo) -> HookFuture<'a> {
        let _ = run;
        Box::pin(std::future::ready(Ok(())))
    }

    /// After the handler, with how its run ended.
    fn after_run<'a>(&'a self, run: &'a RunInfo, end: &'a RunEnd) -> HookFuture<'a> {
        let _ = (run, end);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A hook, and the kind that it is for; none is every kind.
#[derive(Clone)]
pub(crate) struct Hooked {
    pub(crate) kind: Option<&'static str>,
    pub(crate) hook: Arc<dyn Hook>,
}

impl Hooked {
    pub(crate) fn is_for(&self, kind: &str) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }
}
