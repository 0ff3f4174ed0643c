//! `backstop job …`: look at jobs and move them.

pub(crate) mod attempts;
mod explain;
mod list;
mod named;
mod operate;
pub(crate) mod show;
mod wait;

use backstop::State;
use backstop_server::shape::GivenReason;
use clap::Subcommand;

use self::named::{ManyJobs, OneJob, RunsOptions};
use super::filter::FilterOptions;
use crate::app::App;
use crate::client::Client;
use crate::problem::{Exit, Problem};

/// What goes with a verb that needs nothing said.
const NOTHING: GivenReason = GivenReason { reason: None };

/// Commands about jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// List jobs, newest first.
    List {
        /// Only those in this state: pending, running, succeeded, failed, paused, canceled or waiting.
        #[arg(long)]
        status: Option<State>,
        #[command(flatten)]
        filter: FilterOptions,
    },
    /// Show everything about a job.
    Show {
        #[command(flatten)]
        one: OneJob,
        /// Show payload, parameters and result in the clear, secrets included.
        #[arg(long)]
        reveal: bool,
    },
    /// Explain why a job is where it is, and what happens next.
    Explain(OneJob),
    /// List the runs of a job, latest first.
    Attempts(RunsOptions),
    /// Print what the runs of a job logged, oldest first.
    Logs(RunsOptions),
    /// Wait until jobs have ended; the exit code says how.
    Wait(wait::WaitOptions),
    /// Cancel jobs, also running ones.
    Cancel {
        #[command(flatten)]
        many: ManyJobs,
        /// Why; kept with each job.
        #[arg(long, default_value = "canceled from the command line")]
        reason: String,
    },
    /// Pause pending jobs and dead letters.
    Pause(ManyJobs),
    /// Resume paused jobs.
    Resume(ManyJobs),
    /// Retry dead letters, with all their attempts.
    Retry(ManyJobs),
}

pub(crate) async fn run(command: JobCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        JobCommand::List { status, filter } => list::run(status, &filter, &client, app).await?,
        JobCommand::Show { one, reveal } => {
            show::run(client.job_id(&one.id).await?, reveal, &client, app).await?
        }
        JobCommand::Explain(one) => explain::run(client.job_id(&one.id).await?, &client, app).await?,
        JobCommand::Attempts(runs) => attempts::run(&runs, &client, app).await?,
        JobCommand::Logs(runs) => attempts::logs(&runs, &client, app).await?,
        JobCommand::Wait(options) => return wait::run(&options, &client, app).await,
        JobCommand::Cancel { many, reason } => {
            let reason = GivenReason { reason: Some(reason) };
            return operate::each(&many.find(&client).await?, "/cancel", &reason, &client, app).await;
        }
        JobCommand::Pause(many) => return each(&many, "/pause", &client, app).await,
        JobCommand::Resume(many) => return each(&many, "/resume", &client, app).await,
        JobCommand::Retry(many) => return each(&many, "/retry", &client, app).await,
    }
    Ok(Exit::Done)
}

async fn each(many: &ManyJobs, verb: &str, client: &Client, app: &App) -> Result<Exit, Problem> {
    operate::each(&many.find(client).await?, verb, &NOTHING, client, app).await
}
