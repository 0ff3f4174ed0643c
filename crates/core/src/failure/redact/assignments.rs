//! Values next to a name that announces a secret: `password=x`, `"token": "x"`, `api_key => x`, `--secret x`,
//! `<password>x</password>`, `Key (token)=(x)`, `PASSWORD 'x'`, connection strings of every database.
//!
//! A search for the secret words finds candidates; everything else is a walk over the bytes around them. It
//! must not guess secrets without a name, which is the work of `tokens`.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::edges;
use super::key_names::is_sensitive_key;
use super::spans::SecretRanges;
use super::values::{self, Separator};

/// The words around which a name is looked for. Also the trigger of this pass.
pub(super) const KEYWORDS: &str = "(?i-u:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[ _-]?key|\
    (?:access|account|auth|encryption|hmac|master|private|service|shared|signing|ssh)[ _-]?key|credential|jwt|private|\
    _auth|cvv|cvc|sessid|jsessionid|identified)";

static SECRET_WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(KEYWORDS).expect("the keyword pattern is a constant"));

static IDENTIFIED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?i-u:identified +(?:with +[!-~]+ +)?(?:by|as|using) +(?:password +)?)")
        .expect("the clause pattern is a constant")
});

/// No name is longer; bounds the walk around a word in text that is all letters.
const MAX_NAME: usize = 64;

/// How far after the word "secret" an unnamed cloud secret is looked for, and how long it is.
const NEAR: usize = 96;
const CLOUD_SECRET: usize = 40;

/// Marks the values of sensitive names.
pub(super) fn mark(text: &str, spans: &mut SecretRanges) {
    let bytes = text.as_bytes();
    let mut done = 0;
    let mut position = 0;
    while let Some(word) = SECRET_WORD.find_at(text, position) {
        position = word.end();
        let name = name_around(bytes, done, word.range());
        let value = value_of(text, &name);
        if let Some(value) = value {
            position = position.max(value.end);
            done = value.end;
            spans.mark(value);
        } else if word.as_str().eq_ignore_ascii_case("secret") {
            mark_cloud_secret(bytes, word.end(), spans);
        }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The whole name that a secret word is part of.
fn name_around(bytes: &[u8], floor: usize, word: Range<usize>) -> Range<usize> {
    let before =
        bytes[floor..word.start].iter().rev().take(MAX_NAME).take_while(|b| is_name_byte(**b)).count();
    let after = bytes[word.end..].iter().take(MAX_NAME).take_while(|b| is_name_byte(**b)).count();
    word.start - before..word.end + after
}

/// The range to hide for the name at `name`, if it is a sensitive name with a value.
fn value_of(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let key = text.get(name.clone())?;
    if key.eq_ignore_ascii_case("identified") {
        return identified_by(text, name.start);
    }
    // The first letters may belong to an escape or an encoded byte before the name.
    let begin = edges::after_escape(bytes, name.start).min(name.end);
    let key = text.get(begin..name.end).filter(|rest| is_sensitive_key(rest)).unwrap_or(key);
    if !is_sensitive_key(key) {
        return None;
    }
    if let Some(separator) = values::separator_after(bytes, name.end) {
        return assigned(text, name, key, separator);
    }
    match bytes.get(name.end) {
        Some(b'>' | b' ') if is_tag(&bytes[..name.start]) => element(bytes, name),
        Some(b' ') if is_flag(key) => flag(text, name.end + 1),
        Some(b' ') if is_password(key) && bytes.get(name.end + 1) == Some(&b'\'') => {
            values::quoted(bytes, name.end + 1)
        }
        _ => None,
    }
}

/// Whether a name is one of a command line, whatever signs stand before it.
fn is_flag(key: &str) -> bool {
    let letter = |ch: char| ch.is_ascii_alphabetic();
    key.split_once("--").is_some_and(|(before, name)| !before.contains(letter) && name.starts_with(letter))
}

fn is_password(key: &str) -> bool {
    key.eq_ignore_ascii_case("password")
}

/// `name = value` in all its spellings.
fn assigned(text: &str, name: &Range<usize>, key: &str, separator: Separator) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if key.eq_ignore_ascii_case("token") && is_parser_talk(&text[..name.start]) {
        return None;
    }
    if let Some(whole) = values::enclosed(bytes, separator.end) {
        return (!values::is_placeholder(&text[whole.clone()])).then_some(whole);
    }
    let start = values::skip_wrapper(bytes, separator.end);
    if let Some(inside) = values::quoted(bytes, start) {
        return (!values::is_placeholder(&text[inside.clone()])).then_some(inside);
    }
    let is_tuple = start == separator.end + 1 && bytes[separator.end] == b'(';
    let value = if is_tuple { start..closing_parenthesis(bytes, start) } else { values::bare(bytes, start) };
    let word = text.get(value.clone())?;
    let is_readable = values::is_placeholder(word)
        || (is_also_a_plain_word(key) && (separator.is_prose_like || is_count(word)))
        || (separator.is_prose_like && (values::is_prose(word) || names_an_error(key)))
        || is_reference(word, key)
        || (key.eq_ignore_ascii_case("pwd") && word.starts_with('/'));
    (!is_readable || word.len() > values::MAX_READABLE).then_some(value)
}

/// Two names that announce a secret between a sign and a value only: "pass: all tests", "private: not yours".
fn is_also_a_plain_word(key: &str) -> bool {
    ["pass", "private"].iter().any(|word| key.eq_ignore_ascii_case(word))
}

/// Test runners report `pass=12 fail=0`.
fn is_count(value: &str) -> bool {
    value.len() <= 6 && value.bytes().all(|b| b.is_ascii_digit())
}

/// Parsers complain about tokens of another kind: "unexpected token: }".
fn is_parser_talk(before: &str) -> bool {
    const SUBJECTS: [&str; 5] = ["unexpected", "expected", "illegal", "unrecognized", "near"];
    let before = before.trim_end_matches([' ', '"', '\'', '`']);
    SUBJECTS.iter().any(|subject| {
        before
            .len()
            .checked_sub(subject.len())
            .and_then(|at| before.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(subject))
    })
}

/// `InvalidToken: ...` and `ExpiredCredentials: ...` are error types; what follows is their message.
fn names_an_error(key: &str) -> bool {
    const KINDS: [&str; 8] =
        ["Bad", "Expired", "Incorrect", "Invalid", "Malformed", "Missing", "No", "Unexpected"];
    KINDS.iter().any(|kind| {
        key.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|ch: char| ch.is_ascii_uppercase()))
    })
}

