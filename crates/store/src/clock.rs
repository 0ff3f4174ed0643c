//! The store's clock: the only clock that due times, leases and terms know.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop_core::Timestamp;

/// Where a store that has no clock of its own reads the time.
pub trait Clock: Send + Sync + 'static {
    /// The moment it is.
    fn now(&self) -> Timestamp;
}

/// The machine's clock, kept from running backwards within this process.
///
/// A clock that is stepped back would make leases live again and new jobs sort before old ones.
#[derive(Debug, Default)]
pub struct SystemClock {
    latest: AtomicI64,
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        let before = self.latest.fetch_max(micros, Ordering::Relaxed);
        Timestamp::from_micros(micros.max(before))
    }
}

/// A clock that stands until it is moved; clones share it.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.as_micros())))
    }

    /// Moves it forward.
    pub fn advance(&self, span: Duration) {
        let next = self.now().after(span);
        self.0.store(next.as_micros(), Ordering::SeqCst);
    }

    /// Sets it, also backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// Shows 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_767_225_600_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
