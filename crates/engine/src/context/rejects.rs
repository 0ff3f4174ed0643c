//! Items that a handler could not handle, and that do not stop it (W9).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::failure::{Cause, Failure};
use backstop_core::reject::{Reject, RejectLimit, RejectScope, item_fingerprint};
use serde::Serialize;

use super::{JobContext, Run, steps};
use crate::error::RejectError;
use crate::outcome::{BoxError, classify};
use crate::sealing;

/// Longest wait between two tries of one item.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A reject in the making: what is told of an item beside its error.
///
/// ```
/// use backstop::prelude::*;
/// use backstop::rejects::NewReject;
///
/// #[job]
/// async fn import(cx: JobContext<()>, rows: Vec<String>) -> JobResult {
///     for (line, row) in rows.iter().enumerate() {
///         cx.saw(1);
///         if row.is_empty() {
///             cx.reject_with(NewReject::new(row, "the row is empty").key(format!("line-{line}")).keep_item()).await?;
///         }
///     }
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// # let engine = Backstop::open("memory:").await?;
/// # let job = engine.enqueue(Import { rows: vec!["a".into(), "".into()] }).submit().await?;
/// # engine.worker(()).register::<Import>().queue("default", 1).inline()?.drain(1).await?;
/// # assert_eq!(engine.rejects().of_job(job.id, 10).await?.len(), 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "it is told by `reject_with`"]
pub struct NewReject {
    item: Result<String, serde_json::Error>,
    error_type: String,
    error: String,
    key: Option<String>,
    keep: bool,
    scope: RejectScope,
    count: u64,
    retries: u32,
    retry_limit: u32,
    last: bool,
}

impl NewReject {
    /// An item, and why it was rejected.
    pub fn new<T: Serialize + ?Sized, E: Into<BoxError>>(item: &T, error: E) -> Self {
        Self::of(item, classify(&*error.into(), std::any::type_name::<E>()).failure)
    }

    fn of<T: Serialize + ?Sized>(item: &T, failure: Failure) -> Self {
        Self {
            item: serde_json::to_string(item),
            error_type: failure.error_type,
            error: failure.message,
            key: None,
            keep: false,
            scope: RejectScope::Item,
            count: 1,
            retries: 0,
            retry_limit: 0,
            last: true,
        }
    }

    /// What tells the item from others, when the item itself does not: a line number, an id. A key that a run rejects
    /// twice counts once.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Keeps the item too, sealed where payloads are. One that is larger than a payload may be is not kept.
    pub const fn keep_item(mut self) -> Self {
        self.keep = true;
        self
    }

    /// It stands for so many items that went wrong together.
    pub const fn stream(mut self, count: u64) -> Self {
        (self.scope, self.count) = (RejectScope::Stream, count);
        self
    }

    /// How often the item was tried again before this, and how often it would have been.
    pub const fn retried(mut self, retries: u32, limit: u32) -> Self {
        (self.retries, self.retry_limit) = (retries, limit);
        self
    }

    /// The run may still try the item again.
    pub const fn not_final(mut self) -> Self {
        self.last = false;
        self
    }
}

impl Run {
    /// The reject as it is stored.
    fn rejected(&self, new: NewReject) -> Result<Reject, RejectError> {
        let config = &self.engine.parts.config;
        let item = new.item.map_err(|problem| RejectError::Item { problem: problem.to_string() })?;
        let error = config.sanitized(&new.error);
        let keeps = (new.keep || config.rejects.keep_items) && item.len() <= config.limits.payload_bytes;
        let item_fingerprint = item_fingerprint(new.key.as_deref().unwrap_or(&item));
        let kept = keeps.then(|| sealing::kept_reject(config, &self.job.spec, item)).transpose();
        Ok(Reject {
            fingerprint: fingerprint(&self.reject_kind(), &new.error_type, &error),
            item_fingerprint,
            scope: new.scope,
            step: steps::current_name(self),
            error_type: new.error_type,
            error,
            count: new.count,
            retries: new.retries,
            retry_limit: new.retry_limit,
            r#final: new.last,
            item: kept.map_err(|problem| RejectError::Item { problem })?,
        })
    }
}

