//! The moments at which a schedule fires.
//!
//! The clock of a time zone is walked from one change of its offset to the next; in between it runs like any other.
//!
//! - An expression that means times of the day (`30 2 * * *`) fires once for each of them. A time that the clocks leave
//!   out fires at the moment when they are put forward; one that they show twice fires the first time.
//! - An expression that goes with the clock, whose seconds, minutes or hours begin with `*` (`*/10 * * * *`), fires
//!   whenever the clock shows a time that matches: not for times that are left out, and twice for those shown twice.

use std::sync::OnceLock;
use std::time::Duration;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::cron::Cron;
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// Seconds after which a clock that was put back has caught up, whatever it was put back by.
const FOLD_PASSED: i64 = 2 * 86_400;

const MICROS: i64 = 1_000_000;

/// The longest name of a time zone, in characters.
const LONGEST_ZONE: usize = 64;

/// The fire times of a schedule.
#[derive(Debug, Clone)]
pub enum FireTimes {
    /// By the clock of a time zone.
    Cron(Box<Cron>, TimeZone),
    /// Every so often, counted from a moment.
    Every(Duration, Timestamp),
}

impl FireTimes {
    /// Those of an expression, by the clock of a time zone.
    ///
    /// # Errors
    /// A [`Refusal`] of a time zone that nobody knows.
    pub fn cron(cron: Cron, time_zone: &str) -> Result<Self, Refusal> {
        Ok(Self::Cron(Box::new(cron), zone(time_zone)?))
    }

    /// Every so often: first one interval after `anchor`.
    #[must_use]
    pub const fn every(interval: Duration, anchor: Timestamp) -> Self {
        Self::Every(interval, anchor)
    }

    /// The first fire time after a moment; none when there is none any more.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(interval, anchor) => {
                let interval = i64::try_from(interval.as_micros()).ok()?.max(1);
                let passed = after.as_micros().saturating_sub(anchor.as_micros()).div_euclid(interval).max(0);
                let next = anchor.as_micros().checked_add(interval.checked_mul(passed + 1)?)?;
                (next < Timestamp::MAX.as_micros()).then(|| Timestamp::from_micros(next))
            }
            Self::Cron(cron, zone) => {
                let next = next_of_cron(cron, zone, after.as_micros().div_euclid(MICROS) + 1)?;
                Some(Timestamp::from_micros(next.checked_mul(MICROS)?))
            }
        }
    }

    /// The first `count` fire times after a moment.
    #[must_use]
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next(after), |last| self.next(*last)).take(count).collect()
    }

    /// The last fire times of a span, `count` at most, in order: those after `from`, up to and with `to`.
    ///
    /// The end of the span is looked at first, then ever longer parts of it: what was missed in a year by a schedule
    /// that fires every second is not walked through.
    #[must_use]
    pub fn last_of(&self, from: Timestamp, to: Timestamp, count: usize) -> Vec<Timestamp> {
        let mut span = Duration::from_secs(60);
        loop {
            let begin = to.before(span).max(from);
            let mut found: Vec<Timestamp> = self.between(begin, to).collect();
            if found.len() >= count || begin == from {
                return found.split_off(found.len().saturating_sub(count));
            }
            span *= 4;
        }
    }

    /// The fire times after `from`, up to and with `to`.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(self.next(from), |last| self.next(*last)).take_while(move |fire| *fire <= to)
    }
}

/// The time zone of this name, from the database that is built into the program.
fn zone(name: &str) -> Result<TimeZone, Refusal> {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    let actual = name.chars().count();
    if actual > LONGEST_ZONE {
        return Err(Refusal::TooLarge {
            field: "time_zone",
            actual,
            limit: LONGEST_ZONE,
            unit: "characters",
        });
    }
    DATABASE.get_or_init(TimeZoneDatabase::bundled).get(name).map_err(|_| {
        let problem = format!("there is no time zone `{name}`; use a name such as Europe/Berlin, or UTC");
        Refusal::invalid("time_zone", problem)
    })
}

/// The first fire at or after `from`, in seconds since 1970.
fn next_of_cron(cron: &Cron, zone: &TimeZone, from: i64) -> Option<i64> {
    let mut from = from;
    loop {
        let part = ClockPart::at(zone, from)?;
        let mut local = from + part.offset;
        if !cron.follows_clock() {
            // What the clock shows for the second time has had its turn.
            local = local.max(part.new_from);
        }
        let found = cron.next_local(local)?;
        let Some(end) = part.end else { return Some(found - part.offset) };
        if found < end + part.offset {
            return Some(found - part.offset);
        }
        let after = offset_at(zone, end)?;
        if !cron.follows_clock() && found < end + after {
            return Some(end);
        }
        from = end;
    }
}

/// A part of time in which a clock runs without a change of its offset.
struct ClockPart {
    /// What it is ahead of UTC, in seconds.
    offset: i64,
    /// When it is changed next.
    end: Option<i64>,
    /// What the clock shows when it has passed all that it showed before this part.
    new_from: i64,
}

impl ClockPart {
    fn at(zone: &TimeZone, moment: i64) -> Option<Self> {
        let offset = offset_at(zone, moment)?;
        // Looked for from before: at the end of the changes that are listed one by one, `TimeZone::preceding` of jiff
        // 0.2.39 passes over the last of them.
        let before = jiff::Timestamp::from_second(moment - FOLD_PASSED).ok()?;
        let (mut begin, mut end) = (None, None);
        for change in zone.following(before).map(|change| change.timestamp().as_second()) {
            if change > moment {
                end = Some(change);
                break;
            }
            begin = Some(change);
        }
        let new_from = match begin {
            Some(begin) => begin + offset_at(zone, begin - 1)?,
            None => i64::MIN,
        };
        Some(Self { offset, end, new_from })
    }
}

fn offset_at(zone: &TimeZone, moment: i64) -> Option<i64> {
    let at = jiff::Timestamp::from_second(moment).ok()?;
    Some(zone.to_offset(at).seconds().into())
}
