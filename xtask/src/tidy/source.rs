//! A Rust file as the checks see it: its tokens, its comments, the paths it names, and which lines are test code.

use std::ops::RangeInclusive;

use super::lexer::{SourceComment, SourceToken, TokenKind, lex};

/// A Rust file taken apart.
pub(crate) struct SourceFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    pub(crate) tokens: Vec<SourceToken<'a>>,
    pub(crate) comments: Vec<SourceComment<'a>>,
    /// Modules `m` that this file declares as `#[cfg(test)] mod m;`.
    pub(crate) test_modules: Vec<&'a str>,
    /// The whole file is test code.
    pub(crate) test_file: bool,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl<'a> SourceFile<'a> {
    /// Takes a file apart; `path` is relative to the repository with forward slashes.
    pub(crate) fn new(path: &'a str, text: &'a str) -> Self {
        let lexed = lex(text);
        let mut source = Self {
            path,
            text,
            tokens: lexed.tokens,
            comments: lexed.comments,
            test_modules: Vec::new(),
            test_file: is_test_path(path),
            test_lines: Vec::new(),
        };
        source.find_test_code();
        source
    }

    /// Whether the line belongs to a test: the file is one, or it stands inside a `#[cfg(test)]` item.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test_file || self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// The files in which `mod name;` of this file may live, without their last `.rs` or `/mod.rs`.
    pub(crate) fn module_stem(&self, name: &str) -> String {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", self.path));
        match file.strip_suffix(".rs") {
            Some("mod" | "lib" | "main") | None => format!("{folder}/{name}"),
            Some(stem) => format!("{folder}/{stem}/{name}"),
        }
    }

    /// Every path that the file names, with the groups of `use` spelled out: `use a::{b, c::d}` gives a::b and a::c::d.
    pub(crate) fn paths(&self) -> Vec<NamePath<'a>> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            at = if self.tokens[at].kind == TokenKind::Word {
                path_tree(&self.tokens, at, &[], &mut paths)
            } else {
                at + 1
            };
        }
        paths
    }

    fn find_test_code(&mut self) {
        for at in 0..self.tokens.len() {
            let Some((inner, after)) = test_attribute(&self.tokens, at) else { continue };
            if inner {
                self.test_file = true;
                return;
            }
            let Some(end) = item_end(&self.tokens, after) else { continue };
            if self.tokens[end].is(";") {
                if end >= 2 && self.tokens[end - 2].is("mod") {
                    self.test_modules.push(self.tokens[end - 1].text);
                }
            } else {
                let close = closing(&self.tokens, end);
                self.test_lines.push(self.tokens[at].line..=self.tokens[close].line);
            }
        }
    }
}

/// A path such as `std::time::Instant`, at least one segment long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamePath<'a> {
    pub(crate) segments: Vec<&'a str>,
    pub(crate) line: usize,
    /// The place of the token after it.
    pub(crate) end: usize,
}

/// Reads one path, or one tree of paths, that begins at `at`; returns the place after it.
fn path_tree<'a>(
    tokens: &[SourceToken<'a>],
    mut at: usize,
    prefix: &[&'a str],
    out: &mut Vec<NamePath<'a>>,
) -> usize {
    let mut segments = prefix.to_vec();
    let mut line = tokens[at].line;
    while let Some(token) = tokens.get(at) {
        let in_path = segments.len() == prefix.len() || tokens[at - 1].is("::");
        if token.kind == TokenKind::Word && in_path {
            line = token.line;
            segments.push(token.text);
            at += 1;
        } else if token.is("::") && tokens.get(at + 1).is_some_and(|next| next.is("{")) {
            return path_group(tokens, at + 2, &segments, out);
        } else if token.is("::") {
            at += 1;
        } else {
            break;
        }
    }
    out.push(NamePath { segments, line, end: at });
    at
}

fn path_group<'a>(
    tokens: &[SourceToken<'a>],
    mut at: usize,
    prefix: &[&'a str],
    out: &mut Vec<NamePath<'a>>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        if token.is("}") {
            return at + 1;
        }
        at = if token.kind == TokenKind::Word { path_tree(tokens, at, prefix, out) } else { at + 1 };
    }
    at
}

