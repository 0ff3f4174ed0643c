//! The checks a submit passes before any store sees it, in the order of L12.
//!
//! Payload and limits, then the signature of a job that was made elsewhere, then the queue's allow list. The two
//! checks that need the store, idempotency and business key, follow there.

use serde_json::Value;

use crate::depth::DepthLimit;
use crate::job::{Callback, MOST_PERMITS, MOST_POOLS, NewJob, Spec, is_trace_parent};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::signing::SignatureError;

/// What a queue lets in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedKinds {
    /// The kinds it takes; none means all (E8).
    pub kinds: Option<Vec<String>>,
}

impl AllowedKinds {
    /// True when jobs of `kind` may wait and run here.
    #[must_use]
    pub fn allows(&self, kind: &str) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|allowed| allowed == kind))
    }
}

/// Checks everything about a job that needs no store.
///
/// # Errors
/// The first [`Refusal`], which names the field and the limit.
pub fn admit(job: &NewJob, limits: &Limits, gate: &AllowedKinds) -> Result<(), Refusal> {
    admit_vouched(job, limits, gate, |_| Ok(()))
}

/// The same for a job that was made elsewhere: `vouched` says whether its signature is right.
///
/// # Errors
/// The first [`Refusal`].
pub fn admit_vouched(
    job: &NewJob,
    limits: &Limits,
    gate: &AllowedKinds,
    vouched: impl FnOnce(&Spec) -> Result<(), SignatureError>,
) -> Result<(), Refusal> {
    let spec = &job.spec;
    check_name("kind", &spec.kind, limits)?;
    check_name("queue", &spec.queue, limits)?;
    check_json("payload", &spec.payload, limits.payload_bytes)?;
    check_keys(spec, limits)?;
    check_params(spec, limits)?;
    check_times(job, limits)?;
    check_trace(spec)?;
    for callback in [&spec.on_success, &spec.on_failure].into_iter().flatten() {
        self::callback(callback, limits)?;
    }
    vouched(spec).map_err(Refusal::Signature)?;
    if !gate.allows(&spec.kind) {
        return Err(Refusal::KindNotAllowed { kind: spec.kind.to_string(), queue: spec.queue.to_string() });
    }
    Ok(())
}

/// Refuses one more job where so many wait (H12). The store asks, last of all checks.
///
/// # Errors
/// [`Refusal::QueueFull`].
pub fn depth(limit: &DepthLimit, depth: u64) -> Result<(), Refusal> {
    if depth < limit.most {
        return Ok(());
    }
    Err(Refusal::QueueFull { scope: limit.scope.clone(), depth, limit: limit.most })
}

/// Checks the name of a queue that is named without a job, such as one to pause.
///
/// # Errors
/// The [`Refusal`] that a submit to it would meet.
pub fn queue_name(name: &str, limits: &Limits) -> Result<(), Refusal> {
    check_name("queue", name, limits)
}

/// Checks a name that is given without a job, such as a worker's.
///
/// # Errors
/// A [`Refusal`] that names `field`.
pub fn name(field: &'static str, name: &str, limits: &Limits) -> Result<(), Refusal> {
    check_name(field, name, limits)
}

/// Checks a key that is given without a job, such as an effect's.
///
/// # Errors
/// A [`Refusal`] that names `field`.
pub fn key(field: &'static str, key: &str, limits: &Limits) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::invalid(field, "it is empty"));
    }
    check_text(field, key, limits.key_chars)
}

fn check_name(field: &'static str, name: &str, limits: &Limits) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::invalid(field, "it is empty"));
    }
    check_text(field, name, limits.name_chars)?;
    if name.trim() != name {
        return Err(Refusal::invalid(field, "it begins or ends with whitespace"));
    }
    Ok(())
}

/// The highest version of a payload: stores keep a mark beside it in the same number.
const HIGHEST_VERSION: u32 = (1 << 31) - 1;

/// Refuses what some database cannot hold or some terminal would obey.
fn check_text(field: &'static str, text: &str, limit: usize) -> Result<(), Refusal> {
    // Bytes bound characters, so the common short text is never counted.
    if text.len() > limit {
        let actual = text.chars().count();
        if actual > limit {
            return Err(Refusal::TooLarge { field, actual, limit, unit: "characters" });
        }
    }
    match text.chars().find(|c| c.is_control()) {
        Some(c) => {
            Err(Refusal::invalid(field, format!("it contains the control character U+{:04X}", u32::from(c))))
        }
        None => Ok(()),
    }
}

fn check_json(field: &'static str, text: &str, limit: usize) -> Result<(), Refusal> {
    if text.len() > limit {
        return Err(Refusal::TooLarge { field, actual: text.len(), limit, unit: "bytes" });
    }
    // Skipping is cheap but does not look into escapes; half a surrogate pair shows only when text is decoded.
    let outcome = if text.contains("\\u") {
        serde_json::from_str::<Value>(text).map(drop)
    } else {
        serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop)
    };
    outcome.map_err(|problem| Refusal::invalid(field, format!("it is not valid JSON: {problem}")))
}

