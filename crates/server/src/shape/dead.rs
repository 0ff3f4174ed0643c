//! Dead letters: how they are shown, counted and removed. A dead letter is a job and reads like one; its envelope (D1)
//! is for other systems.

use std::collections::BTreeMap;

use backstop::JobId;
use backstop_core::job::{AttemptJson, JobJson};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::JobSurvey;
use super::filter::with_conditions;
use crate::body::PageLimit;
use crate::data::DataLimit;

with_conditions! {
    /// Which dead letters to list.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    DeadQuery {
        /// Rows of the page at most.
        #[param(inline)]
        limit: Option<PageLimit>,
        /// Go on after this job: `next_cursor` of the page before.
        cursor: Option<JobId>,
        /// Envelopes instead of jobs.
        envelope: bool,
        /// As for the list of jobs; envelopes hold no data.
        #[param(inline)]
        data_limit: DataLimit,
    }
}

with_conditions! {
    /// Which dead letters to export.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
    #[into_params(parameter_in = Query)]
    DeadExportQuery {
        /// Rows of the page at most.
        #[param(inline)]
        limit: Option<PageLimit>,
        /// Go on after this job: `next_cursor` of the page before.
        cursor: Option<JobId>,
    }
}

/// How to show one dead letter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct WithEnvelope {
    /// Add its envelope.
    pub envelope: bool,
}

with_conditions! {
    /// Which dead letters to remove for good. Something has to narrow them down, or `all` has to be true.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
    Purge {
        /// Just these, up to 1,000; not together with conditions.
        #[schema(max_items = 1000)]
        ids: Option<Vec<JobId>>,
        /// Every dead letter.
        all: bool,
        /// Only count what would go.
        dry_run: bool,
        /// Go on behind this job: `next_cursor` of the answer before.
        cursor: Option<JobId>,
    }
}

/// A row of the list: a job, or its envelope when that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum DeadRow {
    /// The job, as every list shows it.
    Job(Box<JobJson>),
    /// Its envelope.
    Envelope(Envelope),
}

/// A dead letter as other systems read it (D1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// The job.
    pub execution_id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// The other fields.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// One dead letter with all that a person needs to fix it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    /// The job.
    pub job: JobJson,
    /// Its latest runs, latest first.
    pub attempts: Vec<AttemptJson>,
    /// Why it is dead.
    pub because: String,
    /// What to do.
    pub next: String,
    /// Its envelope, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
}

/// What a purge did. One call removes one bounded batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Purged)]
pub struct PurgeAnswer {
    /// True when nothing was removed because that was asked for.
    pub dry_run: bool,
    /// Dead letters that are gone.
    pub purged: u64,
    /// Jobs that had moved on meanwhile and stay as they are.
    pub left: u64,
    /// What would go, when only that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<JobSurvey>,
    /// There are more: send the same again with this as `cursor`.
    pub next_cursor: Option<JobId>,
}
