//! What an application can do around every run (F14).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use backstop_core::failure::Cause;
use backstop_core::job::{Job, Record};

use crate::outcome::BoxError;

/// What a hook returns.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// The run that a hook is called around.
#[derive(Debug, Clone)]
pub struct RunInfo {
    /// The job.
    pub job: Arc<Job>,
    /// Its record at the start of the run.
    pub record: Record,
}

/// Called around every run of a worker.
///
/// A failing `before_run` is a failed run: the handler is not called. A failing `after_run` changes nothing; it is
/// reported as an event. A panic counts as failing.
pub trait Hook: Send + Sync + 'static {
    /// Before the handler.
    fn before_run<'a>(&'a self, run: &'a RunInfo) -> HookFuture<'a> {
        let _ = run;
        Box::pin(std::future::ready(Ok(())))
    }

    /// After the handler, with the cause its run ended by.
    fn after_run<'a>(&'a self, run: &'a RunInfo, cause: Cause) -> HookFuture<'a> {
        let _ = (run, cause);
        Box::pin(std::future::ready(Ok(())))
    }
}
