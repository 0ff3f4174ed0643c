//! One word, one thing: a type name means one thing, is made of words that people know, and none of them is a metaphor.
//!
//! Looks at types that are seen outside of their file. The dictionary is the glossary; what every engineer knows from
//! Rust, SQL, HTTP and queues stands in [`plain`].

mod plain;

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{SourceToken, TokenKind};
use super::source::SourceFile;
use super::{Tree, Violation};

const GLOSSARY: &str = "docs/glossary.md";

/// Jobs that stand for those of users: their words are their own.
const EXAMPLES: [&str; 2] = ["examples/", "crates/cli/src/demo/jobs.rs"];

/// Crates that hold the same files: what stands in the same file of each is one idea.
const SIBLINGS: [&str; 3] = ["crates/mysql/src/", "crates/postgres/src/", "crates/sqlite/src/"];

/// Names that mean the same wherever they are defined, and what that is.
const SAME: [(&str, &str); 2] = [
    ("Error", "what a crate's own calls fail with"),
    ("Work", "the job that every contender of the benchmark runs"),
];

/// Metaphors that cost every reader a lookup, and the word to use; refused in every name.
const METAPHORS: [(&str, &str); 9] = [
    ("circle", "audience"),
    ("desk", "working set"),
    ("glance", "summary"),
    ("grip", "claim row"),
    ("papers", "provenance"),
    ("seat", "permit"),
    ("sheet", "page"),
    ("shelf", "range"),
    ("sketch", "row"),
];

/// Words that are plain in a variable and say nothing as the name of a type or a file.
const VAGUE: [(&str, &str); 4] =
    [("flight", "open"), ("hands", "cache"), ("turns", "commit order"), ("unit", "transaction")];

/// A type that is seen outside of its file.
struct NamedType<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
}

/// Names with two meanings, words that nobody has explained, and metaphors.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let types: Vec<NamedType<'_>> = tree.sources.iter().flat_map(named_types).collect();
    let glossary = tree.files.iter().find(|file| file.path == GLOSSARY);
    let known = known_words(glossary.map_or("", |file| &file.text));
    let mut findings = twice(&types);
    findings.extend(types.iter().filter_map(|named| unexplained(named, &known)));
    for source in tree.sources.iter() {
        findings.extend(metaphors(source));
    }
    findings
}

/// The types of a file that are `pub` or visible to their crate or module.
fn named_types<'a>(source: &SourceFile<'a>) -> Vec<NamedType<'a>> {
    let tokens = &source.tokens;
    let mut types = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if !token.is("pub") || source.is_test(token.line) {
            continue;
        }
        let after = if tokens.get(at + 1).is_some_and(|next| next.is("(")) {
            super::source::closing(tokens, at + 1) + 1
        } else {
            at + 1
        };
        let defines = |token: &SourceToken<'_>| {
            ["struct", "enum", "trait", "type", "union"].iter().any(|word| token.is(word))
        };
        if let (Some(keyword), Some(name)) = (tokens.get(after), tokens.get(after + 1))
            && defines(keyword)
            && name.kind == TokenKind::Word
        {
            types.push(NamedType { path: source.path, line: name.line, name: name.text });
        }
    }
    types
}

/// Names that are defined in several places and not declared to mean the same.
fn twice(types: &[NamedType<'_>]) -> Vec<Violation> {
    let mut places: BTreeMap<&str, Vec<&NamedType<'_>>> = BTreeMap::new();
    for named in types.iter().filter(|named| !SAME.iter().any(|(name, _)| *name == named.name)) {
        places.entry(named.name).or_default().push(named);
    }
    let several = places.into_values().filter(|found| {
        let homes: BTreeSet<(&str, usize)> = found.iter().map(|named| home(named)).collect();
        homes.len() > 1
    });
    let told = |named: &NamedType<'_>, others: &[&NamedType<'_>]| {
        let other = others.iter().find(|other| home(other) != home(named)).map_or("", |other| other.path);
        let text = format!(
            "the type `{}` is also defined in {other}; name each by what it is, or declare that they mean the same",
            named.name
        );
        Violation::new(named.path, named.line, text)
    };
    several.flat_map(|found| found.iter().map(|named| told(named, &found)).collect::<Vec<_>>()).collect()
}

