//! How commands name jobs: one, some, or the runs of one.

use backstop::JobId;
use clap::Args;

use crate::client::{Client, JobRef};
use crate::problem::Problem;

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
    pub(super) async fn find(&self, client: &Client) -> Result<Vec<JobId>, Problem> {
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
    pub(super) one: OneJob,
    /// At most this many runs, the latest.
    #[arg(long, default_value_t = 20)]
    pub(super) limit: usize,
    /// Continue after this run: `next_cursor` of the previous page.
    #[arg(long, value_name = "NUMBER")]
    pub(super) cursor: Option<u32>,
}

/// The path of a job, and of what belongs to it.
pub(super) fn path(id: JobId, part: &str) -> String {
    format!("/api/v1/jobs/{id}{part}")
}
