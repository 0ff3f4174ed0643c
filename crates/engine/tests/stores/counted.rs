//! A store that counts what is asked of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backstop_store::{Answer, Layer, Store};

/// Counts the calls that reach a store.
pub(crate) struct CountedStore {
    below: Arc<dyn Store>,
    calls: AtomicU64,
}

impl CountedStore {
    pub(crate) fn over(below: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { below, calls: AtomicU64::default() })
    }

    /// How many there were so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Layer for CountedStore {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        _: &'static str,
        call: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        call(self.below())
    }
}