/// SQL and code refer to values by name: `token = excluded.token`, `password = :password`, `secret =
/// self.secrets[0]`, `token = rows[7]`, `token = next_token()`.
fn is_reference(value: &str, key: &str) -> bool {
    const OWNERS: [&str; 6] = ["self.", "this.", "os.environ", "process.env.", "settings.", "request."];
    let is_code = |(name, inside): (&str, &str)| {
        let is_name = |b: u8| b.is_ascii_lowercase() || matches!(b, b'_' | b'.');
        !name.is_empty() && name.bytes().all(is_name) && inside.bytes().all(|b| b.is_ascii_digit())
    };
    OWNERS.iter().any(|owner| value.starts_with(owner))
        || value.split_once(['[', '(']).is_some_and(is_code)
        || value
            .strip_suffix(key)
            .is_some_and(|before| before.is_empty() || before.ends_with(['.', ':', '@', '$']))
}

fn closing_parenthesis(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|b| !matches!(**b, b')' | b'\n')).count()
}

/// Whether a name after `before` is the name of an opening XML tag, with or without a namespace.
fn is_tag(before: &[u8]) -> bool {
    let Some(prefix) = before.strip_suffix(b":") else { return before.ends_with(b"<") };
    let letters = prefix.iter().rev().take(16).take_while(|b| b.is_ascii_alphanumeric()).count();
    prefix[..prefix.len() - letters].ends_with(b"<")
}

/// `<name attributes>value</name>`: the text up to the next tag.
fn element(bytes: &[u8], name: &Range<usize>) -> Option<Range<usize>> {
    let attributes =
        bytes[name.end..].iter().take(256).take_while(|b| !matches!(**b, b'>' | b'<' | b'\n')).count();
    let start = name.end + attributes + 1;
    if bytes.get(start - 1) != Some(&b'>') {
        return None;
    }
    let length = bytes[start..].iter().take_while(|b| **b != b'<').count();
    Some(start..start + length)
}

/// `--password value` of a command line.
fn flag(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let start = values::skip_blanks(bytes, from);
    if let Some(inside) = values::quoted(bytes, start) {
        return Some(inside);
    }
    if bytes.get(start) == Some(&b'-') {
        return None;
    }
    let value = values::bare(bytes, start);
    let word = text.get(value.clone())?;
    (!values::is_prose(word) && !values::is_placeholder(word)).then_some(value)
}

/// `IDENTIFIED [WITH plugin] BY|AS 'value'` of SQL.
fn identified_by(text: &str, from: usize) -> Option<Range<usize>> {
    let clause = IDENTIFIED.find_at(text, from).filter(|clause| clause.start() == from)?;
    values::quoted(text.as_bytes(), clause.end())
}

/// A cloud provider's secret has no prefix to know it by: forty mixed characters close to the word "secret".
fn mark_cloud_secret(bytes: &[u8], from: usize, spans: &mut SecretRanges) {
    let is_inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'+');
    let mut start = from;
    while start < bytes.len() && start < from + NEAR {
        start = edges::after_escape(bytes, start);
        let length = bytes[start..].iter().take(CLOUD_SECRET + 1).take_while(|b| is_inside(**b)).count();
        let run = &bytes[start..start + length];
        let is_mixed = run.iter().any(u8::is_ascii_uppercase)
            && run.iter().any(u8::is_ascii_lowercase)
            && run.iter().any(u8::is_ascii_digit);
        if length == CLOUD_SECRET && is_mixed {
            spans.mark(start..start + length);
            return;
        }
        start += length.max(1);
    }
}
