//! The sinks as this process last read them (B2): every process leaves messages for a new one within five seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_store::{Error as StoreError, WorkStore};

use super::stored::SinkDocuments;
use crate::events::EventChannel;

/// How often every process looks.
pub(crate) const REFRESH: Duration = Duration::from_secs(5);

/// Whether this process has read the sinks. They themselves are where every transaction of its store asks for them.
#[derive(Debug, Default)]
pub(crate) struct SinkCache {
    read: AtomicBool,
    /// One task reads, the others wait for it instead of asking too.
    reading: tokio::sync::Mutex<()>,
}

impl SinkCache {
    /// Reads them unless they were read before. A store that is away holds up nobody: whoever comes next asks again.
    pub(crate) async fn expect(&self, store: &dyn WorkStore, events: &EventChannel) {
        if self.read.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = self.refresh(store, events).await {
            tracing::debug!(%error, "the sinks cannot be read yet");
        }
    }

    /// Reads them, and follows them from the next transaction on.
    pub(crate) async fn refresh(
        &self,
        store: &dyn WorkStore,
        events: &EventChannel,
    ) -> Result<SinkDocuments, StoreError> {
        let _one = self.reading.lock().await;
        let found = SinkDocuments::read(store).await?;
        events.set_sinks(found.in_force());
        self.read.store(true, Ordering::Release);
        Ok(found)
    }
}
