//! Nothing unfinished and nothing switched off goes in.

use super::source::SourceFile;
use super::{Tree, Violation};

/// Marks of work that was put off; an issue or nothing.
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Macros that stand for missing code.
const STUBS: [&str; 2] = ["todo", "unimplemented"];

/// Marks in comments, stubs in code, tests that are switched off.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let rust = tree.sources.iter().flat_map(|source| {
        let comments =
            source.comments.iter().filter_map(|comment| mark(source.path, comment.line, comment.text));
        comments.chain(stubs(source)).chain(ignored(source)).collect::<Vec<_>>()
    });
    let scripts = tree.files.iter().filter(|file| is_script(&file.path)).flat_map(|file| {
        file.text.lines().enumerate().filter_map(|(index, line)| mark(&file.path, index + 1, line))
    });
    rust.chain(scripts).collect()
}

fn is_script(path: &str) -> bool {
    [".toml", ".sh", ".sql", ".yml", ".yaml"].iter().any(|end| path.ends_with(end))
        || path.starts_with(".ci/")
}

fn mark(path: &str, line: usize, text: &str) -> Option<Violation> {
    let found = MARKS.iter().find(|mark| has_word(text, mark))?;
    Some(Violation::new(
        path,
        line,
        format!("{found} in a comment; do it now, or open an issue and remove the mark"),
    ))
}

/// Whether the word stands alone in the text; a quoted `word` is talked about, not meant.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let joins = |c: char| c.is_alphanumeric() || c == '_';
        !before.is_some_and(|c| joins(c) || c == '`') && !after.is_some_and(joins)
    })
}

fn stubs(source: &SourceFile<'_>) -> Vec<Violation> {
    let calls = source.tokens.windows(3).filter(|three| three[1].is("!") && !three[2].is("="));
    let stubs = calls.filter(|three| STUBS.iter().any(|stub| three[0].is(stub)));
    stubs
        .map(|three| {
            let text =
                format!("`{}!` stands for missing code; write it or leave the function out", three[0].text);
            Violation::new(source.path, three[0].line, text)
        })
        .collect()
}

fn ignored(source: &SourceFile<'_>) -> Vec<Violation> {
    let attributes = source.tokens.windows(3).filter(|three| three[0].is("#") && three[1].is("["));
    attributes
        .filter(|three| three[2].is("ignore"))
        .map(|three| {
            let text = "`#[ignore]` switches a test off; make it pass or delete it";
            Violation::new(source.path, three[0].line, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn words_inside_strings_names_and_quotes_pass() {
        let text = "// No `TODO` here, TODOS neither.\nlet todo = \"todo!() TODO\"; // TODO_LIST\nlet x = todo != y;\n";
        assert!(found(check, &[("a.rs", text)]).is_empty());
    }

    #[test]
    fn marks_stubs_and_ignored_tests_are_found() {
        let text =
            "/// FIXME: later\nfn a() { todo!() }\n#[ignore = \"slow\"]\nfn b() { unimplemented!(\"x\") }\n";
        let findings = found(check, &[("a.rs", text), ("b.toml", "x = 1 # TODO\n")]);
        let places: Vec<String> =
            findings.iter().map(|text| text.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")).collect();
        assert_eq!(places, ["a.rs:1", "a.rs:2", "a.rs:4", "a.rs:3", "b.toml:1"]);
    }
}
