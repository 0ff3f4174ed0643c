//! `backstop job …`: look at jobs and move them.

pub(crate) mod attempts;
mod explain;
mod list;
mod operate;
mod show;

use backstop::{JobId, State};
use backstop_server::shape::Reason;
use clap::{Args, Subcommand};

use super::filter::Filter;
use crate::app::App;
use crate::problem::{Exit, Problem};

/// What goes with a verb that needs nothing said.
const NOTHING: Reason = Reason { reason: None };

/// Commands about jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Jobs, newest first.
    List {
        /// In this state: pending, running, succeeded, failed, paused, canceled or waiting.
        #[arg(long)]
        status: Option<State>,
        #[command(flatten)]
        filter: Filter,
    },
    /// Everything about one job.
    Show {
        #[command(flatten)]
        one: One,
        /// Show payload, parameters and result in clear, secrets included.
        #[arg(long)]
        reveal: bool,
    },
    /// Why a job is where it is, what happens next and when.
    Explain(One),
    /// The runs of a job, latest first.
    Attempts(Runs),
    /// What the runs of a job logged, oldest first.
    Logs(Runs),
    /// Call jobs off, also running ones.
    Cancel {
        /// The jobs.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<JobId>,
        /// Why, kept with each job.
        #[arg(long, default_value = "canceled from the command line")]
        reason: String,
    },
    /// Hold jobs back: pending ones and dead letters.
    Pause(Many),
    /// Put paused jobs back to where they were.
    Resume(Many),
    /// Drive dead letters again, with all their attempts.
    Retry(Many),
}

/// One job.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The job.
    pub(crate) id: JobId,
}

/// Some jobs.
#[derive(Debug, Args)]
pub(crate) struct Many {
    /// The jobs.
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<JobId>,
}

/// The runs of one job.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// The job.
    pub(crate) id: JobId,
    /// At most this many runs, the latest.
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// Go on after this run, as `next_cursor` of the page before says.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cursor: Option<u32>,
}

/// The path of a job, and of what belongs to it.
pub(super) fn path(id: JobId, part: &str) -> String {
    format!("/api/v1/jobs/{id}{part}")
}

pub(crate) async fn run(command: Job, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        Job::List { status, filter } => list::run(status, &filter, &client, app).await?,
        Job::Show { one, reveal } => show::run(one.id, reveal, &client, app).await?,
        Job::Explain(one) => explain::run(one.id, &client, app).await?,
        Job::Attempts(runs) => attempts::run(&runs, &client, app).await?,
        Job::Logs(runs) => attempts::logs(&runs, &client, app).await?,
        Job::Cancel { ids, reason } => {
            let reason = Reason { reason: Some(reason) };
            return operate::each(&ids, "/cancel", &reason, &client, app).await;
        }
        Job::Pause(many) => return operate::each(&many.ids, "/pause", &NOTHING, &client, app).await,
        Job::Resume(many) => return operate::each(&many.ids, "/resume", &NOTHING, &client, app).await,
        Job::Retry(many) => return operate::each(&many.ids, "/retry", &NOTHING, &client, app).await,
    }
    Ok(Exit::Done)
}
