//! Text hygiene: makes foreign text (error messages, captured output) safe to cut, store and print.
//!
//! Owns characters only. It must not know what a secret is (see `failure::redact`) nor who reads the text.
//! Every function borrows when there is nothing to change, because most messages are clean.

use std::borrow::Cow;

/// Cuts `text` to at most `max_chars` characters, never inside a character.
///
/// A text that was cut ends with `…`, which counts inside the limit.
///
/// ```
/// use backstop_core::text::truncate_chars;
/// assert_eq!(truncate_chars("connection refused", 8), "connect…");
/// ```
pub fn truncate_chars(text: &str, max_chars: usize) -> Cow<'_, str> {
    // A character is at least one byte, so a short byte length answers without counting.
    if text.len() <= max_chars {
        return Cow::Borrowed(text);
    }
    if max_chars == 0 {
        return Cow::Borrowed("");
    }
    let mut chars = text.char_indices().skip(max_chars - 1);
    match (chars.next(), chars.next()) {
        (Some((keep, _)), Some(_)) => Cow::Owned(format!("{}…", &text[..keep])),
        _ => Cow::Borrowed(text),
    }
}

/// Returns at most the first `max_chars` characters, without any mark that something is missing.
pub fn head_chars(text: &str, max_chars: usize) -> &str {
    if text.len() <= max_chars {
        return text;
    }
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Makes `text` acceptable to every store: no NUL, no control character but line feed and tab, no
/// noncharacter, no character that reorders what follows it on a screen. Each of them becomes visible instead
/// of vanishing.
///
/// A CR LF pair becomes a line feed, because it is only another system's line end.
pub fn storable(text: &str) -> Cow<'_, str> {
    rewrite(text, is_hostile, |ch, next, out| match (ch, next) {
        ('\r', Some('\n')) => {}
        _ => push_visible(ch, out),
    })
}

/// Decodes `bytes` as UTF-8, with `U+FFFD` where that is impossible, and makes the result [`storable`].
pub fn storable_bytes(bytes: &[u8]) -> String {
    storable(&String::from_utf8_lossy(bytes)).into_owned()
}

/// Like [`storable`], and also on a single line: what a table cell or a prompt may print without any raw
/// control byte reaching the terminal. A line end becomes `⏎ `, a tab a space.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    rewrite(
        text,
        |ch| is_hostile(ch) || is_layout(ch),
        |ch, next, out| match (ch, next) {
            ('\r', Some('\n')) => {}
            ('\t', _) => out.push(' '),
            ('\n' | '\u{2028}' | '\u{2029}', _) => out.push_str("⏎ "),
            _ => push_visible(ch, out),
        },
    )
}

/// Joins `text` into one trimmed line in which every run of whitespace is one space; other control
/// characters are made visible. For log lines, where a line break would forge another entry.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let collapsed = collapse_whitespace(text);
    match storable(&collapsed) {
        Cow::Borrowed(_) => collapsed,
        Cow::Owned(visible) => Cow::Owned(visible),
    }
}

/// Trims `text` and turns every run of whitespace, line ends included, into one space.
pub fn collapse_whitespace(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim();
    let mut after_space = false;
    let is_collapsed = trimmed.chars().all(|ch| {
        let clean = !ch.is_whitespace() || (ch == ' ' && !after_space);
        after_space = ch == ' ';
        clean
    });
    if is_collapsed {
        return Cow::Borrowed(trimmed);
    }
    let mut out = String::with_capacity(trimmed.len());
    for word in trimmed.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    Cow::Owned(out)
}

