//! Where the value after a secret's name begins and ends, and which values are no secret at all.
//!
//! Shared by assignments (`password=...`) and headers (`Authorization: ...`). When in doubt a value reaches
//! further: hiding a word too many costs a reader a word, hiding one too few costs a secret.

use std::ops::Range;

/// A longer value is never taken for a placeholder or a word of prose. Besides being true, this keeps the
/// walk linear: what is long is hidden and skipped, never looked at twice.
pub(super) const MAX_READABLE: usize = 256;

/// The separator between a name and its value, as found in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Separator {
    /// First byte after the separator and the blanks that follow it.
    pub(super) end: usize,
    /// A colon and a blank: also how prose continues ("invalid token: the header is missing").
    pub(super) is_prose_like: bool,
}

/// Finds the separator after a name that ends at `from`: `=`, `:`, `=>`, `:=`, `%3D`, with closing quotes,
/// brackets and blanks before it.
pub(super) fn separator_after(bytes: &[u8], from: usize) -> Option<Separator> {
    let closing = count_while(bytes, from, 4, |b| matches!(b, b'"' | b'\'' | b'`' | b'\\' | b')' | b']'));
    let at = skip_blanks(bytes, from + closing);
    let (length, is_colon) = match &bytes[at..] {
        [b':', b':', ..] => return None,
        [b'=', b'>', ..] | [b':', b'=', ..] | [b'=', b'=', ..] => (2, false),
        [b'%', b'3', b'D' | b'd', ..] => (3, false),
        [b'=', ..] => (1, false),
        [b':', ..] => (1, true),
        _ => return None,
    };
    let end = skip_blanks(bytes, at + length);
    Some(Separator { end, is_prose_like: is_colon && closing == 0 && end > at + length })
}

/// Skips spaces and tabs.
pub(super) fn skip_blanks(bytes: &[u8], from: usize) -> usize {
    from + count_while(bytes, from, 64, |b| matches!(b, b' ' | b'\t'))
}

fn count_while(bytes: &[u8], from: usize, most: usize, inside: impl Fn(u8) -> bool) -> usize {
    bytes.get(from..).unwrap_or_default().iter().take(most).take_while(|b| inside(**b)).count()
}

/// Skips what languages print around a value: `Some(`, `(`, `[`, and the `b`, `r`, `u` before a quote.
pub(super) fn skip_wrapper(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let wrapper = match rest {
        _ if rest.starts_with(super::MARKER.as_bytes()) => 0,
        [b'S', b'o', b'm', b'e', b'(', ..] => 5,
        [b'(' | b'[', ..] => 1,
        _ => 0,
    };
    match rest.get(wrapper..) {
        Some([b'b' | b'r' | b'u', b'"' | b'\'', ..]) => from + wrapper + 1,
        _ => from + wrapper,
    }
}

/// The inside of the quoted value at `from`, also when the quotes themselves are escaped (`\"..\"`). Without
/// a closing quote it reaches to the end of the line.
pub(super) fn quoted(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    let escapes = count_while(bytes, from, 8, |b| b == b'\\');
    let quote = *bytes.get(from + escapes)?;
    if !matches!(quote, b'"' | b'\'' | b'`') {
        return None;
    }
    let start = from + escapes + 1;
    let mut backslashes = 0;
    for (offset, byte) in bytes[start..].iter().enumerate() {
        let end = start + offset;
        match *byte {
            b'\\' => backslashes += 1,
            b'\n' => return Some(start..end),
            byte if byte == quote && (backslashes == escapes || (escapes == 0 && backslashes % 2 == 0)) => {
                return Some(start..end - escapes.min(backslashes));
            }
            _ => backslashes = 0,
        }
    }
    Some(start..bytes.len())
}

