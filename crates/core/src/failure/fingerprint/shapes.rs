//! Recognises addresses, identifiers, paths and e-mail addresses at the start of a text.
//!
//! Every function returns the length of what it recognised, and is bounded by the longest such thing that
//! exists.

use std::net::Ipv6Addr;

use super::dates::digits;

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// `0192f3a4-77aa-7bbb-8ccc-1234567890ab`, in any case.
pub(super) fn uuid(rest: &[u8]) -> Option<usize> {
    const LENGTH: usize = 36;
    let candidate = rest.get(..LENGTH)?;
    let is_uuid = candidate.iter().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    (is_uuid && !is_word(rest.get(LENGTH))).then_some(LENGTH)
}

/// `10.0.0.7`, `10.0.0.7:5432`, `10.0.0.0/8`.
pub(super) fn ipv4(rest: &[u8]) -> Option<usize> {
    let mut end = 0;
    for octet in 0..4 {
        if octet > 0 {
            if rest.get(end) != Some(&b'.') {
                return None;
            }
            end += 1;
        }
        let length = digits(&rest[end..]);
        if !(1..=3).contains(&length) {
            return None;
        }
        end += length;
    }
    let goes_on = is_word(rest.get(end)) || matches!(rest[end..], [b'.', b'0'..=b'9', ..]);
    (!goes_on).then(|| end + port(&rest[end..]))
}

/// `:5432` or `/24`; 0 when there is none.
fn port(rest: &[u8]) -> usize {
    match rest {
        [b':' | b'/', tail @ ..] => match digits(tail) {
            length @ 1..=5 if !is_word(tail.get(length)) => 1 + length,
            _ => 0,
        },
        _ => 0,
    }
}

/// `[2001:db8::1]:443`.
pub(super) fn bracketed_ipv6(rest: &[u8]) -> Option<usize> {
    let length = rest.iter().skip(1).take(64).take_while(|b| **b != b']').count();
    let inside = rest.get(1..1 + length)?;
    let without_zone = inside.split(|b| *b == b'%').next()?;
    let is_address = rest.get(1 + length) == Some(&b']') && parses_as_ipv6(without_zone);
    is_address.then(|| 2 + length + port(&rest[2 + length..]))
}

/// `fe80::1`, `2001:db8::7`, and hardware addresses such as `00:1b:44:11:3a:b7`.
pub(super) fn ipv6(rest: &[u8]) -> Option<usize> {
    let run =
        rest.iter().take(48).take_while(|b| b.is_ascii_hexdigit() || matches!(**b, b':' | b'.')).count();
    let candidate = rest[..run].trim_ascii_end();
    let end = candidate.len() - candidate.iter().rev().take_while(|b| matches!(**b, b':' | b'.')).count();
    let candidate = &candidate[..end];
    let colons = candidate.iter().filter(|b| **b == b':').count();
    // Without a digit it is a name in code: `dead::beef`.
    if colons < 2 || is_word(rest.get(end)) || !candidate.iter().any(u8::is_ascii_digit) {
        return None;
    }
    let is_hardware = colons == 5 && candidate.split(|b| *b == b':').all(|part| part.len() == 2);
    (is_hardware || parses_as_ipv6(candidate)).then_some(end)
}

fn parses_as_ipv6(candidate: &[u8]) -> bool {
    std::str::from_utf8(candidate).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// `ann@example.org`.
pub(super) fn email(rest: &[u8]) -> Option<usize> {
    let is_local = |b: &&u8| b.is_ascii_alphanumeric() || matches!(**b, b'.' | b'_' | b'+' | b'-');
    let local = rest.iter().take(64).take_while(is_local).count();
    if local == 0 || rest.get(local) != Some(&b'@') {
        return None;
    }
    let domain = &rest[local + 1..];
    let length = domain
        .iter()
        .take(128)
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(**b, b'.' | b'-'))
        .count();
    let length = length - domain[..length].iter().rev().take_while(|b| matches!(**b, b'.' | b'-')).count();
    let last = domain[..length].rsplit(|b| *b == b'.').next()?;
    let is_domain = last.len() >= 2 && last.len() < length && last.iter().all(u8::is_ascii_alphabetic);
    (is_domain && !is_word(domain.get(length))).then_some(local + 1 + length)
}

/// An absolute path, a path from `.`, `..` or `~`, or one with a drive letter; with `:line:column` if there
/// is one.
pub(super) fn rooted_path(rest: &[u8]) -> Option<usize> {
    let root = match rest {
        [b'.', b'.', b'/' | b'\\', ..] => 3,
        [b'.' | b'~', b'/' | b'\\', ..] => 2,
        [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic() => 3,
        [b'\\', b'\\', ..] => 2,
        [b'/', ..] => 1,
        _ => return None,
    };
    let starts_name = rest
        .get(root)
        .is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'~' | b'@' | b'-'));
    let length = path_run(rest, root, rest.len());
    (starts_name && length > root).then(|| length + line_and_column(&rest[length..]))
}

/// Relative paths are asked for at every word, so a bound keeps text without blanks cheap.
const MAX_RELATIVE_PATH: usize = 256;

/// A relative path that ends in a file name with an extension: `src/jobs/send.rs:42:7`. Other words with a
/// slash, such as `application/json` or `and/or`, are no paths.
pub(super) fn relative_path(rest: &[u8]) -> Option<usize> {
    // The first folder ends at a slash, so a plain word is no path; most words are.
    let first = rest
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(**b, b'_' | b'-' | b'.' | b'@'))
        .count();
    if rest.get(first) != Some(&b'/') {
        return None;
    }
    let length = path_run(rest, 0, MAX_RELATIVE_PATH);
    let slash = rest[..length].iter().rposition(|b| *b == b'/')?;
    let name = &rest[slash + 1..length];
    let extension = name.rsplit(|b| *b == b'.').next()?;
    let is_file = (1..=6).contains(&extension.len())
        && extension.len() + 1 < name.len()
        && extension[0].is_ascii_alphabetic()
        && extension.iter().all(u8::is_ascii_alphanumeric);
    (is_file && slash > 0).then(|| length + line_and_column(&rest[length..]))
}

/// Where a path stops: at a blank, a quote, a bracket, a list sign or a colon; never with a full stop.
fn path_run(rest: &[u8], from: usize, most: usize) -> usize {
    let inside = |b: &&u8| {
        let is_end = matches!(
            **b,
            b' ' | b'\t'
                | b'"'
                | b'\''
                | b'`'
                | b'<'
                | b'>'
                | b'|'
                | b','
                | b';'
                | b':'
                | b'('
                | b')'
                | b'['
                | b']'
                | b'{'
                | b'}'
                | b'?'
                | b'*'
        );
        !is_end
    };
    let run = from + rest[from..].iter().take(most).take_while(inside).count();
    run - rest[from..run].iter().rev().take_while(|b| matches!(**b, b'.' | b'!')).count()
}

/// `:42`, `:42:7`, `(42)`; 0 when there is none.
fn line_and_column(rest: &[u8]) -> usize {
    let part = |rest: &[u8]| match rest {
        [b':', tail @ ..] if digits(tail) > 0 => 1 + digits(tail),
        _ => 0,
    };
    match rest {
        [b'(', tail @ ..] if digits(tail) > 0 && tail.get(digits(tail)) == Some(&b')') => 2 + digits(tail),
        _ => {
            let line = part(rest);
            line + part(&rest[line..])
        }
    }
}
