//! From what happened to what is written: classify, ask the policy, decide, sanitize.

use std::sync::Arc;

use backstop_core::failure::redact::sanitize;
use backstop_core::failure::{
    Cause, Decision, DecisionInput, Failure, HookAnswer, RuleAction, RuleId, RuleInput, RuleSet, Verdict,
    decide,
};
use backstop_core::job::{CallbackInput, Ending, FailureRecord, Record, SignalWait, StoredJob};
use serde_json::Value;

use crate::config::Config;
use crate::outcome::{Failed, Reply};
use crate::{sealing, signing};

/// What a finished, failed or stopped handler left.
pub(crate) struct HandlerEnd {
    pub(crate) job: Arc<StoredJob>,
    /// The record as it was claimed.
    pub(crate) record: Record,
    pub(crate) reply: Reply,
    pub(crate) output: Option<String>,
    pub(crate) code_version: Option<Arc<str>>,
}

/// What a run comes to.
pub(crate) struct DecidedEnding {
    /// What is written.
    pub(crate) ending: Ending,
    /// The rule that wants the job's queue paused first (F18).
    pub(crate) pauses: Option<RuleId>,
}

impl DecidedEnding {
    const fn plain(ending: Ending) -> Self {
        Self { ending, pauses: None }
    }
}

/// Turns what happened into an ending. `ask` is the kind's retry policy (F7), `rules` the operator's rules (F18).
pub(crate) fn conclude(
    config: &Config,
    rules: &RuleSet,
    handler_end: HandlerEnd,
    ask: impl FnOnce(u32, &Failure) -> HookAnswer,
) -> DecidedEnding {
    let HandlerEnd { job, record, reply, output, code_version } = handler_end;
    let mut concluded = match reply.0 {
        Ok(value) => DecidedEnding::plain(succeeded(config, &job, value)),
        Err(failed) => match (failed.unserializable.clone(), &failed.wait) {
            (Some(warning), _) => {
                let warning = sanitize(&*config.redactor, &warning, config.limits.error_chars);
                DecidedEnding::plain(with_warning(succeeded(config, &job, None), warning))
            }
            (None, Some(wait)) => DecidedEnding::plain(waiting(&job, wait)),
            (None, None) => {
                let failed = without_secrets(config, &job, failed);
                let hook = if failed.failure.cause.charges_attempt() {
                    ask(record.attempt.saturating_add(1), &failed.failure)
                } else {
                    HookAnswer::default()
                };
                let mut concluded = judge(config, rules, &job, &record, &failed.failure, hook);
                let kept = keep(config, &job, failed.value);
                (concluded.ending.result, concluded.ending.warning) = kept;
                concluded.ending.step = failed.step;
                concluded
            }
        },
    };
    let ending = &mut concluded.ending;
    // A character has a byte at least, so this cuts nothing that the output's own limit has left.
    ending.output = output.map(|text| sanitize(&*config.redactor, &text, config.limits.output_bytes));
    ending.code_version = code_version;
    ending.follow_up = follow_up(config, &job, &record, ending);
    concluded
}

/// The callback that a final verdict fires (F14): told how its parent ended, and signed like every other job (E9).
pub(crate) fn follow_up(
    config: &Config,
    job: &StoredJob,
    record: &Record,
    ending: &Ending,
) -> Option<Box<backstop_core::job::NewJob>> {
    let (mut callback, reason) = match &ending.decision.verdict {
        Verdict::Succeed => (job.follow_up(record, true)?, None),
        Verdict::Dead { reason } => (job.follow_up(record, false)?, Some(*reason)),
        _ => return None,
    };
    let counts = ending.cause.charges_attempt() || ending.cause == Cause::Succeeded;
    let told = CallbackInput {
        attempts: record.attempt.saturating_add(u32::from(counts)),
        reason,
        failure: ending.failure.as_ref(),
        result: ending.result.as_deref(),
        room: config.limits.params_bytes,
    };
    told.write(&job.spec, &mut callback.spec);
    signing::vouch(config, &mut callback.spec);
    Some(Box::new(callback))
}

