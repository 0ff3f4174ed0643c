//! Quotations: values are taken out, names and messages are read.

use super::{Expected, Lexer, MAX_WORD};

impl Lexer<'_> {
    /// A quoted value, or a quoted name in front of its value.
    pub(super) fn quotation(&mut self, end: usize) -> bool {
        let Some(opening) = self.rest().first().copied() else { return false };
        if opening.is_ascii() && self.is_after_word() {
            return false;
        }
        let Some((start, close, length)) = self.find_quoted(end) else { return false };
        let content = self.text.get(start..close).unwrap_or_default().trim_end_matches('\\');
        let resume = self.at + length;
        let after = self.text.get(resume..end).unwrap_or_default();
        let is_name = !content.is_empty()
            && content.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_')
            && content.len() <= MAX_WORD;
        let is_code = content.len() <= 24
            && content.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        let is_in_object = self.out.trim_end().ends_with(['{', ',']);
        if is_name && is_in_object && after.starts_with(':') {
            self.at = start;
            self.plain_word(content.len());
        } else if self.expected == Expected::Code && (is_code || is_name) && !content.is_empty() {
            self.at = start;
            self.keep(content.len());
        } else if self.says_the_message() || self.is_identifying(content, after) {
            self.at = start;
            self.run(start + content.len());
        } else {
            self.replace("<str>", 0);
        }
        self.at = resume;
        true
    }

    /// Start and end of what the quotation says, and its whole length.
    fn find_quoted(&mut self, end: usize) -> Option<(usize, usize, usize)> {
        let text = self.text.get(..end)?;
        let opening = text.get(self.at..)?.chars().next()?;
        if self.unclosed.contains(&opening) {
            return None;
        }
        let found = quoted(text, self.at, opening);
        if found.is_none() && end == self.text.len() {
            self.unclosed.push(opening);
        }
        found
    }

    /// In JSON and key-value text the message itself is a quoted value.
    fn says_the_message(&self) -> bool {
        const NAMES: [&str; 7] = ["error", "message", "msg", "detail", "reason", "title", "description"];
        let before = self.out.trim_end_matches([':', '=', ' ']);
        let separator = self.out.strip_prefix(before).unwrap_or_default();
        let name = before.rsplit(|ch: char| !ch.is_ascii_alphabetic()).next().unwrap_or_default();
        separator.contains([':', '=']) && NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
    }

    /// Number of backslashes here, if a quotation mark follows them. Text that went through JSON or a debug
    /// print quotes with `\"`; the same text without that detour does not.
    pub(super) fn escapes(&self) -> usize {
        let rest = self.rest();
        let backslashes = rest.iter().take_while(|b| **b == b'\\').count();
        if matches!(rest.get(backslashes), Some(b'"' | b'\'')) { backslashes } else { 0 }
    }
}

/// Finds the partner of the quotation mark at `at`: start and end of what is quoted, and the whole length.
fn quoted(text: &str, at: usize, opening: char) -> Option<(usize, usize, usize)> {
    let is_closing = |ch: char| match opening {
        '«' => ch == '»',
        '‹' => ch == '›',
        '“' | '„' => matches!(ch, '”' | '“'),
        '‘' => ch == '’',
        '「' => ch == '」',
        '`' => matches!(ch, '`' | '\''),
        _ => ch == opening,
    };
    let start = at + opening.len_utf8();
    let (offset, closing) = text.get(start..)?.char_indices().find(|(offset, ch)| {
        // The apostrophe in "can't" closes nothing.
        let after = text.get(start + offset + ch.len_utf8()..).unwrap_or_default();
        let is_apostrophe = *ch == '\'' && after.starts_with(|next: char| next.is_alphanumeric());
        is_closing(*ch) && !is_apostrophe
    })?;
    Some((start, start + offset, start + offset + closing.len_utf8() - at))
}
