//! How long jobs waited for a worker, as counts: small to keep and to store, and those of many workers add up.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How far back waits count.
const WINDOW: Duration = Duration::from_secs(60);

/// The window is forgotten in steps of this.
const STEP: Duration = Duration::from_secs(10);

/// Queues that are counted apart at most; a report stays small however many there are.
const QUEUES: usize = 100;

/// Waits are counted up to these bounds, in milliseconds, and one more place counts what took longer.
const BOUNDS_MS: [u64; 16] =
    [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000, 3_600_000, 86_400_000];

/// How many jobs waited how long.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitCounts(Vec<u32>);

impl WaitCounts {
    fn note(&mut self, wait: Duration) {
        let place = BOUNDS_MS.partition_point(|bound| u128::from(*bound) * 1_000 < wait.as_micros());
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        self.0[place] = self.0[place].saturating_add(1);
    }

    /// How many waited.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// Adds those of others.
    pub fn add(&mut self, more: &Self) {
        if self.0.len() < more.0.len() {
            self.0.resize(more.0.len(), 0);
        }
        for (sum, count) in self.0.iter_mut().zip(&more.0) {
            *sum = sum.saturating_add(*count);
        }
    }

    /// How long so many of a hundred waited at most, as far as the bounds tell; none where nothing waited.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = self.count().saturating_mul(percent).div_ceil(100).max(1);
        // Whoever told it may know more bounds than we do.
        let bound = |place: usize| BOUNDS_MS[place.min(BOUNDS_MS.len() - 1)];
        let mut below = 0;
        for (place, here) in self.0.iter().enumerate() {
            let here = u64::from(*here);
            if below + here < rank {
                below += here;
                continue;
            }
            let from = place.checked_sub(1).map_or(0, bound);
            let into = u128::from(bound(place) - from) * 1_000 * u128::from(rank - below) / u128::from(here);
            let into = Duration::from_micros(u64::try_from(into).unwrap_or(u64::MAX));
            return Some(Duration::from_millis(from) + into);
        }
        None
    }
}

/// Waits by queue.
pub type WaitsByQueue = BTreeMap<String, WaitCounts>;

/// Adds the waits of some to those of others.
pub fn add_waits(sum: &mut WaitsByQueue, more: &WaitsByQueue) {
    for (queue, counts) in more {
        match sum.get_mut(queue) {
            Some(counted) => counted.add(counts),
            None => drop(sum.insert(queue.clone(), counts.clone())),
        }
    }
}

/// The waits of the last minute, by queue.
#[derive(Debug, Clone, Default)]
pub struct WaitWindow(VecDeque<(Timestamp, WaitsByQueue)>);

impl WaitWindow {
    /// Counts a job that was taken now, and had been due for so long.
    pub fn note(&mut self, queue: &str, wait: Duration, now: Timestamp) {
        self.forget(now);
        if self.0.back().is_none_or(|(began, _)| now.since(*began) >= STEP) {
            self.0.push_back((now, WaitsByQueue::new()));
        }
        let Some((_, counts)) = self.0.back_mut() else { return };
        if let Some(counted) = counts.get_mut(queue) {
            counted.note(wait);
        } else if counts.len() < QUEUES {
            counts.entry(queue.to_owned()).or_default().note(wait);
        }
    }

    /// What counts now.
    pub fn counts(&mut self, now: Timestamp) -> WaitsByQueue {
        self.forget(now);
        let mut sum = WaitsByQueue::new();
        self.0.iter().for_each(|(_, counts)| add_waits(&mut sum, counts));
        sum
    }

    fn forget(&mut self, now: Timestamp) {
        while self.0.front().is_some_and(|(began, _)| now.since(*began) >= WINDOW) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000).after(Duration::from_secs(seconds))
    }

    /// Waits of these lengths, in milliseconds.
    fn waits(millis: &[u64]) -> WaitCounts {
        let mut counts = WaitCounts::default();
        millis.iter().for_each(|one| counts.note(Duration::from_millis(*one)));
        counts
    }

    #[test]
    fn a_percentile_is_as_exact_as_the_bounds() {
        assert_eq!(waits(&[]).percentile(99), None);
        let mut counts = waits(&[20; 98]);
        counts.add(&waits(&[4_000; 2]));
        let [half, most] = [50, 99].map(|percent| counts.percentile(percent).unwrap().as_millis());
        assert!((10..=25).contains(&half) && (2_500..=5_000).contains(&most), "{half} {most}");
        assert_eq!(counts.percentile(100), Some(Duration::from_millis(5_000)));
        // What took longer than all bounds is told by the last one.
        assert_eq!(waits(&[u64::MAX / 1_000]).percentile(50), Some(Duration::from_millis(86_400_000)));
    }

    #[test]
    fn counts_of_a_worker_that_knows_more_bounds_are_read_all_the_same() {
        let told: WaitCounts = serde_json::from_value(vec![0; 40].into()).unwrap();
        assert_eq!(told.percentile(50), None);
        let mut told: Vec<u32> = vec![0; 40];
        told[39] = 3;
        assert_eq!(WaitCounts(told).percentile(50), Some(Duration::from_millis(86_400_000)));
    }

    #[test]
    fn a_minute_is_kept_and_its_queues_are_bounded() {
        let mut window = WaitWindow::default();
        for second in 0..300 {
            window.note("mail", Duration::from_millis(7), at(second));
        }
        let mail = window.counts(at(299)).remove("mail").unwrap();
        assert_eq!(mail.0.iter().sum::<u32>(), 60);
        for number in 0..1_000 {
            window.note(&format!("q{number}"), Duration::ZERO, at(299));
        }
        assert_eq!(window.counts(at(299)).len(), QUEUES);
        assert_eq!(window.counts(at(400)), WaitsByQueue::new(), "what was is forgotten");
    }
}
