//! Looking at jobs and their runs.

use backstop::{Cause, JobId, State, TerminalReason, Timestamp};
use backstop_core::explain::Explanation;
use backstop_core::job::JobChangeVerb;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::filter::with_conditions;
use crate::access::Caller;
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

with_conditions! {
    /// Which jobs to change, and how. Something beside the state has to narrow them down, or `all` has to be true.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
    ChangeJobs {
        /// What is done to each.
        change: Option<JobChangeVerb>,
        /// In this state, as it is shown.
        status: Option<State>,
        /// Why they are canceled, in words; kept with each.
        note: Option<String>,
        /// Every job in this state.
        all: bool,
        /// Only count what would be changed.
        dry_run: bool,
        /// Change nothing when there are more than these, as somebody has counted them before.
        expected: Option<u64>,
        /// Go on behind this job: `next_cursor` of the answer before.
        cursor: Option<JobId>,
    }
}

/// What a change of many jobs did. One call changes 10,000 of them at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = JobsChanged)]
pub struct ChangedJobs {
    /// True when nothing was changed because that was asked for.
    pub dry_run: bool,
    /// Jobs that were changed.
    pub changed: u64,
    /// Jobs that had moved on meanwhile and stay as they are.
    pub left: u64,
    /// What would be changed, when only that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<JobSurvey>,
    /// There are more: send the same again with this as `cursor`.
    pub next_cursor: Option<JobId>,
}

/// How many jobs there are, by what they have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Survey)]
pub struct JobSurvey {
    /// The groups, largest first.
    pub groups: Vec<JobSurveyGroup>,
    /// False when there are more than were counted: then the sums are lower bounds.
    pub complete: bool,
}

/// Jobs that have everything in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SurveyGroup)]
pub struct JobSurveyGroup {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// Why they are dead, if they are.
    pub reason: Option<TerminalReason>,
    /// The fingerprint of their latest failure.
    pub fingerprint: Option<String>,
    /// How many.
    pub jobs: u64,
}

impl JobSurvey {
    /// A survey with queues under the names that the caller knows them by.
    #[must_use]
    pub fn of(survey: backstop_store::Survey, caller: &Caller) -> Self {
        let groups = survey.groups.into_iter().filter_map(|group| {
            let queue = caller.sees(&group.queue)?.to_owned();
            let (kind, reason, fingerprint) = (group.kind, group.reason, group.fingerprint);
            Some(JobSurveyGroup { queue, kind, reason, fingerprint, jobs: group.jobs })
        });
        Self { groups: groups.collect(), complete: survey.complete }
    }

    /// How many jobs there are in all groups.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.groups.iter().map(|group| group.jobs).sum()
    }
}