/// The object or the list of texts at `from`, to its closing bracket or, without one, to the end of the text. Other
/// lists and code in brackets are values like any other.
pub(super) fn enclosed(bytes: &[u8], from: usize) -> Option<Range<usize>> {
    match bytes.get(from..)? {
        [b'{' | b'[', b'"' | b'\'' | b'\\', ..] => {}
        [b'{', b' ' | b'\n', ..] => {}
        _ => return None,
    }
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for (offset, byte) in bytes[from..].iter().enumerate() {
        match (quote, *byte) {
            _ if escaped => escaped = false,
            // A quotation mark that is escaped itself opens and closes like any other.
            (None, b'\\') => {}
            (Some(_), b'\\') => {
                escaped = !matches!(bytes.get(from + offset + 2), Some(b',' | b'}' | b']' | b':'))
            }
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'{' | b'[') => depth += 1,
            (None, b'}' | b']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(from..from + offset + 1);
                }
            }
            _ => {}
        }
    }
    Some(from..bytes.len())
}

/// The unquoted value at `from`: up to whitespace, or to a delimiter that clearly starts the next field.
/// Closing punctuation at its end is left to the sentence.
pub(super) fn bare(bytes: &[u8], from: usize) -> Range<usize> {
    let mut end = from;
    while let Some(byte) = bytes.get(end) {
        let rest = &bytes[end + 1..];
        let stops = match byte {
            b',' | b';' | b'&' => starts_field(rest),
            b'"' | b'\'' | b'`' | b'<' | b'>' => !rest.first().is_some_and(u8::is_ascii_alphanumeric),
            byte => byte.is_ascii_whitespace(),
        };
        if stops {
            break;
        }
        end += 1;
    }
    let closing =
        |b: &&u8| matches!(**b, b')' | b']' | b'}' | b'"' | b'\'' | b'`' | b'>' | b'.' | b',' | b';' | b':');
    let trailing = bytes[from..end].iter().rev().take_while(closing).count();
    let value = from..end - trailing;
    // The bracket that closes the marker belongs to it.
    let marker = from..from + super::MARKER.len();
    if value.end + 1 == marker.end && bytes[from..].starts_with(super::MARKER.as_bytes()) {
        marker
    } else {
        value
    }
}

/// Whether what follows a delimiter is the end, a blank, a quote, or another `name=` or `name:`.
fn starts_field(rest: &[u8]) -> bool {
    match rest.first() {
        None => true,
        Some(b) if b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'\\' | b'{') => true,
        Some(_) => {
            let name = count_while(rest, 0, 48, |b| {
                b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b' ')
            });
            name > 0 && matches!(rest.get(name), Some(b'=' | b':'))
        }
    }
}

/// Whether a value says that there is no value, stands for one to be filled in, or is hidden already.
pub(super) fn is_placeholder(value: &str) -> bool {
    if value.len() > MAX_READABLE {
        return false;
    }
    const EMPTY: [&str; 9] = ["null", "none", "nil", "undefined", "true", "false", "empty", "unset", "?"];
    let is_template = (value.starts_with("${") || value.starts_with("{{") || value.starts_with("%("))
        || (value.starts_with('<') && !value.contains(' '))
        || matches!(value, "%s" | "%v" | "%d" | "{}" | "$")
        || value.strip_prefix('$').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    is_template
        || EMPTY.iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.chars().all(|ch| matches!(ch, '*' | '•' | '.' | '…' | '-'))
        || value == super::MARKER
}

/// Whether a word after a colon continues a sentence instead of being a value.
pub(super) fn is_prose(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
    word.len() <= MAX_READABLE && !word.contains(char::is_alphanumeric)
        || PROSE.split(' ').any(|prose| word.eq_ignore_ascii_case(prose))
}

/// What error messages say after "password:", "token:", "secret:". Measured against the tests' ordinary
/// messages.
const PROSE: &str = "\
    a access account all already an and any are argument array at auth authentication authorization bad \
    be because blank bool boolean but by bytes can can't cannot check client column connection could \
    couldn't database decode decoding decrypt denied deserialize did didn't disabled do does doesn't \
    don't duplicate either enabled end error exceeded expected expired failed failure field file for \
    forbidden found from get got had has have header http https illegal in incorrect input insufficient \
    int integer internal invalid io is isn't it key length malformed may mismatch missing must need \
    needs network no not number object of on only operation or parse parsing password permission please \
    provided reached received refused rejected request required resource response revoked secret server \
    should signature string str syntax that the there this timed timeout to token too unable \
    unauthorized unexpected unknown unsupported use user using validation value verification was we were \
    while with wrong yes you your";
