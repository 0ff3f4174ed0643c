//! What a driver counts: how many handlers have run, and how long each job waited for its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::now_micros;

/// The first jobs of a latency phase, which fill caches and connection pools and are not counted.
pub const WARM_UP: usize = 50;

/// Counts runs; clones share the count.
#[derive(Clone, Debug, Default)]
pub struct RunCount(Arc<Counts>);

/// Jobs are known by the moment at which they were due to be sent, moments are in microseconds.
#[derive(Debug, Default)]
struct Counts {
    runs: AtomicUsize,
    acknowledged: Mutex<HashMap<u64, u64>>,
    started: Mutex<Vec<(u64, u64)>>,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunCount {
    /// One more handler has run.
    pub fn count(&self) {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// The producer knows that the job that was due at `sent` is stored.
    pub fn acknowledged(&self, sent: u64) {
        lock(&self.0.acknowledged).insert(sent, now_micros());
    }

    /// One more handler has run, of the job that was due at `sent`.
    pub fn started(&self, sent: u64) {
        lock(&self.0.started).push((sent, now_micros()));
        self.count();
    }

    /// How many handlers have run.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.0.runs.load(Ordering::Relaxed)
    }

    /// How long each job waited from its acknowledgement, in microseconds and in the order in which handlers started,
    /// without those of the warm-up. A handler that was faster than the acknowledgement has not let its job wait.
    #[must_use]
    pub fn waits(&self) -> Vec<u64> {
        let acknowledged = lock(&self.0.acknowledged);
        let wait = |(sent, at): &(u64, u64)| at.saturating_sub(*acknowledged.get(sent).unwrap_or(sent));
        lock(&self.0.started).iter().skip(WARM_UP).map(wait).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_counted_as_runs_but_not_as_waits() {
        let tally = RunCount::default();
        for _ in 0..WARM_UP + 2 {
            tally.started(now_micros());
        }
        assert_eq!((tally.runs(), tally.clone().waits().len()), (WARM_UP + 2, 2));
    }

    #[test]
    fn a_wait_begins_when_the_job_is_acknowledged() {
        let (tally, sent) = (RunCount::default(), now_micros() - 1_000_000);
        for number in 0..WARM_UP as u64 {
            tally.started(number);
        }
        tally.started(sent);
        assert!(tally.waits()[0] >= 1_000_000, "nobody has acknowledged it");
        tally.acknowledged(sent);
        assert_eq!(tally.waits(), [0], "its handler was faster");
    }
}
