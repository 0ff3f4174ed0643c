//! `cargo xtask torture`: the campaigns and property tests of `cargo xtask test`, for hours instead of seconds.
//!
//! The tests read BACKSTOP_TORTURE themselves and raise their number of rounds; nothing runs here that the short form
//! does not run too.

use crate::error::{TaskError, only_names};
use crate::generate;
use crate::process::CommandLine;
use crate::steps::{self, CheckStep};
use crate::test::has_nextest;

/// The variable that asks tests for their long form.
const LONG_FORM: &str = "BACKSTOP_TORTURE";

/// The page that tells what was found.
const GUARANTEES: &str = "docs/guarantees.md";

const PACKAGES: &str = "--package backstop-chaos --package backstop --package backstop-sqlite \
    --package backstop-postgres --package backstop-mysql --package backstop-store --package backstop-core";

/// Runs the long form of every campaign and property test, or of those whose name contains a given word.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    only_names("torture", arguments)?;
    let binaries =
        "cargo build --release --all-features --bins --package backstop-cli --package backstop-chaos";
    steps::run(&[
        CheckStep::commands("binaries", vec![CommandLine::new(binaries)]),
        CheckStep::servers(),
        CheckStep::commands("torture", vec![tests(arguments, has_nextest())]).with_servers(),
        // The crash matrix has kept what it found.
        CheckStep::call(
            "guarantees",
            || generate::run(&[GUARANTEES.to_owned()]),
            "cargo xtask generate docs/guarantees.md",
        ),
    ])
}

fn tests(names: &[String], nextest: bool) -> CommandLine {
    let line = if nextest {
        CommandLine::new(&format!("cargo nextest run --release --all-features --profile torture {PACKAGES}"))
    } else {
        let targets = "--lib --bins --tests --no-fail-fast";
        CommandLine::new(&format!(
            "cargo test --release --all-features {PACKAGES} {targets} -- --test-threads=1"
        ))
    };
    line.with(names).variable(LONG_FORM, "1")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tests_are_told_to_take_their_long_form() {
        for nextest in [true, false] {
            let line = super::tests(&["kill".to_owned()], nextest).to_string();
            assert!(line.starts_with("BACKSTOP_TORTURE=1 cargo ") && line.ends_with(" kill"), "{line}");
            assert!(line.contains("--release") && line.contains("--package backstop-chaos"), "{line}");
        }
    }
}
