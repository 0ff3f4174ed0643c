//! What limits leave room for, while one claim takes jobs.

use std::sync::Arc;

use super::{RunBucket, RunLimit};
use crate::time::Timestamp;

/// What is used of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunUse {
    /// Jobs that are claimed.
    pub running: u64,
    /// Starts that its rate has left.
    pub bucket: RunBucket,
    /// Permits of its pool that runs hold.
    pub permits: u64,
}

/// What limits leave room for. The limits are locked: nobody else takes what they leave.
#[derive(Debug, Clone)]
pub struct RunRooms {
    now: Timestamp,
    rooms: Vec<LimitRoom>,
}

#[derive(Debug, Clone)]
struct LimitRoom {
    limit: RunLimit,
    used: RunUse,
    left: u64,
    taken: u64,
}

impl RunRooms {
    /// The rooms of limits, each with what is used of it.
    #[must_use]
    pub fn new(limits: impl IntoIterator<Item = (RunLimit, RunUse)>, now: Timestamp) -> Self {
        let room = |(limit, used): (RunLimit, RunUse)| {
            let free = limit.concurrency.map(|most| most.saturating_sub(used.running));
            let starts = limit.rate.map(|rate| used.bucket.left(rate, now));
            let left = free.unwrap_or(u64::MAX).min(starts.unwrap_or(u64::MAX));
            LimitRoom { limit, used, left, taken: 0 }
        };
        Self { now, rooms: limits.into_iter().map(room).collect() }
    }

    /// How many jobs of this queue and kind may be taken now.
    #[must_use]
    pub fn left(&self, queue: &str, kind: &str) -> u64 {
        let covering = self.rooms.iter().filter(|room| room.limit.covers(queue, kind));
        covering.map(|room| room.left).min().unwrap_or(u64::MAX)
    }

    /// Notes that a job was taken.
    pub fn take(&mut self, queue: &str, kind: &str) {
        for room in self.rooms.iter_mut().filter(|room| room.limit.covers(queue, kind)) {
            room.left = room.left.saturating_sub(1);
            room.taken += 1;
        }
    }

    /// The buckets that were taken from, as they are now.
    #[must_use]
    pub fn spent(&self) -> Vec<(Arc<str>, RunBucket)> {
        let spent = |room: &LimitRoom| {
            let rate = room.limit.rate.filter(|_| room.taken > 0)?;
            Some((room.limit.name.clone(), room.used.bucket.spend(rate, self.now, room.taken)))
        };
        self.rooms.iter().filter_map(spent).collect()
    }

    /// When a limit that leaves no room lets another job start, as far as that is known; none when all of them have
    /// room. Where a run has to end first, that is `Timestamp::MAX`.
    #[must_use]
    pub fn held_until(&self) -> Option<Timestamp> {
        let full = self.rooms.iter().filter(|room| room.left == 0);
        full.map(|room| {
            let running = room.used.running.saturating_add(room.taken);
            match (room.limit.concurrency, room.limit.rate) {
                (Some(most), _) if running >= most => Timestamp::MAX,
                (_, Some(rate)) => {
                    room.used.bucket.spend(rate, self.now, room.taken).next_start(rate, self.now)
                }
                _ => Timestamp::MAX,
            }
        })
        .min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::RunRate;
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn limit(name: &str, queue: Option<&str>, kind: Option<&str>, concurrency: u64) -> RunLimit {
        RunLimit {
            queue: queue.map(Into::into),
            kind: kind.map(Into::into),
            concurrency: Some(concurrency),
            ..RunLimit::new(name)
        }
    }

    fn running(running: u64) -> RunUse {
        RunUse { running, ..RunUse::default() }
    }

    #[test]
    fn the_tightest_limit_that_covers_a_job_decides() {
        // H5
        let mut rooms = RunRooms::new(
            [
                (limit("all", None, None, 100), running(90)),
                (limit("mail", Some("mail"), None, 5), running(1)),
                (limit("pdf", None, Some("pdf"), 3), running(1)),
                (limit("both", Some("mail"), Some("pdf"), 1), running(0)),
            ],
            NOW,
        );
        let left = |rooms: &RunRooms| {
            [("mail", "pdf"), ("mail", "send"), ("web", "pdf"), ("web", "get")]
                .map(|(queue, kind)| rooms.left(queue, kind))
        };
        assert_eq!(left(&rooms), [1, 4, 2, 10]);
        assert_eq!(rooms.held_until(), None);
        rooms.take("mail", "pdf");
        assert_eq!(left(&rooms), [0, 3, 1, 9]);
        assert_eq!(rooms.held_until(), Some(Timestamp::MAX), "a run has to end first");
        rooms.take("web", "pdf");
        assert_eq!(left(&rooms), [0, 3, 0, 8]);
    }

    #[test]
    fn more_than_a_limit_may_run_when_it_was_lowered_and_then_nothing_is_taken() {
        // H5
        let rooms = RunRooms::new([(limit("all", None, None, 2), running(7))], NOW);
        assert_eq!(rooms.left("any", "any"), 0);
    }

    #[test]
    fn a_rate_is_spent_by_what_was_taken_and_says_when_it_goes_on() {
        // H5
        let rate = RunRate { count: 2, per: Duration::from_secs(1) };
        let limited = RunLimit { queue: Some("mail".into()), rate: Some(rate), ..RunLimit::new("slow") };
        let mut rooms = RunRooms::new([(limited, RunUse::default())], NOW);
        assert_eq!((rooms.left("mail", "any"), rooms.left("web", "any")), (2, u64::MAX));
        rooms.take("web", "any");
        assert_eq!(rooms.spent(), []);
        rooms.take("mail", "any");
        rooms.take("mail", "any");
        assert_eq!(rooms.left("mail", "any"), 0);
        let spent = rooms.spent();
        assert_eq!(spent.len(), 1);
        assert_eq!(spent[0].1.left(rate, NOW), 0);
        assert_eq!(rooms.held_until(), Some(NOW.after(Duration::from_millis(500))));
    }
}
