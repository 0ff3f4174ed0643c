//! A job as every interface shows it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{FailureRecord, Job, Record, State};
use crate::failure::Cause;
use crate::id::WorkerId;
use crate::time::Timestamp;

/// A job with its record and what its latest run left.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    /// What was submitted.
    pub job: Job,
    /// Where it is.
    pub record: Record,
    /// True when its lane is held because no live worker of its queue knows its kind and version (H10).
    pub waits_for_code: bool,
    /// The evidence of [`Record::last_failed_run`].
    pub last_failure: Option<FailureRecord>,
    /// What the latest run returned, as JSON text, once the job has ended.
    pub result: Option<std::sync::Arc<str>>,
    /// A warning that the latest run left (L6), once the job has ended.
    pub warning: Option<String>,
    /// When the latest run started.
    pub started_at: Option<Timestamp>,
}

impl JobView {
    /// The state that is shown: a pending job in a held lane is waiting (H10).
    #[must_use]
    pub fn state(&self) -> State {
        match self.record.state {
            State::Pending if self.waits_for_code => State::Waiting,
            state => state,
        }
    }

    /// Who holds it now.
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        self.record.hold.map(|hold| hold.worker)
    }
}

/// A job with the counts of its ended runs by cause.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDetail {
    /// The job.
    pub view: JobView,
    /// How many runs ended by each cause, over its whole life.
    pub counters: BTreeMap<Cause, u64>,
}

/// Stored JSON text as a value; text that is no JSON (it cannot have come through a submit) is shown as it is.
pub(super) fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[derive(Serialize)]
struct Reads<'a> {
    id: String,
    kind: &'a str,
    version: u32,
    queue: &'a str,
    status: State,
    priority: super::Priority,
    payload: Value,
    attempt: u32,
    crashes: u32,
    deferrals: u32,
    runs: u32,
    redrives: u32,
    max_retries: u32,
    policy: &'a super::Policy,
    run_at: Timestamp,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    progress: Option<&'a super::Progress>,
    result: Option<Value>,
    warning: Option<&'a str>,
    last_error: Option<&'a str>,
    error_type: Option<&'a str>,
    terminal_reason: Option<crate::failure::TerminalReason>,
    cancel_reason: Option<&'a str>,
    fingerprint: Option<&'a str>,
    worker: Option<WorkerId>,
    fence: crate::id::Fence,
    tags: &'a [String],
    params: Value,
    idempotency_key: Option<&'a str>,
    business_key: Option<&'a str>,
    correlation_id: Option<&'a str>,
    superseded_by: Option<crate::id::JobId>,
    callback_of: Option<crate::id::JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_parent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<&'a BTreeMap<Cause, u64>>,
}

impl<'a> Reads<'a> {
    fn of(view: &'a JobView, counters: Option<&'a BTreeMap<Cause, u64>>) -> Self {
        let (spec, record) = (&view.job.spec, &view.record);
        let failure = view.last_failure.as_ref();
        Self {
            id: spec.id.to_string(),
            kind: &spec.kind,
            version: spec.version,
            queue: &spec.queue,
            status: view.state(),
            priority: spec.priority,
            payload: json_or_text(&spec.payload),
            attempt: record.attempt,
            crashes: record.crashes,
            deferrals: record.deferrals,
            runs: record.runs,
            redrives: record.redrives,
            max_retries: spec.policy.max_retries,
            policy: &spec.policy,
            run_at: record.run_at,
            created_at: view.job.created_at,
            started_at: view.started_at,
            finished_at: record.finished_at,
            expires_at: record.expires_at,
            progress: record.progress.as_ref(),
            result: view.result.as_deref().map(json_or_text),
            warning: view.warning.as_deref(),
            last_error: failure.map(|f| f.message.as_str()),
            error_type: failure.map(|f| f.error_type.as_str()),
            terminal_reason: record.reason,
            cancel_reason: record.cancel_reason.as_deref(),
            fingerprint: failure.map(|f| f.fingerprint.as_ref()),
            worker: view.worker(),
            fence: record.fence,
            tags: &spec.tags,
            params: spec
                .params
                .as_deref()
                .map_or_else(|| Value::Object(serde_json::Map::new()), json_or_text),
            idempotency_key: spec.idempotency_key.as_deref(),
            business_key: spec.business_key.as_deref(),
            correlation_id: spec.correlation_id.as_deref(),
            superseded_by: record.superseded_by,
            callback_of: spec.callback_of,
            trace_parent: spec.trace().map(|trace| &**trace),
            signed_by: spec.signature().map(|signature| &*signature.key),
            counters,
        }
    }
}

impl Serialize for JobView {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Reads::of(self, None).serialize(serializer)
    }
}

impl Serialize for JobDetail {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Reads::of(&self.view, Some(&self.counters)).serialize(serializer)
    }
}
