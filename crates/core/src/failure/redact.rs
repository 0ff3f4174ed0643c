//! Takes secrets and personal data out of text before it is stored, logged, sent or shown (rule F11).
//!
//! Owns what counts as a secret and what replaces it: always the marker `[redacted]`, whatever was there, so
//! that redacting twice changes nothing. What helps to understand a failure stays readable: error types,
//! hosts, ports, paths, UUIDs, digests, timestamps. It must not decide where text goes, and must never lose a
//! failure: see [`sanitize`].
//!
//! Every pass looks at the original text and marks byte ranges; the ranges are merged and replaced once.
//! Passes are hand-written scans or patterns of the `regex` crate, so the time is linear in the length of the
//! text, and one trigger set decides which of them run at all.

mod assignments;
mod decoders;
mod edges;
mod emails;
mod headers;
mod json;
mod key_names;
mod numbers;
mod pem;
mod spans;
mod tokens;
mod triggers;
mod urls;
mod values;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use regex::Regex;

use crate::text;

pub use json::{MAX_JSON_DEPTH, mask, mask_json, mask_text};
pub use key_names::is_sensitive_key;
pub use spans::MARKER;

use spans::SecretRanges;
use triggers::RedactionPasses;

/// What is stored when the redactor itself fails: the failure is kept, its text is not.
pub const FALLBACK: &str = "error text withheld: the redactor failed on it";

/// How much longer than its limit a text may be and still be redacted whole. Beyond it the end is dropped
/// first, so that a 100 MiB message costs no more than one of sixteen times the limit.
const REDACTED_TEXT_FACTOR: usize = 16;

/// How often a text with secrets is looked at again until nothing more is found.
const MAX_ROUNDS: usize = 4;

/// How many characters at the end of such a text are looked at and then given up: longer than a token, a card
/// number or an address, so that none is left half visible.
const CUT_MARGIN_CHARS: usize = 256;

/// Replaces secrets in text. Implement it to add knowledge of your own formats, or to call another scanner.
pub trait Redactor: Send + Sync {
    /// Returns `text` without its secrets; borrowed when nothing had to be replaced.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;
}

/// The redactor that is used unless another is given: the built-in families, plus the operator's patterns.
///
/// ```
/// use backstop_core::failure::redact::{Redactor, StandardRedactor};
/// let redactor = StandardRedactor::default();
/// assert_eq!(
///     redactor.redact("cannot reach postgres://app:s3cret@db.internal:5432/jobs"),
///     "cannot reach postgres://[redacted]@db.internal:5432/jobs",
/// );
/// ```
#[derive(Debug, Default, Clone)]
pub struct StandardRedactor {
    extra: Vec<Regex>,
}

/// Why an operator's pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is not a regular expression of the supported syntax.
    #[error(
        "redaction pattern `{pattern}` is not valid: {reason}; look-around and back-references do not exist here, \
         and ignoring case is written `(?i-u:...)`"
    )]
    Invalid {
        /// The pattern as it was given.
        pattern: String,
        /// What the parser said, on one line.
        reason: String,
    },
    /// The pattern matches the empty text, so it would put a marker between any two characters.
    #[error("redaction pattern `{pattern}` matches the empty text; make it require at least one character")]
    MatchesEmpty {
        /// The pattern as it was given.
        pattern: String,
    },
}

impl StandardRedactor {
    /// Adds patterns to the built-in families. A pattern with a capture group hides only its first group, any
    /// other hides its whole match.
    pub fn with_patterns<'p>(extra: impl IntoIterator<Item = &'p str>) -> Result<Self, PatternError> {
        let extra = extra.into_iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Self { extra })
    }
}

impl Redactor for StandardRedactor {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Cow::Owned(mut redacted) = redact_once(text, &self.extra) else { return Cow::Borrowed(text) };
        // A marker may bring together what its secret kept apart. Only texts that had a secret pay for the
        // proof that nothing is left.
        for _ in 0..MAX_ROUNDS {
            match redact_once(&redacted, &[]) {
                Cow::Owned(again) if again != redacted => redacted = again,
                _ => break,
            }
        }
        Cow::Owned(redacted)
    }
}

fn redact_once<'a>(text: &'a str, extra: &[Regex]) -> Cow<'a, str> {
    let triggers = RedactionPasses::of(text);
    if triggers.is_quiet() && extra.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut spans = SecretRanges::default();
    triggers.mark(text, &mut spans);
    extra.iter().for_each(|pattern| mark_pattern(pattern, text, &mut spans));
    spans.replace_in(text)
}

fn mark_pattern(pattern: &Regex, text: &str, spans: &mut SecretRanges) {
    if pattern.captures_len() == 1 {
        pattern.find_iter(text).for_each(|hit| spans.mark(hit.range()));
    } else {
        pattern
            .captures_iter(text)
            .filter_map(|groups| groups.get(1))
            .for_each(|hit| spans.mark(hit.range()));
    }
}

fn compile(pattern: &str) -> Result<Regex, PatternError> {
    let compiled = Regex::new(pattern).map_err(|error| PatternError::Invalid {
        pattern: pattern.to_owned(),
        reason: text::one_line(&error.to_string()).into_owned(),
    })?;
    if compiled.is_match("") {
        return Err(PatternError::MatchesEmpty { pattern: pattern.to_owned() });
    }
    Ok(compiled)
}

/// Makes foreign error text safe to keep: terminal sequences dropped, storable, redacted, then cut to
/// `max_chars`.
///
/// Redaction comes before the cut, so that a cut never leaves half a secret that no longer looks like one.
/// When the redactor panics, [`FALLBACK`] is returned instead of the text: the failure is recorded either
/// way.
pub fn sanitize(redactor: &dyn Redactor, text: &str, max_chars: usize) -> String {
    let most = max_chars.saturating_mul(REDACTED_TEXT_FACTOR).saturating_add(CUT_MARGIN_CHARS);
    let considered = text::head_chars(text, most);
    let plain = text::without_ansi(considered);
    let storable = text::storable(&plain);
    let Some(redacted) = redact_guarded(redactor, &storable) else {
        return text::truncate_chars(FALLBACK, max_chars).into_owned();
    };
    // Once more, for redactors of other hands: what they return is not known to be storable.
    let mut clean = text::storable(&redacted).into_owned();
    if considered.len() < text.len() {
        clean.truncate(without_margin(&clean).len());
        clean.push('…');
    }
    match text::truncate_chars(&clean, max_chars) {
        Cow::Borrowed(kept) if kept.len() == clean.len() => clean,
        kept => kept.into_owned(),
    }
}

/// A redacted text that was cut before, without the end in which half a secret may stand unrecognised. What was
/// recognised is safe, so the last marker and all before it may stay.
fn without_margin(redacted: &str) -> &str {
    let margin = redacted.char_indices().rev().nth(CUT_MARGIN_CHARS - 1).map_or(0, |(at, _)| at);
    let recognised = redacted.rfind(MARKER).map_or(0, |at| at + MARKER.len());
    redacted[..margin.max(recognised)].trim_end()
}

/// Runs a redactor that may be wrong: `None` when it panicked.
fn redact_guarded<'a>(redactor: &dyn Redactor, text: &'a str) -> Option<Cow<'a, str>> {
    // The redactor is only borrowed for this call and its result is dropped on panic, so no broken state is
    // read.
    catch_unwind(AssertUnwindSafe(|| redactor.redact(text))).ok()
}
