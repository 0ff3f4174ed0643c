//! Looking at jobs and their runs.

use backstop::{Cause, JobId, State, Timestamp};
use backstop_core::explain::Explanation;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::filter::with_conditions;
use crate::body::PageLimit;
use crate::data::DataLimit;

with_conditions! {
    /// Which jobs to list.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    JobQuery {
        /// In this state, as it is shown.
        status: Option<State>,
        /// Rows of the page at most.
        #[param(inline)]
        limit: Option<PageLimit>,
        /// Go on after this job: `next_cursor` of the page before.
        cursor: Option<JobId>,
        /// Payloads, parameters and results in the clear; needs the scope `logs`.
        reveal: bool,
        /// Bytes that are shown of a payload, parameters or a result of more than 1,024 bytes: its beginning, as text.
        /// Its size stands in `left_out`.
        #[param(inline)]
        data_limit: DataLimit,
    }
}

/// How much of one job to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct RevealQuery {
    /// Payload, parameters and result in the clear; needs the scope `logs`.
    pub reveal: bool,
}

/// Which runs of a job to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct RunsQuery {
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this run: `next_cursor` of the page before.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 4294967295.0)]
    pub cursor: Option<u32>,
}

/// What one run logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Logged)]
pub struct LoggedRun {
    /// Which run of the job it was.
    pub number: u32,
    /// Why it ended.
    pub cause: Cause,
    /// When it ended.
    pub finished_at: Timestamp,
    /// What it logged or printed; none when that was nothing.
    pub output: Option<String>,
}

/// Why a job is where it is, and what happens next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Explained)]
pub struct ExplainedJob {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// The answer.
    #[serde(flatten)]
    pub explanation: Explanation,
}

/// Why something is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = Reason)]
pub struct GivenReason {
    /// In words; kept with the job.
    pub reason: Option<String>,
}