fn check_keys(spec: &Spec, limits: &Limits) -> Result<(), Refusal> {
    let keys = [
        ("idempotency_key", spec.idempotency_key.as_deref()),
        ("business_key", spec.business_key.as_deref()),
        ("ordering_key", spec.ordering_key.as_deref()),
        ("correlation_id", spec.correlation_id.as_deref()),
        ("limit_key", spec.needs.as_deref().and_then(|needs| needs.limit_key.as_deref())),
        ("single_instance", spec.needs.as_deref().and_then(|needs| needs.single_instance.as_deref())),
    ];
    for (field, key) in keys {
        if let Some(key) = key {
            if key.is_empty() {
                return Err(Refusal::invalid(field, "it is empty; leave it out instead"));
            }
            check_text(field, key, limits.key_chars)?;
        }
    }
    if spec.version > HIGHEST_VERSION {
        return Err(Refusal::invalid("version", format!("it is at most {HIGHEST_VERSION}")));
    }
    check_needs(spec, limits)?;
    if let Some(dependency) = &spec.dependency {
        check_name("dependency", dependency, limits)?;
    }
    if spec.tags.len() > limits.tags {
        return Err(Refusal::TooLarge {
            field: "tags",
            actual: spec.tags.len(),
            limit: limits.tags,
            unit: "tags",
        });
    }
    spec.tags.iter().try_for_each(|tag| check_name_like_tag(tag, limits))
}

/// What a job shares with others while it runs (H5, H6).
fn check_needs(spec: &Spec, limits: &Limits) -> Result<(), Refusal> {
    let Some(needs) = spec.needs.as_deref() else { return Ok(()) };
    if !needs.is_empty() && spec.ordering_key.is_some() {
        let problem = "a job that waits for its turn in a line cannot wait for a limit as well; give it an \
                       ordering_key, or a limit_key, a single_instance or permits";
        return Err(Refusal::invalid("ordering_key", problem));
    }
    if needs.permits.len() > MOST_POOLS {
        let (actual, limit) = (needs.permits.len(), MOST_POOLS);
        return Err(Refusal::TooLarge { field: "permits", actual, limit, unit: "pools" });
    }
    for (pool, permits) in &needs.permits {
        name("permits", pool, limits)?;
        if *permits == 0 || *permits > MOST_PERMITS {
            let problem = format!("{permits} of {pool:?}: give between 1 and {MOST_PERMITS}");
            return Err(Refusal::invalid("permits", problem));
        }
    }
    Ok(())
}

fn check_name_like_tag(tag: &str, limits: &Limits) -> Result<(), Refusal> {
    if tag.is_empty() {
        return Err(Refusal::invalid("tags", "a tag is empty"));
    }
    check_text("tags", tag, limits.tag_chars)
}

fn check_params(spec: &Spec, limits: &Limits) -> Result<(), Refusal> {
    let Some(params) = &spec.params else { return Ok(()) };
    check_json("params", params, limits.params_bytes)?;
    match serde_json::from_str(params) {
        Ok(Value::Object(_)) => Ok(()),
        _ => Err(Refusal::invalid("params", "it is not a JSON object")),
    }
}

fn check_times(job: &NewJob, limits: &Limits) -> Result<(), Refusal> {
    let policy = &job.spec.policy;
    if policy.max_retries > limits.retries {
        return Err(Refusal::TooLarge {
            field: "max_retries",
            actual: policy.max_retries as usize,
            limit: limits.retries as usize,
            unit: "retries",
        });
    }
    let delay = match job.start {
        crate::job::Start::After(delay) => Some(delay),
        _ => None,
    };
    let spans = [
        ("delay_ms", delay),
        ("timeout_ms", policy.timeout),
        ("max_wait_ms", policy.max_wait),
        ("max_deferral_ms", policy.max_deferral),
        ("backoff.base_ms", Some(policy.backoff.base)),
        ("backoff.cap_ms", Some(policy.backoff.cap)),
    ];
    for (field, span) in spans {
        if span.is_some_and(|span| span > limits.delay) {
            return Err(Refusal::invalid(
                field,
                format!("it is longer than {} days", limits.delay.as_secs() / 86_400),
            ));
        }
    }
    if policy.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Refusal::invalid("timeout_ms", "it is zero; leave it out for no limit"));
    }
    Ok(())
}

fn check_trace(spec: &Spec) -> Result<(), Refusal> {
    match spec.trace() {
        Some(trace) if !is_trace_parent(trace) => Err(Refusal::invalid(
            "trace_parent",
            "it is not a W3C traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )),
        _ => Ok(()),
    }
}

/// Refuses a callback that can never be stored.
///
/// # Errors
/// When one of its names or its payload is not as names and payloads of jobs are.
pub fn callback(callback: &Callback, limits: &Limits) -> Result<(), Refusal> {
    check_name("callback kind", &callback.kind, limits)?;
    check_name("callback queue", &callback.queue, limits)?;
    if callback.version > HIGHEST_VERSION {
        return Err(Refusal::invalid("callback version", format!("it is at most {HIGHEST_VERSION}")));
    }
    check_json("callback payload", &callback.payload, limits.payload_bytes)
}

#[cfg(test)]
mod tests;
