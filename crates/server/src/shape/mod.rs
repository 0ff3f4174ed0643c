//! What requests and answers look like. The server writes these, the program's own commands read them, and the OpenAPI
//! document is made from them.

mod alert;
mod archive;
mod audit;
mod bridge;
mod circuit;
mod dead;
mod doctor;
mod event;
mod filter;
mod handoff;
mod health;
mod incident;
mod job;
mod limit;
mod ordering_key;
mod redrive;
mod reject;
mod retention;
mod retry_budget;
mod rule;
mod scale;
mod schedule;
mod signal;
mod submit;
mod token;
mod webhook;
pub mod work;
mod worker;
mod workflow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::body::PageLimit;

pub use alert::Alert;
pub use archive::{ArchiveQuery, ArchivedJob, ArchivedQuery, ExportedJob, PruneAnswer, PruneRequest};
pub use audit::AuditLine;
pub use bridge::{
    BridgeCheckJson, BridgeJson, BridgeProcessJson, BridgeSinkJson, BridgeSourceJson, BridgeTestJson,
    DeletedJson, InvalidJson, InvalidPurge, InvalidPurged, InvalidQuery,
};
pub use circuit::{CircuitJson, OpenCircuit};
pub use dead::{DeadExportQuery, DeadLetter, DeadQuery, DeadRow, Envelope, Purge, PurgeAnswer, WithEnvelope};
pub use doctor::{DoctorFinding, DoctorLevel};
pub use event::EventQuery;
pub use handoff::{HandOffJson, HandOffStopJson};
pub use health::{Readiness, ReadyCheck};
pub use incident::{IncidentFix, IncidentNote, IncidentSample, IncidentShown};
pub use job::{
    ChangeJobs, ChangedJobs, ExplainedJob, GivenReason, JobQuery, JobSurvey, JobSurveyGroup, LoggedRun,
    RevealQuery, RunsQuery,
};
pub use limit::{LimitBody, LimitJson};
pub use ordering_key::{OrderingKeyJson, OrderingKeysQuery, SkippedJob};
pub use redrive::{NewPlan, NewPlanSettings, PlanActor, PlanMade, PlanShown};
pub use reject::{RejectAnswer, RejectExportQuery, RejectGroupQuery, RejectItem, RejectQuery, RejectRequest};
pub use retention::{RetentionJson, RetentionOf, RetentionQuery};
pub use retry_budget::RetryBudgetJson;
pub use rule::{NewRule, RuleRehearsal, RuleTest, RuleTrial};
pub use scale::{QueueScale, ScaleQuery, ScaleTotal, ScaleView};
pub(crate) use schedule::schedule_over;
pub use schedule::{
    BackfillDone, BackfillRange, DeleteSchedule, LastFire, ScheduleJson, ScheduleOwnerKind, ScheduleRun,
    SetSchedule, SetScheduleQuery,
};
pub use signal::{
    NewResumeToken, NewSignal, ResumeHint, ResumeTokenJson, SentSignal, SignalJson, SignalSort, SignalsQuery,
};
pub use submit::{BackoffPart, CallbackJob, JobsBatch, SubmitAnswer, SubmitJob, SubmittedJob};
pub use token::{MadeToken, NewToken, TokenView};
pub use webhook::{NewWebhook, WebhookMade, WebhookStanding, WebhookView};
pub use worker::{Worker, WorkerKind};
pub(crate) use workflow::NodePart;
pub use workflow::{
    BatchJobs, BatchJson, BatchStored, NewBatch, NewWorkflow, PredicateJson, StepCounts, WorkflowChanged,
    WorkflowJson, WorkflowNode, WorkflowNodeJson, WorkflowQuery, WorkflowStored,
};

/// A list, or a page of one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Items<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Pass it as `cursor` to read on; none on the last page.
    pub next_cursor: Option<String>,
}

impl<T> Items<T> {
    /// A list that is whole, and never long.
    pub fn all(items: impl IntoIterator<Item = T>) -> Self {
        Self { items: items.into_iter().collect(), next_cursor: None }
    }
}

/// Which page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this row: `next_cursor` of the page before.
    #[param(max_length = 300)]
    #[serde(deserialize_with = "cursor")]
    pub cursor: Option<String>,
}

/// Characters of a cursor at most: no list has rows with longer names.
const CURSOR_CHARS: usize = 300;

pub(crate) fn cursor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let cursor = Option::<String>::deserialize(deserializer)?;
    match cursor.as_ref().map(|cursor| cursor.chars().count()) {
        Some(count) if count > CURSOR_CHARS => Err(D::Error::custom(format!(
            "it has {count} characters, the limit is {CURSOR_CHARS}: pass `next_cursor` as it was given"
        ))),
        _ => Ok(cursor),
    }
}

/// What an operation came to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// False when there was nothing to change.
    pub changed: bool,
    /// Where it is now.
    pub status: String,
}

/// What may be said with an operation.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Note)]
pub struct OperationNote {
    /// Who asks for it, and why, in words.
    #[serde(default)]
    pub note: Option<String>,
}

/// The clock that all moments of the API are measured by.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Clock)]
pub struct ServerTime {
    /// The store's clock.
    #[schema(value_type = String, format = DateTime)]
    pub now: backstop::Timestamp,
}

/// The answer of a health check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Alive)]
pub struct LiveStatus {
    /// In one word.
    pub status: String,
}

/// Every refusal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Failed)]
pub struct ErrorBody {
    /// Why.
    pub error: ErrorDetail,
}

/// Why a request was refused.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = FailedWhy)]
pub struct ErrorDetail {
    /// A stable word that machines switch on.
    pub code: String,
    /// What happened, in one sentence.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Facts for machines.
    #[schema(value_type = Option<Object>)]
    pub details: serde_json::Value,
}
