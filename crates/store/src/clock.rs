//! The store's clock: the only clock that due times, leases and terms know.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use backstop_core::Timestamp;

/// Where a store that has no clock of its own reads the time.
pub trait Clock: Send + Sync + 'static {
    /// The moment it is.
    fn now(&self) -> Timestamp;
}

/// The machine's clock, kept from running backwards within this process.
///
/// A clock that is stepped back would make leases live again and new jobs sort before old ones.
#[derive(Debug)]
pub struct SystemClock {
    /// What the monotonic clock counts from.
    start: Instant,
    shown: Mutex<Shown>,
}

/// What was shown, and how far the monotonic clock was then, both in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    at: i64,
    steady: i64,
}

/// What a clock shows next, when the machine's wall clock says `wall` and its monotonic clock `steady`.
///
/// The wall clock is followed as long as it is not behind what was shown. When it is, it was stepped back, and whoever
/// holds a lease or waits for a due time has been shown a later moment already. Going back would make leases live again
/// that had run out; standing until the wall clock has caught up would, after an hour forward and back, stop every
/// lease, retry and expiry for an hour; going on at full speed would never meet the wall clock again, and the processes
/// that share a file would disagree for ever. So time goes on at half speed until they meet: never back, never still,
/// and what was to take a minute takes two at most.
const fn next_shown(before: Shown, wall: i64, steady: i64) -> Shown {
    if wall >= before.at {
        return Shown { at: wall, steady };
    }
    let passed = steady.saturating_sub(before.steady);
    let step = if passed > 0 { passed / 2 } else { 0 };
    // What a step does not use up is kept for the next, or a clock that is asked every microsecond would stand.
    Shown { at: before.at.saturating_add(step), steady: before.steady.saturating_add(step * 2) }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now(), shown: Mutex::new(Shown { at: i64::MIN, steady: 0 }) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = next_shown(*shown, micros(since), micros(self.start.elapsed()));
        Timestamp::from_micros(shown.at)
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;

    #[test]
    fn a_clock_that_was_stepped_back_goes_on() {
        // L15: what was shown, the wall clock and the monotonic clock since; what is shown next, and what is left over.
        let at = |at, steady| Shown { at, steady };
        let table = [
            ("the first look", at(i64::MIN, 0), 50, 7, at(50, 7)),
            ("as it should be", at(100, 0), 150, 50, at(150, 50)),
            ("it stands", at(100, 0), 100, 10, at(100, 10)),
            ("forward an hour", at(100, 0), 100 + HOUR, 10, at(100 + HOUR, 10)),
            ("back an hour, at once", at(HOUR, 0), 10, 10, at(HOUR + 5, 10)),
            ("back an hour, a second later", at(HOUR, 0), SECOND, SECOND, at(HOUR + SECOND / 2, SECOND)),
            ("asked too soon", at(HOUR, 0), 1, 1, at(HOUR, 0)),
            ("and again", at(HOUR, 0), 2, 2, at(HOUR + 1, 2)),
            ("they meet", at(HOUR, 0), HOUR, HOUR, at(HOUR, HOUR)),
            ("a monotonic clock that is not", at(HOUR, 9), 5, 3, at(HOUR, 9)),
            ("the end of time", at(i64::MAX, 0), 5, SECOND, at(i64::MAX, SECOND)),
        ];
        for (what, before, wall, steady, after) in table {
            assert_eq!(next_shown(before, wall, steady), after, "{what}");
        }
    }

    #[test]
    fn an_hour_forward_and_back_is_made_up_for_in_two() {
        // L15
        let mut shown = Shown { at: HOUR, steady: 0 };
        let mut met = None;
        for second in 1..=3 * 3_600 {
            let before = shown;
            shown = next_shown(shown, second * SECOND, second * SECOND);
            assert!(shown.at >= before.at, "it never goes back");
            assert!(shown.at - before.at <= SECOND, "and never hurries");
            met = met.or((shown.at == second * SECOND).then_some(second));
        }
        assert!(met.is_some_and(|second| second <= 2 * 3_600), "{met:?}");
    }

    #[test]
    fn the_clock_is_the_machines() {
        let (clock, before) = (SystemClock::default(), SystemTime::now());
        let shown = clock.now();
        let since = before.duration_since(UNIX_EPOCH).expect("after 1970");
        assert!(shown.as_micros() >= i64::try_from(since.as_micros()).expect("before 292,000"));
        assert!(clock.now() >= shown);
    }
}
