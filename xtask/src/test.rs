//! `cargo xtask test`: the whole check that a newcomer and CI run, in one fixed order.
//!
//! Owns the order of the steps and their command lines. All steps build with the same features, so that the parts of
//! the workspace are compiled once and not once per step.

use crate::error::{TaskError, only_names};
use crate::process::CommandLine;
use crate::steps::{self, CheckStep};
use crate::{generate, page, setup, starved, tidy};

/// The package whose tests start and kill real processes: one at a time, or they disturb each other.
const CAMPAIGNS: &str = "backstop-chaos";

/// Runs the tests of the workspace; what narrows them down follows.
pub(crate) const NEXTEST: &str = "cargo nextest run --workspace --all-features";

/// Runs every step; filters narrow the tests, `--quick` leaves out what rarely fails and takes long.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    let (flags, filters): (Vec<String>, Vec<String>) =
        arguments.iter().cloned().partition(|word| word == "--quick");
    only_names("test", &filters)?;
    let nextest = has_nextest();
    if !nextest {
        println!(
            "cargo-nextest is not installed: falling back to `cargo test`, without time limits per test"
        );
    }
    steps::run(&plan(&filters, !flags.is_empty(), nextest))
}

/// Whether `cargo nextest` can be called.
pub(crate) fn has_nextest() -> bool {
    CommandLine::new("cargo nextest --version").succeeds()
}

fn plan(filters: &[String], quick: bool, nextest: bool) -> Vec<CheckStep> {
    let mut steps = vec![
        CheckStep::call("machine", setup::machine, "cargo xtask test"),
        CheckStep::commands("fmt", vec![CommandLine::new("cargo fmt --all --check")])
            .mended_by("cargo fmt --all"),
        CheckStep::call("tidy", tidy::check, "cargo xtask tidy"),
        CheckStep::call("generated docs", generate::check, "cargo xtask generate --check")
            .mended_by("cargo xtask generate"),
        unless(quick, "clippy", vec![clippy()]),
        unless(quick, "as installed", as_installed()),
        CheckStep::commands(
            "binaries",
            vec![CommandLine::new("cargo build --workspace --all-features --bins --examples")],
        ),
    ];
    steps.push(CheckStep::servers());
    let lines = if nextest { nextest_lines(filters) } else { plain_lines(filters) };
    let tests = CheckStep::commands("tests", lines).with_servers();
    steps.push(if nextest { tests.tried_again_by(starved::failed_tests_again) } else { tests });
    // Like the long checks it is left out of a quick run, and of one that asks for tests by name.
    steps.push(match quick || !filters.is_empty() {
        true => CheckStep::left_out("page", "left out by --quick or by names of tests"),
        false => CheckStep::call("page", page::check, "cargo xtask page"),
    });
    steps.push(unless(quick, "doc tests", vec![doc_tests(filters)]));
    steps.push(unless(quick, "rustdoc", vec![rustdoc()]));
    steps
}

fn unless(quick: bool, name: &'static str, lines: Vec<CommandLine>) -> CheckStep {
    if quick { CheckStep::left_out(name, "left out by --quick") } else { CheckStep::commands(name, lines) }
}

fn clippy() -> CommandLine {
    CommandLine::new("cargo clippy --workspace --all-targets --all-features -- -D warnings")
}

/// The program and the library by themselves, as people install them: whatever tests need is not there to lend them a
/// feature that their own manifests forgot.
fn as_installed() -> Vec<CommandLine> {
    vec![
        CommandLine::new("cargo check --package backstop-cli"),
        CommandLine::new("cargo check --package backstop"),
    ]
}

fn nextest_lines(filters: &[String]) -> Vec<CommandLine> {
    vec![CommandLine::new(NEXTEST).with(filters)]
}

/// The same tests without nextest: its test groups do not exist there, so the campaigns get a run of their own.
fn plain_lines(filters: &[String]) -> Vec<CommandLine> {
    let targets = "--all-features --lib --bins --tests --examples --no-fail-fast";
    let most = format!("cargo test --workspace --exclude {CAMPAIGNS} {targets} --");
    let campaigns = format!("cargo test --package {CAMPAIGNS} {targets} -- --test-threads=1");
    vec![CommandLine::new(&most).with(filters), CommandLine::new(&campaigns).with(filters)]
}

fn doc_tests(filters: &[String]) -> CommandLine {
    CommandLine::new("cargo test --doc --workspace --all-features --").with(filters)
}

/// Libraries only: the program and the library `backstop` would write to the same folder.
fn rustdoc() -> CommandLine {
    let flags = std::env::var("RUSTDOCFLAGS").unwrap_or_default();
    CommandLine::new("cargo doc --workspace --all-features --no-deps --lib")
        .variable("RUSTDOCFLAGS", format!("{flags} -D warnings").trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::StepAction;

    fn names(steps: &[CheckStep]) -> Vec<&str> {
        steps.iter().map(|step| step.name).collect()
    }

    fn commands(steps: &[CheckStep], name: &str) -> Vec<String> {
        let step = steps.iter().find(|step| step.name == name).unwrap();
        let StepAction::Commands(lines) = &step.action else { panic!("{name} has no command lines") };
        lines.iter().map(CommandLine::to_string).collect()
    }

    #[test]
    fn the_cheap_checks_come_first() {
        let expected = [
            "machine",
            "fmt",
            "tidy",
            "generated docs",
            "clippy",
            "as installed",
            "binaries",
            "servers",
            "tests",
            "page",
            "doc tests",
            "rustdoc",
        ];
        assert_eq!(names(&plan(&[], false, true)), expected);
    }

    #[test]
    fn quick_still_names_what_it_leaves_out() {
        let steps = plan(&[], true, true);
        let left_out = |step: &&CheckStep| matches!(step.action, StepAction::LeftOut(_));
        let left: Vec<&str> = steps.iter().filter(left_out).map(|step| step.name).collect();
        assert_eq!(left, ["clippy", "as installed", "page", "doc tests", "rustdoc"]);
    }

    #[test]
    fn filters_reach_the_tests_and_campaigns_run_alone_without_nextest() {
        let filters = ["fence".to_owned(), "two words".to_owned()];
        let with_nextest = commands(&plan(&filters, false, true), "tests");
        assert_eq!(with_nextest, ["cargo nextest run --workspace --all-features fence 'two words'"]);
        let plain = commands(&plan(&filters, false, false), "tests");
        assert!(plain[0].contains("--exclude backstop-chaos") && plain[0].ends_with("-- fence 'two words'"));
        assert!(plain[1].contains("--package backstop-chaos") && plain[1].contains("--test-threads=1"));
    }
}