/// Takes a reject of a run.
async fn reject(run: Arc<Run>, new: NewReject) -> Result<(), RejectError> {
    let has_key = new.key.is_some();
    let reject = run.rejected(new)?;
    run.reject(reject, has_key).await
}

impl<C> JobContext<C> {
    /// Tells of an item that could not be handled, and goes on (W9). It is no failure: no attempt is charged, and no
    /// incident is opened.
    ///
    /// The item itself is not kept, only a digest that tells it from others; see [`NewReject::keep_item`]. Rejects are
    /// written in batches under the run's lease, the last of them before the run ends, and an item that several runs of
    /// the job reject counts once. Items of one run that look the same are several, unless they have one
    /// [key](NewReject::key).
    ///
    /// ```
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn import(cx: JobContext<()>, rows: Vec<String>) -> JobResult<usize> {
    ///     let mut sum = 0;
    ///     for row in &rows {
    ///         match row.parse::<usize>() {
    ///             Ok(number) => sum += number,
    ///             Err(error) => cx.reject(row, error).await?,
    ///         }
    ///     }
    ///     Ok(sum)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue(Import { rows: vec!["1".into(), "two".into(), "3".into()] }).submit().await?;
    /// # engine.worker(()).register::<Import>().queue("default", 1).inline()?.drain(10).await?;
    /// assert_eq!(job.result().await?, 4);
    /// let rejects = engine.rejects().of_job(job.id, 10).await?;
    /// assert_eq!(rejects[0].error, "invalid digit found in string");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RejectError::OverLimit`] when the run has rejected more than it may: it fails, whatever the handler makes of
    /// this. The others say why the reject could not be kept.
    pub fn reject<T: Serialize + ?Sized, E: Into<BoxError>>(
        &self,
        item: &T,
        error: E,
    ) -> impl Future<Output = Result<(), RejectError>> + Send + use<C, T, E> {
        reject(self.run.clone(), NewReject::new(item, error))
    }

    /// The same with more to tell of the item.
    ///
    /// # Errors
    /// As [`JobContext::reject`].
    pub fn reject_with(
        &self,
        new: NewReject,
    ) -> impl Future<Output = Result<(), RejectError>> + Send + use<C> {
        reject(self.run.clone(), new)
    }

    /// Tells of many items, each with its error (W9).
    ///
    /// # Errors
    /// As [`JobContext::reject`].
    pub fn reject_many<T, E, I>(
        &self,
        items: I,
    ) -> impl Future<Output = Result<(), RejectError>> + Send + use<C, T, E, I>
    where
        T: Serialize,
        E: Into<BoxError>,
        I: IntoIterator<Item = (T, E)>,
    {
        let run = self.run.clone();
        let all: Vec<NewReject> =
            items.into_iter().map(|(item, error)| NewReject::new(&item, error)).collect();
        async move {
            for new in all {
                reject(run.clone(), new).await?;
            }
            Ok(())
        }
    }

    /// Says that the run has looked at so many items more: what a limit in percent is a share of (W9).
    /// [`JobContext::item`] counts by itself.
    pub fn saw(&self, items: u64) {
        self.run.rejects.saw(items);
    }

    /// Limits what this run may reject; it goes before the settings (W9). What it leaves open is as these say.
    pub fn limit_rejects(&self, limit: RejectLimit) {
        self.run.rejects.limit(limit);
    }

    /// Writes all rejects that wait. The end of a run does this by itself; a handler that completes its job in a
    /// transaction of its own does it before that begins.
    ///
    /// # Errors
    /// As [`JobContext::reject`].
    pub async fn flush_rejects(&self) -> Result<(), RejectError> {
        self.run.flush_rejects().await
    }

    /// Prepares the work on one item: it is tried again within the run, and rejected when that does not help (W9).
    ///
    /// ```
    /// use std::time::Duration;
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn send_all(cx: JobContext<()>, addresses: Vec<String>) -> JobResult<usize> {
    ///     let mut sent = 0;
    ///     for address in &addresses {
    ///         let done = cx.item(address).retries(2).wait(Duration::from_millis(1)).run(send).await?;
    ///         sent += usize::from(done.is_some());
    ///     }
    ///     Ok(sent)
    /// }
    ///
    /// async fn send(address: &String) -> JobResult {
    ///     if address.contains('@') { Ok(()) } else { Err("not an address".into()) }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue(SendAll { addresses: vec!["a@example.com".into(), "b".into()] }).submit().await?;
    /// # engine.worker(()).register::<SendAll>().queue("default", 1).inline()?.drain(10).await?;
    /// assert_eq!(job.result().await?, 1);
    /// assert_eq!(engine.rejects().of_job(job.id, 10).await?[0].retries, 2);
    /// # Ok(()) }
    /// ```
    pub fn item<'a, T: Serialize>(&self, item: &'a T) -> ItemWork<'a, T> {
        let wait = Duration::from_millis(100);
        ItemWork { run: self.run.clone(), item, retries: 0, wait, key: None, keep: false }
    }
}

