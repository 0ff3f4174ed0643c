//! A set over the schedule that is there (W11): what it does not name stays. Values are handed on as the text that was
//! sent, whatever they are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use backstop::Callback;
use backstop::schedules::Schedule;
use backstop_core::job::Start;
use serde_json::value::{RawValue, to_raw_value};

use super::SetSchedule;
use crate::body::read;
use crate::error::{ApiError, internal};
use crate::shape::{BackoffPart, CallbackJob};

/// The fields of an object, each as it was written.
type RawFields = BTreeMap<String, Box<RawValue>>;

/// The body of a set over `schedule`.
///
/// # Errors
/// When `body` is no JSON object.
pub(crate) fn schedule_over(schedule: &Schedule, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let named: RawFields = read(body)?;
    let stands = serde_json::to_string(&SetSchedule::of(schedule)).map_err(|problem| internal(&problem))?;
    let mut fields: RawFields = serde_json::from_str(&stands).map_err(|problem| internal(&problem))?;
    let gives = |field: &str| named.get(field).is_some_and(|value| value.get() != "null");
    // Of two ways to say when, the one that is given takes the place of the other.
    if gives("cron") {
        fields.remove("every_ms");
    } else if gives("every_ms") {
        fields.remove("cron");
        fields.remove("time_zone");
    }
    for (field, value) in named {
        let is_null = value.get() == "null";
        let value = match fields.remove(&field) {
            Some(_) if is_null => continue,
            Some(before) if field == "backoff" => merged(&before, value),
            _ => value,
        };
        fields.insert(field, value);
    }
    serde_json::to_vec(&fields).map_err(|problem| internal(&problem))
}

/// An object with the fields of both; what is no object takes the place of the other.
fn merged(before: &RawValue, named: Box<RawValue>) -> Box<RawValue> {
    let fields = |value: &RawValue| serde_json::from_str::<RawFields>(value.get()).ok();
    let (Some(mut all), Some(more)) = (fields(before), fields(&named)) else { return named };
    all.extend(more);
    to_raw_value(&all).unwrap_or(named)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn text(value: Option<&str>) -> Option<String> {
    value.map(str::to_owned)
}

/// JSON that was stored as text.
fn json(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

fn callback(job: &Callback) -> CallbackJob<'_> {
    CallbackJob {
        kind: Cow::Borrowed(&job.kind),
        queue: Some(job.queue.to_string()),
        payload: json(&job.payload),
        version: Some(job.version),
    }
}

impl<'a> SetSchedule<'a> {
    /// What would set this schedule; whether it is paused is no part of that.
    fn of(schedule: &'a Schedule) -> Self {
        let (timing, spec) = (&schedule.timing, &schedule.job.spec);
        let (policy, needs) = (&spec.policy, spec.needs.as_deref());
        let backoff = &policy.backoff;
        let permits = needs.into_iter().flat_map(|needs| &needs.permits);
        Self {
            cron: text(timing.cron.as_deref()),
            every_ms: timing.every.map(millis),
            time_zone: text(timing.time_zone.as_deref()),
            misfire: Some(schedule.misfire),
            overlap: Some(schedule.overlap),
            paused: None,
            kind: Cow::Borrowed(&spec.kind),
            payload: json(&spec.payload),
            queue: Some(spec.queue.to_string()),
            priority: Some(spec.priority),
            version: Some(spec.version),
            delay_ms: match schedule.job.start {
                Start::After(delay) => Some(millis(delay)),
                // The schedule says when.
                Start::Now | Start::At(_) => None,
            },
            expires_in_ms: schedule.expires_in.map(millis),
            max_retries: Some(policy.max_retries),
            max_crashes: Some(policy.max_crashes),
            backoff: Some(BackoffPart {
                policy: Some(backoff.growth),
                base_ms: Some(millis(backoff.base)),
                cap_ms: Some(millis(backoff.cap)),
                jitter: Some(backoff.jitter),
            }),
            timeout_ms: policy.timeout.map(millis),
            max_wait_ms: policy.max_wait.map(millis),
            business_key: spec.business_key.clone(),
            ordering_key: text(spec.ordering_key.as_deref()),
            limit_key: text(needs.and_then(|needs| needs.limit_key.as_deref())),
            single_instance: text(needs.and_then(|needs| needs.single_instance.as_deref())),
            permits: permits.map(|(pool, count)| (pool.to_string(), *count)).collect(),
            max_deferral_ms: policy.max_deferral.map(millis),
            dependency: text(spec.dependency.as_deref()),
            on_conflict: Some(schedule.job.on_conflict),
            tags: spec.tags.clone(),
            params: spec.params.as_deref().and_then(json),
            correlation_id: spec.correlation_id.clone(),
            on_success: spec.on_success.as_ref().map(callback),
            on_failure: spec.on_failure.as_ref().map(callback),
        }
    }
}
