//! What waits and runs on a queue, and how many processes that needs.

use std::collections::BTreeMap;
use std::time::Duration;

/// A queue as the scaler sees it.
///
/// ```
/// use std::time::Duration;
/// use backstop_core::scale::QueueLoad;
///
/// let patience = Duration::from_secs(2);
/// let oldest_wait = Duration::from_secs(12);
/// let busy = QueueLoad { depth: 100, oldest_wait, running: 16, slots: 16, most_running: None };
/// assert_eq!(busy.wanted(patience), 8);
/// // Many jobs that each wait for a moment only: those who run them keep up.
/// let brisk = QueueLoad { oldest_wait: Duration::from_millis(40), ..busy };
/// assert_eq!(brisk.wanted(patience), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLoad {
    /// Jobs that may be claimed.
    pub depth: u64,
    /// How long the oldest due one of them waits.
    pub oldest_wait: Duration,
    /// Jobs that workers hold.
    pub running: u64,
    /// Runs of this queue that one process has at once.
    pub slots: u64,
    /// Runs of this queue that limits allow at once in all processes, where they say so.
    pub most_running: Option<u64>,
}

impl QueueLoad {
    /// True when its oldest job waits for too long.
    #[must_use]
    pub fn is_late(&self, up_after: Duration) -> bool {
        self.depth > 0 && self.oldest_wait >= up_after
    }

    /// How many processes have room for what runs, and for what waits once the oldest job has waited for `up_after`.
    /// Before that the depth says nothing: a thousand jobs that are each taken within a moment need nobody more.
    #[must_use]
    pub fn wanted(&self, up_after: Duration) -> u64 {
        let waiting = if self.is_late(up_after) { self.depth } else { 0 };
        self.running.saturating_add(waiting).div_ceil(self.slots.max(1)).min(self.most_wanted())
    }

    /// As many as could be busy at once.
    fn most_wanted(&self) -> u64 {
        self.most_running.map_or(u64::MAX, |most| most.max(self.running).div_ceil(self.slots.max(1)))
    }

    /// How many a supervisor wants that has `current` of them and knows of no others, which may serve the queue too:
    /// more only when a job waits for too long, and otherwise as many of its own as could have in hand all that runs.
    #[must_use]
    pub fn wanted_of(&self, current: u32, up_after: Duration) -> u64 {
        let (current, slots) = (u64::from(current), self.slots.max(1));
        if self.is_late(up_after) {
            current.saturating_add(self.depth.div_ceil(slots)).min(self.most_wanted())
        } else {
            self.running.div_ceil(slots).min(current)
        }
    }
}

/// Runs that one process has at once, by queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSlots {
    /// On these queues.
    pub queues: BTreeMap<String, u64>,
    /// On every other.
    pub otherwise: u64,
}

impl ProcessSlots {
    /// Runs at once on a queue of which nothing is said.
    pub const USUAL: u64 = 16;

    /// On this queue.
    #[must_use]
    pub fn of(&self, queue: &str) -> u64 {
        self.queues.get(queue).copied().unwrap_or(self.otherwise)
    }
}

impl Default for ProcessSlots {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), otherwise: Self::USUAL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_wanted_follows_from_depth_wait_and_slots() {
        // H9
        let patience = Duration::from_secs(2);
        for (depth, wait_ms, running, slots, wanted) in [
            // Nothing to do.
            (0, 0, 0, 16, 0),
            // What runs needs its slots.
            (0, 0, 1, 16, 1),
            (0, 0, 16, 16, 1),
            (0, 0, 17, 16, 2),
            // What waits counts once the oldest has waited long enough.
            (1_000, 1_999, 16, 16, 1),
            (1_000, 2_000, 16, 16, 64),
            (1, 2_000, 0, 16, 1),
            (1, 2_000, 16, 16, 2),
            (16, 60_000, 16, 16, 2),
            // A wait without a job is no wait.
            (0, 60_000, 3, 16, 1),
            // A queue with one slot a process, and one with none, which is read as one.
            (5, 2_000, 3, 1, 8),
            (5, 2_000, 3, 0, 8),
            // The largest numbers there are.
            (u64::MAX, 2_000, u64::MAX, 1, u64::MAX),
        ] {
            let load = QueueLoad {
                depth,
                oldest_wait: Duration::from_millis(wait_ms),
                running,
                slots,
                most_running: None,
            };
            assert_eq!(load.wanted(patience), wanted, "{load:?}");
        }
        let now =
            QueueLoad { depth: 1, oldest_wait: Duration::ZERO, running: 0, slots: 1, most_running: None };
        assert_eq!(now.wanted(Duration::ZERO), 1, "without patience every waiting job counts");
    }

    #[test]
    fn a_supervisor_is_not_misled_by_what_runs_elsewhere() {
        // H9
        let patience = Duration::from_secs(2);
        for (current, depth, wait_ms, running, wanted) in [
            // Idle.
            (4, 0, 0, 0, 0),
            // Its own are busy, or those of others: both look the same, and nothing waits.
            (2, 0, 0, 32, 2),
            (2, 0, 0, 96, 2),
            (2, 500, 1_999, 96, 2),
            // Fewer would do, whoever has them.
            (4, 0, 0, 33, 3),
            // Something waits for too long.
            (2, 1, 2_000, 32, 3),
            (2, 40, 2_000, 32, 5),
            (2, 40, 2_000, 0, 5),
            (8, u64::MAX, 2_000, 0, 8 + u64::MAX / 16 + 1),
        ] {
            let load = QueueLoad {
                depth,
                oldest_wait: Duration::from_millis(wait_ms),
                running,
                slots: 16,
                most_running: None,
            };
            assert_eq!(load.wanted_of(current, patience), wanted, "{load:?} with {current}");
        }
    }

    #[test]
    fn nobody_is_wanted_for_what_limits_do_not_let_run() {
        // H9, H5: one of five runs has just ended, so a place is free for a moment; who works takes it.
        let patience = Duration::from_secs(2);
        for (current, depth, running, most, wanted, wanted_of) in [
            (1, 1, 4, 5, 1, 1),
            (3, 1, 4, 5, 1, 1),
            (1, 30, 10, 40, 3, 3),
            (2, 1, 39, 40, 3, 3),
            // A limit that was lowered calls nobody off who works.
            (2, 1, 32, 5, 2, 2),
        ] {
            let oldest_wait = Duration::from_secs(60);
            let load = QueueLoad { depth, oldest_wait, running, slots: 16, most_running: Some(most) };
            assert_eq!(load.wanted(patience), wanted, "{load:?}");
            assert_eq!(load.wanted_of(current, patience), wanted_of, "{load:?} with {current}");
        }
    }
}
