//! `cargo xtask bench`: the program's own benchmark, always in release mode.

use crate::failure::Failure;
use crate::process::CommandLine;

/// Runs `backstop bench` with the given arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    CommandLine::new("cargo run --release --package backstop-cli -- bench").with(arguments).run()
}
