//! The byte ranges that one redaction replaces: collected in any order, merged, replaced once.
//!
//! Must not know why a range is secret.

use std::borrow::Cow;
use std::ops::Range;

/// What stands where a secret was.
pub const MARKER: &str = "[redacted]";

/// Ranges of one text that must not stay readable.
#[derive(Debug, Default)]
pub(super) struct SecretRanges(Vec<Range<usize>>);

impl SecretRanges {
    /// Adds a range; an empty one means nothing.
    pub(super) fn mark(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.0.push(range);
        }
    }

    /// Where the ranges marked so far end, in order.
    pub(super) fn sorted_ends(&self) -> Vec<usize> {
        let mut ends: Vec<usize> = self.0.iter().map(|range| range.end).collect();
        ends.sort_unstable();
        ends
    }

    /// Replaces every range of `text` by the marker; ranges that overlap or touch share one.
    pub(super) fn replace_in(mut self, text: &str) -> Cow<'_, str> {
        self.0.retain(|range| text.get(range.clone()) != Some(MARKER));
        if self.0.is_empty() {
            return Cow::Borrowed(text);
        }
        self.0.sort_unstable_by_key(|range| range.start);
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        let mut pending: Option<Range<usize>> = None;
        for range in self.0 {
            match &mut pending {
                Some(open) if range.start <= open.end => open.end = open.end.max(range.end),
                _ => {
                    if let Some(done) = pending.replace(range) {
                        copied = push_replaced(text, copied, &done, &mut out);
                    }
                }
            }
        }
        if let Some(done) = pending {
            copied = push_replaced(text, copied, &done, &mut out);
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }
}

/// Copies the text before `range`, then the marker; returns where copying goes on.
fn push_replaced(text: &str, copied: usize, range: &Range<usize>, out: &mut String) -> usize {
    // Scans stop at ASCII bytes, so the bounds are character boundaries. Were one not, hide the whole
    // character.
    let start = (copied..=range.start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(copied);
    let end = (range.end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    out.push_str(text.get(copied..start).unwrap_or_default());
    out.push_str(MARKER);
    end
}
