//! A job and a run as every interface shows them: the one list of their fields, written and read back alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::followed::value_or_text;
use super::{
    Attempt, FiredBy, JobDetail, JobView, Policy, Priority, Progress, State, StepMark, WaitDetail,
    WorkflowPart,
};
use crate::failure::{Cause, Decision, TerminalReason};
use crate::id::{Fence, JobId, WorkerId};
use crate::reject::RejectCounts;
use crate::time::Timestamp;

/// A job as every interface shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Job))]
pub struct JobJson {
    /// Its identity.
    pub id: JobId,
    /// Which code runs it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: Arc<str>,
    /// Version of the payload's shape (H10).
    pub version: u32,
    /// Where it waits.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub queue: Arc<str>,
    /// Where it is.
    pub status: State,
    /// How urgent it is, 0 to 4.
    pub priority: Priority,
    /// Its input; as text when no reader could follow it.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub payload: Value,
    /// Runs charged to the attempt budget since the last re-drive (F3).
    pub attempt: u32,
    /// Runs charged to the crash budget since the last re-drive (C1).
    pub crashes: u32,
    /// Runs that ended uncharged since the last re-drive.
    pub deferrals: u32,
    /// Runs started, ever.
    pub runs: u32,
    /// Times it was driven again (L9).
    pub redrives: u32,
    /// Charged runs after the first.
    pub max_retries: u32,
    /// Budgets and times; what is left out has its default.
    pub policy: Policy,
    /// When it may run, or when it last became due.
    pub run_at: Timestamp,
    /// When it was stored.
    pub created_at: Timestamp,
    /// When its latest run started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// It does not start after this moment.
    pub expires_at: Option<Timestamp>,
    /// How far its handler says it is.
    pub progress: Option<Progress>,
    /// What its latest run returned.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub result: Option<Value>,
    /// A warning that its latest run left (L6).
    pub warning: Option<String>,
    /// The message of its latest failure.
    pub last_error: Option<String>,
    /// The type of that error.
    pub error_type: Option<String>,
    /// Why it is a dead letter (F13).
    pub terminal_reason: Option<TerminalReason>,
    /// Why it was canceled.
    pub cancel_reason: Option<String>,
    /// The fingerprint of its latest failure.
    pub fingerprint: Option<String>,
    /// Who holds it now.
    pub worker: Option<WorkerId>,
    /// The latest hold on it, ever (L5).
    pub fence: Fence,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Settings beside the payload.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub params: Value,
    /// Unique for ever (L10).
    pub idempotency_key: Option<String>,
    /// Unique among live jobs (L11).
    pub business_key: Option<String>,
    /// Jobs with the same one run one at a time, in the order of their submits (L21).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// What limits by key count (H5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<String>,
    /// Of all jobs with this name one runs at a time (H6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_instance: Option<String>,
    /// Permits that its run holds, by pool (H5).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permits: BTreeMap<String, u32>,
    /// What it needs that may be away, in place of what its kind needs (H1, H3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// Ties it to a request or a trace outside.
    pub correlation_id: Option<String>,
    /// The job that took its place (L22).
    pub superseded_by: Option<JobId>,
    /// The job whose callback it is.
    pub callback_of: Option<JobId>,
    /// The workflow or batch that it is a part of (W1-W6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowPart>,
    /// Which fire of which schedule it is (W11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<FiredBy>,
    /// The trace that its submit belonged to, as a W3C `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<String>,
    /// The key that vouches for it (E9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// True when it waits because no live worker of its queue knows its kind and version (H10).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_code: bool,
    /// What it waits for, while it is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitDetail>,
    /// How many runs ended by each cause, over its whole life; only where one job is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<BTreeMap<Cause, u64>>,
    /// What is stored of its steps and effects, in the order of their calls (W7, W8); only where one job is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepMark>,
    /// How many of its items were rejected (W9); only where one job is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects: Option<RejectCounts>,
    /// Data that a list does not show whole because it is large: `payload`, `params` or `result`, and its size in
    /// bytes. What stands there instead is null, or its beginning as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
}

