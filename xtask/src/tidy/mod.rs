//! `cargo xtask tidy`: the house rules that a text check can hold, one file per family of checks.
//!
//! Owns the list of checks and the reading of the tree. A check sees all files at once and returns all its findings;
//! none stops the others, so that one run shows everything there is to fix.

mod banned;
mod layers;
mod lexer;
mod links;
mod manifest;
mod names;
mod pages;
mod phrases;
mod rules;
mod sizes;
mod source;
mod sql;
mod text;
mod unfinished;
mod words;

use std::fmt;
use std::fs;

use crate::error::{TaskError, no_arguments};
use crate::process::{CommandLine, repository_root};
use source::SourceFile;

/// A family of checks: all its findings in the whole tree.
type Check = fn(&Tree<'_>) -> Vec<Violation>;

/// All checks, in the order of the page of house rules.
const CHECKS: [Check; 12] = [
    layers::check,
    sizes::check,
    names::check,
    words::check,
    text::check,
    unfinished::check,
    banned::check,
    sql::check,
    links::check,
    pages::check,
    phrases::check,
    rules::check,
];

/// One thing to fix: where it is, what it is and what to do.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the repository; the path is relative to its root.
pub(crate) struct TextFile {
    path: String,
    text: String,
}

/// All files that the checks look at.
pub(crate) struct Tree<'a> {
    files: &'a [TextFile],
    sources: Vec<SourceFile<'a>>,
}

impl<'a> Tree<'a> {
    fn new(files: &'a [TextFile]) -> Self {
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        let mut sources: Vec<SourceFile<'a>> =
            rust.map(|file| SourceFile::new(&file.path, &file.text)).collect();
        let stems: Vec<String> = sources
            .iter()
            .flat_map(|source| source.test_modules.iter().map(|name| source.module_stem(name)))
            .collect();
        for source in &mut sources {
            let inside = |stem: &String| {
                source
                    .path
                    .strip_prefix(stem.as_str())
                    .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            source.test_file |= stems.iter().any(inside);
        }
        Self { files, sources }
    }
}

/// The command: no arguments, all checks.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    no_arguments("tidy", arguments)?;
    check()
}

/// Runs all checks over the files that git knows or would know.
pub(crate) fn check() -> Result<(), TaskError> {
    let files = read_files()?;
    let tree = Tree::new(&files);
    let mut findings: Vec<Violation> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, no findings", files.len());
            Ok(())
        }
        count => Err(TaskError::Failed(format!("tidy has {count} findings in {} files", files.len()))),
    }
}

/// The page of rules with the tests that name them now.
pub(crate) fn rules_page() -> Result<String, TaskError> {
    let missing = || TaskError::Failed(format!("{} is missing; restore it", rules::PAGE));
    rules::filled(&Tree::new(&read_files()?)).ok_or_else(missing)
}

/// Reads tracked files and untracked ones that are not ignored; what is not text is left out.
fn read_files() -> Result<Vec<TextFile>, TaskError> {
    let listed = CommandLine::new("git ls-files --cached --others --exclude-standard -z").output()?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let root = repository_root();
    let mut files = Vec::new();
    for path in paths {
        // A tracked file that was deleted and not yet committed is listed too; links have no text of their own.
        let is_file = root.join(path).symlink_metadata().is_ok_and(|data| data.is_file());
        if !is_file {
            continue;
        }
        let bytes = fs::read(root.join(path))
            .map_err(|error| TaskError::Failed(format!("cannot read {path}: {error}")))?;
        // Binary files stay in the list, empty, so that links to them resolve.
        let text = String::from_utf8(bytes).unwrap_or_default();
        files.push(TextFile { path: path.to_owned(), text });
    }
    Ok(files)
}

/// What one check finds in the given files, as it is printed.
#[cfg(test)]
fn found(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<TextFile> = files
        .iter()
        .map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() })
        .collect();
    check(&Tree::new(&files)).iter().map(Violation::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_declared_for_tests_makes_its_files_test_code() {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("a/src/lib.rs", "#[cfg(test)]\nmod cases;\nmod real;"),
            file("a/src/cases.rs", ""),
            file("a/src/cases/more.rs", ""),
            file("a/src/cases_of_law.rs", ""),
            file("a/src/real.rs", ""),
        ];
        let tree = Tree::new(&files);
        let tests: Vec<&str> = tree.sources.iter().filter(|s| s.test_file).map(|s| s.path).collect();
        assert_eq!(tests, ["a/src/cases.rs", "a/src/cases/more.rs"]);
    }
}
