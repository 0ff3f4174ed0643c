//! What remote workers send, as the engine takes it, and jobs as their callers know them.

use std::sync::Arc;
use std::time::Duration;

use backstop::circuits::CallResult;
use backstop::{Cause, CrashEvidence, Ended, Failure, Finished, Limits, Refusal, RemoteWorker, WorkRequest};
use backstop_core::admit;
use backstop_core::job::JobView;
use backstop_store::KnownKind;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::access::Caller;
use crate::body::{read_part, wrong_field};
use crate::error::ApiError;
use crate::lease::{LeaseKey, stale};
use crate::resources::names;
use crate::shape::work as shape;

const MOST_QUEUES: usize = 100;
const MOST_KINDS: usize = 1_000;
const MOST_JOBS: u32 = 500;
const LONGEST_WAIT_MS: u64 = 60_000;
/// Characters that are kept of what a process said last.
const LAST_LINE: usize = 1_000;
const LEASE_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;

/// The engine's request for what a worker asks.
pub(super) fn work_request(
    caller: &Caller,
    claim: &shape::ClaimRequest,
    limits: &Limits,
) -> Result<WorkRequest, ApiError> {
    some("queues", claim.queues.len())?;
    some("kinds", claim.kinds.len())?;
    few_enough("queues", claim.queues.len(), MOST_QUEUES)?;
    few_enough("kinds", claim.kinds.len(), MOST_KINDS)?;
    between("limit", u64::from(claim.limit), 1, u64::from(MOST_JOBS))?;
    between("lease_ms", claim.lease_ms, *LEASE_MS.start(), *LEASE_MS.end())?;
    if let Some(version) = &claim.code_version {
        admit::name("code_version", version, limits)?;
    }
    let queues = claim.queues.iter().map(|name| {
        names::not_reserved("queues", name)?;
        let queue = caller.queue(name)?;
        admit::name("queues", &queue, limits)?;
        Ok(Arc::from(queue))
    });
    let kinds = claim.kinds.iter().map(|kind| {
        let kind = known(kind, limits)?;
        names::not_reserved("kinds", &kind.kind)?;
        Ok(kind)
    });
    Ok(WorkRequest {
        worker: worker(caller, &claim.worker, claim.instance.as_deref(), limits)?,
        queues: queues.collect::<Result<_, ApiError>>()?,
        kinds: kinds.collect::<Result<_, ApiError>>()?,
        limit: usize::try_from(claim.limit).unwrap_or(usize::MAX),
        wait: Duration::from_millis(claim.wait_ms.min(LONGEST_WAIT_MS)),
        lease: Duration::from_millis(claim.lease_ms),
        code_version: claim.code_version.as_deref().map(Arc::from),
    })
}

/// A worker by the name it gives itself, which is its tenant's own, and the process that it says it is.
pub(super) fn worker(
    caller: &Caller,
    name: &str,
    instance: Option<&str>,
    limits: &Limits,
) -> Result<RemoteWorker, Refusal> {
    admit::name("worker", name, limits)?;
    if let Some(instance) = instance {
        admit::name("instance", instance, limits)?;
    }
    let (realm, instance) = (caller.tenant().unwrap_or_default().to_owned(), instance.map(str::to_owned));
    Ok(RemoteWorker { realm, name: name.to_owned(), instance })
}

/// What is told of the end of a process.
pub(super) fn evidence(death: shape::DeadWorker) -> Result<CrashEvidence, ApiError> {
    let within = |field: &str, value: Option<i32>, least: u64, most: u64| match value {
        Some(value) => between(field, u64::try_from(value).unwrap_or(u64::MAX), least, most),
        None => Ok(()),
    };
    within("signal", death.signal, 1, 64)?;
    within("code", death.code, 0, 255)?;
    let mut evidence = CrashEvidence::default();
    (evidence.signal, evidence.code) = (death.signal, death.code);
    (evidence.peak_memory, evidence.out_of_memory) = (death.peak_memory, death.out_of_memory);
    evidence.last_line = death.last_line.map(|line| line.chars().take(LAST_LINE).collect());
    Ok(evidence)
}

fn known(kind: &shape::ClaimKind, limits: &Limits) -> Result<KnownKind, Refusal> {
    let (name, version) = match kind {
        shape::ClaimKind::Name(name) => (name, 1),
        shape::ClaimKind::Versioned(kind) => (&kind.kind, kind.version),
    };
    admit::name("kinds", name, limits)?;
    if version == 0 {
        return Err(Refusal::invalid("kinds", format!("versions of `{name}` begin with 1")));
    }
    Ok(KnownKind { kind: name.as_str().into(), version })
}

fn some(field: &str, count: usize) -> Result<(), ApiError> {
    if count == 0 { Err(wrong_field(field, "it is empty; name at least one")) } else { Ok(()) }
}

