//! Jobs that have left the hot tables.

use backstop::{JobId, State, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::body::PageLimit;
use crate::data::DataLimit;

/// What is kept of an archived job (L16).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ArchivedJob {
    /// The job.
    pub id: JobId,
    /// How it ended.
    pub status: State,
    /// When it left.
    pub archived_at: Timestamp,
    /// False when no run of it was ever started: then it is never removed by age.
    pub ran: bool,
    /// The job as it was when it left.
    #[schema(value_type = Object)]
    pub job: Value,
    /// Its runs, oldest first; only where one job is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub attempts: Option<Value>,
}

/// All that is known of a job, in the clear.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Exported)]
pub struct ExportedJob {
    /// The job.
    pub id: JobId,
    /// How it ended, or where it is.
    pub status: State,
    /// `job` and `attempts`, the runs oldest first.
    #[schema(value_type = Object)]
    pub document: Box<RawValue>,
}

/// Which archived jobs to list. Conditions are looked up in each job, a thousand of them for one page at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct ArchivedQuery {
    /// That ended so: `succeeded`, `failed` or `canceled`.
    pub status: Option<State>,
    /// Of this kind.
    pub kind: Option<String>,
    /// On this queue.
    pub queue: Option<String>,
    /// Whose id was made before this moment; without `cursor`.
    pub created_before: Option<Timestamp>,
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this job: `next_cursor` of the page before.
    pub cursor: Option<JobId>,
    /// As for the list of jobs.
    #[param(inline)]
    pub data_limit: DataLimit,
}

impl ArchivedQuery {
    /// True when it leaves out jobs.
    pub(crate) const fn is_narrow(&self) -> bool {
        self.status.is_some() || self.kind.is_some() || self.queue.is_some()
    }

    /// True for a job that it asks for, in the caller's names.
    pub(crate) fn finds(&self, one: &ArchivedJob) -> bool {
        let is = |wanted: &Option<String>, name: &str| {
            let known = one.job.get(name).and_then(Value::as_str);
            wanted.as_deref().is_none_or(|wanted| known == Some(wanted))
        };
        self.status.is_none_or(|status| one.status == status)
            && is(&self.kind, "kind")
            && is(&self.queue, "queue")
    }

    /// After which job to begin. The ids that we make begin with their moment.
    pub(crate) fn after(&self) -> Option<JobId> {
        let made = |moment: Timestamp| {
            let millis = u128::try_from(moment.as_micros() / 1_000).unwrap_or_default();
            JobId::from_u128(millis << 80)
        };
        self.cursor.or_else(|| self.created_before.map(made))
    }
}

/// Which archived jobs to export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct ArchiveQuery {
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this job: `next_cursor` of the page before.
    pub cursor: Option<JobId>,
    /// As for the list of jobs; an export holds everything.
    #[param(inline)]
    pub data_limit: DataLimit,
}

/// Which archived jobs to remove for good.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = Prune)]
pub struct PruneRequest {
    /// Archived at least this long ago; as the server's configuration says when it is left out.
    #[schema(maximum = 3155760000000.0)]
    pub keep_ms: Option<u64>,
    /// Only count what would go.
    pub dry_run: bool,
}

/// What a prune did. One call removes one bounded batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Pruned)]
pub struct PruneAnswer {
    /// True when nothing was removed because that was asked for.
    pub dry_run: bool,
    /// How long archived jobs stay.
    pub keep_ms: u64,
    /// How many would go, when only that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// Archived jobs that are gone.
    pub pruned: u64,
    /// True when there may be more: send the same again.
    pub more: bool,
}
