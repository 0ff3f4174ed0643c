//! When a run has rejected too much.

use std::fmt;

/// Parts of one percent that are told apart.
const PARTS: u32 = 10_000;

/// A share of the items that a run has seen, in percent. It is kept in millionths, so that comparing it rounds nothing.
///
/// ```
/// use backstop_core::reject::RejectPercent;
///
/// let half = RejectPercent::try_from(0.5)?;
/// assert_eq!(half.to_string(), "0.5");
/// assert!(RejectPercent::try_from(101.0).is_err());
/// # Ok::<(), backstop_core::reject::InvalidRejectPercent>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RejectPercent(u32);

/// A number that is not a percentage.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a percentage: give a number from 0 to 100 with at most four decimals, such as 5 or 0.5")]
pub struct InvalidRejectPercent(pub f64);

impl TryFrom<f64> for RejectPercent {
    type Error = InvalidRejectPercent;

    fn try_from(percent: f64) -> Result<Self, InvalidRejectPercent> {
        let exact = percent * f64::from(PARTS);
        let parts = exact.round();
        // A finer share would be rounded without anybody knowing. What a decimal loses in binary is far less than that.
        if !(0.0..=100.0).contains(&percent) || (exact - parts).abs() > 1e-6 {
            return Err(InvalidRejectPercent(percent));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a million"
        )]
        Ok(Self(parts as u32))
    }
}

impl fmt::Display for RejectPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / PARTS, self.0 % PARTS);
        if parts == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{parts:04}").trim_end_matches('0'))
    }
}

impl RejectPercent {
    /// True when so many of all are more than this share.
    #[must_use]
    pub fn is_exceeded(self, some: u64, all: u64) -> bool {
        u128::from(some) * u128::from(100 * PARTS) > u128::from(self.0) * u128::from(all)
    }
}

/// How many items a run may reject; more fail it. Nothing is limited unless it is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RejectLimit {
    /// Items at most.
    pub most: Option<u64>,
    /// Percent of the items that the run has seen, at most.
    pub percent: Option<RejectPercent>,
}

impl RejectLimit {
    /// No limit.
    pub const NONE: Self = Self { most: None, percent: None };

    /// So many items at most; 0 fails the run with the first one.
    #[must_use]
    pub const fn most(mut self, items: u64) -> Self {
        self.most = Some(items);
        self
    }

    /// So many percent of the items that the run has seen at most, such as 0.5.
    ///
    /// # Errors
    /// When it is not between 0 and 100, or has more than four decimals.
    pub fn percent(mut self, percent: f64) -> Result<Self, InvalidRejectPercent> {
        self.percent = Some(percent.try_into()?);
        Ok(self)
    }

    /// What is said here, and for the rest what `other` says.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { most: self.most.or(other.most), percent: self.percent.or(other.percent) }
    }

    /// Why so many rejects are too many; none when they are not. The share is judged when the run has `ended`: before
    /// that, one bad item among the first few would be half of all.
    #[must_use]
    pub fn exceeded(&self, rejected: u64, seen: u64, ended: bool) -> Option<String> {
        if rejected == 0 {
            return None;
        }
        if let Some(most) = self.most.filter(|most| rejected > *most) {
            return Some(format!("the run has rejected {rejected} items, and its limit is {most}"));
        }
        // Whoever has rejected an item has seen it, whatever else was told.
        let all = seen.max(rejected);
        let percent = self.percent.filter(|percent| ended && percent.is_exceeded(rejected, all))?;
        let untold = if seen == 0 { ", and its handler has not told how many it has seen" } else { "" };
        Some(format!(
            "the run has rejected {rejected} of {all} items{untold}; its limit is {percent} percent"
        ))
    }
}
