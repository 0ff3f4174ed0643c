//! `cargo xtask tidy`: the house rules that a text check can hold, one file per family of checks.
//!
//! Owns the list of checks. A check sees all files at once and returns all its findings;
//! none stops the others, so that one run shows everything there is to fix.

mod banned;
mod cycles;
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
mod tree;
mod unfinished;
mod words;

use crate::error::{TaskError, no_arguments};
use tree::{TextFile, Tree, Violation, read_files};

/// A family of checks: all its findings in the whole tree.
type Check = fn(&Tree<'_>) -> Vec<Violation>;

/// All checks, in the order of the page of house rules.
const CHECKS: [Check; 13] = [
    layers::check,
    cycles::check,
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

/// What one check finds in the given files, as it is printed.
#[cfg(test)]
fn found(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<TextFile> = files
        .iter()
        .map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() })
        .collect();
    check(&Tree::new(&files)).iter().map(Violation::to_string).collect()
}
