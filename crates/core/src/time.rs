//! Moments as microseconds since the Unix epoch, bounded to years 1 to 9999.
//!
//! Every database holds an `i64`; every printer and parser knows these years. Arithmetic saturates at the
//! bounds, so no delay, however absurd, overflows or becomes a date some store cannot hold.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 0001-01-01T00:00:00Z, the earliest moment that is kept.
    pub const MIN: Self = Self(-62_135_596_800_000_000);
    /// 9999-12-31T23:59:59.999999Z, the latest moment that is kept.
    pub const MAX: Self = Self(253_402_300_799_999_999);
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// Takes microseconds since the epoch; what lies outside the bounds becomes the bound.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        if micros < Self::MIN.0 {
            Self::MIN
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The moment `delay` later, or [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// The moment `span` earlier, or [`Timestamp::MIN`].
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// How long until `later`; zero when it has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By the calendar and not by `jiff::Timestamp`, which ends a day early to leave room for offsets.
        match EPOCH_DAY.checked_add(jiff::SignedDuration::from_micros(self.0)) {
            Ok(moment) => write!(f, "{moment}Z"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a time between the years 1 and 9999: expected RFC 3339, such as 2026-11-15T09:30:00Z")]
pub struct ParseTimestampError;

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let text = text.trim();
        let micros = match text.strip_suffix(['Z', 'z']) {
            Some(civil) => micros_of_civil(civil),
            None => text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond),
        };
        let micros = micros.ok_or(ParseTimestampError)?;
        if !(Self::MIN.0..=Self::MAX.0).contains(&micros) {
            return Err(ParseTimestampError);
        }
        Ok(Self(micros))
    }
}

const EPOCH_DAY: jiff::civil::DateTime = jiff::civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

fn micros_of_civil(text: &str) -> Option<i64> {
    // A bare date is a day, not a moment.
    let moment: jiff::civil::DateTime = text.contains(['T', 't', ' ']).then(|| text.parse().ok())??;
    i64::try_from(moment.duration_since(EPOCH_DAY).as_micros()).ok()
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Durations as whole milliseconds in JSON, the unit of every `*_ms` field.
pub mod millis {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    /// Writes whole milliseconds; more than `u64` holds becomes its maximum.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
    }

    /// Reads whole milliseconds.
    ///
    /// # Errors
    /// When the value is no unsigned number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }

    /// The same for an optional duration.
    pub mod option {
        use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

        /// Writes whole milliseconds or null.
        ///
        /// # Errors
        /// Those of the serializer.
        pub fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
            value.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
        }

        /// Reads whole milliseconds or null.
        ///
        /// # Errors
        /// When the value is no unsigned number.
        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_the_bounds() {
        // L20: dates at their extremes neither panic nor overflow.
        assert_eq!(Timestamp::MAX.after(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.before(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::from_micros(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_micros(i64::MIN), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(Timestamp::EPOCH.after(Duration::from_secs(1)).as_micros(), 1_000_000);
    }

    #[test]
    fn text_goes_round() {
        for text in ["2026-11-15T09:30:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"] {
            let moment: Timestamp = text.parse().expect(text);
            assert_eq!(moment.to_string(), text);
        }
        let offset: Timestamp = "2026-11-15T10:30:00+01:00".parse().expect("an offset is fine");
        assert_eq!(offset.to_string(), "2026-11-15T09:30:00Z");
        for text in ["", "yesterday", "infinity", "10000-01-01T00:00:00Z", "2026-13-01T00:00:00Z"] {
            assert_eq!(text.parse::<Timestamp>(), Err(ParseTimestampError), "{text}");
        }
    }

    #[test]
    fn every_kept_moment_prints() {
        assert_eq!(Timestamp::MIN.to_string(), "0001-01-01T00:00:00Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999999Z");
    }
}
