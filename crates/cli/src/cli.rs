//! The command line: global options and the commands. Each command's own options stand beside its code.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Parser, Subcommand};

use crate::commands::{
    alert, archive, audit, batch, bench, bridge, circuit, completions, config, dead, enqueue, events,
    handoff, incident, job, key, limit, migrate, queue, redrive, reject, rule, schedule, signal, token, up,
    work, worker, workflow,
};
use crate::config::{GivenSettings, SettingSource};

const AFTER: &str = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused.\n\
                     Start with `backstop up --demo`, then `backstop job list`.";

/// A durable job engine whose heart is what happens when work fails.
#[derive(Debug, Parser)]
#[command(name = "backstop", version, after_help = AFTER, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalOptions {
    /// The store: `sqlite:FILE`, `postgres://HOST/DATABASE`, `mysql://HOST/DATABASE`, or `memory:` for tests [default:
    /// sqlite:backstop.db].
    #[arg(long, global = true, value_name = "URL", env = "BACKSTOP_STORE", hide_env_values = true)]
    store: Option<String>,
    /// Use a server instead of a store: `http://HOST:PORT`. The token is read from BACKSTOP_TOKEN.
    #[arg(long, global = true, value_name = "URL", env = "BACKSTOP_SERVER")]
    server: Option<String>,
    /// The configuration file [default: ./backstop.toml, if it exists].
    #[arg(long, global = true, value_name = "FILE", env = "BACKSTOP_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print without colours, as with NO_COLOR.
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Print more log lines on stderr; repeat for more.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[arg(skip = SettingSource::Flag)]
    store_source: SettingSource,
    #[arg(skip = SettingSource::Flag)]
    server_source: SettingSource,
}

impl GlobalOptions {
    /// Remembers which values came from the environment, for `config check` to say.
    pub(crate) fn remember_sources(&mut self, matches: &ArgMatches) {
        if matches.value_source("store") == Some(ValueSource::EnvVariable) {
            self.store_source = SettingSource::Env;
        }
        if matches.value_source("server") == Some(ValueSource::EnvVariable) {
            self.server_source = SettingSource::Env;
        }
    }

    /// What settings are made of.
    pub(crate) fn given(&self) -> GivenSettings {
        GivenSettings {
            store: self.store.clone().map(|store| (store, self.store_source)),
            server: self.server.clone().map(|server| (server, self.server_source)),
            config: self.config.clone(),
            otlp: std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().filter(|endpoint| !endpoint.is_empty()),
            variables: crate::config::env::variables(),
        }
    }
}

/// The commands. [`help`](crate::help) shows them in groups.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Start the engine: a worker, maintenance and the HTTP API.
    Up(up::UpOptions),
    /// Run worker processes of a program: as many as the backlog needs.
    Work(work::WorkOptions),
    /// Enqueue a job, or many.
    Enqueue(Box<enqueue::EnqueueOptions>),
    /// List, inspect, cancel and retry jobs.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// List ordering keys, and let a blocked one go on.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Send signals to jobs that wait, and list who waits.
    #[command(subcommand)]
    Signal(signal::SignalCommand),
    /// List bridges to brokers, pause, resume and test them.
    #[command(subcommand)]
    Bridge(bridge::BridgeCommand),
    /// List circuits of dependencies, open and close them.
    #[command(subcommand)]
    Circuit(circuit::CircuitCommand),
    /// List hand-offs to another Backstop, and let one go on.
    #[command(subcommand)]
    Handoff(handoff::HandOffCommand),
    /// Limit how many jobs run at once or start in a time.
    #[command(subcommand)]
    Limit(limit::LimitCommand),
    /// Submit, list and show workflows: jobs that wait for each other.
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Submit, list and show batches: jobs that belong together.
    #[command(subcommand)]
    Batch(batch::BatchCommand),
    /// Submit jobs again and again: list, set, pause and run schedules.
    #[command(subcommand)]
    Schedule(Box<schedule::ScheduleCommand>),
    /// List, pause and resume queues.
    #[command(subcommand)]
    Queue(queue::QueueCommand),
    /// List workers.
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Follow events as they happen.
    Events(events::EventsOptions),
    /// List, inspect, export and purge dead letters.
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// List, inspect and acknowledge incidents: failures with one cause.
    #[command(subcommand)]
    Incident(incident::IncidentCommand),
    /// List and export items that runs could not handle, and that did not stop them.
    #[command(subcommand)]
    Reject(reject::RejectCommand),
    /// List alerts: who was told of which incident.
    #[command(subcommand)]
    Alert(alert::AlertCommand),
    /// Retry dead letters by a plan: dry run, canary, then the rest in batches.
    #[command(subcommand)]
    Redrive(redrive::RedriveCommand),
    /// Manage rules that decide what happens to failures.
    #[command(subcommand)]
    Rule(Box<rule::RuleCommand>),
    /// List, inspect, export and prune archived jobs.
    #[command(subcommand)]
    Archive(archive::ArchiveCommand),
    /// Manage API tokens.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Show the audit log: who changed what.
    Audit(audit::AuditOptions),
    /// Create the configuration file, or check it.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Create the store, or upgrade it to this version.
    Migrate(migrate::MigrateOptions),
    /// Check the store for settings that could lose an acknowledged job.
    Doctor,
    /// Measure this machine: what SQLite allows, and how near Backstop comes.
    Bench(bench::BenchOptions),
    /// Print completions for a shell.
    Completions(completions::CompletionsOptions),
}
