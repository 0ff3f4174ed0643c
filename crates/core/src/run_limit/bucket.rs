//! A bucket of starts, as one moment: that at which it will be full again.

use std::time::Duration;

use super::RunRate;
use crate::time::Timestamp;

/// How far a clock may go back before its buckets are believed no more.
const CLOCK_STEP: Duration = Duration::from_secs(60);

/// How far the bucket of a rate is emptied: the moment at which it is full again, in nanoseconds since the epoch.
///
/// Microseconds would be too coarse: a rate of 3 in a second takes a third of one for each start, and what is rounded
/// off would add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RunBucket {
    full_at: i64,
}

impl RunBucket {
    /// As a store keeps it.
    #[must_use]
    pub const fn from_nanos(full_at: i64) -> Self {
        Self { full_at }
    }

    /// As a store keeps it.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.full_at
    }

    /// Starts that are left.
    #[must_use]
    pub fn left(self, rate: RunRate, now: Timestamp) -> u64 {
        let per = nanos_of(rate);
        let missing = (i128::from(self.believed(rate, now).full_at) - i128::from(nanos(now))).clamp(0, per);
        u64::try_from((per - missing) * i128::from(rate.count) / per).unwrap_or(u64::MAX)
    }

    /// The bucket without so many starts.
    #[must_use]
    pub fn spend(self, rate: RunRate, now: Timestamp, starts: u64) -> Self {
        let taken = i128::from(starts) * nanos_of(rate) / i128::from(rate.count.max(1));
        let from = i128::from(self.believed(rate, now).full_at.max(nanos(now)));
        Self { full_at: i64::try_from(from + taken).unwrap_or(i64::MAX) }
    }

    /// When a start is left: `now` if one is.
    #[must_use]
    pub fn next_start(self, rate: RunRate, now: Timestamp) -> Timestamp {
        let (per, count) = (nanos_of(rate), i128::from(rate.count.max(1)));
        let one = (per + count - 1) / count;
        let full_at = i128::from(self.believed(rate, now).full_at);
        let at = (full_at - per + one).max(i128::from(nanos(now)));
        Timestamp::from_micros(i64::try_from((at + 999) / 1_000).unwrap_or(i64::MAX))
    }

    /// A bucket that is emptier than it can be has met another rate, or a clock that was far ahead: it is full. The
    /// clocks of two claims differ a little, so a little is not enough.
    fn believed(self, rate: RunRate, now: Timestamp) -> Self {
        let latest = i128::from(nanos(now.after(CLOCK_STEP))) + 2 * nanos_of(rate);
        if i128::from(self.full_at) > latest { Self::default() } else { self }
    }
}

fn nanos(moment: Timestamp) -> i64 {
    moment.as_micros().saturating_mul(1_000)
}

fn nanos_of(rate: RunRate) -> i128 {
    i128::try_from(rate.per.as_nanos()).unwrap_or(i128::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rate(count: u64, per_ms: u64) -> RunRate {
        RunRate { count, per: Duration::from_millis(per_ms) }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + ms * 1_000)
    }

    #[test]
    fn a_bucket_gives_what_it_holds_and_fills_evenly() {
        // H5
        let rate = rate(10, 1_000);
        let full = RunBucket::default();
        assert_eq!(full.left(rate, at(0)), 10);
        let empty = full.spend(rate, at(0), 10);
        assert_eq!(empty.left(rate, at(0)), 0);
        assert_eq!(empty.next_start(rate, at(0)), at(100));
        for (ms, left) in [(99, 0), (100, 1), (550, 5), (999, 9), (1_000, 10), (9_000, 10)] {
            assert_eq!(empty.left(rate, at(ms)), left, "after {ms} ms");
        }
        assert_eq!(empty.next_start(rate, at(400)), at(400), "one is there already");
    }

    #[test]
    fn single_starts_add_up_to_the_rate_whatever_it_divides_into() {
        // H5
        for (count, per_ms) in [(3, 1_000), (7, 1_000), (1, 1), (999, 1_000), (1_000_000, 1), (1, 86_400_000)]
        {
            let rate = rate(count, per_ms);
            let mut bucket = RunBucket::default();
            for taken in 0..count.min(5_000) {
                assert_eq!(bucket.left(rate, at(0)), count - taken, "{count} in {per_ms} ms");
                bucket = bucket.spend(rate, at(0), 1);
            }
            let next = bucket.next_start(rate, at(0));
            assert!(bucket.left(rate, next) >= 1, "{count} in {per_ms} ms: {bucket:?}");
            let before = Timestamp::from_micros(next.as_micros() - 1);
            assert!(next == at(0) || bucket.left(rate, before) == 0, "{count} in {per_ms} ms: {bucket:?}");
        }
    }

    #[test]
    fn a_long_time_of_single_starts_never_exceeds_the_rate() {
        // H5: each start is taken as soon as there is one, for ten thousand of them.
        let rate = rate(7, 1_000);
        let (mut bucket, mut now) = (RunBucket::default(), at(0));
        for _ in 0..10_000 {
            now = bucket.next_start(rate, now);
            assert!(bucket.left(rate, now) > 0);
            bucket = bucket.spend(rate, now, 1);
        }
        // The first seven were in the bucket.
        let expected = (10_000 - 7) * 1_000_000 / 7;
        let took = now.as_micros() - at(0).as_micros();
        // A nanosecond that is rounded off at each start is less than a microsecond in a thousand of them.
        assert!((expected - 10..expected + 10_000).contains(&took), "{took} us instead of {expected}");
    }

    #[test]
    fn a_clock_that_was_far_ahead_does_not_stop_a_rate_for_long() {
        // H5
        let rate = rate(1, 1_000);
        let bucket = RunBucket::default().spend(rate, at(10_000_000), 1);
        assert_eq!((bucket.left(rate, at(0)), bucket.next_start(rate, at(0))), (1, at(0)));
        let bucket = RunBucket::default().spend(rate, at(20), 1);
        assert_eq!(
            bucket.left(rate, at(0)),
            0,
            "claims read the clock in another order than they get the lock"
        );
    }
}
