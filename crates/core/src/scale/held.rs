//! Jobs of a queue that nobody could start, however many processes there were: limits hold them back (H5).

use std::collections::BTreeMap;
use std::sync::Arc;

/// What limits and circuits hold back on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueRoom {
    /// Pending jobs that nobody may start now.
    pub jobs: u64,
    /// How many more of its jobs may run at once; none where nothing bounds that.
    pub room: Option<u64>,
}

/// Jobs of a queue for which a limit says how many more of them may run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedJobs {
    /// Of this kind; none for all that is on the queue.
    pub kind: Option<Arc<str>>,
    /// How many are pending.
    pub pending: u64,
    /// How many more may run.
    pub room: u64,
}

impl QueueRoom {
    /// Adds up what limits on jobs of one queue say. Those on a kind are apart from those on other kinds; where several
    /// are about the same jobs, the narrowest counts.
    ///
    /// ```
    /// use backstop_core::scale::{QueueRoom, LimitedJobs};
    ///
    /// let all = LimitedJobs { kind: None, pending: 100, room: 40 };
    /// let of_kind = LimitedJobs { kind: Some("render".into()), pending: 70, room: 0 };
    /// assert_eq!(QueueRoom::by_limits(&[all, of_kind]), QueueRoom { jobs: 70, room: Some(40) });
    /// ```
    #[must_use]
    pub fn by_limits(limits: &[LimitedJobs]) -> Self {
        let mut room: Option<u64> = None;
        let (mut of_queue, mut of_kinds) = (0_u64, BTreeMap::<&str, u64>::new());
        for LimitedJobs { kind, pending, room: own } in limits {
            let held = pending.saturating_sub(*own);
            match kind {
                None => {
                    of_queue = of_queue.max(held);
                    room = Some(room.map_or(*own, |room| room.min(*own)));
                }
                Some(kind) => {
                    let known = of_kinds.entry(kind).or_default();
                    *known = held.max(*known);
                }
            }
        }
        let of_kinds = of_kinds.values().fold(0_u64, |sum, held| sum.saturating_add(*held));
        Self { jobs: of_queue.max(of_kinds), room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(kind: &str, pending: u64, room: u64) -> LimitedJobs {
        LimitedJobs { kind: Some(kind).filter(|kind| !kind.is_empty()).map(Arc::from), pending, room }
    }

    #[test]
    fn what_is_held_back_is_counted_once() {
        // H9, H5
        let table = [
            (vec![], 0, None),
            (vec![limited("", 10, 20)], 0, Some(20)),
            (vec![limited("", 10, 0)], 10, Some(0)),
            (vec![limited("", 10, 4), limited("", 10, 7)], 6, Some(4)),
            (vec![limited("a", 10, 4), limited("b", 5, 1)], 10, None),
            (vec![limited("a", 10, 4), limited("a", 10, 1)], 9, None),
            (vec![limited("", 20, 2), limited("a", 10, 4), limited("b", 5, 1)], 18, Some(2)),
            (
                vec![limited("", u64::MAX, 0), limited("a", u64::MAX, 0), limited("b", u64::MAX, 0)],
                u64::MAX,
                Some(0),
            ),
        ];
        for (limits, jobs, room) in table {
            assert_eq!(QueueRoom::by_limits(&limits), QueueRoom { jobs, room }, "{limits:?}");
        }
    }
}