/// Where an idea is at home: the file, which sibling crates share.
fn home<'a>(named: &NamedType<'a>) -> (&'a str, usize) {
    let shared = SIBLINGS.iter().find_map(|folder| named.path.strip_prefix(folder));
    shared.map_or((named.path, named.line), |file| (file, 0))
}

fn unexplained(named: &NamedType<'_>, known: &BTreeSet<String>) -> Option<Violation> {
    if EXAMPLES.iter().any(|path| named.path.starts_with(path)) {
        return None;
    }
    let is_known = |word: &String| stems(word).iter().any(|stem| known.contains(stem));
    let word = words(named.name).into_iter().find(|word| !is_known(word))?;
    let text = format!(
        "`{word}` in `{}` is neither in {GLOSSARY} nor a plain word; use one that is, or explain it there",
        named.name
    );
    Some(Violation::new(named.path, named.line, text))
}

/// Metaphors in the names of a file: its own and those in it.
fn metaphors(source: &SourceFile<'_>) -> Vec<Violation> {
    let mut findings = Vec::new();
    let file = source.path.rsplit('/').next().unwrap_or(source.path).trim_end_matches(".rs");
    if let Some(text) = refused(file, METAPHORS.iter().chain(&VAGUE)) {
        findings.push(Violation::new(source.path, 1, text));
    }
    let names = source.tokens.iter().filter(|token| token.kind == TokenKind::Word);
    let mut seen = BTreeSet::new();
    for token in names.filter(|token| !source.is_test(token.line)) {
        if seen.insert(token.text)
            && let Some(text) = refused(token.text, METAPHORS.iter())
        {
            findings.push(Violation::new(source.path, token.line, text));
        }
    }
    for named in named_types(source) {
        if let Some(text) = refused(named.name, VAGUE.iter()) {
            findings.push(Violation::new(source.path, named.line, text));
        }
    }
    findings
}

fn refused<'l>(name: &str, mut list: impl Iterator<Item = &'l (&'l str, &'l str)>) -> Option<String> {
    let words = words(name);
    let (word, instead) = list.find(|(metaphor, _)| words.iter().any(|word| is_form_of(word, metaphor)))?;
    Some(format!("`{word}` in `{name}` makes readers look it up; say `{instead}`"))
}

/// True for a word and its plural.
fn is_form_of(word: &str, base: &str) -> bool {
    word == base || word.strip_suffix('s') == Some(base) || (base == "shelf" && word == "shelves")
}

/// The words of a name, in small letters: `JobIdPrefix`, `job_id_prefix` and `JOB_ID_PREFIX` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut after_small = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && after_small) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        after_small = letter.is_lowercase() || letter.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Plain words, and every word that the first column of the glossary's tables explains, with their stems.
fn known_words(glossary: &str) -> BTreeSet<String> {
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    // `re-drive` is one word in a type, and `dead letter` is two.
    let cells: Vec<String> = rows.map(|cell| cell.replace('-', "").to_lowercase()).collect();
    let explained = cells.iter().flat_map(|cell| cell.split(|letter: char| !letter.is_ascii_alphabetic()));
    let plain = plain::WORDS.iter().flat_map(|words| words.split_whitespace());
    explained.chain(plain).filter(|word| !word.is_empty()).flat_map(stems).collect()
}

