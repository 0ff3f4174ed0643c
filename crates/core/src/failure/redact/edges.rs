//! Where a value may begin and end in text that was escaped, encoded or glued together.
//!
//! A secret is known by what it looks like. Only ASCII letters and digits beside it can mean that it is part of
//! something else, and those that belong to an escape (`\n`, `\u200b`) or to an encoded byte (`%20`) cannot.

/// Whether a value may begin at `at`.
pub(super) fn begins(bytes: &[u8], at: usize) -> bool {
    match bytes[..at] {
        [.., before] if before.is_ascii_alphanumeric() => ends_an_escape(&bytes[..at]),
        _ => true,
    }
}

/// Whether an escape or an encoded byte ends here.
fn ends_an_escape(before: &[u8]) -> bool {
    let hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match before {
        [.., b'\\', letter] => SINGLE.contains(letter),
        [.., b'%', high, low] => hex(&[*high, *low]),
        [.., b'\\', b'x', high, low] => hex(&[*high, *low]),
        [.., b'\\', b'u', a, b, c, d] => hex(&[*a, *b, *c, *d]),
        _ => false,
    }
}

/// Letters that stand for one character after a backslash.
const SINGLE: &[u8] = b"0abefnrtv";

/// Where a run of letters and digits that starts at `start` goes on behind the escape or encoded byte that it begins
/// with; `start` when it begins with none.
pub(super) fn after_escape(bytes: &[u8], start: usize) -> usize {
    let sign = start.checked_sub(1).map(|at| bytes[at]);
    let longest = match sign {
        Some(b'\\') => 5,
        Some(b'%') => 2,
        _ => return start,
    };
    let end = bytes.len().min(start + longest);
    (start + 1..=end).rev().find(|at| ends_an_escape(&bytes[..*at])).unwrap_or(start)
}

/// Skips what may stand between a word and its value: blanks, escaped, encoded and invisible ones too.
pub(super) fn skip_gap(bytes: &[u8], from: usize) -> usize {
    const GAPS: [&[u8]; 12] = [
        b" ",
        b"\t",
        b"\0",
        b"%20",
        b"%09",
        b"\\t",
        b"\\n",
        b"\\r",
        "\u{a0}".as_bytes(),
        "\u{200b}".as_bytes(),
        "\u{feff}".as_bytes(),
        "\u{fffd}".as_bytes(),
    ];
    let mut at = from;
    while at < from + MOST_GAP
        && let Some(gap) = GAPS.iter().find(|gap| bytes[at..].starts_with(gap))
    {
        at += gap.len();
    }
    at
}

/// A longer gap is a column of a table, not a space between a word and its value.
const MOST_GAP: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_letters_and_digits_of_the_text_itself_are_part_of_a_word() {
        // F11
        for (before, free) in [
            ("", true),
            (" ", true),
            ("_", true),
            ("…", true),
            ("\0", true),
            ("x", false),
            ("7", false),
            ("\\n", true),
            ("\\x00", true),
            ("\\u200b", true),
            ("\\q", false),
            ("%20", true),
            ("%2", false),
            ("50%25", true),
            ("abc", false),
        ] {
            assert_eq!(begins(before.as_bytes(), before.len()), free, "{before:?}");
        }
    }

    #[test]
    fn a_run_begins_behind_its_escape() {
        // F11
        for (text, start, behind) in
            [("\\npass", 1, 2), ("%20411", 1, 3), ("\\u200bkey", 1, 6), ("\\x00411", 1, 4), ("plain", 0, 0)]
        {
            assert_eq!(after_escape(text.as_bytes(), start), behind, "{text:?}");
        }
    }
}
