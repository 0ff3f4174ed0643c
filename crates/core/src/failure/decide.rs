//! The failure pipeline (F4): from what happened to where the job goes.

use std::time::Duration;

use super::decision::human;
use super::rules::{Rule, RuleAction, named};
use super::{Backoff, Budget, Cause, Decision, Failure, TerminalReason, Verdict};
use crate::job::Policy;

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
pub struct DecisionInput<'a> {
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
    /// The operator's rule that matched, if any (F18); see [`super::RuleSet::judge`].
    pub rule: Option<&'a Rule>,
    /// A number in `0.0..1.0` for jitter.
    pub jitter: f64,
    /// The longest wait that anybody gets, whoever asks for it (L20).
    pub longest_delay: Duration,
}

/// Decides where a job goes after `failure`, with the trace of every check made.
///
/// The order is fixed: count the attempt, permanent?, policy says no?, attempts used up?, wait. An operator's
/// rule comes before all of them and overrules what code says; `failure` comes in as it happened, and
/// [`Rule::cause`] says which cause the ending then carries.
#[must_use]
pub fn decide(failure: &Failure, situation: &DecisionInput<'_>) -> Decision {
    let mut decision = Decision::started_for(failure.cause);
    decision.asked = failure.retry_in.map(|wait| wait.min(situation.longest_delay));
    let rule = situation.rule.filter(|rule| rule.governs(failure));
    if let Some(rule) = rule {
        decision.note(Decision::RULE, format!("{}: {}", named(&rule.id), rule.action.as_str()));
    }
    decision.verdict = match rule.map_or(failure.cause, |rule| rule.cause(failure)) {
        Cause::Succeeded => Verdict::Succeed,
        Cause::Canceled => Verdict::Cancel { reason: failure.message.clone() },
        Cause::Signature => {
            decision.note("signature", "missing or wrong: never run, never retried");
            Verdict::Dead { reason: TerminalReason::Signature }
        }
        cause => match cause.budget() {
            Budget::Attempts => charged(failure, situation, rule, &mut decision),
            Budget::Crashes => crashed(situation, rule, &mut decision),
            Budget::None => deferred(failure, situation, rule, &mut decision),
        },
    };
    decision
}

fn charged(
    failure: &Failure,
    situation: &DecisionInput<'_>,
    rule: Option<&Rule>,
    decision: &mut Decision,
) -> Verdict {
    let max_retries = match rule.map(|rule| &rule.action) {
        Some(RuleAction::Retry { max_retries: Some(retries), .. }) => *retries,
        _ => situation.policy.max_retries,
    };
    let attempt = situation.attempt.saturating_add(1);
    decision.note("attempt", format!("{attempt} of {}", u64::from(max_retries) + 1));

    if let Some(dead) = final_by_mark_or_policy(failure, situation, rule, decision) {
        return dead;
    }
    if attempt > max_retries {
        decision.note("attempts_left", "none");
        return Verdict::Dead { reason: TerminalReason::RetryExhausted };
    }
    decision.note("attempts_left", (u64::from(max_retries) + 1 - u64::from(attempt)).to_string());

    let delay = wait(failure, situation, rule, attempt, decision);
    Verdict::Retry { delay }
}

/// The dead letter that a mark or the retry policy asks for, unless a rule overrules them.
fn final_by_mark_or_policy(
    failure: &Failure,
    situation: &DecisionInput<'_>,
    rule: Option<&Rule>,
    decision: &mut Decision,
) -> Option<Verdict> {
    if let Some(dead) = final_by_rule(rule, decision) {
        return Some(dead);
    }
    let overruled = matches!(rule.map(|rule| &rule.action), Some(RuleAction::Retry { .. }));
    match permanent(failure) {
        Some(_) if overruled => decision.note("permanent", "marked so, overruled by the rule"),
        Some(reason) => {
            let why = failure.why.as_deref().unwrap_or("marked so by its type");
            decision.note("permanent", format!("yes: {why}"));
            return Some(Verdict::Dead { reason });
        }
        None => decision.note("permanent", "no"),
    }
    match situation.hook.should_retry {
        Some(false) if overruled => decision.note("retry_policy", "says no, overruled by the rule"),
        Some(false) => {
            decision.note("retry_policy", "says no");
            return Some(Verdict::Dead { reason: TerminalReason::PolicyRejected });
        }
        _ if situation.hook.panicked => decision.note("retry_policy", "panicked, counts as yes"),
        _ => decision.note("retry_policy", "says yes"),
    }
    None
}

