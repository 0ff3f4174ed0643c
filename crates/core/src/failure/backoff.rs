//! How long to wait between runs (F8). Pure: jitter comes in as a number between 0 and 1.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::millis;

/// A backoff: how the wait grows, from where, to where, and how it is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Backoff {
    /// How the wait grows.
    #[serde(rename = "policy")]
    pub growth: Growth,
    /// The wait after the first failure.
    #[serde(rename = "base_ms", with = "millis")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub base: Duration,
    /// The longest wait.
    #[serde(rename = "cap_ms", with = "millis")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub cap: Duration,
    /// How the waits of many jobs are spread.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "full"))]
    pub jitter: Jitter,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            growth: Growth::Exponential,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(30),
            jitter: Jitter::Full,
        }
    }
}

/// How the wait grows with each failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Growth {
    /// No wait at all.
    None,
    /// Always the base.
    Fixed,
    /// The base times n.
    Linear,
    /// The base times 2^(n-1).
    Exponential,
}

/// How a wait is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// Anywhere between nothing and the wait.
    Full,
    /// Between half the wait and the wait.
    Equal,
    /// Up to this many percent below or above the wait.
    Percent(u8),
}

/// A word that names no growth or jitter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a known {what}: use {known}")]
pub struct BackoffError {
    given: String,
    what: &'static str,
    known: &'static str,
}

impl Backoff {
    /// A backoff that waits `base` after every failure, without jitter.
    #[must_use]
    pub const fn fixed(base: Duration) -> Self {
        Self { growth: Growth::Fixed, base, cap: base, jitter: Jitter::None }
    }

    /// No wait at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { growth: Growth::None, base: Duration::ZERO, cap: Duration::ZERO, jitter: Jitter::None }
    }

    /// An exponential backoff with full jitter.
    #[must_use]
    pub const fn exponential(base: Duration, cap: Duration) -> Self {
        Self { growth: Growth::Exponential, base, cap, jitter: Jitter::Full }
    }

    /// The same with another jitter.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// The wait after failure number `failures` (from 1), with `unit` in `0.0..1.0` for the jitter.
    ///
    /// No number overflows: growth stops at the cap. A `unit` outside its range counts as the nearer end.
    #[must_use]
    pub fn delay(&self, failures: u32, unit: f64) -> Duration {
        self.spread(self.plain(failures), unit)
    }

    /// The wait after failure number `failures`, before jitter.
    #[must_use]
    pub fn plain(&self, failures: u32) -> Duration {
        let grown = match self.growth {
            Growth::None => return Duration::ZERO,
            Growth::Fixed => self.base,
            Growth::Linear => self.base.saturating_mul(failures.max(1)),
            Growth::Exponential => {
                // 2^31 times the smallest base is beyond every sensible cap, and still fits in a u32.
                let doublings = failures.saturating_sub(1).min(31);
                self.base.saturating_mul(1 << doublings)
            }
        };
        grown.min(self.cap)
    }

    fn spread(&self, wait: Duration, unit: f64) -> Duration {
        let unit = if unit.is_finite() { unit.clamp(0.0, 1.0) } else { 0.0 };
        // A cap can be so long that a float multiplication would overflow; then the wait itself is good enough.
        let scaled = |factor: f64| Duration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(wait);
        match self.jitter {
            Jitter::None => wait,
            Jitter::Full => scaled(unit),
            Jitter::Equal => scaled(0.5 + unit / 2.0),
            Jitter::Percent(percent) => {
                let width = f64::from(percent.min(100)) / 100.0;
                scaled(1.0 - width + 2.0 * width * unit)
            }
        }
    }
}

impl FromStr for Growth {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Self, BackoffError> {
        match text {
            "none" => Ok(Self::None),
            "fixed" => Ok(Self::Fixed),
            "linear" => Ok(Self::Linear),
            "exponential" => Ok(Self::Exponential),
            _ => Err(BackoffError {
                given: text.chars().take(40).collect(),
                what: "backoff policy",
                known: "none, fixed, linear or exponential",
            }),
        }
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Full => f.write_str("full"),
            Self::Equal => f.write_str("equal"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for Jitter {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Self, BackoffError> {
        let percent = || text.strip_suffix('%')?.parse().ok().filter(|p| *p <= 100).map(Self::Percent);
        match text {
            "none" => Ok(Self::None),
            "full" => Ok(Self::Full),
            "equal" => Ok(Self::Equal),
            _ => percent().ok_or_else(|| BackoffError {
                given: text.chars().take(40).collect(),
                what: "jitter",
                known: "none, full, equal or a percentage such as 20%",
            }),
        }
    }
}

impl Serialize for Jitter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn growth_follows_its_formula() {
        // F8: n = 1 after the first failure.
        let of = |growth| Backoff { growth, base: S(1), cap: S(30), jitter: Jitter::None };
        let row = |growth| [1, 2, 3, 4, 5, 6, 7].map(|n| of(growth).delay(n, 0.5).as_secs());
        assert_eq!(row(Growth::None), [0; 7]);
        assert_eq!(row(Growth::Fixed), [1; 7]);
        assert_eq!(row(Growth::Linear), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(row(Growth::Exponential), [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn jitter_stays_in_its_band() {
        // F8
        let wait = |jitter, unit| Backoff::fixed(S(10)).with_jitter(jitter).delay(1, unit).as_secs_f64();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        close(wait(Jitter::Full, 0.0), 0.0);
        close(wait(Jitter::Full, 1.0), 10.0);
        close(wait(Jitter::Equal, 0.0), 5.0);
        close(wait(Jitter::Equal, 1.0), 10.0);
        close(wait(Jitter::Percent(20), 0.0), 8.0);
        close(wait(Jitter::Percent(20), 1.0), 12.0);
    }

    #[test]
    fn no_attempt_number_overflows() {
        // F8
        for growth in [Growth::None, Growth::Fixed, Growth::Linear, Growth::Exponential] {
            for base in [Duration::ZERO, S(1), Duration::MAX] {
                for jitter in [Jitter::None, Jitter::Full, Jitter::Equal, Jitter::Percent(255)] {
                    let backoff = Backoff { growth, base, cap: Duration::MAX, jitter };
                    for failures in [0, 1, 2, 31, 32, 310, 65_535, u32::MAX] {
                        for unit in [-1.0, 0.0, 0.999, 2.0, f64::NAN, f64::INFINITY] {
                            let _ = backoff.delay(failures, unit);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        // F8
        let json = serde_json::to_string(&Backoff::default()).expect("plain");
        assert_eq!(json, r#"{"policy":"exponential","base_ms":1000,"cap_ms":30000,"jitter":"full"}"#);
        assert_eq!(serde_json::from_str::<Backoff>("{}").expect("all optional"), Backoff::default());
        assert_eq!("20%".parse(), Ok(Jitter::Percent(20)));
        assert!("120%".parse::<Jitter>().is_err());
    }
}
