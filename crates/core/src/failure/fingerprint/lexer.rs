//! Walks over a message and replaces what varies by placeholders.
//!
//! One pass, left to right, a decision per token: an address, a time, a number that counts, a number that is
//! a code, a quotation, a word. Placeholders in the input are copied, so that a second pass changes nothing.

mod names;
mod quotes;
mod words;

use super::numbers::{quantity, span_of_time, unit_of_size};
use super::{dates, shapes};

/// Everything that can stand for a part of a message.
const PLACEHOLDERS: [&str; 9] =
    ["<uuid>", "<id>", "<num>", "<dur>", "<time>", "<addr>", "<path>", "<email>", "<str>"];

/// Grouping needs no more; what follows is dropped at a token boundary.
const MAX_NORMALIZED: usize = 400;

/// How often a result is walked again until it is stable. One is enough for nearly every text, two for all
/// seen.
const MAX_ROUNDS: usize = 8;

/// A longer word without a blank is a blob, whatever it is made of.
const MAX_WORD: usize = 64;

/// What a number after the last word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It counts or identifies something: replaced.
    Quantity,
    /// It is a code: kept.
    Code,
    /// The word was "error", which precedes codes ("error 1213") and counts ("error: 3 rows failed").
    CodeOrCount,
    /// The word was "returned" or the like, which precedes a status ("returned 503") and counts ("returned 503
    /// rows").
    StatusOrCount,
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    out: String,
    expected: Expected,
    /// Whether a colon came since the word that made a code expected.
    after_colon: bool,
    /// Inside a URL, slashes separate words and a query is dropped.
    in_url: bool,
    /// What the text does not contain need not be looked for at every word.
    has_at_sign: bool,
    has_slash: bool,
    has_scheme: bool,
    /// Quotation marks known to have no partner in the rest of the text, so that it is searched once for
    /// each.
    unclosed: Vec<char>,
}

/// Normalizes one line of collapsed whitespace.
pub(super) fn normalized(line: &str) -> String {
    let mut result = pass(line);
    // What was taken out may leave a neighbour in another light: without its number, `ann@example.org7`
    // becomes an address. A second walk over the short result finds that, and proves the result stable.
    for _ in 0..MAX_ROUNDS {
        let again = pass(&result);
        if again == result {
            break;
        }
        result = again;
    }
    result
}

fn pass(line: &str) -> String {
    let mut lexer = Lexer {
        text: line,
        at: 0,
        out: String::with_capacity(line.len().min(MAX_NORMALIZED) + MAX_WORD),
        expected: Expected::Quantity,
        after_colon: false,
        in_url: false,
        has_at_sign: line.contains('@'),
        has_slash: line.contains(['/', '\\']),
        has_scheme: line.contains("://"),
        unclosed: Vec::new(),
    };
    lexer.run(line.len());
    lexer.out.truncate(lexer.out.trim_end().len());
    lexer.out
}

