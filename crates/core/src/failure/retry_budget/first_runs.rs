//! How many first runs the last five minutes saw: ten buckets of thirty seconds.

use serde::{Deserialize, Serialize};

use super::CLOCK_SLACK;

const BUCKETS: i64 = 10;
const BUCKET_SECONDS: i64 = 30;
const WINDOW_SECONDS: f64 = 300.0;

/// First runs by bucket, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FirstRuns {
    /// The number of the newest bucket, counted from the epoch.
    newest: i64,
    counts: [u64; 10],
}

impl FirstRuns {
    /// Counts `count` first runs at `second`.
    pub(super) fn note(&mut self, second: i64, count: u64) {
        let bucket = bucket_of(second);
        if self.is_set_back(bucket) {
            *self = Self::default();
        }
        let passed = bucket.saturating_sub(self.newest).clamp(0, BUCKETS);
        self.counts.rotate_right(usize::try_from(passed).unwrap_or_default());
        for (_, left_over) in (0..passed).zip(&mut self.counts) {
            *left_over = 0;
        }
        self.newest = self.newest.max(bucket);
        self.counts[0] = self.counts[0].saturating_add(count);
    }

    /// First runs per second in the five minutes before `second`.
    pub(super) fn per_second(&self, second: i64) -> f64 {
        let bucket = bucket_of(second);
        if self.is_set_back(bucket) {
            return 0.0;
        }
        let passed = bucket.saturating_sub(self.newest).clamp(0, BUCKETS);
        let within = usize::try_from(BUCKETS - passed).unwrap_or_default();
        let total = self.counts[..within].iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        total as f64 / WINDOW_SECONDS
    }

    fn is_set_back(&self, bucket: i64) -> bool {
        bucket < self.newest.saturating_sub(CLOCK_SLACK / BUCKET_SECONDS)
    }
}

const fn bucket_of(second: i64) -> i64 {
    second.div_euclid(BUCKET_SECONDS)
}
