//! The trait that a bulk kind implements, and how it is a kind of job like any other (W12).

use std::any::type_name;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Cause, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::entry::{BulkEntry, CallEntry};
use super::handler::{BulkHandler, BulkSettings, CallFuture};
use super::item::{BulkContext, BulkItem};
use crate::context::JobContext;
use crate::job::{Defaults, Job};
use crate::outcome::{BoxError, Failed, IntoReply, JobResult, Reply, classify};
use crate::registry::decode;

/// A kind of job that is handled many at a time: one call gets many jobs and answers each of them.
///
/// It is a [`Job`]: it is submitted, registered, retried and tested as every other. Only its handler is another.
///
/// ```
/// use backstop::bulk::{BulkContext, BulkItem, BulkJob};
/// use backstop::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// struct Store { number: u32 }
///
/// impl BulkJob for Store {
///     const KIND: &'static str = "store";
///     type Context = ();
///     type Output = JobResult<usize>;
///
///     async fn run(jobs: Vec<BulkItem<Self>>, _cx: BulkContext<()>) -> JobResult {
///         let together = jobs.len();
///         for item in jobs {
///             match item.job().number {
///                 13 => item.answer(Err(Outcome::permanent("nobody wants this one").into())),
///                 _ => item.answer(Ok(together)),
///             }
///         }
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let first = engine.enqueue(Store { number: 1 }).submit().await?;
/// engine.enqueue(Store { number: 13 }).submit().await?;
/// let worker = engine.worker(()).register::<Store>().queue("default", 100);
/// assert_eq!(worker.inline()?.drain(10).await?.len(), 2);
/// assert_eq!(first.result().await?, 2);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    note = "implement `backstop::Job` for it, or `backstop::bulk::BulkJob` if one call handles many"
)]
pub trait BulkJob: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// See [`Job::KIND`].
    const KIND: &'static str;

    /// See [`Job::VERSION`].
    const VERSION: u32 = 1;

    /// See [`Job::Context`].
    type Context: Send + Sync + 'static;

    /// What [`BulkItem::answer`] takes for each job: what the handler of one job returns, see [`Job::Output`].
    type Output: IntoReply + 'static;

    /// Handles the jobs of one call, and answers each. A job that has no answer when it returns `Ok` has failed, alone.
    ///
    /// When it returns an error, panics or takes longer than a job's `timeout`, those without an answer are split in
    /// halves and called again, in the same runs, until the bad one is alone: that one has failed by what it did alone,
    /// and no other is charged. An error that says that a dependency is unavailable or asks to wait
    /// ([`Outcome::transient`](crate::Outcome::transient), `rate_limited`, `snooze`) is no job's fault: it counts for
    /// all that have no answer, and nothing is split. So the same job may be in several calls: what a failed call
    /// did for it is done again.
    fn run(
        jobs: Vec<BulkItem<Self>>,
        cx: BulkContext<Self::Context>,
    ) -> impl Future<Output = JobResult> + Send;

    /// How many jobs a call gets, and how long the first one waits for others.
    #[must_use]
    fn bulk() -> BulkSettings {
        BulkSettings::default()
    }

    /// See [`Job::defaults`].
    #[must_use]
    fn defaults() -> Defaults {
        Defaults::default()
    }

    /// See [`Job::validate`]. A job that does not pass is in no call.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }

    /// See [`Job::should_retry`].
    #[must_use]
    fn should_retry(attempt: u32, failure: &Failure) -> bool {
        let _ = (attempt, failure);
        true
    }

    /// See [`Job::delay`].
    #[must_use]
    fn delay(attempt: u32, failure: &Failure) -> Option<Duration> {
        let _ = (attempt, failure);
        None
    }
}

impl<J: BulkJob> Job for J {
    const KIND: &'static str = <J as BulkJob>::KIND;
    const VERSION: u32 = <J as BulkJob>::VERSION;
    type Context = <J as BulkJob>::Context;
    type Output = BulkOutput<J>;

    async fn run(self, cx: JobContext<Self::Context>) -> BulkOutput<J> {
        BulkOutput(alone(self, cx).await, PhantomData)
    }

    fn defaults() -> Defaults {
        <J as BulkJob>::defaults()
    }

    fn validate(&self) -> Result<(), String> {
        BulkJob::validate(self)
    }

    fn should_retry(attempt: u32, failure: &Failure) -> bool {
        <J as BulkJob>::should_retry(attempt, failure)
    }

    fn delay(attempt: u32, failure: &Failure) -> Option<Duration> {
        <J as BulkJob>::delay(attempt, failure)
    }

    fn bulk_handler() -> Option<BulkHandler<Self::Context>> {
        Some(BulkHandler::new(J::bulk(), call::<J>))
    }
}

/// What a bulk kind comes to when one of its jobs is run by itself. For the engine.
#[doc(hidden)]
#[derive(Debug)]
pub struct BulkOutput<J>(Reply, PhantomData<fn() -> J>);

impl<J: BulkJob> IntoReply for BulkOutput<J> {
    type Value = <<J as BulkJob>::Output as IntoReply>::Value;

    fn into_reply(self) -> Reply {
        self.0
    }
}

/// One call: decodes what can be decoded, answers what cannot, and hands the rest to the handler.
fn call<J: BulkJob>(app: Arc<<J as BulkJob>::Context>, entries: Vec<CallEntry>) -> CallFuture {
    Box::pin(async move {
        let Some(engine) = entries.first().map(|entry| entry.entry.run.engine.clone()) else { return Ok(()) };
        let mut jobs = Vec::with_capacity(entries.len());
        for entry in entries {
            let (payload, run) = (&entry.entry.payload, entry.entry.run.clone());
            let shown = || JobContext::new(Arc::new(()), run).shown_payload(payload);
            match decode::<J>(payload, shown) {
                Ok(job) => jobs.push(BulkItem::new(job, entry)),
                Err(failed) => entry.answer(Reply(Err(failed))),
            }
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let ended = <J as BulkJob>::run(jobs, BulkContext::new(app, engine)).await;
        ended.map_err(|error| classify(&*error, type_name::<BoxError>()))
    })
}

/// A call for one job, for who runs it without a worker.
async fn alone<J: BulkJob>(job: J, cx: JobContext<<J as BulkJob>::Context>) -> Reply {
    let (entry, mut answer) = BulkEntry::new(Arc::from(""), cx.run(), None);
    let jobs = vec![BulkItem::new(job, entry.enter(1))];
    let ended = <J as BulkJob>::run(jobs, BulkContext::new(cx.shared_app(), cx.engine().clone())).await;
    let error = ended.err().map(|error| classify(&*error, type_name::<BoxError>()));
    answer.try_recv().unwrap_or_else(|_| Reply(Err(error.unwrap_or_else(|| Failed::plain(unanswered())))))
}

/// The failure of a job that its handler said nothing about.
pub(super) fn unanswered() -> Failure {
    Failure::new(Cause::Error, "Unanswered", "the bulk handler returned without an answer for this job")
}
