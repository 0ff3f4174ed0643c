//! HTTP credentials: `Authorization`, `Cookie` and `Set-Cookie` headers, and `Bearer ...` or `Basic ...`
//! without one.
//!
//! The scheme stays readable: knowing that a request went out with `Basic` instead of `Bearer` solves
//! incidents.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::edges;
use super::spans::SecretRanges;
use super::values;

/// Header names and schemes. Also the trigger of this pass.
pub(super) const NAMES: &str = "(?i-u:authorization|cookie|bearer|basic|digest)";

static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(NAMES).expect("the header pattern is a constant"));

/// Schemes that are followed by one word, and schemes that are followed by a list of parameters.
const ONE_WORD_SCHEMES: [&str; 9] =
    ["basic", "bearer", "token", "apikey", "negotiate", "ntlm", "sharedkey", "splunk", "kerberos"];
const LIST_SCHEMES: [&str; 6] = ["digest", "aws4-hmac-sha256", "oauth", "hawk", "signature", "googlelogin"];

/// The size at which servers refuse a header.
const MAX_HEADER: usize = 8 * 1024;

/// Marks what the headers carry.
pub(super) fn mark(text: &str, spans: &mut SecretRanges) {
    let bytes = text.as_bytes();
    let mut position = 0;
    while let Some(name) = NAME.find_at(text, position) {
        position = name.end();
        let word = name.as_str();
        let value = if word.eq_ignore_ascii_case("authorization") {
            header_value(text, name.end(), credentials)
        } else if word.eq_ignore_ascii_case("cookie") {
            let plural = usize::from(matches!(bytes.get(name.end()), Some(b's' | b'S' | b'2')));
            header_value(text, name.end() + plural, cookies)
        } else {
            lone_scheme(text, name.range())
        };
        if let Some(value) = value {
            position = position.max(value.end);
            spans.mark(value);
        }
    }
}

/// The secret part of the value of a header whose name ends at `from`.
fn header_value(
    text: &str,
    from: usize,
    secret: fn(&str, Range<usize>, bool) -> Option<Range<usize>>,
) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let separator = values::separator_after(bytes, from)?;
    let start = values::skip_wrapper(bytes, edges::skip_gap(bytes, separator.end));
    if let Some(inside) = values::quoted(bytes, start) {
        return secret(text, inside, true);
    }
    let line = line_len(bytes, start);
    secret(text, start..start + line, false)
}

/// Length of the rest of the line, within what proxies accept as one header.
fn line_len(bytes: &[u8], start: usize) -> usize {
    bytes[start..].iter().take(MAX_HEADER).take_while(|b| **b != b'\n').count()
}

/// What of `Scheme value` must be hidden. Unquoted, the line may go on after the credentials.
fn credentials(text: &str, value: Range<usize>, is_delimited: bool) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let first = values::bare(&bytes[..value.end], value.start);
    let word = &text[first.clone()];
    let after = values::skip_blanks(bytes, first.end);
    let is_scheme = after > first.end && after < value.end;
    let is_one_of = |schemes: &[&str]| schemes.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    // "token" is a word of prose and a scheme: what follows it decides, further down.
    let is_prose = values::is_prose(word) && !(is_scheme && is_one_of(&ONE_WORD_SCHEMES));
    if values::is_placeholder(word) || word.is_empty() || (!is_delimited && is_prose) {
        return None;
    }
    if is_scheme && (is_one_of(&LIST_SCHEMES) || (is_delimited && is_one_of(&ONE_WORD_SCHEMES))) {
        return Some(after..value.end);
    }
    if is_delimited {
        return Some(value);
    }
    let second = values::bare(&bytes[..value.end], after);
    if is_scheme && is_one_of(&ONE_WORD_SCHEMES) {
        let is_readable =
            values::is_placeholder(&text[second.clone()]) || values::is_prose(&text[second.clone()]);
        return (!is_readable).then_some(second);
    }
    let is_custom_scheme =
        is_scheme && word.bytes().all(|b| b.is_ascii_alphabetic()) && looks_random(&text[second.clone()]);
    Some(if is_custom_scheme { first.start..second.end } else { first })
}

/// A run of `name=value` pairs joined by semicolons.
fn cookies(text: &str, value: Range<usize>, is_delimited: bool) -> Option<Range<usize>> {
    let line = &text[value.clone()];
    if is_delimited {
        return (!values::is_placeholder(line)).then_some(value);
    }
    let mut length = 0;
    for piece in line.split_inclusive(';') {
        let blanks = piece.len() - piece.trim_start().len();
        let pair = piece[blanks..].split([' ', '"', '\'']).next().unwrap_or_default();
        let name = pair.trim_end_matches(';');
        let is_attribute = name.eq_ignore_ascii_case("secure") || name.eq_ignore_ascii_case("httponly");
        if !name.contains('=') && !is_attribute {
            break;
        }
        length = piece.as_ptr().addr() - line.as_ptr().addr() + blanks + name.len();
        if blanks + pair.len() < piece.len() {
            break;
        }
    }
    (length > 0).then_some(value.start..value.start + length)
}

/// `Bearer xyz` in running text: only when what follows looks like a credential, for "bearer authentication
/// failed" and `Bearer realm="x"` are ordinary.
fn lone_scheme(text: &str, name: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = edges::skip_gap(bytes, name.end);
    if start == name.end || !edges::begins(bytes, name.start) {
        return None;
    }
    if text[name].eq_ignore_ascii_case("digest") {
        let is_header = bytes[start..].get(..9).is_some_and(|head| head.eq_ignore_ascii_case(b"username="));
        return is_header.then(|| start..start + line_len(bytes, start));
    }
    let bare = values::bare(bytes, start);
    let has_parameters = text[bare.clone()].contains("=\"");
    let length = bytes[start..bare.end].iter().take_while(|b| is_token_byte(**b)).count();
    let word = &text[start..start + length];
    let has_parameters =
        has_parameters || (word.contains('=') && !word.trim_end_matches('=').bytes().all(|b| b != b'='));
    (looks_random(word) && !has_parameters).then_some(bare)
}

/// What credentials are made of.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte)
}

/// Eight or more characters with a digit, a padding sign, or capitals inside.
fn looks_random(word: &str) -> bool {
    let inner_capital =
        word.bytes().skip(1).any(|b| b.is_ascii_uppercase()) && word.bytes().any(|b| b.is_ascii_lowercase());
    word.len() >= 8
        && word.bytes().all(is_token_byte)
        && (word.bytes().any(|b| b.is_ascii_digit() || b == b'=') || inner_capital)
}
