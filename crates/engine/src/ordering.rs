//! Ordering keys: whose turn it is, and letting a line go on (L21).

pub use backstop_store::{LineRange, LineView};

use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::job::{Operation, State};
use backstop_store::{Error as StoreError, Page};

use crate::engine::Backstop;
use crate::error::OperateError;
use crate::parts::EngineParts;

/// The lines of jobs with one ordering key: see [`Backstop::ordering_keys`].
#[derive(Debug, Clone, Copy)]
pub struct OrderingKeys<'a> {
    parts: &'a Arc<EngineParts>,
}

/// The job that was given up so that its line could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedHead {
    /// Which one.
    pub job: JobId,
    /// Where it was.
    pub was: State,
    /// False when it had ended meanwhile, and nothing was changed.
    pub changed: bool,
}

impl Backstop {
    /// Jobs with the same ordering key run one at a time, in the order of their submits (L21). The first of them that
    /// fails for good blocks the others until it is retried or skipped.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::ordering::{LineRange, LineView, OrderingKeys, SkippedHead};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let first = engine.enqueue_raw("transfer", "{}").ordering_key("account-7").submit().await?;
    /// let second = engine.enqueue_raw("transfer", "{}").ordering_key("account-7").submit().await?;
    /// let keys: OrderingKeys<'_> = engine.ordering_keys();
    /// let line: LineView = keys.list(LineRange { limit: 10, ..LineRange::default() }).await?.items.remove(0);
    /// assert_eq!((line.head, line.waiting), (first.id, 1));
    /// let skipped: SkippedHead = keys.skip("account-7", "it cannot succeed").await?.expect("jobs wait there");
    /// assert_eq!(skipped.job, first.id);
    /// let line = keys.list(LineRange { limit: 10, ..LineRange::default() }).await?.items.remove(0);
    /// assert_eq!((line.head, line.waiting), (second.id, 0));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn ordering_keys(&self) -> OrderingKeys<'_> {
        OrderingKeys { parts: &self.parts }
    }
}

impl OrderingKeys<'_> {
    /// The keys whose jobs wait or run, each with the job whose turn it is.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn list(self, range: LineRange) -> Result<Page<LineView, String>, StoreError> {
        self.parts.config.check_page(range.limit)?;
        self.parts.store.lines(range).await
    }

    /// The line of one key; none when no job has it, or all have ended.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(self, key: &str) -> Result<Option<LineView>, StoreError> {
        let range = LineRange { prefix: key.to_owned(), limit: 1, ..LineRange::default() };
        // The key itself comes before all that begin with it.
        let found = self.parts.store.lines(range).await?.items.pop();
        Ok(found.filter(|line| &*line.key == key))
    }

    /// Gives up the job whose turn it is, wherever it is, so that the next one goes: it ends canceled. None when no job
    /// has this key, or all have ended.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn skip(self, key: &str, reason: &str) -> Result<Option<SkippedHead>, OperateError> {
        let Some(line) = self.get(key).await? else { return Ok(None) };
        if line.state == State::Failed {
            // A dead letter is left by a retry or a pause alone (L1). Whoever pauses it keeps the line blocked, so
            // nothing is lost when this is as far as we come.
            match self.parts.operate(line.head, Operation::Pause).await {
                Ok(_) | Err(OperateError::Refused(_)) => {}
                Err(away) => return Err(away),
            }
        }
        let canceled = self.parts.cancel(line.head, reason).await?;
        Ok(Some(SkippedHead { job: line.head, was: line.state, changed: canceled.changed }))
    }
}
