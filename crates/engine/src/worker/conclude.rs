//! From what happened to what is written: classify, ask the policy, decide, sanitize.

use std::sync::Arc;

use backstop_core::failure::redact::sanitize;
use backstop_core::failure::{Cause, Decision, Failure, HookAnswer, Situation, Verdict, decide};
use backstop_core::job::{Ending, FailureRecord, Job, Record};
use serde_json::Value;

use crate::config::Config;
use crate::outcome::Reply;

/// What a finished, failed or stopped handler left.
pub(crate) struct Happened {
    pub(crate) job: Arc<Job>,
    /// The record as it was claimed.
    pub(crate) record: Record,
    pub(crate) reply: Reply,
    pub(crate) output: Option<String>,
    pub(crate) code_version: Option<Arc<str>>,
}

/// Turns what happened into an ending. `ask` is the kind's retry policy (F7).
pub(crate) fn conclude(
    config: &Config,
    happened: Happened,
    ask: impl FnOnce(u32, &Failure) -> HookAnswer,
) -> Ending {
    let Happened { job, record, reply, output, code_version } = happened;
    let mut ending = match reply.0 {
        Ok(value) => succeeded(config, &job, value),
        Err(failed) => match failed.unserializable {
            Some(warning) => with_warning(succeeded(config, &job, None), warning),
            None => unsuccessful(config, &job, &record, &failed.failure, failed.value.as_ref(), ask),
        },
    };
    ending.output = output.map(|text| config.redactor.redact(&text).into_owned());
    ending.code_version = code_version;
    ending.follow_up = follow_up(&job, &record, &ending.decision.verdict);
    ending
}

/// The callback that a final verdict fires (F14).
pub(crate) fn follow_up(
    job: &Job,
    record: &Record,
    verdict: &Verdict,
) -> Option<Box<backstop_core::job::NewJob>> {
    match verdict {
        Verdict::Succeed => job.follow_up(record, true),
        Verdict::Dead { .. } => job.follow_up(record, false),
        _ => None,
    }
    .map(Box::new)
}

fn with_warning(mut ending: Ending, warning: String) -> Ending {
    ending.warning = Some(warning);
    ending
}

fn succeeded(config: &Config, job: &Job, value: Option<Value>) -> Ending {
    let mut ending = Ending::plain(job.spec.header(), Cause::Succeeded, Decision::succeeded());
    (ending.result, ending.warning) = keep(config, value);
    ending
}

/// A result within the limit is kept; a larger one becomes a warning (L6).
fn keep(config: &Config, value: Option<Value>) -> (Option<Arc<str>>, Option<String>) {
    let Some(value) = value else { return (None, None) };
    let text = value.to_string();
    let limit = config.limits.result_bytes;
    if text.len() > limit {
        let warning = format!("the result was not kept: it has {} bytes, the limit is {limit}", text.len());
        return (None, Some(warning));
    }
    (Some(text.into()), None)
}

fn unsuccessful(
    config: &Config,
    job: &Job,
    record: &Record,
    failure: &Failure,
    value: Option<&Value>,
    ask: impl FnOnce(u32, &Failure) -> HookAnswer,
) -> Ending {
    let hook = if failure.cause.charges_attempt() {
        ask(record.attempt.saturating_add(1), failure)
    } else {
        HookAnswer::default()
    };
    let situation = Situation {
        policy: &job.spec.policy,
        attempt: record.attempt,
        crashes: record.crashes,
        deferrals: record.deferrals,
        hook,
        jitter: fastrand::f64(),
    };
    let mut decision = decide(failure, &situation);
    for check in &mut decision.trace {
        check.answer = sanitize(&*config.redactor, &check.answer, config.limits.error_chars);
    }
    if let Verdict::Cancel { reason } = &mut decision.verdict {
        *reason = sanitize(&*config.redactor, reason, config.limits.error_chars);
    }
    let mut ending = Ending::plain(job.spec.header(), failure.cause, decision);
    if failure.cause.is_failure() || failure.cause == Cause::Rejected || failure.cause == Cause::EngineFault {
        ending.failure = Some(evidence(config, job, failure));
    }
    (ending.result, ending.warning) = keep(config, value.cloned());
    ending
}

/// The sanitized evidence of a failure (F11).
pub(crate) fn evidence(config: &Config, job: &Job, failure: &Failure) -> FailureRecord {
    let message = sanitize(&*config.redactor, &failure.message, config.limits.error_chars);
    let error_type = sanitize(&*config.redactor, &failure.error_type, config.limits.name_chars);
    let fingerprint = backstop_core::failure::fingerprint::fingerprint(&job.spec.kind, &error_type, &message);
    FailureRecord { error_type, message, fingerprint }
}
