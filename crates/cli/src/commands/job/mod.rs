//! `backstop job …`: look at jobs and move them.

pub(crate) mod attempts;
mod explain;
mod list;
mod operate;
pub(crate) mod show;
mod wait;

use backstop::{JobId, State};
use backstop_server::shape::GivenReason;
use clap::{Args, Subcommand};

use super::filter::FilterOptions;
use crate::app::App;
use crate::client::{Client, JobRef};
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

/// One job.
#[derive(Debug, Args)]
pub(crate) struct OneJob {
    /// The job: its id, or at least the first 6 characters of it.
    pub(crate) id: JobRef,
}

/// Some jobs.
#[derive(Debug, Args)]
pub(crate) struct ManyJobs {
    /// The jobs: their ids, or at least the first 6 characters of each.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobRef>,
}

impl ManyJobs {
    /// Their ids. When one of them is not clear, none is answered, so that nothing is done by halves.
    async fn find(&self, client: &Client) -> Result<Vec<JobId>, Problem> {
        let mut ids = Vec::with_capacity(self.ids.len());
        for named in &self.ids {
            ids.push(client.job_id(named).await?);
        }
        Ok(ids)
    }
}

/// The runs of one job.
#[derive(Debug, Args)]
pub(crate) struct RunsOptions {
    #[command(flatten)]
    one: OneJob,
    /// At most this many runs, the latest.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Continue after this run: `next_cursor` of the previous page.
    #[arg(long, value_name = "NUMBER")]
    cursor: Option<u32>,
}

/// The path of a job, and of what belongs to it.
pub(super) fn path(id: JobId, part: &str) -> String {
    format!("/api/v1/jobs/{id}{part}")
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
