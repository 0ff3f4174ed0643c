//! The beginning of a job's id, as people type it.

use std::fmt;
use std::str::FromStr;

use super::JobId;

/// Characters that a prefix has at least, hyphens not counted. Six are the first 24 of the 48 bits of a version 7
/// UUID's time: all jobs of about five hours.
const SHORTEST: usize = 6;

/// Hexadecimal digits of a whole id.
const DIGITS: usize = 32;

/// The first characters of a job's id: `0190b8a2-7c` names every job whose id begins so.
///
/// Hyphens may be left out, and case does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobIdPrefix {
    text: String,
    first: JobId,
    last: JobId,
}

impl JobIdPrefix {
    /// The lowest id that begins so.
    #[must_use]
    pub const fn first(&self) -> JobId {
        self.first
    }

    /// The lowest id above all that begin so; none when there is none above them. A list that goes on after it begins
    /// with the highest one that does.
    #[must_use]
    pub fn beyond(&self) -> Option<JobId> {
        self.last.as_uuid().as_u128().checked_add(1).map(JobId::from_u128)
    }
}

impl fmt::Display for JobIdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for JobIdPrefix {
    type Err = ParsePrefixError;

    fn from_str(text: &str) -> Result<Self, ParsePrefixError> {
        let digits: String = text.chars().filter(|ch| *ch != '-').take(DIGITS + 1).collect();
        if digits.len() < SHORTEST || digits.len() > DIGITS {
            return Err(ParsePrefixError);
        }
        // A number takes a sign, which no id has.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParsePrefixError);
        }
        let end = |fill: char| {
            let whole = format!("{digits}{}", String::from(fill).repeat(DIGITS - digits.len()));
            u128::from_str_radix(&whole, 16).map(JobId::from_u128).map_err(|_| ParsePrefixError)
        };
        Ok(Self { text: text.to_ascii_lowercase(), first: end('0')?, last: end('f')? })
    }
}

/// A text that no job's id begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a job id: expected a UUID such as 0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f, or its first 6 or more characters"
)]
pub struct ParsePrefixError;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> JobId {
        text.parse().expect("an id")
    }

    #[test]
    fn a_prefix_is_a_range_of_ids() {
        for (text, first, beyond) in [
            ("0190b8", "0190b800-0000-0000-0000-000000000000", Some("0190b900-0000-0000-0000-000000000000")),
            (
                "0190B8A2-7c",
                "0190b8a2-7c00-0000-0000-000000000000",
                Some("0190b8a2-7d00-0000-0000-000000000000"),
            ),
            (
                "0190b8a27c1",
                "0190b8a2-7c10-0000-0000-000000000000",
                Some("0190b8a2-7c20-0000-0000-000000000000"),
            ),
            ("ffffff", "ffffff00-0000-0000-0000-000000000000", None),
            (
                "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f",
                "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f",
                Some("0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e60"),
            ),
        ] {
            let prefix: JobIdPrefix = text.parse().expect(text);
            assert_eq!((prefix.first(), prefix.beyond()), (id(first), beyond.map(id)), "{text}");
        }
    }

    #[test]
    fn what_no_id_begins_with_is_refused() {
        for text in ["", "0190b", "0190-b", "+190b8a", "0190b8g2", "not-an-id", "ééé", &"0".repeat(33)] {
            assert_eq!(text.parse::<JobIdPrefix>(), Err(ParsePrefixError), "{text}");
        }
    }
}
