//! What the threads of one store have in common.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use backstop_store::working_set::Fences;
use backstop_store::{Clock, Error, Observer, Silent};

use crate::options::{Options, Synchronous};

/// What the threads of one store have in common.
pub(crate) struct StoreContext {
    pub(crate) path: PathBuf,
    /// The path as messages show it.
    pub(crate) location: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) busy_timeout: Duration,
    pub(crate) synchronous: Synchronous,
    /// Transactions committed so far.
    pub(crate) commits: AtomicU64,
    /// What is known of the counter of fences.
    pub(crate) fences: Arc<Fences>,
    observed: AtomicBool,
    observer: RwLock<Arc<dyn Observer>>,
}

impl StoreContext {
    pub(crate) fn new(path: PathBuf, options: &Options) -> Self {
        Self {
            location: path.display().to_string(),
            path,
            clock: options.clock.clone(),
            busy_timeout: options.busy_timeout,
            synchronous: options.synchronous,
            commits: AtomicU64::new(0),
            fences: Arc::default(),
            observed: AtomicBool::new(false),
            observer: RwLock::new(Arc::new(Silent)),
        }
    }

    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) {
        // The lock guards one pointer, which no panic can leave half written.
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer;
        self.observed.store(true, Ordering::Release);
    }

    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        self.observer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True once somebody wants to hear of work that other processes bring.
    pub(crate) fn is_observed(&self) -> bool {
        self.observed.load(Ordering::Acquire)
    }

    /// The answer when the thread that should give one has ended.
    pub(crate) fn closed(&self) -> Error {
        Error::Unavailable {
            location: self.location.clone(),
            problem:
                "the store did not answer: it was closed, or the call failed and was rolled back; try again, \
                 and reopen the store if that does not help"
                    .to_owned(),
            source: None,
        }
    }
}