/// A reported failure whose message quotes what a view of the result shows, and no more (F11, E12).
fn without_secrets(config: &Config, job: &StoredJob, mut failed: Box<Failed>) -> Box<Failed> {
    if let Some(value) = &failed.value {
        let (said, shown) = (value.to_string(), sealing::told(config, &job.spec, value.clone()).to_string());
        if said != shown {
            failed.failure.message = failed.failure.message.replace(&said, &shown);
        }
    }
    failed
}

fn with_warning(mut ending: Ending, warning: String) -> Ending {
    ending.warning = Some(warning);
    ending
}

fn succeeded(config: &Config, job: &StoredJob, value: Option<Value>) -> Ending {
    let mut ending = Ending::plain(job.spec.header(), Cause::Succeeded, Decision::succeeded());
    (ending.result, ending.warning) = keep(config, job, value);
    ending
}

/// The end of a run that waits for a signal: nobody failed, and no rule is asked (W10).
fn waiting(job: &StoredJob, wait: &SignalWait) -> Ending {
    Ending::plain(job.spec.header(), Cause::Waiting, Decision::waiting(wait))
}

/// A result within the limit is kept, sealed if it must be (E12); a larger one becomes a warning (L6).
fn keep(config: &Config, job: &StoredJob, value: Option<Value>) -> (Option<Arc<str>>, Option<String>) {
    let Some(value) = value else { return (None, None) };
    let text = value.to_string();
    let limit = config.limits.result_bytes;
    if text.len() > limit {
        let warning = format!("the result was not kept: it has {} bytes, the limit is {limit}", text.len());
        return (None, Some(warning));
    }
    match sealing::result(config, &job.spec, text) {
        Ok(kept) => (Some(kept), None),
        Err(problem) => (None, Some(format!("the result was not kept: {problem}"))),
    }
}

/// Decides about a run that did not simply succeed, by the job's policy and the operator's rules, and keeps the
/// evidence.
pub(crate) fn judge(
    config: &Config,
    rules: &RuleSet,
    job: &StoredJob,
    record: &Record,
    failure: &Failure,
    hook: HookAnswer,
) -> DecidedEnding {
    // Rules match what people see: the sanitized text.
    let evidence = evidence(config, job, failure);
    let rule = rules.judge(&RuleInput {
        kind: &job.spec.kind,
        queue: &job.spec.queue,
        cause: failure.cause,
        error_type: &evidence.error_type,
        message: &evidence.message,
    });
    let situation = DecisionInput {
        policy: &job.spec.policy,
        attempt: record.attempt,
        crashes: record.crashes,
        deferrals: record.deferrals,
        hook,
        jitter: fastrand::f64(),
        rule,
        longest_delay: config.limits.delay,
    };
    let mut decision = decide(failure, &situation);
    for check in &mut decision.trace {
        check.answer = sanitize(&*config.redactor, &check.answer, config.limits.error_chars);
    }
    if let Verdict::Cancel { reason } = &mut decision.verdict {
        *reason = sanitize(&*config.redactor, reason, config.limits.error_chars);
    }
    let decided_by = rule.filter(|_| decision.rule_id().is_some());
    let cause = decided_by.map_or(failure.cause, |rule| rule.cause(failure));
    let mut ending = Ending::plain(job.spec.header(), cause, decision);
    if cause.is_failure() || matches!(cause, Cause::Rejected | Cause::EngineFault) {
        ending.failure = Some(evidence);
    }
    let pauses = decided_by.filter(|rule| rule.action == RuleAction::PauseQueue).map(|rule| rule.id.clone());
    DecidedEnding { ending, pauses }
}

/// The sanitized evidence of a failure (F11).
pub(crate) fn evidence(config: &Config, job: &StoredJob, failure: &Failure) -> FailureRecord {
    let message = sanitize(&*config.redactor, &failure.message, config.limits.error_chars);
    let error_type = sanitize(&*config.redactor, &failure.error_type, config.limits.name_chars);
    // The failures of a tenant are apart from everybody else's (E13).
    let kind = job.spec.incident_kind();
    let fingerprint = backstop_core::failure::fingerprint::fingerprint(&kind, &error_type, &message);
    FailureRecord { error_type, message, fingerprint }
}
