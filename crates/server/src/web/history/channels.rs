//! What passes beside the queues, over the last hour: messages through bridges, jobs that wait to be handed off, and
//! rejected items.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use backstop::Timestamp;
use backstop::bridges::BridgeView;
use backstop::handoffs::HandOffView;
use backstop_core::reject::RejectGroup;

use super::{CountHistory, GAP_OF_WAITS, HOUR, Line, MOST_QUEUES, float, line};

/// The counts of one moment.
#[derive(Debug)]
pub(in crate::web) struct ChannelSample {
    at: Timestamp,
    /// Messages that came in and went out, ever, by bridge.
    bridges: HashMap<Arc<str>, [u64; 2]>,
    /// Jobs that wait to be handed off.
    waiting: u64,
    /// Items that were rejected, ever, by queue; none when there are too many causes to add up.
    rejected: Option<HashMap<Arc<str>, u64>>,
}

impl ChannelSample {
    pub(in crate::web) fn of(
        at: Timestamp,
        bridges: &[BridgeView],
        hand_offs: &[HandOffView],
        rejects: Option<&[RejectGroup]>,
    ) -> Self {
        let bridges = bridges.iter().take(MOST_QUEUES);
        let by_queue = |groups: &[RejectGroup]| {
            let mut sums = HashMap::<Arc<str>, u64>::new();
            for group in groups {
                let sum = sums.entry(group.queue.as_str().into()).or_default();
                *sum = sum.saturating_add(group.items);
            }
            sums
        };
        Self {
            at,
            bridges: bridges
                .map(|one| (one.name.as_str().into(), [one.counts.admitted, one.published()]))
                .collect(),
            waiting: hand_offs.iter().fold(0, |sum: u64, one| sum.saturating_add(one.backlog.messages)),
            rejected: rejects.map(by_queue),
        }
    }
}

impl CountHistory {
    /// Takes a sample, and forgets what is older than an hour.
    pub(in crate::web) fn add_channels(&self, sample: ChannelSample) {
        let now = sample.at;
        let mut known = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|one| one.at.after(HOUR) >= now && one.at < now);
        known.push_back(sample);
    }

    /// How fast messages come in and go out through a bridge, per second.
    pub(in crate::web) fn passed(&self, now: Timestamp, bridge: &str) -> [Line; 2] {
        [0, 1].map(|way| {
            self.channel_points(now, |before, sample| {
                let before = before?;
                let seconds = sample.at.since(before.at).as_secs_f64();
                let (from, to) = (before.bridges.get(bridge)?[way], sample.bridges.get(bridge)?[way]);
                (seconds > 0.0).then_some(())?;
                to.checked_sub(from).map(|passed| float(passed) / seconds)
            })
        })
    }

    /// Jobs that wait to be handed off.
    pub(in crate::web) fn to_hand_off(&self, now: Timestamp) -> Line {
        self.channel_points(now, |_, sample| Some(float(sample.waiting)))
    }

    /// Items that were rejected, ever, on the queues that are seen.
    pub(in crate::web) fn rejected(&self, now: Timestamp, sees: impl Fn(&str) -> bool) -> Line {
        self.channel_points(now, |_, sample| {
            let seen = sample.rejected.as_ref()?.iter().filter(|(queue, _)| sees(queue));
            Some(float(seen.map(|(_, items)| items).sum()))
        })
    }

    fn channel_points(
        &self,
        now: Timestamp,
        value: impl Fn(Option<&ChannelSample>, &ChannelSample) -> Option<f64>,
    ) -> Line {
        let window = self.window(now);
        let known = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        line(now, known.iter().map(|one| (one.at, one)), (window, GAP_OF_WAITS), value)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::web::history::POINTS;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000).after(Duration::from_secs(seconds))
    }

    fn sample(seconds: u64, passed: [u64; 2], rejected: &[(&str, u64)]) -> ChannelSample {
        let rejected = rejected.iter().map(|(queue, items)| ((*queue).into(), *items)).collect();
        ChannelSample {
            at: at(seconds),
            bridges: [("orders".into(), passed)].into(),
            waiting: seconds,
            rejected: Some(rejected),
        }
    }

    #[test]
    fn rates_of_bridges_are_differences_and_what_is_not_known_is_a_gap() {
        let history = CountHistory::default();
        history.add(at(0), Vec::new(), &[]);
        for step in 0..10 {
            history.add_channels(sample(step * 15, [step * 30, step * 15], &[("mail", 3), ("acme/mail", 9)]));
        }
        let now = at(135);
        let [came, went] = history.passed(now, "orders");
        assert!(came.iter().flatten().all(|rate| (rate - 2.0).abs() < 1e-9), "{came:?}");
        assert!(went.iter().flatten().all(|rate| (rate - 1.0).abs() < 1e-9), "{went:?}");
        assert!(came[POINTS - 1].is_some() && went[POINTS - 1].is_some());
        assert!(history.passed(now, "nobody").iter().flatten().all(Option::is_none), "it is no zero");
        assert_eq!(history.rejected(now, |queue| queue == "mail")[POINTS - 1], Some(3.0), "of what is seen");
        assert_eq!(history.to_hand_off(now)[POINTS - 1], Some(135.0));
        // A count that shrinks says nothing of how fast it grew.
        history.add_channels(sample(150, [0, 0], &[]));
        assert_eq!(history.passed(at(150), "orders")[0][POINTS - 1], None);
        let too_many = ChannelSample { rejected: None, ..sample(165, [0, 0], &[]) };
        history.add_channels(too_many);
        assert_eq!(history.rejected(at(165), |_| true)[POINTS - 1], None);
        history.add_channels(sample(10_000, [0, 0], &[]));
        assert_eq!(history.channels.lock().unwrap().len(), 1, "an hour is kept");
    }
}