pub(super) fn few_enough(field: &str, count: usize, most: usize) -> Result<(), ApiError> {
    if count > most {
        return Err(wrong_field(field, &format!("it has {count} items, the limit is {most}")));
    }
    Ok(())
}

fn between(field: &str, value: u64, least: u64, most: u64) -> Result<(), ApiError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(wrong_field(field, &format!("{value} is not between {least} and {most}")))
}

pub(super) fn percent(percent: u8) -> Result<(), ApiError> {
    between("percent", u64::from(percent), 0, 100)
}

/// The token of a lease, or the beginning of what stands in its place.
pub(super) fn token(item: &RawValue) -> String {
    const SHOWN: usize = 256;
    serde_json::from_str(item.get()).unwrap_or_else(|_| item.get().chars().take(SHOWN).collect())
}

/// One item of a finish: what it says and the right to say it.
pub(super) fn finished(key: &LeaseKey, caller: &Caller, item: &RawValue) -> Result<Finished, ApiError> {
    let item: shape::FinishedRun = read_part("the result", item.get().as_bytes())?;
    let grant = key.open(caller, &item.lease).ok_or_else(stale)?;
    let step = match &item.outcome {
        shape::RunOutcome::Failed { step, .. } | shape::RunOutcome::ReportedFailure { step, .. } => *step,
        _ => None,
    };
    let (ended, logs) = ended(item.outcome);
    Ok(Finished { grant, ended, step, logs: logs.map(lines).unwrap_or_default() })
}

fn lines(logs: shape::LogText) -> Vec<String> {
    match logs {
        shape::LogText::Text(text) => text.lines().map(str::to_owned).collect(),
        shape::LogText::Lines(lines) => lines,
    }
}

fn ended(outcome: shape::RunOutcome) -> (Ended, Option<shape::LogText>) {
    match outcome {
        shape::RunOutcome::Succeeded { result, logs } => (Ended::Succeeded { result }, logs),
        shape::RunOutcome::Failed {
            class,
            message,
            error_type,
            retry_in_ms,
            dependency,
            circuit,
            logs,
            step: _,
        } => {
            let (cause, usual) = cause(class);
            let mut failure = Failure::new(cause, error_type.unwrap_or_else(|| usual.to_owned()), message);
            if matches!(cause, Cause::Permanent | Cause::Invalid) {
                failure.why = Some(failure.message.clone());
            }
            failure.retry_in = retry_in_ms.map(Duration::from_millis);
            failure.dependency = dependency;
            failure.call_result = circuit.map(call_result);
            (Ended::Failed(failure), logs)
        }
        shape::RunOutcome::Snoozed { delay_ms, logs } => {
            (Ended::Snoozed { delay: Duration::from_millis(delay_ms) }, logs)
        }
        shape::RunOutcome::Canceled { reason, logs } => (Ended::Canceled { reason }, logs),
        shape::RunOutcome::ReportedFailure { result, logs, .. } => (Ended::ReportedFailure { result }, logs),
        shape::RunOutcome::RateLimited { retry_in_ms, logs } => {
            (Ended::RateLimited { delay: Duration::from_millis(retry_in_ms) }, logs)
        }
        shape::RunOutcome::Waiting { signal, timeout_ms, index, logs } => {
            (Ended::Waiting { signal, timeout: timeout_ms.map(Duration::from_millis), index }, logs)
        }
        shape::RunOutcome::Interrupted { logs } => (Ended::Interrupted, logs),
    }
}

/// What a failure with this mark says of the dependency that was called.
const fn call_result(mark: shape::CircuitMark) -> CallResult {
    match mark {
        shape::CircuitMark::Counts => CallResult::Failure,
        shape::CircuitMark::Neutral => CallResult::Neutral,
        shape::CircuitMark::Ignored => CallResult::Ignored,
    }
}

/// The cause of a class, and the type of an error that says none.
const fn cause(class: shape::FailureClass) -> (Cause, &'static str) {
    match class {
        shape::FailureClass::Error => (Cause::Error, "Error"),
        shape::FailureClass::Permanent => (Cause::Permanent, "Permanent"),
        shape::FailureClass::Invalid => (Cause::Invalid, "Invalid"),
        shape::FailureClass::Transient => (Cause::Rejected, "Transient"),
        shape::FailureClass::Timeout => (Cause::Timeout, "Timeout"),
        shape::FailureClass::Panic => (Cause::Panic, "Panic"),
    }
}

/// A job as it reads everywhere, under the names that its caller knows.
pub(super) fn job(caller: &Caller, view: &JobView) -> Map<String, Value> {
    match serde_json::to_value(names::job(caller, view.reads())) {
        Ok(Value::Object(job)) => job,
        // It was claimed from a queue that the caller named, so it is one that it sees.
        _ => Map::new(),
    }
}
