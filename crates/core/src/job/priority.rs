//! Priority levels and aging: the order in which waiting jobs are taken (L3).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

/// How urgent a job is. Stored once, never rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Level 0.
    Lowest,
    /// Level 1.
    Low,
    /// Level 2.
    #[default]
    Normal,
    /// Level 3.
    High,
    /// Level 4.
    Critical,
}

impl Priority {
    /// Every level, lowest first.
    pub const ALL: [Self; 5] = [Self::Lowest, Self::Low, Self::Normal, Self::High, Self::Critical];

    /// The number of the level, 0 to 4.
    #[must_use]
    pub const fn level(self) -> u8 {
        match self {
            Self::Lowest => 0,
            Self::Low => 1,
            Self::Normal => 2,
            Self::High => 3,
            Self::Critical => 4,
        }
    }

    /// The level with this number.
    #[must_use]
    pub fn from_level(level: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(level).ok()?).copied()
    }

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lowest => "lowest",
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word or number that names no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a priority: use lowest, low, normal, high, critical or 0 to 4")]
pub struct UnknownPriority(String);

impl FromStr for Priority {
    type Err = UnknownPriority;

    fn from_str(text: &str) -> Result<Self, UnknownPriority> {
        Self::ALL
            .into_iter()
            .find(|p| p.as_str() == text || text.parse() == Ok(p.level()))
            .ok_or_else(|| UnknownPriority(text.chars().take(40).collect()))
    }
}

impl Serialize for Priority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.level())
    }
}

impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Level(i64),
            Word(String),
        }
        let text = match Given::deserialize(deserializer)? {
            Given::Level(level) => level.to_string(),
            Given::Word(word) => word,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How much waiting counts against priority: each interval waited is worth one level; zero turns it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aging(pub Duration);

impl Default for Aging {
    fn default() -> Self {
        Self(Duration::from_secs(15 * 60))
    }
}

impl Aging {
    /// The key that claims sort by, smallest first; ties go to the smaller job id.
    ///
    /// With aging, effective priority is linear in the wait, so comparing `run_at - level x interval` gives the
    /// same order at every moment and no row is ever rewritten. Without it, the level goes first.
    #[must_use]
    pub fn rank(self, priority: Priority, run_at: Timestamp) -> (u8, i64) {
        if self.0.is_zero() {
            return (Priority::Critical.level() - priority.level(), run_at.as_micros());
        }
        let interval = i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX);
        let head_start = interval.saturating_mul(i64::from(priority.level()));
        (0, run_at.as_micros().saturating_sub(head_start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs(seconds))
    }

    #[test]
    fn an_old_lowest_job_overtakes_fresh_high_ones() {
        // L3: three levels at 15 minutes each are worth 45 minutes of waiting, not a second less.
        let aging = Aging::default();
        let old = aging.rank(Priority::Lowest, at(0));
        assert!(old < aging.rank(Priority::High, at(45 * 60 + 1)));
        assert!(old > aging.rank(Priority::High, at(45 * 60 - 1)));
    }

    #[test]
    fn without_aging_the_level_decides() {
        // L3
        let aging = Aging(Duration::ZERO);
        assert!(aging.rank(Priority::Critical, at(1_000_000)) < aging.rank(Priority::High, at(0)));
        assert!(aging.rank(Priority::High, at(1)) < aging.rank(Priority::High, at(2)));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let _ = Aging(Duration::MAX).rank(Priority::Critical, Timestamp::MIN);
        let _ = Aging(Duration::MAX).rank(Priority::Lowest, Timestamp::MAX);
    }

    #[test]
    fn words_and_numbers_parse() {
        for priority in Priority::ALL {
            assert_eq!(priority.as_str().parse(), Ok(priority));
            assert_eq!(priority.level().to_string().parse(), Ok(priority));
        }
        assert!("5".parse::<Priority>().is_err() && "urgent".parse::<Priority>().is_err());
    }
}
