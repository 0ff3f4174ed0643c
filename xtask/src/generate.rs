//! `cargo xtask generate`: pages of docs/ that are written by code, so that they cannot drift from it.
//!
//! Owns the list of generated pages. Most are the standard output of an example program or of `backstop` itself; in the
//! page of rules only the lines about tests are generated, in that of guarantees only the tables. The check of
//! `cargo xtask test` compares, this command rewrites.

use std::fs;

use crate::error::{TaskError, only_names};
use crate::process::{CommandLine, build_folder, repository_root};
use crate::{guarantees, tidy};

/// A page and what writes it.
struct Page {
    path: &'static str,
    origin: Origin,
}

/// What writes a page.
enum Origin {
    /// An example program prints it.
    Example { name: &'static str, source: &'static str },
    /// The program `backstop` prints it.
    Backstop { arguments: &'static str, source: &'static str },
    /// People write it, and a function fills in the rest; nothing is compiled for it.
    Text(fn() -> Result<String, TaskError>),
}

/// All generated pages, the cheap ones first.
const PAGES: [Page; 5] = [
    Page { path: "docs/rules.md", origin: Origin::Text(tidy::rules_page) },
    Page { path: "docs/guarantees.md", origin: Origin::Text(guarantees::page) },
    Page {
        path: "docs/states.md",
        origin: Origin::Example { name: "states", source: "crates/core/examples/states.rs" },
    },
    Page {
        path: "docs/openapi.json",
        origin: Origin::Example { name: "openapi", source: "crates/server/examples/openapi.rs" },
    },
    Page {
        path: "docs/learn/configuration.md",
        origin: Origin::Backstop {
            arguments: "config reference",
            source: "crates/cli/src/config/reference.toml",
        },
    },
];

impl Page {
    fn print(&self) -> Result<String, TaskError> {
        match self.origin {
            Origin::Example { name, .. } => printed_by(&format!("examples/{name}"), ""),
            Origin::Backstop { arguments, .. } => printed_by("backstop", arguments),
            Origin::Text(fill) => fill(),
        }
    }

    fn stored(&self) -> Option<String> {
        fs::read_to_string(repository_root().join(self.path)).ok()
    }

    /// The file without which the page cannot be written; a page that is only filled in is its own.
    fn source(&self) -> &'static str {
        match self.origin {
            Origin::Example { source, .. } | Origin::Backstop { source, .. } => source,
            Origin::Text(_) => self.path,
        }
    }

    fn has_source(&self) -> bool {
        repository_root().join(self.source()).is_file()
    }

    fn write(&self) -> Result<(), TaskError> {
        if !self.has_source() {
            println!("{}: not written, there is no {}", self.path, self.source());
            return Ok(());
        }
        let text = self.print()?;
        if self.stored().as_deref() == Some(text.as_str()) {
            println!("{}: unchanged", self.path);
            return Ok(());
        }
        fs::write(repository_root().join(self.path), text)
            .map_err(|error| TaskError::Failed(format!("cannot write {}: {error}", self.path)))?;
        println!("{}: written", self.path);
        Ok(())
    }

    fn compare(&self) -> Result<(), TaskError> {
        match (self.has_source(), self.stored()) {
            (false, None) => {
                println!("   {}: nothing to compare, there is no {}", self.path, self.source());
                Ok(())
            }
            (false, Some(_)) => {
                Err(TaskError::Failed(format!("{} exists without its source {}", self.path, self.source())))
            }
            (true, stored) => match difference(&stored.unwrap_or_default(), &self.print()?) {
                Some(difference) => {
                    Err(TaskError::Failed(format!("{} is out of date: {difference}", self.path)))
                }
                None => Ok(()),
            },
        }
    }
}

/// What a program prints. It is built as the other steps of the whole check build it, so that it is compiled once.
fn printed_by(program: &str, arguments: &str) -> Result<String, TaskError> {
    CommandLine::new("cargo build --quiet --workspace --all-features --bins --examples").run()?;
    let program = build_folder().join("debug").join(program).display().to_string();
    let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
    CommandLine::of(&[program]).with(&words).output()
}

/// Rewrites the named pages that changed, or all of them; `--check` only compares.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    let (flags, names): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|word| word == "--check");
    only_names("generate", &names)?;
    let act = if flags.is_empty() { Page::write } else { Page::compare };
    chosen(&names)?.into_iter().try_for_each(act)
}

/// Fails when a page differs from what writes it.
pub(crate) fn check() -> Result<(), TaskError> {
    PAGES.iter().try_for_each(Page::compare)
}

/// The pages with these paths; without any, all pages.
fn chosen(names: &[String]) -> Result<Vec<&'static Page>, TaskError> {
    if let Some(name) = names.iter().find(|name| !PAGES.iter().any(|page| page.path == name.as_str())) {
        let paths = PAGES.each_ref().map(|page| page.path).join(", ");
        return Err(TaskError::Usage(format!("`{name}` is not a generated page; these are: {paths}")));
    }
    let is_chosen = |page: &&Page| names.is_empty() || names.iter().any(|name| name == page.path);
    Ok(PAGES.iter().filter(is_chosen).collect())
}

/// The first line in which two texts differ, or nothing when they are the same.
fn difference(stored: &str, printed: &str) -> Option<String> {
    if stored == printed {
        return None;
    }
    let (mut old, mut new) = (stored.lines(), printed.lines());
    for number in 1.. {
        match (old.next(), new.next()) {
            (None, None) => break,
            (before, after) if before == after => {}
            (before, after) => {
                let show = |line: Option<&str>| line.map_or("nothing".to_owned(), |text| format!("`{text}`"));
                return Some(format!("line {number} has {}, the code prints {}", show(before), show(after)));
            }
        }
    }
    Some("the line ends differ".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_chosen_by_their_paths() {
        let paths = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&names).map(|pages| pages.iter().map(|page| page.path).collect::<Vec<_>>())
        };
        assert_eq!(paths(&[]).unwrap().len(), PAGES.len());
        assert_eq!(paths(&["docs/rules.md"]).unwrap(), ["docs/rules.md"]);
        let Err(TaskError::Usage(text)) = paths(&["docs/rules.txt"]) else { panic!("it is not a page") };
        assert!(text.contains("docs/rules.txt") && text.contains("docs/states.md"), "{text}");
    }

    #[test]
    fn equal_texts_do_not_differ() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference("a\nb\n", "a\nc\n").unwrap(), "line 2 has `b`, the code prints `c`");
        assert_eq!(difference("a\n", "a\nc\n").unwrap(), "line 2 has nothing, the code prints `c`");
        assert_eq!(difference("a", "a\n").unwrap(), "the line ends differ");
    }
}
