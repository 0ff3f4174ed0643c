//! When lanes and incidents are retired. Pure, the same on every store: they keep a lane's mark, and ask here what
//! becomes of it.

use std::time::Duration;

use backstop_core::Timestamp;

/// What a store keeps of a lane's emptiness. Whenever a job comes into the lane or leaves it, the mark is as at first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneMark {
    /// When it was found empty for the first time, and not otherwise since.
    pub empty_since: Option<Timestamp>,
    /// True when it has been empty for long: then it is left out of lists and limits, for as long as it is empty.
    pub retired: bool,
}

impl LaneMark {
    /// The mark after a look at a lane with so many hot jobs.
    #[must_use]
    pub fn seen(self, jobs: u64, idle: Duration, now: Timestamp) -> Self {
        match self.empty_since {
            // Programs of earlier versions know nothing of marks, and leave them on lanes that they use.
            _ if jobs > 0 => Self::default(),
            None => Self { empty_since: Some(now), retired: false },
            Some(since) => Self { retired: self.retired || now.since(since) >= idle, ..self },
        }
    }
}

/// The moment that is so long ago; none when that is before all time.
#[must_use]
pub fn cutoff(span: Duration, now: Timestamp) -> Option<Timestamp> {
    // A span longer than the calendar must not be cut down to it: then the earliest moment would be old enough.
    (span <= now.since(Timestamp::MIN)).then(|| now.before(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_lane_is_retired_when_it_has_been_empty_for_long() {
        // L20
        let fresh = LaneMark::default();
        let empty = LaneMark { empty_since: Some(NOW), retired: false };
        let retired = LaneMark { retired: true, ..empty };
        let before = NOW.after(DAY).before(Duration::from_micros(1));
        let table = [
            (fresh, 0, NOW, empty),
            (fresh, 1, NOW, fresh),
            (empty, 0, before, empty),
            (empty, 0, NOW.after(DAY), retired),
            (empty, 1, NOW.after(DAY), fresh),
            (retired, 0, NOW, retired),
            (retired, 1, NOW, fresh),
        ];
        for (mark, jobs, now, expected) in table {
            assert_eq!(mark.seen(jobs, DAY, now), expected, "{mark:?} with {jobs} jobs at {now}");
        }
        assert_eq!(fresh.seen(0, Duration::ZERO, NOW), empty, "never at the first look");
        assert_eq!(cutoff(Duration::MAX, NOW), None);
        assert_eq!(cutoff(DAY, NOW), Some(NOW.before(DAY)));
    }
}
