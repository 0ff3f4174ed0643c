//! The files that the checks look at, and what a check says of them.

use std::fmt;
use std::fs;

use super::source::SourceFile;
use crate::error::TaskError;
use crate::process::{CommandLine, repository_root};

/// One thing to fix: where it is, what it is and what to do.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
}

impl Violation {
    pub(super) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
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
    pub(super) path: String,
    pub(super) text: String,
}

/// All files that the checks look at.
pub(crate) struct Tree<'a> {
    pub(super) files: &'a [TextFile],
    pub(super) sources: Vec<SourceFile<'a>>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(files: &'a [TextFile]) -> Self {
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

/// Reads tracked files and untracked ones that are not ignored; what is not text is left out.
pub(super) fn read_files() -> Result<Vec<TextFile>, TaskError> {
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
