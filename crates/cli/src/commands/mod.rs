//! One file per command group, thin: parse, call the engine, show the answer.

pub(crate) mod alert;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod bench;
pub(crate) mod bridge;
pub(crate) mod circuit;
pub(crate) mod completions;
pub(crate) mod config;
mod consent;
pub(crate) mod dead;
mod deletion;
mod doctor;
pub(crate) mod enqueue;
pub(crate) mod events;
mod filter;
pub(crate) mod handoff;
pub(crate) mod incident;
pub(crate) mod job;
mod job_options;
mod json_lines;
pub(crate) mod key;
pub(crate) mod limit;
pub(crate) mod migrate;
pub(crate) mod queue;
pub(crate) mod redrive;
pub(crate) mod reject;
pub(crate) mod rule;
pub(crate) mod schedule;
pub(crate) mod signal;
pub(crate) mod token;
mod unserved;
pub(crate) mod up;
pub(crate) mod work;
pub(crate) mod worker;
pub(crate) mod workflow;

use crate::app::App;
use crate::cli::CliCommand;
use crate::problem::{Exit, Problem};

/// Runs a command.
pub(crate) async fn run(command: CliCommand, app: &App) -> Result<Exit, Problem> {
    match command {
        CliCommand::Up(args) => up::run(args, app).await,
        CliCommand::Work(args) => work::run(args, app).await,
        CliCommand::Enqueue(args) => enqueue::run(*args, app).await,
        CliCommand::Job(command) => job::run(command, app).await,
        CliCommand::Queue(command) => queue::run(command, app).await,
        CliCommand::Key(command) => key::run(command, app).await,
        CliCommand::Bridge(command) => bridge::run(command, app).await,
        CliCommand::Circuit(command) => circuit::run(command, app).await,
        CliCommand::Handoff(command) => handoff::run(command, app).await,
        CliCommand::Limit(command) => limit::run(command, app).await,
        CliCommand::Workflow(command) => workflow::run(command, app).await,
        CliCommand::Batch(command) => batch::run(command, app).await,
        CliCommand::Schedule(command) => schedule::run(*command, app).await,
        CliCommand::Signal(command) => signal::run(command, app).await,
        CliCommand::Dead(command) => dead::run(command, app).await,
        CliCommand::Archive(command) => archive::run(command, app).await,
        CliCommand::Alert(command) => alert::run(command, app).await,
        CliCommand::Audit(args) => audit::run(&args, app).await,
        CliCommand::Events(args) => events::run(&args, app).await,
        CliCommand::Incident(command) => incident::run(command, app).await,
        CliCommand::Reject(command) => reject::run(command, app).await,
        CliCommand::Rule(command) => rule::run(*command, app).await,
        CliCommand::Redrive(command) => redrive::run(command, app).await,
        CliCommand::Token(command) => token::run(command, app).await,
        CliCommand::Worker(command) => worker::run(command, app).await,
        CliCommand::Migrate(args) => migrate::run(app, &args).await,
        CliCommand::Doctor => doctor::run(app).await,
        CliCommand::Bench(args) => bench::run(args, app).await,
        CliCommand::Config(command) => config::run(&command, app).await,
        CliCommand::Completions(args) => completions::run(&args, &app.out),
    }
}
