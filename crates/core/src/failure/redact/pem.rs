//! Private keys in PEM armour: whole blocks, blocks whose end was cut off, and blocks whose start was.
//!
//! Public material (certificates, public keys) is left alone. A message that only names the armour, such as
//! "expected -----BEGIN PRIVATE KEY-----", is not a key and stays readable.

use std::sync::LazyLock;

use regex::Regex;

use super::spans::SecretRanges;

static BEGIN: LazyLock<Regex> = LazyLock::new(|| armour("-----BEGIN"));
static END: LazyLock<Regex> = LazyLock::new(|| armour("-----END"));

/// Key data comes in lines of 64 characters; a shorter run near the header is prose.
const MIN_DATA_RUN: usize = 20;

/// How far after the header key data must start: past the `Proc-Type` and `DEK-Info` lines of encrypted keys.
const DATA_WITHIN: usize = 240;

fn armour(edge: &str) -> Regex {
    Regex::new(&format!("{edge} [A-Z0-9 ]{{0,32}}PRIVATE KEY(?: BLOCK)?-----"))
        .expect("the armour pattern is a constant")
}

/// Marks every private key block.
pub(super) fn mark(text: &str, spans: &mut SecretRanges) {
    let mut position = 0;
    let mut next_end = END.find(text);
    for begin in BEGIN.find_iter(text) {
        if begin.start() < position {
            continue;
        }
        // Ends before this start belong to a block whose own start is missing.
        while let Some(end) = next_end.filter(|end| end.start() < begin.start()) {
            spans.mark(headless_start(text, position, end.start())..end.end());
            position = end.end();
            next_end = END.find_at(text, end.end());
        }
        match next_end {
            Some(end) => {
                spans.mark(begin.start()..end.end());
                position = end.end();
                next_end = END.find_at(text, end.end());
            }
            None if is_followed_by_data(text, begin.end()) => {
                spans.mark(begin.start()..text.len());
                return;
            }
            None => position = begin.end(),
        }
    }
    while let Some(end) = next_end {
        spans.mark(headless_start(text, position, end.start())..end.end());
        position = end.end();
        next_end = END.find_at(text, end.end());
    }
}

fn is_data(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_followed_by_data(text: &str, from: usize) -> bool {
    let near = text.as_bytes()[from..].iter().take(DATA_WITHIN);
    let mut run = 0;
    near.into_iter().any(|byte| {
        run = if is_data(*byte) { run + 1 } else { 0 };
        run >= MIN_DATA_RUN
    })
}

/// Where the key data before an end line starts: back over data and line ends, real or written as `\n`.
fn headless_start(text: &str, floor: usize, end: usize) -> usize {
    let before = &text.as_bytes()[floor..end];
    let length =
        before.iter().rev().take_while(|b| is_data(**b) || matches!(**b, b'\r' | b'\n' | b'\\')).count();
    end - length
}
