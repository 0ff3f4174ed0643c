//! When a need is acted on.

use std::time::Duration;

use super::{ProcessRange, ProcessSlots};
use crate::Timestamp;

/// How often `down_after` is doubled at most by steps down that had to be taken back.
const DOUBLINGS: u32 = 4;

/// Between how many processes, and how quickly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleSettings {
    /// Between how many.
    pub processes: ProcessRange,
    /// How long the oldest due job of a queue waits before more processes are wanted, and how long the ones that were
    /// started last have to show what they can do before more follow.
    pub up_after: Duration,
    /// How long fewer have to be enough before one is stopped.
    pub down_after: Duration,
    /// Runs that one process has at once.
    pub slots: ProcessSlots,
}

impl Default for ScaleSettings {
    fn default() -> Self {
        Self {
            processes: ProcessRange::default(),
            up_after: Duration::from_secs(2),
            down_after: Duration::from_secs(60),
            slots: ProcessSlots::default(),
        }
    }
}

/// Decides how many processes there are to be, look by look.
///
/// Up at once, at most to twice as many, and not again within `up_after`. Down one by one, each after fewer have been
/// enough without a break for `down_after`; a step down that was taken back within that time doubles it, so that a load
/// between two numbers settles at the higher one.
///
/// ```
/// use std::time::Duration;
/// use backstop_core::Timestamp;
/// use backstop_core::scale::{ScaleSettings, Scaler};
///
/// let at = |secs| Timestamp::EPOCH.after(Duration::from_secs(secs));
/// let mut scaler = Scaler::new(ScaleSettings::default(), at(0));
/// assert_eq!(scaler.look(at(2), 40), 2);
/// assert_eq!(scaler.look(at(4), 40), 4);
/// assert_eq!(scaler.look(at(5), 1), 4);
/// assert_eq!(scaler.look(at(65), 1), 3);
/// ```
#[derive(Debug, Clone)]
pub struct Scaler {
    settings: ScaleSettings,
    processes: u32,
    last_up: Timestamp,
    last_down: Option<Timestamp>,
    /// Since when fewer have been enough.
    quiet_since: Option<Timestamp>,
    /// How often `down_after` is doubled.
    doublings: u32,
}

impl Scaler {
    /// Begins now with the minimum. They have `up_after` to show what they can do, as all that follow.
    #[must_use]
    pub const fn new(settings: ScaleSettings, now: Timestamp) -> Self {
        let processes = settings.processes.min();
        Self { settings, processes, last_up: now, last_down: None, quiet_since: None, doublings: 0 }
    }

    /// How it was told to decide.
    #[must_use]
    pub const fn settings(&self) -> &ScaleSettings {
        &self.settings
    }

    /// How many there are to be.
    #[must_use]
    pub const fn processes(&self) -> u32 {
        self.processes
    }

    /// How long fewer have to be enough before one is stopped, by now.
    #[must_use]
    pub fn quiet_time(&self) -> Duration {
        self.settings.down_after.saturating_mul(1 << self.doublings)
    }

    /// How many there are to be from now on, when a look at the queues has found that so many are wanted.
    pub fn look(&mut self, now: Timestamp, wanted: u64) -> u32 {
        let wanted = self.settings.processes.clamp(wanted);
        if wanted > self.processes {
            self.quiet_since = None;
            self.up(now, wanted);
        } else if wanted == self.processes {
            self.quiet_since = None;
        } else {
            self.down(now);
        }
        self.processes
    }

    fn up(&mut self, now: Timestamp, wanted: u32) {
        if now.since(self.last_up) < self.settings.up_after {
            return;
        }
        if self.last_down.is_some_and(|last| now.since(last) <= self.quiet_time()) {
            self.doublings = (self.doublings + 1).min(DOUBLINGS);
        }
        self.processes = wanted.min(self.processes.saturating_mul(2));
        self.last_up = now;
    }

