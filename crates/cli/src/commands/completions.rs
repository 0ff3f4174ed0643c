//! `backstop completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::CliOutput;
use crate::problem::{Exit, Problem};

/// Options of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsOptions {
    /// The shell: bash, zsh, fish, elvish or powershell.
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsOptions, output: &CliOutput) -> Result<Exit, Problem> {
    // Through a buffer, because the generator would panic on a pipe that was closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "backstop", &mut script);
    output.page(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
