//! Words: copied, unless a part of them varies; and what a word says about the number after it.

use super::super::numbers::quantity;
use super::{Expected, Lexer, MAX_WORD};

impl Lexer<'_> {
    /// A word of ASCII letters, digits, `_` and inner dashes. Parts with digits vary, the others do not.
    pub(super) fn word_with_digits(&mut self, end: usize) {
        let rest = &self.text.as_bytes()[self.at..end];
        let length = word_len(rest);
        let word = self.text.get(self.at..self.at + length).unwrap_or_default();
        if length > MAX_WORD {
            return self.replace("<id>", length);
        }
        if word.len() >= 8 && word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return self
                .replace(if word.bytes().all(|b| b.is_ascii_digit()) { "<num>" } else { "<id>" }, length);
        }
        if self.is_symbolic_code(word) {
            return self.keep(length);
        }
        if !word.bytes().any(|b| b.is_ascii_digit()) || is_technical_name(word) {
            return self.plain_word(length);
        }
        self.parts(length);
    }

    /// `ORA-00001`, `E11000`, `P2002`, SQLSTATE classes such as `42P01`.
    fn is_symbolic_code(&self, word: &str) -> bool {
        let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
        let digits = &word[letters..];
        if let Some(number) = digits.strip_prefix('-') {
            let is_vendor = ["ORA", "PLS", "TNS", "RMAN"].contains(&&word[..letters]);
            return is_vendor && number.len() == 5 && number.bytes().all(|b| b.is_ascii_digit());
        }
        if self.expected == Expected::Code && word.len() == 5 {
            return word.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        }
        let is_code = (3..=5).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        let follows_type = self.out.ends_with(": ") || self.out.ends_with('[') || self.out.is_empty();
        is_code
            && ((1..=2).contains(&letters) && follows_type
                || (1..=5).contains(&letters) && self.expected == Expected::Code)
    }

    /// Copies a word and notes what a number after it would mean.
    pub(super) fn plain_word(&mut self, length: usize) {
        let word = self.text.get(self.at..self.at + length).unwrap_or_default();
        // These stand between the announcement of a code and the code.
        let is_filler = || ["is", "was", "of", "with"].iter().any(|filler| word.eq_ignore_ascii_case(filler));
        let expected = match self.expected {
            Expected::Quantity => announced_by(word),
            announced if is_filler() => announced,
            _ => announced_by(word),
        };
        let is_http = word.eq_ignore_ascii_case("http");
        self.keep(length);
        self.expected = expected;
        self.after_colon = false;
        // `HTTP/1.1 503` and `HTTP 503` say the same.
        if let [b'/', version @ ..] = self.rest()
            && is_http
            && quantity(version) > 0
        {
            self.at += 1 + quantity(version);
        }
    }

    /// Writes the parts of a word between `_` and `-`. After an opaque part the rest is opaque too: the
    /// random end of a pod's name has a digit only most of the time.
    fn parts(&mut self, length: usize) {
        let word = self.text.get(self.at..self.at + length).unwrap_or_default();
        for part in word.split_inclusive(['_', '-']) {
            let name = part.trim_end_matches(['_', '-']);
            let letters = name.trim_end_matches(|ch: char| ch.is_ascii_digit());
            if letters.bytes().any(|b| b.is_ascii_digit()) {
                self.replace("<id>", 0);
                break;
            }
            self.out.push_str(letters);
            if letters.len() < name.len() {
                self.replace("<num>", 0);
            }
            self.out.push_str(&part[name.len()..]);
        }
        self.at += length;
        self.expected = Expected::Quantity;
    }

    pub(super) fn foreign_word(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length: usize = rest
            .chars()
            .take(MAX_WORD)
            .take_while(|ch| !ch.is_ascii() && ch.is_alphanumeric())
            .map(char::len_utf8)
            .sum();
        self.keep(length);
    }
}

/// What a number after `word` means.
fn announced_by(word: &str) -> Expected {
    const CODES: [&str; 16] = [
        "status",
        "code",
        "errno",
        "sqlstate",
        "http",
        "signal",
        "hresult",
        "exit",
        "statuscode",
        "errorcode",
        "exitcode",
        "returncode",
        "status_code",
        "error_code",
        "exit_code",
        "return_code",
    ];
    const ANSWERS: [&str; 6] = ["answered", "got", "received", "replied", "responded", "returned"];
    // Asked for every word, so the first letter answers for most.
    if !word.starts_with(['a', 'c', 'C', 'e', 'E', 'g', 'h', 'H', 'r', 'R', 's', 'S']) {
        Expected::Quantity
    } else if CODES.iter().any(|code| word.eq_ignore_ascii_case(code)) {
        Expected::Code
    } else if ["error", "err"].iter().any(|error| word.eq_ignore_ascii_case(error)) {
        Expected::CodeOrCount
    } else if ANSWERS.contains(&word) {
        Expected::StatusOrCount
    } else {
        Expected::Quantity
    }
}

/// Names in which the digits are no number: types, formats, protocols.
fn is_technical_name(word: &str) -> bool {
    const NAMES: [&str; 36] = [
        "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32", "f64", "int8", "int16",
        "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "utf8", "utf16",
        "base64", "sha1", "sha256", "md5", "ipv4", "ipv6", "x509", "oauth2", "http2", "s3", "ec2", "sqlite3",
    ];
    word.len() <= 7 && NAMES.iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// Letters, digits and `_`, with dashes between them.
fn word_len(rest: &[u8]) -> usize {
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let mut length = 0;
    while let Some(byte) = rest.get(length) {
        let is_inner_dash = *byte == b'-' && rest.get(length + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !is_word(byte) && !is_inner_dash {
            break;
        }
        length += 1;
    }
    length
}