    fn down(&mut self, now: Timestamp) {
        let since = *self.quiet_since.get_or_insert(now);
        if now.since(since) < self.quiet_time() {
            return;
        }
        // A second step down with nothing up in between: the first one was right.
        if self.last_down.is_some_and(|last| last > self.last_up) {
            self.doublings = 0;
        }
        self.processes -= 1;
        self.last_down = Some(now);
        self.quiet_since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG_AGO: Timestamp = Timestamp::MIN;

    /// Plays looks at these seconds, each with what is wanted and how many there are to be then.
    fn check(name: &str, looks: &[(u64, u64, u32)]) {
        let settings = ScaleSettings {
            processes: "1..8".parse().unwrap(),
            up_after: Duration::from_secs(2),
            down_after: Duration::from_secs(60),
            slots: ProcessSlots::default(),
        };
        let mut scaler = Scaler::new(settings, LONG_AGO);
        for (secs, wanted, processes) in looks {
            let now = Timestamp::EPOCH.after(Duration::from_secs(*secs));
            assert_eq!(scaler.look(now, *wanted), *processes, "{name}, at {secs} s");
        }
    }

    #[test]
    fn more_come_at_once_and_fewer_after_a_quiet_time() {
        // H9
        check(
            "never outside the range",
            &[(0, 0, 1), (600, 0, 1), (601, 1_000, 2), (603, 1_000, 4), (605, 9, 8)],
        );
        check(
            "the largest need there is",
            &[(0, u64::MAX, 2), (2, u64::MAX, 4), (4, u64::MAX, 8), (6, u64::MAX, 8)],
        );
        check(
            "at most twice as many, and not again at once",
            &[(0, 8, 2), (1, 8, 2), (2, 8, 4), (3, 8, 4), (4, 8, 8)],
        );
        check("no more than are wanted", &[(0, 2, 2), (2, 3, 3), (4, 3, 3)]);
        check(
            "one by one, each after a quiet time",
            &[
                (0, 8, 2),
                (2, 8, 4),
                (10, 1, 4),
                (69, 1, 4),
                (70, 1, 3),
                (129, 1, 3),
                (130, 1, 2),
                (190, 1, 1),
                (900, 1, 1),
            ],
        );
        check(
            "a break begins the quiet time again",
            &[(0, 3, 2), (2, 3, 3), (10, 1, 3), (69, 3, 3), (70, 1, 3), (129, 1, 3), (130, 1, 2)],
        );
    }

    #[test]
    fn a_load_between_two_numbers_settles_at_the_higher_one() {
        // H9
        check(
            "a step that was taken back is taken again later and later",
            &[
                (0, 2, 2),
                (10, 1, 2),
                (70, 1, 1),
                // Too few: the quiet time is two minutes from now on.
                (75, 2, 2),
                (80, 1, 2),
                (199, 1, 2),
                (200, 1, 1),
                // Four minutes.
                (205, 2, 2),
                (210, 1, 2),
                (449, 1, 2),
                (450, 1, 1),
            ],
        );
        // An hour in which every step down is wrong costs few changes.
        let mut scaler = Scaler::new(ScaleSettings::default(), LONG_AGO);
        let mut changes = 0;
        for secs in 0..3_600 {
            let before = scaler.processes();
            let wanted = if before < 2 { 2 } else { 1 };
            let now = Timestamp::EPOCH.after(Duration::from_secs(secs));
            changes += u32::from(scaler.look(now, wanted) != before);
        }
        assert!(changes <= 15, "{changes} changes");
        assert_eq!(scaler.quiet_time(), Duration::from_secs(960));
    }

    #[test]
    fn two_steps_down_in_a_row_make_it_quick_again() {
        // H9
        let mut scaler = Scaler::new(ScaleSettings::default(), LONG_AGO);
        let at = |secs| Timestamp::EPOCH.after(Duration::from_secs(secs));
        for (secs, wanted) in [(0, 2), (2, 3), (4, 1), (64, 1), (66, 3)] {
            scaler.look(at(secs), wanted);
        }
        assert_eq!((scaler.processes(), scaler.quiet_time().as_secs()), (3, 120));
        for secs in [68, 188] {
            scaler.look(at(secs), 1);
        }
        assert_eq!((scaler.processes(), scaler.quiet_time().as_secs()), (2, 120));
        scaler.look(at(308), 1);
        assert_eq!((scaler.processes(), scaler.quiet_time().as_secs()), (1, 60));
    }

    #[test]
    fn the_first_ones_have_a_moment_to_begin() {
        // H9
        let mut scaler = Scaler::new(ScaleSettings::default(), Timestamp::EPOCH);
        for (millis, processes) in [(0, 1), (1_999, 1), (2_000, 2)] {
            assert_eq!(scaler.look(Timestamp::EPOCH.after(Duration::from_millis(millis)), 9), processes);
        }
    }

    #[test]
    fn a_range_of_one_number_never_moves() {
        // H9
        let settings = ScaleSettings { processes: "3".parse().unwrap(), ..ScaleSettings::default() };
        let mut scaler = Scaler::new(settings, LONG_AGO);
        for (secs, wanted) in [(0, 0), (100, 1_000), (1_000, 0), (10_000, 3)] {
            assert_eq!(scaler.look(Timestamp::EPOCH.after(Duration::from_secs(secs)), wanted), 3);
        }
    }
}