impl Lexer<'_> {
    fn run(&mut self, end: usize) {
        while self.at < end && self.out.len() < MAX_NORMALIZED {
            let Some(ch) = self.text.get(self.at..end).and_then(|rest| rest.chars().next()) else { return };
            match ch {
                ' ' => self.punctuation(ch),
                '<' if self.placeholder() => {}
                '"' | '\'' | '`' | '«' | '“' | '‘' | '„' | '‹' | '「' if self.quotation(end) => {}
                '\\' if self.escapes() > 0 => self.at += self.escapes(),
                '(' if self.values_in_parentheses(end) => {}
                '0'..='9' => self.number(end),
                'a'..='z' | 'A'..='Z' | '_' => self.word(end),
                '/' | '.' | '~' | '\\' | '[' | ':' if !self.in_url && self.address_or_path() => {}
                '-' | '+' if self.sign() => {}
                '?' | '#' if self.in_url => self.query(),
                _ if ch.is_alphanumeric() => self.foreign_word(),
                _ => self.punctuation(ch),
            }
        }
    }

    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Whether a word or a placeholder ends here, so that an apostrophe or a slash belongs to it.
    fn is_after_word(&self) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        before.ends_with(|ch: char| ch.is_alphanumeric() || ch == '_')
            || (before.ends_with('>') && PLACEHOLDERS.iter().any(|known| before.ends_with(known)))
    }

    fn punctuation(&mut self, ch: char) {
        match ch {
            ' ' | '(' | '[' | '=' | '#' | '"' | '\'' => {}
            ':' => self.after_colon = true,
            _ => self.expected = Expected::Quantity,
        }
        if matches!(ch, ' ' | '"' | '\'' | '`' | ')' | ']' | '}' | ',' | ';') {
            self.in_url = false;
        }
        // What is dropped may leave two blanks side by side.
        if ch != ' ' || !(self.out.is_empty() || self.out.ends_with(' ')) {
            self.out.push(ch);
        }
        self.at += ch.len_utf8();
    }

    /// Writes a placeholder for the next `length` bytes. A list of the same things counts as one of them,
    /// because its length is one more number.
    fn replace(&mut self, placeholder: &str, length: usize) {
        self.at += length;
        self.expected = Expected::Quantity;
        for separator in [", ", " ", ","] {
            if let Some(before) = self.out.strip_suffix(separator)
                && before.ends_with(placeholder)
            {
                self.out.truncate(before.len());
                return;
            }
        }
        self.out.push_str(placeholder);
    }

    fn placeholder(&mut self) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let Some(known) = PLACEHOLDERS.iter().find(|known| rest.starts_with(*known)) else { return false };
        self.replace(known, known.len());
        true
    }

    /// Times, addresses and ids that may start with a digit or with a letter.
    fn structured(&mut self) -> bool {
        let rest = self.rest();
        let starts_with_digit = rest.first().is_some_and(u8::is_ascii_digit);
        let found = if let Some(length) = self.has_at_sign.then(|| shapes::email(rest)).flatten() {
            Some(("<email>", length))
        } else if let Some(length) = shapes::uuid(rest) {
            Some(("<uuid>", length))
        } else if let Some(length) = shapes::ipv6(rest) {
            Some(("<addr>", length))
        } else if dates::may_start_written_date(rest)
            && let Some(length) = dates::written_date(rest)
        {
            Some(("<time>", length))
        } else if !starts_with_digit {
            None
        } else if let Some(length) = dates::date_time(rest).or_else(|| dates::clock_with_seconds(rest)) {
            Some(("<time>", length))
        } else {
            shapes::ipv4(rest).map(|length| ("<addr>", length))
        };
        if let Some((placeholder, length)) = found {
            self.replace(placeholder, length);
        }
        found.is_some()
    }

    fn number(&mut self, end: usize) {
        if self.structured() {
            return;
        }
        let rest = self.rest();
        if let [b'0', b'x' | b'X', tail @ ..] = rest {
            let hex = tail.iter().take_while(|b| b.is_ascii_hexdigit()).count();
            let is_code =
                matches!(self.expected, Expected::Code | Expected::CodeOrCount) && (1..=8).contains(&hex);
            return if is_code { self.keep(2 + hex) } else { self.replace("<id>", 2 + hex) };
        }
        if let Some(length) = span_of_time(rest) {
            return self.replace("<dur>", length);
        }
        let length = quantity(rest);
        let after = rest.get(length);
        let has_unit =
            after.is_some_and(|b| b.is_ascii_alphabetic()).then(|| unit_of_size(&rest[length..])).flatten();
        match (has_unit, after) {
            (Some(unit), _) => self.replace("<num>", length + unit),
            (None, Some(b'%')) if !self.in_url => self.replace("<num>", length + 1),
            (None, Some(b)) if b.is_ascii_alphanumeric() || *b == b'_' => self.word_with_digits(end),
            _ if self.is_code(&rest[..length], &rest[length..]) => self.keep(length),
            _ => self.replace("<num>", length),
        }
    }

    fn is_code(&self, number: &[u8], after: &[u8]) -> bool {
        let is_short = number.len() <= 5 && number.iter().all(u8::is_ascii_digit);
        let counts = self.after_colon && matches!(after, [b' ', b'a'..=b'z', ..] | [b' ', b'<', ..]);
        match self.expected {
            Expected::Quantity => false,
            Expected::Code => is_short,
            Expected::CodeOrCount => is_short && !counts,
            Expected::StatusOrCount => is_http_failure(number) && !counts_something(after),
        }
    }

    /// Copies the next `length` bytes.
    fn keep(&mut self, length: usize) {
        let kept = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.out.push_str(kept);
        self.at += length;
        self.expected = Expected::Quantity;
    }

    fn word(&mut self, end: usize) {
        let rest = self.rest();
        let scheme = if self.has_scheme { url_scheme(rest) } else { 0 };
        if scheme > 0 {
            return self.url(scheme);
        }
        let may_be_path = self.has_slash && !self.in_url;
        let path =
            may_be_path.then(|| shapes::rooted_path(rest).or_else(|| shapes::relative_path(rest))).flatten();
        if let Some(length) = path {
            self.replace("<path>", length);
        } else if !self.structured() {
            self.word_with_digits(end);
        }
    }

    /// Keeps scheme and host; the walk goes on inside the URL, without user part and query.
    fn url(&mut self, scheme: usize) {
        self.keep(scheme);
        self.in_url = true;
        let rest = self.rest();
        let authority =
            rest.iter().take_while(|b| !b.is_ascii_whitespace() && !b"/?#\"'<>`,;".contains(b)).count();
        if let Some(user) = rest[..authority].iter().rposition(|b| *b == b'@') {
            self.at += user + 1;
        }
    }

    fn query(&mut self) {
        let rest = self.rest();
        let length =
            rest.iter().take_while(|b| !b.is_ascii_whitespace() && !b"\"'`<>)]},;".contains(b)).count();
        let colons = rest[..length].iter().rev().take_while(|b| matches!(**b, b':' | b'.')).count();
        self.at += length - colons;
    }

    fn address_or_path(&mut self) -> bool {
        let rest = self.rest();
        let found = match rest.first() {
            Some(b'[') => shapes::bracketed_ipv6(rest).map(|length| ("<addr>", length)),
            Some(b':') if !self.is_after_word() => shapes::ipv6(rest).map(|length| ("<addr>", length)),
            Some(b':') => None,
            _ if self.is_after_word() || self.out.ends_with('<') => None,
            _ => shapes::rooted_path(rest).map(|length| ("<path>", length)),
        };
        if let Some((placeholder, length)) = found {
            self.replace(placeholder, length);
        }
        found.is_some()
    }

    /// A sign in front of a number belongs to it.
    fn sign(&mut self) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        let is_sign = before.is_empty() || before.ends_with([' ', '(', '=', ':', '[', ',']);
        let has_number = matches!(self.rest(), [_, b'0'..=b'9', ..]);
        if is_sign && has_number {
            if matches!(self.expected, Expected::Code | Expected::CodeOrCount) && self.rest()[0] == b'-' {
                self.out.push('-');
            }
            self.at += 1;
        }
        is_sign && has_number
    }
}

/// Whether a number is a status that HTTP uses for failures.
fn is_http_failure(number: &[u8]) -> bool {
    matches!(number, [b'4' | b'5', b'0'..=b'9', b'0'..=b'9'])
}

/// Whether a noun follows, so that the number before it says how many: "500 rows", but not "500 for job 7".
fn counts_something(after: &[u8]) -> bool {
    const GOES_ON: [&[u8]; 11] =
        [b"for", b"from", b"on", b"to", b"after", b"with", b"in", b"at", b"when", b"while", b"but"];
    let [b' ', next @ ..] = after else { return false };
    let word = &next[..next.iter().take(16).take_while(|b| b.is_ascii_alphabetic()).count()];
    word.first().is_some_and(u8::is_ascii_lowercase) && !GOES_ON.contains(&word)
}

/// Length of `scheme://`, or 0.
fn url_scheme(rest: &[u8]) -> usize {
    let name =
        rest.iter().take(24).take_while(|b| b.is_ascii_alphanumeric() || matches!(**b, b'+' | b'-')).count();
    if rest[name..].starts_with(b"://") { name + 3 } else { 0 }
}
