//! Rejects of items that the store keeps (W9): listed, counted by what they have in common, and removed.

pub(crate) mod settings;
pub(crate) mod stored;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use backstop_core::failure::Fingerprint;
use backstop_core::{JobId, tenant};
use backstop_store::{Error as StoreError, Page};

use crate::engine::Backstop;
use crate::parts::EngineParts;
use crate::sealing;

pub use crate::context::rejects::{ItemWork, NewReject};
pub use backstop_core::reject::{
    InvalidRejectPercent, Reject, RejectBatch, RejectCounts, RejectGroup, RejectLimit, RejectPercent,
    RejectScope, RejectView,
};
pub use settings::{RejectLog, RejectSettings, RejectSink, RejectSinkAnswer, SinkFailure};

/// Which rejects are listed.
///
/// ```
/// use backstop::rejects::RejectFilter;
///
/// let filter = RejectFilter { tenant: Some("acme".into()), ..RejectFilter::default() };
/// # assert_eq!(filter.job, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectFilter {
    /// Only those of this tenant.
    pub tenant: Option<String>,
    /// Only those of this job.
    pub job: Option<JobId>,
    /// Only those with this fingerprint.
    pub fingerprint: Option<Fingerprint>,
}

/// The place of a reject among all: the document that keeps it, and its place there.
///
/// ```
/// use backstop::rejects::{InvalidRejectCursor, RejectCursor};
///
/// let place: RejectCursor = "default/0192f0c1-0000-7000-8000-000000000000/000000.7".parse().unwrap();
/// assert_eq!(place.to_string(), "default/0192f0c1-0000-7000-8000-000000000000/000000.7");
/// assert_eq!("no place".parse::<RejectCursor>(), Err(InvalidRejectCursor));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectCursor {
    pub(crate) key: String,
    pub(crate) index: usize,
}

impl RejectCursor {
    /// The place of a reject that was read.
    #[must_use]
    pub fn of(reject: &RejectView) -> Self {
        let (batch, index) = reject.id.rsplit_once('/').unwrap_or((&reject.id, "0"));
        let key = format!("{}/{batch}", tenant::shown(&reject.queue));
        Self { key, index: index.parse().unwrap_or_default() }
    }
}

impl fmt::Display for RejectCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.key, self.index)
    }
}

/// A text that does not name a reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a cursor of this list: begin again without one")]
pub struct InvalidRejectCursor;

impl FromStr for RejectCursor {
    type Err = InvalidRejectCursor;

    fn from_str(text: &str) -> Result<Self, InvalidRejectCursor> {
        let (key, index) = text.rsplit_once('.').ok_or(InvalidRejectCursor)?;
        let index = index.parse().map_err(|_| InvalidRejectCursor)?;
        if key.is_empty() { Err(InvalidRejectCursor) } else { Ok(Self { key: key.to_owned(), index }) }
    }
}

/// Rejects that the store keeps: see [`Backstop::rejects`].
#[derive(Debug, Clone, Copy)]
pub struct Rejects<'a> {
    parts: &'a Arc<EngineParts>,
    reveals: bool,
}

impl Backstop {
    /// Items that runs could not handle (W9), as far as they are kept in the store.
    ///
    /// ```
    /// use backstop::prelude::*;
    /// use backstop::rejects::RejectFilter;
    ///
    /// #[job]
    /// async fn import(cx: JobContext<()>, rows: Vec<String>) -> JobResult {
    ///     cx.reject_many(rows.iter().map(|row| (row, "no number"))).await?;
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// engine.enqueue(Import { rows: vec!["a".into(), "b".into()] }).submit().await?;
    /// # engine.worker(()).register::<Import>().queue("default", 1).inline()?.drain(10).await?;
    /// let page = engine.rejects().page(&RejectFilter::default(), None, 10).await?;
    /// assert_eq!(page.items.len(), 2);
    /// let group = engine.rejects().groups(None, None, 10).await?.items.remove(0);
    /// assert_eq!((group.kind.as_str(), group.items), ("import", 2));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn rejects(&self) -> Rejects<'_> {
        Rejects { parts: &self.parts, reveals: false }
    }
}

impl Rejects<'_> {
    /// Shows kept items in the clear, secrets included, and opens those that are sealed.
    ///
    /// ```
    /// use backstop::rejects::Rejects;
    ///
    /// fn in_the_clear(rejects: Rejects<'_>) -> Rejects<'_> {
    ///     rejects.revealed()
    /// }
    /// ```
    #[must_use]
    pub const fn revealed(mut self) -> Self {
        self.reveals = true;
        self
    }

    /// Rejects behind `after`, by tenant, job and the order in which they were written. A page may be short and have
    /// more behind it: how much is read for it is bounded.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn page(
        self,
        filter: &RejectFilter,
        after: Option<RejectCursor>,
        limit: usize,
    ) -> Result<Page<RejectView, RejectCursor>, StoreError> {
        self.parts.config.check_page(limit)?;
        let store = &*self.parts.store;
        let Some(prefix) = stored::prefix(store, filter).await? else {
            return Ok(Page { items: Vec::new(), next: None });
        };
        let show = |batch: &RejectBatch, item: &Arc<str>| self.show(batch, item);
        stored::page(store, &prefix, filter.fingerprint.as_ref(), after, limit, show).await
    }

    /// The first rejects of a job.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn of_job(self, job: JobId, limit: usize) -> Result<Vec<RejectView>, StoreError> {
        let filter = RejectFilter { job: Some(job), ..RejectFilter::default() };
        Ok(self.page(&filter, None, limit).await?.items)
    }

    /// An item as it is shown.
    fn show(self, batch: &RejectBatch, item: &Arc<str>) -> serde_json::Value {
        let config = &self.parts.config;
        if self.reveals {
            let text = sealing::opened_reject(config, batch.job, &batch.kind, item);
            return serde_json::from_str(&text).unwrap_or_else(|_| text.as_ref().into());
        }
        sealing::shown_reject(config, &batch.kind, item)
    }

    /// Rejects counted by what they have in common, behind the cursor `after`, of one tenant or of all.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn groups(
        self,
        tenant: Option<&str>,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<RejectGroup, String>, StoreError> {
        self.parts.config.check_page(limit)?;
        let store = &*self.parts.store;
        // What was written just now counts too; whoever leads the counts does it in any case.
        if let Err(error) = stored::count_all(store, None).await {
            tracing::debug!(%error, "cannot count rejects");
        }
        stored::groups(store, tenant, after, limit).await
    }

    /// One of them; none when no reject of it is stored.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn group(
        self,
        tenant: Option<&str>,
        fingerprint: &Fingerprint,
    ) -> Result<Option<RejectGroup>, StoreError> {
        let store = &*self.parts.store;
        if let Err(error) = stored::count_all(store, None).await {
            tracing::debug!(%error, "cannot count rejects");
        }
        stored::group(store, tenant, fingerprint).await
    }

    /// Warns, once, of a sink that may lose rejects. A worker does it when it starts; who takes rejects of workers
    /// elsewhere does it too.
    pub fn warn_of_loss(self) {
        self.parts.config.rejects.tell();
    }

    /// Items whose rejects are stored, of all tenants. What was written in the last seconds may be missing.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn count(self) -> Result<u64, StoreError> {
        stored::count(&*self.parts.store).await
    }
}