/// Recognizes `#[cfg(… test …)]` at `at`: whether it is an inner attribute, and the place after it.
fn test_attribute(tokens: &[SourceToken<'_>], at: usize) -> Option<(bool, usize)> {
    let inner = tokens.get(at + 1)?.is("!");
    let open = at + 1 + usize::from(inner);
    if !(tokens[at].is("#") && tokens.get(open)?.is("[") && tokens.get(open + 1)?.is("cfg")) {
        return None;
    }
    let close = closing(tokens, open);
    let words = &tokens[open..close];
    let tests = words.iter().any(|token| token.is("test")) && !words.iter().any(|token| token.is("not"));
    tests.then_some((inner, close + 1))
}

/// The `{` or `;` that ends the head of an item, stepping over attributes, arguments and arrays.
pub(crate) fn item_end(tokens: &[SourceToken<'_>], mut at: usize) -> Option<usize> {
    while let Some(token) = tokens.get(at) {
        if token.is(";") {
            return Some(at);
        } else if token.is("{") {
            // `<{ N }>` is an argument of a type, not a body.
            if !tokens[at - 1].is("<") {
                return Some(at);
            }
            at = closing(tokens, at);
        } else if token.is("(") || token.is("[") {
            at = closing(tokens, at);
        } else if token.is("}") || token.is(")") || token.is("]") {
            return None;
        }
        at += 1;
    }
    None
}

/// The place of the sign that closes the bracket at `open`, or the last token when none does.
pub(crate) fn closing(tokens: &[SourceToken<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.kind != TokenKind::Sign {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

/// Whether a file is test code by its place or name.
pub(crate) fn is_test_path(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let in_folder = path.starts_with("tests/") || path.contains("/tests/");
    in_folder || file == "tests.rs" || file.ends_with("_test.rs") || file.ends_with("_tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        SourceFile::new("a.rs", text).paths().iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn groups_are_spelled_out() {
        let text = "use std::{fs, time::{Instant, SystemTime as Clock}, env::*};";
        let found = paths(text);
        for path in ["std::fs", "std::time::Instant", "std::time::SystemTime", "std::env"] {
            assert!(found.iter().any(|other| other == path), "{path} is not in {found:?}");
        }
    }

    #[test]
    fn a_path_ends_where_it_ends() {
        assert_eq!(paths("let x = a::b(c) + d::<e>::f;"), ["let", "x", "a::b", "c", "d", "e", "f"]);
    }

    #[test]
    fn test_items_are_found() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n";
        let source = SourceFile::new("src/a.rs", text);
        let tests: Vec<usize> = (1..=7).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [2, 3, 4, 5, 6]);
    }

    #[test]
    fn test_modules_in_other_files_are_named() {
        let source = SourceFile::new("src/a.rs", "#[cfg(test)]\nmod cases;\n#[cfg(not(test))]\nmod real;");
        assert_eq!(source.test_modules, ["cases"]);
        assert_eq!(source.module_stem("cases"), "src/a/cases");
        assert_eq!(SourceFile::new("src/lib.rs", "").module_stem("cases"), "src/cases");
    }

    #[test]
    fn test_files_are_known_by_name() {
        assert!(
            ["tests/a.rs", "crates/x/tests/a.rs", "src/tests.rs", "src/a_test.rs"]
                .iter()
                .all(|p| is_test_path(p))
        );
        assert!(!is_test_path("crates/testing/src/lib.rs"));
        assert!(SourceFile::new("src/a.rs", "#![cfg(test)]\nfn a() {}").is_test(2));
    }
}