/// One run of a job as every interface shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Attempt))]
pub struct AttemptJson {
    /// Which run of the job it was, from 1.
    pub number: u32,
    /// The hold it ran under (L5).
    pub fence: Fence,
    /// Who ran it.
    pub worker: WorkerId,
    /// The version of the code that ran it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub code_version: Option<Arc<str>>,
    /// Why it ended.
    pub cause: Cause,
    /// True when it counts as an attempt.
    pub charged: bool,
    /// When the job was due.
    pub due_at: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How long the job had waited for it.
    pub wait_ms: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// The type of its error.
    pub error_type: Option<String>,
    /// The message of its error.
    pub error: Option<String>,
    /// The fingerprint of its failure.
    pub fingerprint: Option<String>,
    /// What was decided after it, and why (F20).
    pub decision: Option<Decision>,
    /// What it returned.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub result: Option<Value>,
    /// A warning that it left (L6).
    pub warning: Option<String>,
    /// What it logged or printed (F15).
    pub output: Option<String>,
}

impl JobView {
    /// The job as every interface shows it.
    #[must_use]
    pub fn reads(&self) -> JobJson {
        let (spec, record) = (&self.job.spec, &self.record);
        let failure = self.last_failure.as_ref();
        let params = spec.params.as_deref();
        let needs = spec.needs.as_deref().cloned().unwrap_or_default();
        JobJson {
            id: spec.id,
            kind: spec.kind.clone(),
            version: spec.version,
            queue: spec.queue.clone(),
            status: self.state(),
            priority: spec.priority,
            payload: value_or_text(&spec.payload),
            attempt: record.attempt,
            crashes: record.crashes,
            deferrals: record.deferrals,
            runs: record.runs,
            redrives: record.redrives,
            max_retries: spec.policy.max_retries,
            policy: spec.policy.clone(),
            run_at: record.run_at,
            created_at: self.job.created_at,
            started_at: self.started_at,
            finished_at: record.finished_at,
            expires_at: record.expires_at,
            progress: record.progress.clone(),
            result: self.result.as_deref().map(value_or_text),
            warning: self.warning.clone(),
            last_error: failure.map(|f| f.message.clone()),
            error_type: failure.map(|f| f.error_type.clone()),
            terminal_reason: record.reason,
            cancel_reason: record.cancel_reason.clone(),
            fingerprint: failure.map(|f| f.fingerprint.to_string()),
            worker: self.worker(),
            fence: record.fence,
            tags: spec.tags.clone(),
            params: params.map_or_else(|| Value::Object(serde_json::Map::new()), value_or_text),
            idempotency_key: spec.idempotency_key.clone(),
            business_key: spec.business_key.clone(),
            ordering_key: spec.ordering_key.as_deref().map(ToOwned::to_owned),
            limit_key: needs.limit_key.map(|key| key.to_string()),
            single_instance: needs.single_instance.map(|name| name.to_string()),
            permits: needs.permits.into_iter().map(|(pool, permits)| (pool.to_string(), permits)).collect(),
            dependency: spec.dependency.as_deref().map(ToOwned::to_owned),
            correlation_id: spec.correlation_id.clone(),
            superseded_by: record.superseded_by,
            callback_of: spec.callback_of,
            workflow: spec.part_of().map(WorkflowPart::from),
            schedule: spec.schedule().cloned(),
            trace_parent: spec.trace().map(|trace| trace.to_string()),
            signed_by: spec.signature().map(|signature| signature.key.to_string()),
            waits_for_code: self.waits_for_code,
            waiting_for: self.waiting_for(),
            counters: None,
            steps: Vec::new(),
            rejects: None,
            left_out: BTreeMap::new(),
        }
    }
}

impl JobDetail {
    /// The job as every interface shows it, with its counters.
    #[must_use]
    pub fn reads(&self) -> JobJson {
        JobJson {
            counters: Some(self.counters.clone()),
            steps: self.view.record.steps_in_order(),
            rejects: self.view.record.rejects().map(RejectCounts::from),
            waiting_for: self.waiting_for(),
            ..self.view.reads()
        }
    }
}

impl Attempt {
    /// The run as every interface shows it.
    #[must_use]
    pub fn reads(&self) -> AttemptJson {
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let failure = self.failure.as_ref();
        AttemptJson {
            number: self.number,
            fence: self.fence,
            worker: self.worker,
            code_version: self.code_version.clone(),
            cause: self.cause,
            charged: self.cause.charges_attempt(),
            due_at: self.due_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            wait_ms: millis(self.started_at.since(self.due_at)),
            duration_ms: millis(self.finished_at.since(self.started_at)),
            error_type: failure.map(|f| f.error_type.clone()),
            error: failure.map(|f| f.message.clone()),
            fingerprint: failure.map(|f| f.fingerprint.to_string()),
            decision: self.decision.clone(),
            result: self.result.as_deref().map(value_or_text),
            warning: self.warning.clone(),
            output: self.output.clone(),
        }
    }
}
