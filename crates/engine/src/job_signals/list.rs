//! What is kept, and who waits.

use backstop_core::job::JobDetail;
use backstop_core::{JobId, Timestamp};
use backstop_store::{DocumentRange, Drawer, Error as StoreError};

use super::send::Signals;
use super::stored::{StoredSignal, StoredWait, parsed};
use super::wait::of_tenant;

/// A signal that nobody waited for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KeptSignal {
    /// Its key.
    pub key: String,
    /// Its id.
    pub id: String,
    /// The only job that it is for; none for the first that waits.
    pub job: Option<JobId>,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// When it is removed.
    pub until: Timestamp,
}

/// A job that waits for a signal, or is about to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingJob {
    /// The key of the signal.
    pub key: String,
    /// The job.
    pub job: JobId,
    /// When it goes on without.
    pub until: Timestamp,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalPage<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins; none on the last one.
    pub next: Option<String>,
}

impl Signals {
    /// Signals that are kept, as many as `limit` behind `after`. Without a tenant, those of everybody.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn kept(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<SignalPage<KeptSignal>, StoreError> {
        let read = |signal: StoredSignal| KeptSignal {
            key: signal.key,
            id: signal.id,
            job: signal.only,
            sent_at: signal.sent_at,
            until: signal.keep_until,
        };
        self.page(Drawer::Signals, after, limit, read).await
    }

    /// Jobs that wait, likewise. A page may have fewer, and others follow: jobs that were canceled since they began to
    /// wait are left out.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn waiting(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<SignalPage<WaitingJob>, StoreError> {
        let SignalPage { items, next } = self.page(Drawer::SignalWaits, after, limit, |wait| wait).await?;
        let jobs = self.parts.store.jobs(items.iter().map(|wait: &StoredWait| wait.job).collect()).await?;
        let current = |(wait, detail): (StoredWait, Option<JobDetail>)| {
            let is_current = wait.is_current(&detail?.view.record);
            is_current.then_some(WaitingJob { key: wait.key, job: wait.job, until: wait.until })
        };
        Ok(SignalPage { items: items.into_iter().zip(jobs).filter_map(current).collect(), next })
    }

    async fn page<S: serde::de::DeserializeOwned, T>(
        &self,
        drawer: Drawer,
        after: Option<String>,
        limit: usize,
        read: impl Fn(S) -> T,
    ) -> Result<SignalPage<T>, StoreError> {
        let range = DocumentRange::first(drawer, limit).under(of_tenant(self.tenant.as_deref()));
        let page = self.parts.store.documents(DocumentRange { after, ..range }).await?;
        let next = page.items.last().filter(|_| page.more).map(|document| document.key.clone());
        Ok(SignalPage { items: page.items.iter().filter_map(parsed).map(read).collect(), next })
    }
}
