//! Calls of the last time, in slices: the oldest slice goes as a whole.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::CallCounts;
use crate::time::Timestamp;

/// Slices of a window: what is counted is right to a tenth of it.
const SLICES: u32 = 10;

/// Calls of the last time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CircuitWindow(Vec<(Timestamp, CallCounts)>);

impl CircuitWindow {
    pub(super) fn add(&mut self, counts: CallCounts, window: Duration, now: Timestamp) {
        let oldest = now.before(window);
        // What lies ahead was written by a clock that has gone back since.
        self.0.retain(|(from, _)| *from > oldest && *from <= now);
        match self.0.last_mut() {
            Some((from, slice)) if now.since(*from) < window / SLICES => slice.merge(counts),
            _ => self.0.push((now, counts)),
        }
    }

    pub(super) fn counts(&self, window: Duration, now: Timestamp) -> CallCounts {
        let oldest = now.before(window);
        let mut sum = CallCounts::default();
        self.0.iter().filter(|(from, _)| *from > oldest).for_each(|(_, slice)| sum.merge(*slice));
        sum
    }
}

impl CallCounts {
    /// Adds others.
    pub fn merge(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failures = self.failures.saturating_add(other.failures);
    }
}
