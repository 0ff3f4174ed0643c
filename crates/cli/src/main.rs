//! The program `backstop`: parse, call the engine, show the answer.
//!
//! # Layout
//! - [`cli`]: the command line. [`help`]: its help, with the commands in groups.
//! - [`client`]: the way to the API, with a socket or without.
//! - [`commands`]: one file per command group, thin.
//! - [`config`]: `backstop.toml`. [`app`]: settings and output together, and the way to an open engine.
//! - [`output`]: tables, pages, JSON, colours. [`problem`]: errors and exit codes.
//! - [`otlp`]: traces to a collector. [`supervise`]: the worker processes of `work`.
//! - [`demo`]: the workload of `up --demo`. [`bench`]: the measures of `bench`.

mod app;
mod bench;
mod cli;
mod client;
mod commands;
mod config;
mod demo;
mod help;
mod logging;
mod otlp;
mod output;
mod problem;
mod supervise;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::app::App;
use crate::cli::{Cli, CliCommand};
use crate::commands::config::ConfigCommand;
use crate::config::Settings;
use crate::output::CliOutput;
use crate::problem::{Exit, Problem};

/// For small things that live as long as a request: glibc took an eighth of a busy server's processor for them, and
/// this half of that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: secrets come by the environment, and jobs run programs as the same user.
    let hidden = backstop_kinds::command::hide_process();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let output = CliOutput::new(cli.global.json, cli.global.no_color);
    if let Err(problem) = hidden {
        output.warn(&format!("programs of the same user can read the environment of this one: {problem}"));
    }
    let exit = run(cli, &output).unwrap_or_else(|problem| {
        problem.tell(&output);
        problem.exit
    });
    ExitCode::from(exit as u8)
}

/// Reads the command line. Help and versions end the program well, wrong usage does not.
fn parse() -> Result<Cli, ExitCode> {
    let matches = help::command().try_get_matches();
    let parsed = matches.and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        cli.global.remember_sources(&matches);
        Ok(cli)
    });
    parsed.map_err(|error| {
        let for_machines = error.use_stderr() && std::env::args().any(|arg| arg == "--json");
        if for_machines {
            let text = error.render().to_string();
            let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Problem::usage("usage", message)
                .hint("`backstop --help` lists the commands")
                .tell(&CliOutput::new(true, true));
        } else {
            // A reader that has gone away has seen enough.
            let _ = error.print();
        }
        ExitCode::from(if error.use_stderr() { Exit::Usage as u8 } else { Exit::Done as u8 })
    })
}

fn run(cli: Cli, output: &CliOutput) -> Result<Exit, Problem> {
    // Completions are asked for while a shell starts: no file and no store may stand in their way. A file that is to be
    // written is not read, and whoever has a faulty one needs the list of settings most.
    match &cli.command {
        CliCommand::Completions(args) => return commands::completions::run(args, output),
        CliCommand::Config(ConfigCommand::Init) => {
            return commands::config::init(cli.global.config.as_deref(), output);
        }
        CliCommand::Config(ConfigCommand::Reference) => return commands::config::reference(output),
        _ => {}
    }
    let settings = Settings::load(&cli.global.given())?;
    logging::start(cli.global.verbose, matches!(&cli.command, CliCommand::Up(args) if args.demo), output);
    let app = App { out: output.clone(), settings, verbose: cli.global.verbose > 0 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::failed("runtime", format!("cannot start threads: {error}")))?;
    runtime.block_on(commands::run(cli.command, &app))
}
