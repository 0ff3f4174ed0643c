//! Quoted text that names a part of the program or of its schema, and values that stand in parentheses.
//!
//! A quotation is data, except after a noun that says otherwise: another column or constraint is another
//! bug, another value in the same column is not.

use super::{Lexer, MAX_WORD};

/// What a quoted name after these words belongs to is part of the failure.
const NOUNS: [&str; 23] = [
    "argument",
    "attribute",
    "class",
    "collection",
    "column",
    "command",
    "constraint",
    "function",
    "index",
    "into",
    "method",
    "module",
    "object",
    "package",
    "parameter",
    "procedure",
    "property",
    "reading",
    "setting",
    "table",
    "trigger",
    "variable",
    "view",
];

/// These may stand between the noun and the name: `module named 'x'`, `column name 'x'`.
const JOINTS: [&str; 3] = ["called", "name", "named"];

/// Values in parentheses are looked for this far; longer ones are read word by word.
const MAX_VALUES: usize = 512;

impl Lexer<'_> {
    /// Whether `content`, quoted here, names something that tells this failure from others.
    pub(super) fn is_identifying(&self, content: &str, after: &str) -> bool {
        is_identifier(content) && (is_type_of(after) || self.follows_noun())
    }

    fn follows_noun(&self) -> bool {
        let mut words = self.named_place().rsplit(' ').map(bare_word).filter(|word| !word.is_empty());
        let is_one_of = |word: Option<&str>, known: &[&str]| {
            word.is_some_and(|word| known.iter().any(|one| word.eq_ignore_ascii_case(one)))
        };
        let last = words.next();
        is_one_of(last, &NOUNS) || (is_one_of(last, &JOINTS) && is_one_of(words.next(), &NOUNS))
    }

    /// What was written before the name: without the parts in front of the last one in `"a"."b"."c"`.
    fn named_place(&self) -> &str {
        if !self.out.ends_with('.') {
            return &self.out;
        }
        self.out
            .trim_end_matches(|ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '_' | '.' | '<' | '>'))
    }

    /// `Key (a, b)=(1, x)`, `The duplicate key value is (1, x)`, `Failing row contains (1, x)`: databases print
    /// the values of a row in parentheses and without quotes.
    pub(super) fn values_in_parentheses(&mut self, end: usize) -> bool {
        let is_announced =
            [")=", " value is ", " row contains "].iter().any(|before| self.out.ends_with(before));
        let rest = self.text.as_bytes().get(self.at..end).unwrap_or_default();
        let closing = rest.iter().take(MAX_VALUES).position(|b| *b == b')').filter(|_| is_announced);
        let Some(closing) = closing.filter(|closing| *closing > 1) else { return false };
        self.out.push('(');
        self.replace("<str>", closing + 1);
        self.out.push(')');
        true
    }
}

/// `'Order' object has no attribute 'total'`: the first quotation is the type.
fn is_type_of(after: &str) -> bool {
    after.strip_prefix(" object").is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Letters, digits, `_` and single signs between them, not starting with a digit.
fn is_identifier(content: &str) -> bool {
    content.len() <= MAX_WORD
        && content.starts_with(|ch: char| ch.is_ascii_alphabetic() || ch == '_')
        && content.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'$'))
}

/// The word without the brackets and colons around it.
fn bare_word(word: &str) -> &str {
    word.trim_matches(|ch: char| !ch.is_ascii_alphanumeric())
}
