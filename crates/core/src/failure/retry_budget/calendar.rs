//! Which second holds how many planned retries, from now on and without an end.

use serde::{Deserialize, Serialize};

use super::far::{EqualSeconds, FarBookings};
use super::near::{self, NearBookings};
use super::{CLOCK_SLACK, MICROS};
use crate::time::Timestamp;

/// Where a retry was booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Booking {
    /// The second.
    pub(super) second: i64,
    /// How many were booked there before.
    pub(super) index: u32,
}

/// The planned retries by second. What has passed is dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Document", into = "Document")]
pub(super) struct Calendar {
    /// The first second that is kept.
    start: i64,
    near: NearBookings,
    far: FarBookings,
}

/// The calendar as it is stored: pairs of a number of bookings and for how many seconds it holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    start: i64,
    booked: Vec<(u32, u64)>,
}

impl Default for Calendar {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl Calendar {
    fn starting_at(start: i64) -> Self {
        Self { start, near: NearBookings::empty(), far: FarBookings::default() }
    }

    /// Drops what lies before `now`. A clock that was set back by more than its slack starts a new calendar:
    /// waiting for the time that it told wrongly would hold every retry up.
    pub(super) fn advance(&mut self, now: i64) {
        if now < self.start.saturating_sub(CLOCK_SLACK) {
            *self = Self::starting_at(now);
            return;
        }
        let passed = now - self.start;
        let whole_rings = u64::try_from(passed - near::SECONDS).unwrap_or(0);
        self.far.skip(whole_rings);
        for second in self.start.max(now - near::SECONDS)..now {
            // The second that enters the ring has the place of the one that leaves it.
            self.near.set(second, self.far.take_second());
        }
        self.start = self.start.max(now);
    }

    /// Books the first second from `earliest` on that holds fewer than `rate`. `earliest` is at most an hour
    /// after the time of the last [`Calendar::advance`].
    pub(super) fn book(&mut self, earliest: i64, rate: u32) -> Booking {
        let end = self.start + near::SECONDS;
        if let Some(second) = self.near.first_below(earliest.max(self.start), end, rate) {
            let index = self.near.count(second);
            self.near.set(second, index + 1);
            return Booking { second, index };
        }
        let (behind, index) = self.far.book(rate);
        Booking { second: end.saturating_add_unsigned(behind), index }
    }
}

impl From<Calendar> for Document {
    fn from(calendar: Calendar) -> Self {
        let seconds = calendar.start..calendar.start + near::SECONDS;
        let near = seconds.map(|second| EqualSeconds { count: calendar.near.count(second), seconds: 1 });
        let mut booked: Vec<(u32, u64)> = Vec::new();
        for run in near.chain(calendar.far.runs()) {
            match booked.last_mut() {
                Some((count, seconds)) if *count == run.count => {
                    *seconds = seconds.saturating_add(run.seconds)
                }
                _ => booked.push((run.count, run.seconds)),
            }
        }
        if booked.last().is_some_and(|(count, _)| *count == 0) {
            booked.pop();
        }
        Self { start: calendar.start, booked }
    }
}

impl From<Document> for Calendar {
    fn from(document: Document) -> Self {
        // The bounds of a moment, so that no arithmetic on a damaged document overflows.
        let earliest = Timestamp::MIN.as_micros() / MICROS;
        let latest = Timestamp::MAX.as_micros() / MICROS;
        let mut calendar = Self::starting_at(document.start.clamp(earliest, latest));
        let end = calendar.start + near::SECONDS;
        let mut next = calendar.start;
        for (count, mut seconds) in document.booked {
            while seconds > 0 && next < end {
                calendar.near.set(next, count);
                next += 1;
                seconds -= 1;
            }
            calendar.far.push(EqualSeconds { count, seconds });
        }
        calendar
    }
}
