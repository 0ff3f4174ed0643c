//! The retry budget of one kind (F19): retries are capped as a share of first runs, and the surplus is smeared
//! forward, so that an outage is not followed by a storm.
//!
//! Owns how many retries a second may hold and which second a retry gets. It must not know where the state is
//! kept: it is one small JSON document, which a store reads, changes here and writes back.

mod calendar;
mod far;
mod first_runs;
mod near;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use calendar::Calendar;
use first_runs::FirstRuns;

/// A retry that is due later than this is not part of a storm and is not booked.
const BOOKABLE: Duration = Duration::from_secs(60 * 60);

/// How far a clock may go back before what it told earlier counts as wrong, in seconds. The hosts of a cluster
/// differ by less, and a clock that was put right differs by more.
const CLOCK_SLACK: i64 = 60;

const MICROS: i64 = 1_000_000;

/// How many retries a kind may have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSettings {
    /// Retries allowed for each first run, on average.
    pub share: f64,
    /// Retries per second that are always allowed.
    pub floor: u32,
}

impl Default for BudgetSettings {
    fn default() -> Self {
        Self { share: 0.2, floor: 100 }
    }
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The share is no sensible number.
    #[error("the retry budget's share is {share}: use a number from 0 to 10, such as 0.2 for 20 %")]
    Share {
        /// What was given.
        share: f64,
    },
    /// No retry would ever be allowed.
    #[error("the retry budget's floor is 0, and no retry would ever run: use 1 or more per second")]
    Floor,
}

impl BudgetSettings {
    /// Checks both numbers.
    ///
    /// # Errors
    /// The first that cannot be used.
    pub fn validate(&self) -> Result<(), BudgetError> {
        // A share that is not a number is in no range.
        if !(0.0..=10.0).contains(&self.share) {
            return Err(BudgetError::Share { share: self.share });
        }
        if self.floor == 0 { Err(BudgetError::Floor) } else { Ok(()) }
    }
}

/// The first runs and the planned retries of one kind.
///
/// Every retry is booked at the rate of the moment in which it is planned, and keeps its place when the rate
/// changes: a lower rate moves nobody a second time, a higher one finds room in seconds that were full before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudget {
    first_runs: FirstRuns,
    calendar: Calendar,
}

impl RetryBudget {
    /// Counts first runs that started at `now`.
    pub fn note_first_runs(&mut self, now: Timestamp, count: u64) {
        self.first_runs.note(second_of(now), count);
    }

    /// Retries that one second may hold: the floor, and the share of the first runs of the last five minutes,
    /// rounded up. At least one, whatever the settings, so that every retry finds a second.
    #[must_use]
    pub fn rate(&self, now: Timestamp, settings: &BudgetSettings) -> u32 {
        let per_second = self.first_runs.per_second(second_of(now));
        settings.floor.max(1).saturating_add(rounded_up(settings.share * per_second))
    }

    /// Books a retry that is due at `earliest` and returns when it may run: then, when that second has room,
    /// else spread over the first later second that has.
    ///
    /// A retry that is due more than an hour ahead keeps its time and is not booked. Nothing is refused: a
    /// calendar that is full for hours goes on behind them.
    pub fn admit(&mut self, now: Timestamp, earliest: Timestamp, settings: &BudgetSettings) -> Timestamp {
        if now.until(earliest) > BOOKABLE {
            return earliest;
        }
        let rate = self.rate(now, settings);
        self.calendar.advance(second_of(now));
        let asked = second_of(earliest);
        let place = self.calendar.book(asked, rate);
        if place.second == asked {
            return earliest;
        }
        let offset = i64::from(place.index) * MICROS / i64::from(rate);
        Timestamp::from_micros(place.second.saturating_mul(MICROS).saturating_add(offset))
    }
}

const fn second_of(moment: Timestamp) -> i64 {
    moment.as_micros().div_euclid(MICROS)
}

/// The next whole number; what is no number counts as nothing, what is too large as the largest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn rounded_up(number: f64) -> u32 {
    // A product such as 0.1 * 30 lies a hair above its whole number and must not be rounded to the next.
    (number - 1e-9).ceil() as u32
}
