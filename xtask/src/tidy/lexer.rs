//! Splits Rust source into words, punctuation, literals and comments: just enough for text checks that must not be
//! fooled by what stands inside a string or a comment.
//!
//! Owns the lexical rules only (nested comments, raw strings, lifetimes against character literals). Knows nothing of
//! grammar; text that is not valid Rust gives tokens without meaning, never a panic.

/// What kind of token this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier, a keyword or a number.
    Word,
    /// One sign; `::` is one token.
    Sign,
    /// A string literal of any form; the token's text is what stands between the quotes, escapes untouched.
    Text,
    /// A character or byte literal, or a lifetime.
    Quote,
}

/// One token and the line (from 1) on which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceToken<'a> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl SourceToken<'_> {
    /// Whether this is the given word or sign, and not a literal that happens to contain it.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Sign) && self.text == text
    }
}

/// One line of a comment, with its comment signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceComment<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// A source text taken apart.
#[derive(Debug, Default)]
pub(crate) struct LexedSource<'a> {
    pub(crate) tokens: Vec<SourceToken<'a>>,
    pub(crate) comments: Vec<SourceComment<'a>>,
}

/// Takes a source text apart.
pub(crate) fn lex(text: &str) -> LexedSource<'_> {
    let mut lexer = Lexer { text, at: 0, line: 1, lexed: LexedSource::default() };
    while lexer.step() {}
    lexer.lexed
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    lexed: LexedSource<'a>,
}

impl<'a> Lexer<'a> {
    /// Takes one token, comment or blank; false at the end of the text.
    fn step(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else { return false };
        if rest.starts_with("//") {
            self.comment(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.comment(block_comment_length(rest));
        } else if first == '"' {
            self.string(1, string_end(rest, 1), 1);
        } else if first == '\'' {
            self.token(TokenKind::Quote, quote_length(rest));
        } else if is_word(first) {
            self.word(rest);
        } else if first.is_whitespace() {
            self.advance(first.len_utf8());
        } else {
            self.token(TokenKind::Sign, if rest.starts_with("::") { 2 } else { first.len_utf8() });
        }
        true
    }

    /// Takes a word, or the raw string that a word such as `r` or `br` opens.
    fn word(&mut self, rest: &'a str) {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let after = &rest[length..];
        let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
        let raw = matches!(&rest[..length], "r" | "br" | "cr") && after[hashes..].starts_with('"');
        if raw {
            let open = length + hashes + 1;
            let closing = format!("\"{}", "#".repeat(hashes));
            let end = rest[open..].find(&closing).map_or(rest.len(), |found| open + found);
            self.string(open, end, closing.len());
        } else {
            self.token(TokenKind::Word, length);
        }
    }

    fn token(&mut self, kind: TokenKind, length: usize) {
        let text = &self.text[self.at..self.at + length];
        self.lexed.tokens.push(SourceToken { kind, text, line: self.line });
        self.advance(length);
    }

    /// Takes a string literal whose contents are `open..end`, followed by `closing` bytes unless the text ends before.
    fn string(&mut self, open: usize, end: usize, closing: usize) {
        let text = &self.text[self.at + open..self.at + end];
        self.lexed.tokens.push(SourceToken { kind: TokenKind::Text, text, line: self.line });
        let length = (end + closing).min(self.text.len() - self.at);
        self.advance(length);
    }

    fn comment(&mut self, length: usize) {
        let text = &self.text[self.at..self.at + length];
        let lines =
            text.lines().enumerate().map(|(below, text)| SourceComment { text, line: self.line + below });
        self.lexed.comments.extend(lines);
        self.advance(length);
    }

    fn advance(&mut self, length: usize) {
        self.line += self.text[self.at..self.at + length].matches('\n').count();
        self.at += length;
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Rust's block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The place of the quote that closes a plain string whose contents begin at `at`.
fn string_end(rest: &str, mut at: usize) -> usize {
    let bytes = rest.as_bytes();
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    // A backslash as the last character of a broken text may step over the end or into a wider character.
    (at.min(bytes.len())..=bytes.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(bytes.len())
}

/// The length of a character literal, or of the lifetime that only looks like one.
fn quote_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    let Some((_, first)) = chars.next() else { return rest.len() };
    if first == '\\' {
        // Step over the escaped character: it may be a quote itself.
        chars.next();
        return chars.find(|(_, c)| *c == '\'').map_or(rest.len(), |(at, _)| at + 1);
    }
    match chars.next() {
        Some((at, '\'')) => at + 1,
        _ if is_word(first) => 1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        lex(text).tokens.iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn strings_of_every_form_are_literals() {
        let text = r###"f("a\"}", b"{", r"\", r#"x"y"#, br##""#"##, c"z")"###;
        let literals: Vec<&str> = lex(text)
            .tokens
            .into_iter()
            .filter(|token| token.kind == TokenKind::Text)
            .map(|token| token.text)
            .collect();
        assert_eq!(literals, [r#"a\"}"#, "{", r"\", "x\"y", "\"#", "z"]);
    }

    #[test]
    fn lifetimes_are_told_from_characters() {
        let quotes: Vec<&str> = lex(r"f<'a, 'b>('{', '\'', b'\\', 'é', '\u{7d}', 'static)")
            .tokens
            .into_iter()
            .filter(|token| token.kind == TokenKind::Quote)
            .map(|token| token.text)
            .collect();
        assert_eq!(quotes, ["'a", "'b", "'{'", r"'\''", r"'\\'", "'é'", r"'\u{7d}'", "'static"]);
    }

    #[test]
    fn comments_nest_and_keep_their_lines() {
        let lexed = lex("a // one\n/* two /* { */\n three */ b");
        let comments: Vec<(usize, &str)> = lexed.comments.iter().map(|c| (c.line, c.text)).collect();
        assert_eq!(comments, [(1, "// one"), (2, "/* two /* { */"), (3, " three */")]);
        assert_eq!(lexed.tokens[1].line, 3);
    }

    #[test]
    fn paths_raw_words_and_numbers_are_plain_tokens() {
        use TokenKind::{Sign, Word};
        assert_eq!(
            kinds("r#fn::x = 1_0.5"),
            [
                (Word, "r"),
                (Sign, "#"),
                (Word, "fn"),
                (Sign, "::"),
                (Word, "x"),
                (Sign, "="),
                (Word, "1_0"),
                (Sign, "."),
                (Word, "5"),
            ]
        );
    }

    #[test]
    fn broken_text_never_panics() {
        for text in ["\"", "\"\\", "\"\\é", "'", "'\\", "r#\"", "/*", "r#", "b'", "é'é", "\"a\\"] {
            lex(text);
        }
    }
}
