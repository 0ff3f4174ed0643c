//! The dead letter as other systems read it (D1).

use serde::Serialize;
use serde_json::{Value, json};

use crate::job::{FailureRecord, Job, Record, State};

/// The envelope of a dead letter, with the field names that downstream readers know.
///
/// Answers none for a job that is no dead letter.
#[must_use]
pub fn envelope(
    job: &Job,
    record: &Record,
    failure: Option<&FailureRecord>,
    code_version: Option<&str>,
) -> Option<Value> {
    if record.state != State::Failed {
        return None;
    }
    let spec = &job.spec;
    // Without a retry budget there was nothing to observe, whatever the counters say.
    let retries = if spec.policy.max_retries == 0 { 0 } else { record.runs.saturating_sub(1) };
    let finished = record.finished_at.unwrap_or(job.created_at);
    Some(json!({
        "tenantId": crate::tenant::shown(&spec.queue),
        "executionId": spec.id,
        "executionKey": spec.business_key.as_deref().or(spec.idempotency_key.as_deref()),
        "transitionKey": format!("{}:0:{}", spec.id, record.runs),
        "correlationId": spec.correlation_id,
        "resourceType": "job",
        "resourceName": &*spec.kind,
        "transport": "store",
        "platform": "backstop",
        "terminalStatus": record.state,
        "createdAtEpochMs": finished.as_micros() / 1_000,
        "terminalReason": record.reason,
        "errorCode": failure.map(|f| as_value(&f.error_type)),
        "errorMessage": failure.map(|f| as_value(&f.message)),
        "retryable": record.reason.is_some_and(crate::failure::TerminalReason::is_retryable),
        "retriesObserved": retries,
        "kind": &*spec.kind,
        "queue": &*spec.queue,
        "fingerprint": failure.map(|f| f.fingerprint.to_string()),
        "codeVersion": code_version,
    }))
}

fn as_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
