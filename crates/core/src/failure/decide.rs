//! The failure pipeline (F4): from what happened to where the job goes.

use std::time::Duration;

use super::{Budget, Cause, Decision, TerminalReason, Verdict};
use crate::job::Policy;
use crate::limits::Limits;

/// What a run reported when it did not simply succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The one cause.
    pub cause: Cause,
    /// The error's type.
    pub error_type: String,
    /// The error's text, not yet sanitized.
    pub message: String,
    /// Why a permanent or invalid mark was set, as its author wrote it (F6).
    pub why: Option<String>,
    /// When to run again, asked for by the handler or by a server's Retry-After (F9).
    pub retry_in: Option<Duration>,
    /// The dependency that was away (H1).
    pub dependency: Option<String>,
    /// True when the handler reported a failure as its result (F16).
    pub reported: bool,
}

impl Failure {
    /// A failure with a type and a text.
    pub fn new(cause: Cause, error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            cause,
            error_type: error_type.into(),
            message: message.into(),
            why: None,
            retry_in: None,
            dependency: None,
            reported: false,
        }
    }

    /// The same with the delay that was asked for.
    #[must_use]
    pub const fn retry_in(mut self, delay: Duration) -> Self {
        self.retry_in = Some(delay);
        self
    }

    /// The same with the reason its author gave for a mark.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }
}

/// What the retry policy hook said (F7). It was called outside; its answer comes in as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HookAnswer {
    /// What `should_retry` said; none when there is no hook or it panicked, which counts as yes.
    pub should_retry: Option<bool>,
    /// What `delay` said; it overrides the job's backoff.
    pub delay: Option<Duration>,
    /// True when the hook panicked.
    pub panicked: bool,
}

/// All that the decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// What the job was promised.
    pub policy: &'a Policy,
    /// Charged runs before this one.
    pub attempt: u32,
    /// Crashes before this one.
    pub crashes: u32,
    /// Uncharged endings before this one.
    pub deferrals: u32,
    /// What the retry policy hook said.
    pub hook: HookAnswer,
    /// A number in `0.0..1.0` for jitter.
    pub jitter: f64,
}

/// Decides where a job goes after `failure`, with the trace of every check made.
///
/// The order is fixed: count the attempt, permanent?, policy says no?, attempts used up?, wait.
#[must_use]
pub fn decide(failure: &Failure, situation: &Situation<'_>) -> Decision {
    let mut decision = Decision::started_for(failure.cause);
    decision.verdict = match failure.cause {
        Cause::Succeeded => Verdict::Succeed,
        Cause::Canceled => Verdict::Cancel { reason: failure.message.clone() },
        Cause::Signature => {
            decision.note("signature", "missing or wrong: never run, never retried");
            Verdict::Dead { reason: TerminalReason::Signature }
        }
        cause => match cause.budget() {
            Budget::Attempts => charged(failure, situation, &mut decision),
            Budget::Crashes => crashed(situation, &mut decision),
            Budget::None => deferred(failure, situation, &mut decision),
        },
    };
    decision
}

fn charged(failure: &Failure, situation: &Situation<'_>, decision: &mut Decision) -> Verdict {
    let policy = situation.policy;
    let attempt = situation.attempt.saturating_add(1);
    decision.note("attempt", format!("{attempt} of {}", u64::from(policy.max_retries) + 1));

    if let Some(reason) = permanent(failure) {
        let why = failure.why.as_deref().unwrap_or("marked so by its type");
        decision.note("permanent", format!("yes: {why}"));
        return Verdict::Dead { reason };
    }
    decision.note("permanent", "no");

    if situation.hook.should_retry == Some(false) {
        decision.note("retry_policy", "says no");
        return Verdict::Dead { reason: TerminalReason::PolicyRejected };
    }
    decision
        .note("retry_policy", if situation.hook.panicked { "panicked, counts as yes" } else { "says yes" });

    if attempt > policy.max_retries {
        decision.note("attempts_left", "none");
        return Verdict::Dead { reason: TerminalReason::RetryExhausted };
    }
    decision.note("attempts_left", (u64::from(policy.max_retries) + 1 - u64::from(attempt)).to_string());

    let delay = wait(failure, situation, attempt, decision);
    Verdict::Retry { delay }
}

fn permanent(failure: &Failure) -> Option<TerminalReason> {
    match failure.cause {
        _ if failure.reported => Some(TerminalReason::ReportedFailure),
        Cause::Permanent => Some(TerminalReason::NonRetryable),
        Cause::Invalid => Some(TerminalReason::Invalid),
        _ => None,
    }
}

fn wait(failure: &Failure, situation: &Situation<'_>, attempt: u32, decision: &mut Decision) -> Duration {
    let (who, delay) = if let Some(asked) = failure.retry_in {
        ("asked for by the failure itself", asked)
    } else if let Some(given) = situation.hook.delay {
        ("given by the retry policy", given)
    } else {
        ("by the job's backoff", situation.policy.backoff.delay(attempt, situation.jitter))
    };
    let delay = delay.min(Limits::default().delay);
    decision.note("delay", format!("{}, {who}", human(delay)));
    delay
}

fn crashed(situation: &Situation<'_>, decision: &mut Decision) -> Verdict {
    let crashes = situation.crashes.saturating_add(1);
    let budget = situation.policy.max_crashes;
    decision.note("crashes", format!("{crashes}, {budget} are forgiven"));
    if crashes > budget {
        decision.note("poisoned", "yes: it took its process down once too often");
        return Verdict::Dead { reason: TerminalReason::Poisoned };
    }
    let delay = situation.policy.backoff.delay(crashes, situation.jitter);
    decision.note("delay", format!("{}, by the job's backoff", human(delay)));
    Verdict::Retry { delay }
}

fn deferred(failure: &Failure, situation: &Situation<'_>, decision: &mut Decision) -> Verdict {
    decision.note("charged", "no: nobody is to blame");
    if let Some(dependency) = &failure.dependency {
        decision.note("dependency", dependency.clone());
    }
    let delay = match (failure.cause, failure.retry_in) {
        (_, Some(asked)) => asked.min(Limits::default().delay),
        // The work itself is fine and its worker is leaving: the next one should take it at once.
        (Cause::Interrupted | Cause::LeaseLost, None) => Duration::ZERO,
        (_, None) => situation.policy.backoff.delay(situation.deferrals.saturating_add(1), situation.jitter),
    };
    decision.note("delay", human(delay));
    Verdict::Defer { delay }
}

/// A duration as a person reads it, to the millisecond below a minute.
fn human(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3_600 => format!("{} min {} s", secs / 60, secs % 60),
        3_600..172_800 => format!("{} h {} min", secs / 3_600, secs / 60 % 60),
        _ => format!("{} days", secs / 86_400),
    }
}