fn final_by_rule(rule: Option<&Rule>, decision: &mut Decision) -> Option<Verdict> {
    rule.filter(|rule| rule.action == RuleAction::Permanent)?;
    decision.note("permanent", "yes: the rule says so");
    Some(Verdict::Dead { reason: TerminalReason::NonRetryable })
}

fn permanent(failure: &Failure) -> Option<TerminalReason> {
    match failure.cause {
        _ if failure.reported => Some(TerminalReason::ReportedFailure),
        Cause::Permanent => Some(TerminalReason::NonRetryable),
        Cause::Invalid => Some(TerminalReason::Invalid),
        _ => None,
    }
}

fn wait(
    failure: &Failure,
    situation: &DecisionInput<'_>,
    rule: Option<&Rule>,
    attempt: u32,
    decision: &mut Decision,
) -> Duration {
    let (by_rule, backoff) = waits_of(rule);
    let (who, delay) = if let Some(given) = by_rule {
        ("given by the rule", given)
    } else if let Some(asked) = failure.retry_in {
        ("asked for by the failure itself", asked)
    } else if let Some(backoff) = backoff {
        ("by the rule's backoff", backoff.delay(attempt, situation.jitter))
    } else if let Some(given) = situation.hook.delay {
        ("given by the retry policy", given)
    } else {
        ("by the job's backoff", situation.policy.backoff.delay(attempt, situation.jitter))
    };
    let delay = delay.min(situation.longest_delay);
    decision.note("delay", format!("{}, {who}", human(delay)));
    delay
}

/// The fixed wait and the backoff that a rule sets.
fn waits_of(rule: Option<&Rule>) -> (Option<Duration>, Option<&Backoff>) {
    match rule.map(|rule| &rule.action) {
        Some(RuleAction::Retry { delay, backoff, .. }) => (*delay, backoff.as_ref()),
        Some(RuleAction::Transient { delay }) => (*delay, None),
        _ => (None, None),
    }
}

fn crashed(situation: &DecisionInput<'_>, rule: Option<&Rule>, decision: &mut Decision) -> Verdict {
    let crashes = situation.crashes.saturating_add(1);
    let budget = situation.policy.max_crashes;
    decision.note("crashes", format!("{crashes}, {budget} are forgiven"));
    if let Some(dead) = final_by_rule(rule, decision) {
        return dead;
    }
    if crashes > budget {
        decision.note("poisoned", "yes: it crashed its process too many times");
        return Verdict::Dead { reason: TerminalReason::Poisoned };
    }
    let (delay, who) = match waits_of(rule) {
        (Some(given), _) => (given, "given by the rule"),
        (None, Some(backoff)) => (backoff.delay(crashes, situation.jitter), "by the rule's backoff"),
        (None, None) => (situation.policy.backoff.delay(crashes, situation.jitter), "by the job's backoff"),
    };
    let delay = delay.min(situation.longest_delay);
    decision.note("delay", format!("{}, {who}", human(delay)));
    Verdict::Retry { delay }
}

fn deferred(
    failure: &Failure,
    situation: &DecisionInput<'_>,
    rule: Option<&Rule>,
    decision: &mut Decision,
) -> Verdict {
    decision.note("charged", if rule.is_some() { "no: the rule says so" } else { "no: nobody is to blame" });
    if let Some(dependency) = &failure.dependency {
        decision.note("dependency", dependency.clone());
    }
    let asked = waits_of(rule).0.or(failure.retry_in);
    let delay = match (failure.cause, asked) {
        (_, Some(asked)) => asked,
        // The work itself is fine and its worker is leaving: the next one should take it at once.
        (Cause::Interrupted | Cause::LeaseLost, None) => Duration::ZERO,
        (_, None) => situation.policy.backoff.delay(situation.deferrals.saturating_add(1), situation.jitter),
    };
    let delay = delay.min(situation.longest_delay);
    decision.note("delay", human(delay));
    Verdict::Defer { delay }
}