/// Drops terminal escape sequences (colours, cursor moves, window titles): they carry no meaning in stored
/// text, and a colour change between a key and its value would hide a secret from the redactor.
///
/// An escape character that starts no complete sequence is kept, for [`storable`] to show.
pub fn without_ansi(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('\u{1b}') else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(escape) = rest.find('\u{1b}') {
        out.push_str(&rest[..escape]);
        rest = &rest[escape..];
        let length = escape_sequence_len(rest.as_bytes());
        if length == 0 {
            out.push('\u{1b}');
        }
        rest = &rest[length.max(1)..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Length of the complete escape sequence at the start of `bytes` (which begins with ESC), or 0.
fn escape_sequence_len(bytes: &[u8]) -> usize {
    let body = bytes.get(2..).unwrap_or_default();
    match bytes.get(1) {
        Some(b'[') => {
            let params = body.iter().take_while(|b| (0x20..=0x3f).contains(*b)).count();
            match body.get(params) {
                Some(0x40..=0x7e) => params + 3,
                _ => 0,
            }
        }
        // An operating system command ends with BEL or ESC \. Stopping at any ESC keeps the whole walk
        // linear.
        Some(b']') => {
            let payload = body.iter().take_while(|b| !matches!(**b, 0x07 | 0x1b | b'\n')).count();
            match (body.get(payload), body.get(payload + 1)) {
                (Some(0x07), _) => payload + 3,
                (Some(0x1b), Some(b'\\')) => payload + 4,
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// Copies `text` with every character that `unfit` names handed to `replace`, which also sees the character
/// after it.
fn rewrite(
    text: &str,
    unfit: impl Fn(char) -> bool,
    replace: impl Fn(char, Option<char>, &mut String),
) -> Cow<'_, str> {
    // Printable ASCII is what nearly every message is made of: one comparison per byte, no decoding.
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Cow::Borrowed(text);
    }
    let Some(first) = text.find(&unfit) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    let mut chars = text[first..].chars().peekable();
    while let Some(ch) = chars.next() {
        if unfit(ch) {
            replace(ch, chars.peek().copied(), &mut out);
        } else {
            out.push(ch);
        }
    }
    Cow::Owned(out)
}

fn is_layout(ch: char) -> bool {
    matches!(ch, '\n' | '\t' | '\u{2028}' | '\u{2029}')
}

/// Characters that no store or screen should receive: controls, Unicode noncharacters, bidirectional
/// overrides.
fn is_hostile(ch: char) -> bool {
    match ch {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fdd0}'..='\u{fdef}' => true,
        _ => ch.is_control() || u32::from(ch) & 0xfffe == 0xfffe,
    }
}

/// C0 controls have printable pictures in Unicode; everything else is shown as an escape.
fn push_visible(ch: char, out: &mut String) {
    let picture = match ch {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(ch)),
        '\u{7f}' => Some('\u{2421}'),
        _ => None,
    };
    match picture {
        Some(picture) => out.push(picture),
        None => out.extend(ch.escape_unicode()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_counts_characters_and_marks_the_cut() {
        for (text, max, expected) in [
            ("", 0, ""),
            ("", 5, ""),
            ("abc", 0, ""),
            ("abc", 1, "…"),
            ("abc", 2, "a…"),
            ("abc", 3, "abc"),
            ("żółw", 4, "żółw"),
            ("żółw", 3, "żó…"),
            ("🦀🦀🦀", 3, "🦀🦀🦀"),
            ("🦀🦀🦀", 2, "🦀…"),
        ] {
            assert_eq!(truncate_chars(text, max), expected, "{text:?} cut at {max}");
        }
        assert_eq!(head_chars("żółw", 2), "żó");
        assert_eq!(head_chars("żółw", 4), "żółw");
    }

    // F11: NUL and invalid text made storable.
    #[test]
    fn storable_text_has_no_hostile_character() {
        for (text, expected) in [
            ("plain text\n\twith layout", "plain text\n\twith layout"),
            ("nul\0byte", "nul␀byte"),
            ("\u{1b}[31mred", "␛[31mred"),
            ("a\r\nb\rc", "a\nb␍c"),
            ("bell\u{7} del\u{7f}", "bell␇ del␡"),
            ("next\u{85}line", "next\\u{85}line"),
            ("abc\u{202e}txt.exe", "abc\\u{202e}txt.exe"),
            ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
            ("non\u{ffff}char\u{fffe}", "non\\u{ffff}char\\u{fffe}"),
            ("plane\u{1fffe}", "plane\\u{1fffe}"),
            ("日本語 żółw 🦀", "日本語 żółw 🦀"),
        ] {
            assert_eq!(storable(text), expected);
        }
        assert!(matches!(storable("日本語\n"), Cow::Borrowed(_)));
        assert!(matches!(storable("ascii"), Cow::Borrowed(_)));
        assert_eq!(storable_bytes(b"ok \xff\x00 end"), "ok \u{fffd}␀ end");
    }

    #[test]
    fn a_table_cell_never_holds_a_raw_control_byte() {
        assert_eq!(for_terminal("a\nb\r\nc\td\re"), "a⏎ b⏎ c d␍e");
        assert_eq!(for_terminal("x\u{2028}y\u{1b}[2Jz\0"), "x⏎ y␛[2Jz␀");
        let every_low: String = (0u32..0x300).filter_map(char::from_u32).collect();
        assert!(!for_terminal(&every_low).chars().any(char::is_control));
    }

    #[test]
    fn a_log_line_is_one_line() {
        assert_eq!(one_line("  a \n\t b\r\nc  "), "a b c");
        assert_eq!(one_line("x\0 \n y"), "x␀ y");
        assert!(matches!(one_line("already one line"), Cow::Borrowed(_)));
        assert_eq!(collapse_whitespace("a\u{a0}\u{2003}b"), "a b");
    }

    #[test]
    fn escape_sequences_are_dropped_and_stray_escapes_kept() {
        for (text, expected) in [
            ("no colour", "no colour"),
            ("\u{1b}[1;31mred\u{1b}[0m end", "red end"),
            ("\u{1b}[3mpassword\u{1b}[0m\u{1b}[2m=\u{1b}[0mx", "password=x"),
            ("\u{1b}]8;;http://a\u{7}link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]0;never closed", "\u{1b}]0;never closed"),
            ("tail \u{1b}[31", "tail \u{1b}[31"),
            ("tail \u{1b}", "tail \u{1b}"),
            ("é\u{1b}[0mż", "éż"),
        ] {
            assert_eq!(without_ansi(text), expected);
        }
    }
}
