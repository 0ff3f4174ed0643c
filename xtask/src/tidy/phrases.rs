//! English as a native engineer would write it, in what people read: texts of the program, and pages.
//!
//! A list of phrases that crept in, each with what to write instead. What stands in comments is for us, and is left to
//! readers; tests may quote what they like.

use super::lexer::TokenKind;
use super::{Tree, Violation};

/// Phrases, in small letters, and what to write instead.
const PHRASES: [(&str, &str); 39] = [
    ("is no json", "is not valid JSON"),
    ("is no utf-8", "is not valid UTF-8"),
    ("is no url", "is not a URL"),
    ("is no text", "is not text"),
    ("is no number", "is not a number"),
    ("is no name of", "is not a name of"),
    ("is no next_cursor", "is not a next_cursor"),
    ("it is no ", "it is not a"),
    ("has not the form", "does not have the form"),
    ("are no jobs", "are not jobs"),
    ("are no keys", "are not keys"),
    ("` is no failure", "is not a failure"),
    ("since long", "for a long time"),
    ("it makes no sense", "say what is wrong"),
    ("called off", "canceled"),
    ("for the moment", "at the moment"),
    ("without blame", "uncharged"),
    (" anew", "again"),
    ("in clear ", "in the clear"),
    ("in clear,", "in the clear"),
    ("in clear.", "in the clear"),
    ("small letters", "lowercase letters"),
    ("white space", "whitespace"),
    ("is away", "is unavailable"),
    ("was away", "was unavailable"),
    ("there already", "already exists"),
    ("once too often", "too many times"),
    ("this often already", "already this often"),
    ("known are", "use one of"),
    ("unless told", "by default"),
    ("are others.", "will differ"),
    ("list of texts", "list of strings"),
    (" mended", "fixed"),
    (" mend ", "fix"),
    ("are borne", "are tolerated"),
    ("is no part of", "is not part of"),
    ("are no part of", "are not part of"),
    ("which is no failure", "which is not a failure"),
    ("going down", "shutting down"),
];

/// Where a phrase may stand: a migration keeps the words with which databases were made.
const KEPT: [&str; 2] = ["crates/postgres/src/schema/function.rs", "xtask/src/tidy/phrases.rs"];

/// Phrases that no native would write.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let texts = tree.sources.iter().filter(|source| !KEPT.contains(&source.path)).flat_map(|source| {
        let texts =
            source.tokens.iter().filter(|token| token.kind == TokenKind::Text && !source.is_test(token.line));
        texts.filter_map(|token| found(source.path, token.line, token.text))
    });
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md")).flat_map(|file| {
        file.text.lines().enumerate().filter_map(|(index, line)| found(&file.path, index + 1, line))
    });
    texts.chain(pages).collect()
}

fn found(path: &str, line: usize, text: &str) -> Option<Violation> {
    let small = text.to_lowercase();
    let (phrase, instead) = PHRASES.iter().find(|(phrase, _)| small.contains(phrase))?;
    Some(Violation::new(path, line, format!("`{phrase}` is not how people write; say `{instead}`")))
}

#[cfg(test)]
mod tests {
    use super::super::found as findings_of;
    use super::*;

    #[test]
    fn phrases_are_found_in_texts_and_pages_and_not_in_comments_or_tests() {
        let code = "// it is no JSON\nfn f() {\n    say(\"It is no JSON: {}\");\n}\n#[cfg(test)]\nmod tests {\n    \
                    const A: &str = \"is no url\";\n}\n";
        let findings =
            findings_of(check, &[("crates/x/src/a.rs", code), ("docs/a.md", "x\nThat is no URL.\n")]);
        assert_eq!(
            findings,
            [
                "crates/x/src/a.rs:3: `is no json` is not how people write; say `is not valid JSON`",
                "docs/a.md:2: `is no url` is not how people write; say `is not a URL`",
            ]
        );
    }
}