/// A word and what it may be a form of: `retries` of `retry`, `submitted` of `submit`, `unread` of `read`.
fn stems(word: &str) -> Vec<String> {
    const ENDINGS: [&str; 9] = ["s", "es", "d", "ed", "r", "er", "ing", "able", "ment"];
    let mut stems = vec![word.to_owned()];
    if let Some(rest) = word.strip_prefix("un").filter(|rest| rest.len() > 3) {
        stems.extend(self::stems(rest));
    }
    for stem in ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending)).filter(|stem| stem.len() > 1) {
        stems.push(stem.to_owned());
        stems.push(format!("{stem}e"));
        let mut letters = stem.chars().rev();
        if letters.next() == letters.next() {
            stems.push(stem[..stem.len() - 1].to_owned());
        }
        if let Some(short) = stem.strip_suffix('i') {
            stems.push(format!("{short}y"));
        }
    }
    stems
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const WORDS: (&str, &str) =
        (GLOSSARY, "| word | meaning |\n|---|---|\n| dead letter | x |\n| retry | x |\n");

    fn check_file(path: &str, text: &str) -> Vec<String> {
        found(check, &[WORDS, (path, text)])
    }

    #[test]
    fn names_are_taken_apart() {
        for (name, expected) in [
            ("JobIdPrefix", &["job", "id", "prefix"][..]),
            ("in_flight", &["in", "flight"]),
            ("MAX_SEATS", &["max", "seats"]),
            ("Http2Stream", &["http2", "stream"]),
            ("_seat", &["seat"]),
        ] {
            assert_eq!(words(name), expected, "{name}");
        }
    }

    #[test]
    fn forms_of_a_word_are_known_by_it() {
        for (word, stem) in [
            ("retries", "retry"),
            ("submitted", "submit"),
            ("purged", "purge"),
            ("claiming", "claim"),
            ("claimable", "claim"),
            ("worker", "work"),
            ("unclaimable", "claim"),
            ("ids", "id"),
        ] {
            assert!(stems(word).contains(&stem.to_owned()), "{word}: {:?}", stems(word));
        }
        assert!(!stems("ring").contains(&"r".to_owned()));
    }

    #[test]
    fn words_of_the_glossary_and_plain_words_pass() {
        let text = "pub struct DeadLetterError;\npub(crate) enum RetriesRow {}\nstruct Whatever;\n";
        assert_eq!(check_file("crates/x/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn other_words_are_found_outside_of_tests_and_examples() {
        let text = "pub(super) struct RetryBaobab;\n#[cfg(test)]\nmod tests {\n    pub struct Teapot;\n}\n";
        assert_eq!(
            check_file("crates/x/src/a.rs", text),
            [
                "crates/x/src/a.rs:1: `baobab` in `RetryBaobab` is neither in docs/glossary.md nor a plain word; use \
              one that is, or explain it there"
            ]
        );
        assert_eq!(check_file("examples/src/a.rs", text), [""; 0]);
        assert_eq!(check_file("crates/x/tests/a.rs", text), [""; 0]);
    }

    #[test]
    fn one_name_is_one_type() {
        let here = |path: &'static str| (path, "pub struct Retry;\n");
        let findings = found(check, &[WORDS, here("crates/x/src/a.rs"), here("crates/y/src/a.rs")]);
        assert_eq!(findings.len(), 2);
        assert!(
            findings[0]
                .starts_with("crates/x/src/a.rs:1: the type `Retry` is also defined in crates/y/src/a.rs")
        );
        let errors =
            [("crates/x/src/a.rs", "pub enum Error {}\n"), ("crates/y/src/a.rs", "pub enum Error {}\n")];
        assert_eq!(found(check, &errors), [""; 0]);
    }

    #[test]
    fn the_same_file_of_sibling_crates_holds_the_same_idea() {
        let named = |path| NamedType { path, line: 7, name: "Row" };
        let (mysql, postgres) = (named("crates/mysql/src/rows.rs"), named("crates/postgres/src/rows.rs"));
        assert_eq!(twice(&[mysql, postgres]).len(), 0);
        let (mysql, postgres) = (named("crates/mysql/src/rows.rs"), named("crates/postgres/src/values.rs"));
        assert_eq!(twice(&[mysql, postgres]).len(), 2);
    }

    #[test]
    fn metaphors_are_refused_in_every_name() {
        for (path, text, expected) in [
            ("crates/x/src/a.rs", "fn f() {\n    let shelves = 1;\n}\n", Some("`shelf` in `shelves`")),
            ("crates/x/src/a.rs", "pub struct RetryTurns;\n", Some("`turns` in `RetryTurns`")),
            ("crates/x/src/a.rs", "fn f(in_flight: u8) {}\n", None),
            ("crates/x/src/a.rs", "fn f(sheets: u8) {}\n", Some("`sheet` in `sheets`")),
            ("crates/x/src/hands.rs", "", Some("`hands` in `hands`")),
            ("crates/x/src/a.rs", "// a desk\nconst A: &str = \"desk\";\n", None),
        ] {
            let findings = check_file(path, text);
            match expected {
                Some(start) => assert!(findings.iter().any(|it| it.contains(start)), "{text}: {findings:?}"),
                None => assert_eq!(findings, [""; 0], "{text}"),
            }
        }
    }
}