/// The work on one item, made by [`JobContext::item`].
///
/// ```
/// use backstop::prelude::*;
/// use backstop::rejects::ItemWork;
///
/// fn careful<'a>(cx: &JobContext<()>, row: &'a String) -> ItemWork<'a, String> {
///     cx.item(row).retries(3).keep_item()
/// }
///
/// #[job]
/// async fn import(cx: JobContext<()>, row: String) -> JobResult {
///     careful(&cx, &row).run(|row| async move { row.parse::<u32>() }).await?;
///     Ok(())
/// }
/// ```
#[must_use = "it is done by `run`"]
pub struct ItemWork<'a, T> {
    run: Arc<Run>,
    item: &'a T,
    retries: u32,
    wait: Duration,
    key: Option<String>,
    keep: bool,
}

impl<'a, T: Serialize> ItemWork<'a, T> {
    /// Tries so often again within this run. An error that no retry can fix is not tried again.
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// How long to wait before the first retry; each further wait is twice as long, 10 s at most. 100 ms unless set.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// As [`NewReject::key`].
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// As [`NewReject::keep_item`].
    pub const fn keep_item(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Calls `code` until it succeeds; none when the item was rejected instead.
    ///
    /// # Errors
    /// As [`JobContext::reject`]; and [`RejectError::Failed`] with an error that is not about the item, such as a
    /// dependency that is away or a rate limit: pass it on, and the run ends by it.
    pub async fn run<R, E, F, Fut>(self, mut code: F) -> Result<Option<R>, RejectError>
    where
        E: Into<BoxError>,
        F: FnMut(&'a T) -> Fut,
        Fut: Future<Output = Result<R, E>>,
    {
        self.run.rejects.saw(1);
        let (mut tried_again, mut wait) = (0, self.wait);
        loop {
            let error: BoxError = match code(self.item).await {
                Ok(done) => return Ok(Some(done)),
                Err(error) => error.into(),
            };
            let failure = classify(&*error, std::any::type_name::<E>()).failure;
            if !failure.cause.charges_attempt() {
                return Err(RejectError::Failed(error));
            }
            let hopeless = failure.cause != Cause::Error || self.run.canceled.is_cancelled();
            if tried_again == self.retries || hopeless {
                return self.give_up(tried_again, failure).await.map(|()| None);
            }
            tokio::select! {
                () = self.run.canceled.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
            tried_again += 1;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn give_up(self, tried_again: u32, failure: Failure) -> Result<(), RejectError> {
        let mut new = NewReject::of(self.item, failure).retried(tried_again, self.retries);
        (new.key, new.keep) = (self.key, self.keep);
        reject(self.run, new).await
    }
}

impl<T> std::fmt::Debug for ItemWork<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemWork")
            .field("retries", &self.retries)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
