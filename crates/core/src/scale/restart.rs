//! How long to wait before a process that died is started again.

use std::time::Duration;

use crate::failure::Backoff;

/// A process that lived this long was well: its death is the first, not one of a row.
const STEADY: Duration = Duration::from_secs(10);

/// Half a second after the first early death, twice as long after each further one, half a minute at most. All
/// processes are of one program, so they share one count and need no jitter.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30));

/// Counts early deaths.
///
/// ```
/// use std::time::Duration;
/// use backstop_core::scale::Restarts;
///
/// let mut restarts = Restarts::default();
/// assert_eq!(restarts.wait_after(Duration::from_secs(3_600)), Duration::ZERO);
/// assert_eq!(restarts.wait_after(Duration::from_millis(20)), Duration::from_millis(500));
/// assert_eq!(restarts.wait_after(Duration::from_millis(20)), Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restarts {
    early: u32,
}

impl Restarts {
    /// How long to wait before the next start, after a process has lived this long.
    pub fn wait_after(&mut self, lived: Duration) -> Duration {
        if lived >= STEADY {
            self.early = 0;
            return Duration::ZERO;
        }
        self.early = self.early.saturating_add(1);
        BACKOFF.plain(self.early)
    }

    /// Early deaths without a long life in between.
    #[must_use]
    pub const fn in_a_row(self) -> u32 {
        self.early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_deaths_are_waited_for_ever_longer_up_to_a_cap_and_a_long_life_forgives_them() {
        // H9
        let mut restarts = Restarts::default();
        for (lived_ms, wait_ms, in_a_row) in [
            (0, 500, 1),
            (9_999, 1_000, 2),
            (10, 2_000, 3),
            (10, 4_000, 4),
            (10, 8_000, 5),
            (10, 16_000, 6),
            (10, 30_000, 7),
            (10, 30_000, 8),
            (10_000, 0, 0),
            (10, 500, 1),
        ] {
            let wait = restarts.wait_after(Duration::from_millis(lived_ms));
            assert_eq!((wait.as_millis(), restarts.in_a_row()), (wait_ms, in_a_row), "lived {lived_ms} ms");
        }
        let mut worn = Restarts { early: u32::MAX };
        assert_eq!(worn.wait_after(Duration::ZERO), Duration::from_secs(30), "no number overflows");
    }
}
