//! The grouping key of failures (rule D2): one incident is all failures with one fingerprint.
//!
//! A fingerprint is a digest of the job's kind, the class of the error, and the text of the error with
//! everything taken out that differs from one occurrence to the next: ids, numbers, addresses, paths, times,
//! quoted values. Codes stay, because `HTTP 503` and `HTTP 404` are different incidents.
//!
//! Owns the grouping only. The text must be sanitized before it comes here; nothing here looks for secrets.
//! Nothing here can fail either: text is walked with checked slices and bounded in length.

mod dates;
mod lexer;
mod lines;
mod numbers;
mod shapes;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::text;

/// How much of a message is looked at. Messages differ early or not at all; what follows is data.
const MAX_CONSIDERED_CHARS: usize = 4096;

/// Bytes of the digest that are kept: with a billion incidents, two of them collide with a chance of 1 in 37.
const KEPT_BYTES: usize = 8;

/// Identifies an incident: 16 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(String);

/// A text is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a fingerprint; copy the 16 hexadecimal digits that `incident list` shows")]
pub struct InvalidFingerprint(String);

/// Fingerprints one failure of a job of `kind` with an error of class `error_type`.
///
/// ```
/// use backstop_core::failure::fingerprint::fingerprint;
/// let first = fingerprint("email.send", "Timeout", "no answer from 10.0.0.7:25 after 30s");
/// let second = fingerprint("email.send", "Timeout", "no answer from 10.0.0.9:25 after 31s");
/// assert_eq!(first, second);
/// ```
pub fn fingerprint(kind: &str, error_type: &str, message: &str) -> Fingerprint {
    let mut digest = Sha256::new();
    // The separators keep ("ab", "c") and ("a", "bc") apart.
    for part in [kind, "\0", error_type, "\0", &normalize(message)] {
        digest.update(part.as_bytes());
    }
    let hex = digest.finalize().iter().take(KEPT_BYTES).fold(
        String::with_capacity(2 * KEPT_BYTES),
        |mut hex, byte| {
            for nibble in [byte >> 4, byte & 0x0f] {
                hex.extend(char::from_digit(u32::from(nibble), 16));
            }
            hex
        },
    );
    Fingerprint(hex)
}

/// The fingerprint of the failures of a kind that would open more incidents than its tenant may have (E13): they are
/// told as one.
pub fn gathered(kind: &str) -> Fingerprint {
    fingerprint(kind, "TooManyIncidents", "more incidents than the tenant may have")
}

/// Reduces a message to what all its occurrences have in common, on one line of bounded length.
///
/// Normalizing a normalized message changes nothing.
///
/// ```
/// use backstop_core::failure::fingerprint::normalize;
/// assert_eq!(normalize("job 42 failed: status 503 from 'a.b'"), "job <num> failed: status 503 from <str>");
/// ```
pub fn normalize(message: &str) -> String {
    lexer::normalized(&lines::headline(text::head_chars(message, MAX_CONSIDERED_CHARS)))
}

impl Fingerprint {
    /// The 16 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Fingerprint {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = InvalidFingerprint;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_valid = text.len() == 2 * KEPT_BYTES
            && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if is_valid {
            Ok(Self(text))
        } else {
            Err(InvalidFingerprint(text::truncate_chars(&text, 40).into_owned()))
        }
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.0
    }
}
