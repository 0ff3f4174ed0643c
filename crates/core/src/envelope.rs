//! The dead letter as other systems read it (D1).

use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::TerminalReason;
use crate::id::JobId;
use crate::job::{FailureRecord, Record, State, StoredJob};

/// The envelope of a dead letter, with the field names that downstream readers know.
///
/// Answers none for a job that is no dead letter.
#[must_use]
pub fn envelope(
    job: &StoredJob,
    record: &Record,
    failure: Option<&FailureRecord>,
    code_version: Option<&str>,
) -> Option<Value> {
    if record.state != State::Failed {
        return None;
    }
    let spec = &job.spec;
    // Of a run that was cut off only what it stored is known.
    let step_index = record.died_at_step().or_else(|| Some(record.step_history()?.next_index())).unwrap_or(0);
    let finished = record.finished_at.unwrap_or(job.created_at);
    Some(json!({
        "tenantId": crate::tenant::shown(&spec.queue),
        "executionId": spec.id,
        "executionKey": spec.business_key.as_deref().or(spec.idempotency_key.as_deref()),
        "transitionKey": transition_key(spec.id, step_index, record.runs),
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
        "retryable": record.reason.is_some_and(TerminalReason::ends_retries),
        "retriesObserved": retries(job, record),
        "kind": &*spec.kind,
        "queue": &*spec.queue,
        "fingerprint": failure.map(|f| f.fingerprint.to_string()),
        "codeVersion": code_version,
    }))
}

/// The identity of a step in one run (W7): `executionId:stepIndex:attempt`, where every start counts as an attempt, so
/// that no two runs share one.
#[must_use]
pub fn transition_key(job: JobId, step: u32, run: u32) -> String {
    format!("{job}:{step}:{run}")
}

/// Runs that followed a failure, since a person or a plan last drove the job. What went back uncharged was no
/// retry; and without a retry budget there was nothing to observe, whatever the counters say.
fn retries(job: &StoredJob, record: &Record) -> u32 {
    if job.spec.policy.max_retries == 0 {
        return 0;
    }
    let failed = record.attempt.saturating_add(record.crashes);
    match record.reason {
        // Its last run is not among the failed ones.
        Some(TerminalReason::DeferralExhausted | TerminalReason::Signature) => failed,
        _ => failed.saturating_sub(1),
    }
}

fn as_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Spec;
    use crate::time::Timestamp;

    #[test]
    fn the_transition_key_tells_the_step_that_was_not_done() {
        // D1, W7
        use crate::id::{Fence, Lease, WorkerId};
        use crate::job::{Remark, StepFact, StepWrite};
        let spec = Spec::new(JobId::from_u128(1), "work", "{}");
        let at = Timestamp::from_micros(5_000);
        let mut record = Record::new(&spec, at);
        let lease = Lease { job: spec.id, worker: WorkerId::from_u128(2), fence: Fence(1) };
        record.claim(lease.worker, lease.fence, at, true).expect("it is pending");
        for name in ["fetch", "render"] {
            let write = StepWrite { index: None, name: name.to_owned(), fact: StepFact::Done("1".into()) };
            record.note(&lease, &Remark::Step(write)).expect("held");
        }
        record.state = State::Failed;
        let job = StoredJob { spec, created_at: at };
        let letter = envelope(&job, &record, None, None).expect("a dead letter");
        assert_eq!(letter["transitionKey"], json!(format!("{}:2:1", job.spec.id)));
        // A run that says where it died knows better: the first step may have failed and been put up with.
        record.marks.get_or_insert_default().died_at_step = Some(1);
        let letter = envelope(&job, &record, None, None).expect("a dead letter");
        assert_eq!(letter["transitionKey"], json!(format!("{}:1:1", job.spec.id)));
    }

    #[test]
    fn retryable_and_retries_observed_agree_with_the_reason() {
        // D1
        use TerminalReason::{
            DeferralExhausted, DependencyFailed, Expired, Invalid, NonRetryable, Poisoned, PolicyRejected,
            ReportedFailure, RetryExhausted, Signature,
        };
        // The reason, max_retries, charged attempts, crashes, deferrals, runs; then what the envelope says.
        let table = [
            (RetryExhausted, 5, 6, 0, 0, 6, true, 5),
            (RetryExhausted, 5, 6, 0, 9, 15, true, 5),
            // Driven again: the counters started over, the runs did not.
            (RetryExhausted, 1, 2, 0, 0, 8, true, 1),
            (RetryExhausted, 0, 1, 0, 0, 1, true, 0),
            (RetryExhausted, 0, 1, 3, 0, 4, true, 0),
            (NonRetryable, 5, 1, 0, 0, 1, false, 0),
            (NonRetryable, 5, 3, 0, 0, 3, false, 2),
            (NonRetryable, 0, 1, 0, 4, 5, false, 0),
            (PolicyRejected, 5, 2, 0, 0, 2, false, 1),
            (Invalid, 5, 1, 0, 0, 1, false, 0),
            (Poisoned, 5, 0, 11, 0, 11, true, 10),
            (Poisoned, 5, 2, 11, 0, 13, true, 12),
            (Poisoned, 0, 0, 11, 0, 11, true, 0),
            (Signature, 5, 0, 0, 0, 1, false, 0),
            (Signature, 5, 2, 0, 0, 3, false, 2),
            (Expired, 5, 0, 0, 0, 0, false, 0),
            (Expired, 5, 2, 0, 0, 2, false, 1),
            (DependencyFailed, 5, 0, 0, 0, 0, false, 0),
            (DeferralExhausted, 5, 0, 0, 7, 7, true, 0),
            (DeferralExhausted, 5, 2, 0, 7, 9, true, 2),
            (DeferralExhausted, 0, 0, 0, 7, 7, true, 0),
            (ReportedFailure, 5, 1, 0, 0, 1, false, 0),
            (RetryExhausted, u32::MAX, u32::MAX, u32::MAX, 0, u32::MAX, true, u32::MAX - 1),
        ];
        for (reason, max_retries, attempt, crashes, deferrals, runs, retryable, retries) in table {
            let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
            spec.policy.max_retries = max_retries;
            let at = Timestamp::from_micros(5_000);
            let record = Record {
                state: State::Failed,
                reason: Some(reason),
                attempt,
                crashes,
                deferrals,
                runs,
                ..Record::new(&spec, at)
            };
            let job = StoredJob { spec, created_at: at };
            let letter = envelope(&job, &record, None, None).expect("a dead letter");
            let said = (&letter["retryable"], &letter["retriesObserved"]);
            assert_eq!(said, (&json!(retryable), &json!(retries)), "{reason} {runs} {max_retries}");
        }
    }
}
