//! `cargo xtask generate`: pages of docs/ that are written by code, so that they cannot drift from it.
//!
//! Owns the list of generated pages. Each is the standard output of an example program; the check of `cargo xtask
//! test` compares, this command rewrites.

use std::fs;

use crate::failure::{Failure, no_arguments};
use crate::process::{CommandLine, repository_root};

/// A page and the example program that prints it.
struct Page {
    path: &'static str,
    package: &'static str,
    example: &'static str,
    source: &'static str,
}

const PAGES: [Page; 2] = [
    Page {
        path: "docs/states.md",
        package: "backstop-core",
        example: "states",
        source: "crates/core/examples/states.rs",
    },
    Page {
        path: "docs/openapi.json",
        package: "backstop-server",
        example: "openapi",
        source: "crates/server/examples/openapi.rs",
    },
];

impl Page {
    fn print(&self) -> Result<String, Failure> {
        let line = format!("cargo run --quiet --package {} --example {}", self.package, self.example);
        CommandLine::new(&line).output()
    }

    fn stored(&self) -> Option<String> {
        fs::read_to_string(repository_root().join(self.path)).ok()
    }

    fn has_source(&self) -> bool {
        repository_root().join(self.source).is_file()
    }
}

/// Rewrites every page that changed; `--check` only compares.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments == ["--check"] {
        return check();
    }
    no_arguments("generate", arguments)?;
    for page in &PAGES {
        if !page.has_source() {
            println!("{}: not written, there is no {}", page.path, page.source);
            continue;
        }
        let text = page.print()?;
        if page.stored().as_deref() == Some(text.as_str()) {
            println!("{}: unchanged", page.path);
            continue;
        }
        fs::write(repository_root().join(page.path), text)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", page.path)))?;
        println!("{}: written", page.path);
    }
    Ok(())
}

/// Fails when a page differs from what its program prints.
pub(crate) fn check() -> Result<(), Failure> {
    for page in &PAGES {
        match (page.has_source(), page.stored()) {
            (false, None) => println!("   {}: nothing to compare, there is no {}", page.path, page.source),
            (false, Some(_)) => {
                return Err(Failure::Failed(format!(
                    "{} exists without its source {}",
                    page.path, page.source
                )));
            }
            (true, stored) => {
                if let Some(difference) = difference(&stored.unwrap_or_default(), &page.print()?) {
                    return Err(Failure::Failed(format!("{} is out of date: {difference}", page.path)));
                }
            }
        }
    }
    Ok(())
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
