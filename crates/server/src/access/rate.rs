//! How often is too often: the generic cell rate algorithm, as a function of the moment.

use std::time::Duration;

/// A rate with room for bursts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time that one call is worth.
    every: Duration,
    /// Calls that may come at once.
    burst: u32,
}

impl Rate {
    /// One call in `every`, and up to `burst` at once after a rest. Zero of either counts as the least there is.
    #[must_use]
    pub fn every(every: Duration, burst: u32) -> Self {
        Self { every: every.max(Duration::from_nanos(1)), burst: burst.max(1) }
    }

    /// This many calls in a second.
    #[must_use]
    pub fn per_second(calls: u32, burst: u32) -> Self {
        Self::every(Duration::from_secs(1) / calls.max(1), burst)
    }

    /// Whether a call may come now.
    ///
    /// `paid_until` is what the last admitted call answered, and moments are counted from any fixed one. An admitted
    /// call answers the moment until which all calls so far are paid for; it is all there is to remember.
    ///
    /// # Errors
    /// How long to wait, for a call that comes too early; nothing is to be remembered of it.
    pub(crate) fn admit(self, paid_until: Option<Duration>, now: Duration) -> Result<Duration, Duration> {
        let paid_until = paid_until.unwrap_or(now).max(now) + self.every;
        let credit = self.every.saturating_mul(self.burst);
        match (paid_until - now).checked_sub(credit) {
            None | Some(Duration::ZERO) => Ok(paid_until),
            Some(wait) => Err(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls at these milliseconds; each is admitted, or told to wait so many.
    fn check(rate: Rate, calls: &[(u64, Result<(), u64>)]) {
        let mut paid_until = None;
        for (at, expected) in calls {
            let answer = rate.admit(paid_until, Duration::from_millis(*at));
            let shown = answer.map(drop).map_err(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            assert_eq!(shown, *expected, "{rate:?} at {at}");
            paid_until = answer.ok().or(paid_until);
        }
    }

    #[test]
    fn calls_are_admitted_at_the_rate_and_in_bursts() {
        let ten = |burst| Rate::every(Duration::from_millis(100), burst);
        check(
            ten(1),
            &[(0, Ok(())), (0, Err(100)), (60, Err(40)), (100, Ok(())), (199, Err(1)), (200, Ok(()))],
        );
        check(ten(3), &[(0, Ok(())), (0, Ok(())), (0, Ok(())), (0, Err(100)), (99, Err(1)), (100, Ok(()))]);
        // A long rest earns one burst, not more.
        check(ten(2), &[(0, Ok(())), (9_000, Ok(())), (9_000, Ok(())), (9_000, Err(100)), (9_100, Ok(()))]);
        // Calls that were refused cost nothing.
        check(ten(1), &[(0, Ok(())), (10, Err(90)), (20, Err(80)), (30, Err(70)), (100, Ok(()))]);
        // A clock that goes back is a clock that stands.
        check(ten(1), &[(500, Ok(())), (400, Err(200)), (600, Ok(()))]);
        check(Rate::per_second(1_000, 2), &[(0, Ok(())), (0, Ok(())), (0, Err(1)), (1, Ok(()))]);
    }

    #[test]
    fn over_a_minute_the_rate_is_kept_to_the_call() {
        let (rate, mut paid_until, mut admitted) = (Rate::per_second(50, 10), None, 0);
        for millis in 0..60_000 {
            if let Ok(paid) = rate.admit(paid_until, Duration::from_millis(millis)) {
                (paid_until, admitted) = (Some(paid), admitted + 1);
            }
        }
        assert_eq!(admitted, 10 + 50 * 60 - 1);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let rate = Rate::every(Duration::MAX / 4, u32::MAX);
        assert!(rate.admit(None, Duration::ZERO).is_ok());
        assert!(Rate::every(Duration::ZERO, 0).admit(None, Duration::ZERO).is_ok());
    }
}
