//! What the handlers of a driver report to: how many have run, and how long each job waited.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::now_micros;

/// The first jobs of a latency phase, which fill caches and connection pools and are not counted.
pub const WARM_UP: usize = 50;

/// Counts runs; clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    runs: AtomicUsize,
    waits: Mutex<Vec<u64>>,
}

impl Tally {
    /// One more handler has run.
    pub fn count(&self) {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// One more handler has run, of a job that was due at `sent`.
    pub fn started(&self, sent: u64) {
        let wait = now_micros().saturating_sub(sent);
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
        self.count();
    }

    /// How many handlers have run.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.0.runs.load(Ordering::Relaxed)
    }

    /// The waits in the order in which handlers started, in microseconds, without those of the warm-up.
    #[must_use]
    pub fn waits(&self) -> Vec<u64> {
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner).iter().skip(WARM_UP).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_counted_as_runs_but_not_as_waits() {
        let tally = Tally::default();
        for _ in 0..WARM_UP + 2 {
            tally.started(now_micros());
        }
        assert_eq!((tally.runs(), tally.clone().waits().len()), (WARM_UP + 2, 2));
    }
}
