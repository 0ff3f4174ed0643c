//! Values that a decoder quotes when it did not expect them: `invalid type: string "...", expected u64`.
//!
//! A payload that does not fit its job is reported in these words, and nothing in them says whether the value was
//! a password. The type that was found and the one that was expected stay readable, the text in between does not.

use std::sync::LazyLock;

use regex::Regex;

use super::spans::SecretRanges;
use super::values;

/// How serde introduces a text that it could not use. Also the trigger of this pass.
pub(super) const COMPLAINTS: &str = "invalid (?:type|value): string ";

static COMPLAINT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(COMPLAINTS).expect("the complaint pattern is a constant"));

/// Marks the quoted texts.
pub(super) fn mark(text: &str, spans: &mut SecretRanges) {
    let mut position = 0;
    while let Some(complaint) = COMPLAINT.find_at(text, position) {
        position = complaint.end();
        if let Some(value) = values::quoted(text.as_bytes(), complaint.end()) {
            position = value.end;
            spans.mark(value);
        }
    }
}
