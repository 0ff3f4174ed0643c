//! Between how many processes a supervisor keeps.

use std::fmt;
use std::str::FromStr;

/// A minimum and a maximum of processes: `1..8`, both included, or `4` for exactly so many.
///
/// ```
/// use backstop_core::scale::ProcessRange;
///
/// let range: ProcessRange = "1..8".parse()?;
/// assert_eq!((range.min(), range.max()), (1, 8));
/// assert_eq!(range.clamp(1_000), 8);
/// # Ok::<(), backstop_core::scale::ProcessRangeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessRange {
    min: u32,
    max: u32,
}

/// A text that is no such range: what is wrong with it, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessRangeError {
    /// It has another form.
    #[error("`{0}` is not a number of processes: write a number such as 4, or a range such as 1..8")]
    Form(String),
    /// Nobody would be left to run anything.
    #[error("`{0}` allows no process at all: the minimum is 1")]
    Zero(String),
    /// Its ends are the wrong way round.
    #[error("`{0}` begins above its end: the minimum comes first, as in 1..8")]
    Reversed(String),
    /// It is over the limit.
    #[error("`{0}` is over the limit of {most} processes", most = ProcessRange::MOST)]
    TooMany(String),
}

impl ProcessRange {
    /// Processes of one supervisor at most: each is a program with connections of its own, and more than this on one
    /// machine is a typing error.
    pub const MOST: u32 = 256;

    /// The fewest.
    #[must_use]
    pub const fn min(self) -> u32 {
        self.min
    }

    /// The most.
    #[must_use]
    pub const fn max(self) -> u32 {
        self.max
    }

    /// The nearest number that is allowed.
    #[must_use]
    pub fn clamp(self, wanted: u64) -> u32 {
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(self.min, self.max)
    }
}

impl Default for ProcessRange {
    fn default() -> Self {
        Self { min: 1, max: 8 }
    }
}

impl FromStr for ProcessRange {
    type Err = ProcessRangeError;

    fn from_str(text: &str) -> Result<Self, ProcessRangeError> {
        let given = || crate::text::truncate_chars(text, 40).into_owned();
        let number = |text: &str| {
            let digits = text.trim();
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            // What has more digits than fit is too many, not another form.
            plain.then(|| digits.parse().unwrap_or(u32::MAX))
        };
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        let (Some(min), Some(max)) = (number(min), number(max)) else {
            return Err(ProcessRangeError::Form(given()));
        };
        match (min, max) {
            (0, _) | (_, 0) => Err(ProcessRangeError::Zero(given())),
            (min, max) if min > max => Err(ProcessRangeError::Reversed(given())),
            (_, max) if max > Self::MOST => Err(ProcessRangeError::TooMany(given())),
            (min, max) => Ok(Self { min, max }),
        }
    }
}

impl fmt::Display for ProcessRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.min) } else { write!(f, "{}..{}", self.min, self.max) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_or_refused_in_one_sentence() {
        // H9
        for (text, read) in [
            ("1..8", Ok((1, 8))),
            ("4", Ok((4, 4))),
            (" 2 .. 3 ", Ok((2, 3))),
            ("1..256", Ok((1, 256))),
            ("0", Err("allows no process")),
            ("0..8", Err("allows no process")),
            ("5..0", Err("allows no process")),
            ("5..2", Err("begins above its end")),
            ("1..257", Err("over the limit of 256")),
            ("99999999999999999999", Err("over the limit of 256")),
            ("", Err("is not a number of processes")),
            ("..8", Err("is not a number of processes")),
            ("1..", Err("is not a number of processes")),
            ("1..=8", Err("is not a number of processes")),
            ("-1..8", Err("is not a number of processes")),
            ("+1", Err("is not a number of processes")),
            ("1.5", Err("is not a number of processes")),
            ("many", Err("is not a number of processes")),
        ] {
            let found = text.parse::<ProcessRange>();
            match read {
                Ok(ends) => assert_eq!(found.map(|range| (range.min(), range.max())), Ok(ends), "{text}"),
                Err(words) => {
                    let problem = found.expect_err(text).to_string();
                    assert!(problem.contains(words), "{text}: {problem}");
                }
            }
        }
        assert_eq!("1..8".parse::<ProcessRange>(), Ok(ProcessRange::default()));
        assert_eq!("3..3".parse::<ProcessRange>().unwrap().to_string(), "3");
        assert_eq!(ProcessRange::default().to_string(), "1..8");
    }
}
