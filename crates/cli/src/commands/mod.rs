//! One file per command group, thin: parse, call the engine, show the answer.

pub(crate) mod alert;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
mod consent;
pub(crate) mod dead;
mod doctor;
pub(crate) mod enqueue;
pub(crate) mod events;
mod filter;
pub(crate) mod incident;
pub(crate) mod job;
mod keep;
pub(crate) mod migrate;
pub(crate) mod queue;
pub(crate) mod redrive;
pub(crate) mod rule;
pub(crate) mod token;
mod unserved;
pub(crate) mod up;
pub(crate) mod worker;

use crate::app::App;
use crate::cli::Command;
use crate::problem::{Exit, Problem};

/// Runs a command.
pub(crate) async fn run(command: Command, app: &App) -> Result<Exit, Problem> {
    match command {
        Command::Up(args) => up::run(args, app).await,
        Command::Enqueue(args) => enqueue::run(*args, app).await,
        Command::Job(command) => job::run(command, app).await,
        Command::Queue(command) => queue::run(command, app).await,
        Command::Dead(command) => dead::run(command, app).await,
        Command::Archive(command) => archive::run(command, app).await,
        Command::Alert(command) => alert::run(command, app).await,
        Command::Audit(args) => audit::run(&args, app).await,
        Command::Events(args) => events::run(&args, app).await,
        Command::Incident(command) => incident::run(command, app).await,
        Command::Rule(command) => rule::run(*command, app).await,
        Command::Redrive(command) => redrive::run(command, app).await,
        Command::Token(command) => token::run(command, app).await,
        Command::Worker(command) => worker::run(command, app).await,
        Command::Migrate(args) => migrate::run(app, &args).await,
        Command::Doctor => doctor::run(app).await,
        Command::Bench(args) => bench::run(args, app).await,
        Command::Config(command) => config::run(&command, app).await,
        Command::Completions(args) => completions::run(&args, &app.out),
    }
}
