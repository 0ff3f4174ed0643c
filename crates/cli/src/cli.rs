//! The command line: global options and the commands. Each command's own options stand beside its code.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Parser, Subcommand};

use crate::commands::{
    alert, archive, bench, completions, config, dead, enqueue, incident, job, migrate, queue, redrive, rule,
    token, up, worker,
};
use crate::config::{Given, Source};

const AFTER: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by a guard.\n\
                     Start with `backstop up --demo`, then `backstop job list`.";

/// A durable job engine whose heart is what happens when work fails.
#[derive(Debug, Parser)]
#[command(name = "backstop", version, after_help = AFTER, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The store: `sqlite:FILE`, `postgres://HOST/DATABASE`, `mysql://HOST/DATABASE`, or `memory:` for a try [default:
    /// sqlite:backstop.db].
    #[arg(long, global = true, value_name = "URL", env = "BACKSTOP_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Ask a server instead of a store: `http://HOST:PORT`. Its token is read from BACKSTOP_TOKEN.
    #[arg(long, global = true, value_name = "URL", env = "BACKSTOP_SERVER")]
    server: Option<String>,
    /// The configuration file [default: ./backstop.toml, if it is there].
    #[arg(long, global = true, value_name = "FILE", env = "BACKSTOP_CONFIG")]
    config: Option<PathBuf>,
    /// Answer in JSON, for machines.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No colours; so does NO_COLOR.
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// More log lines on stderr; repeat for still more.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[arg(skip = Source::Flag)]
    store_source: Source,
    #[arg(skip = Source::Flag)]
    server_source: Source,
}

impl Global {
    /// Remembers which values came from the environment, for `config check` to say.
    pub(crate) fn remember_sources(&mut self, matches: &ArgMatches) {
        if matches.value_source("store") == Some(ValueSource::EnvVariable) {
            self.store_source = Source::Env;
        }
        if matches.value_source("server") == Some(ValueSource::EnvVariable) {
            self.server_source = Source::Env;
        }
    }

    /// What settings are made of.
    pub(crate) fn given(&self) -> Given {
        Given {
            store: self.store.clone().map(|store| (store, self.store_source)),
            server: self.server.clone().map(|server| (server, self.server_source)),
            config: self.config.clone(),
            otlp: std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty()),
            variables: crate::config::env::variables(),
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the engine with a worker and the HTTP API; `--demo` shows every way a job can end.
    Up(up::Up),
    /// Store a job, or many.
    Enqueue(Box<enqueue::Enqueue>),
    /// Look at jobs and move them.
    #[command(subcommand)]
    Job(job::Job),
    /// Look at queues and hold them back.
    #[command(subcommand)]
    Queue(queue::Queue),
    /// Look at dead letters: jobs that failed for good.
    #[command(subcommand)]
    Dead(dead::Dead),
    /// Look at jobs that ended long ago, and remove them.
    #[command(subcommand)]
    Archive(archive::Archive),
    /// Look at alerts: who was told of which incident.
    #[command(subcommand)]
    Alert(alert::Alert),
    /// Look at incidents, failures with one cause, and say what you know of them.
    #[command(subcommand)]
    Incident(incident::Incident),
    /// Say what becomes of failures, without a deploy.
    #[command(subcommand)]
    Rule(Box<rule::Rule>),
    /// Drive dead letters again by a plan: dry run, canary, then the rest in batches.
    #[command(subcommand)]
    Redrive(redrive::Redrive),
    /// Say who may call the HTTP API.
    #[command(subcommand)]
    Token(token::Token),
    /// Look at workers.
    #[command(subcommand)]
    Worker(worker::Worker),
    /// Create the store, or bring it up to this version.
    Migrate(migrate::Migrate),
    /// Name every setting of the store that could lose an acknowledged job.
    Doctor,
    /// Measure this machine: the floor that SQLite allows, and how near Backstop comes.
    Bench(bench::Bench),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(config::Config),
    /// Print the completions of a shell.
    Completions(completions::Completions),
}
