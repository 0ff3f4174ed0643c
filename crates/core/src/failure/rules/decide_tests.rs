//! What a rule changes in the decision, and what no rule can change.

use std::time::Duration;

use super::*;
use crate::failure::{Decision, DecisionInput, HookAnswer, TerminalReason, Verdict, decide};
use crate::job::Policy;

fn acting(action: RuleAction) -> Rule {
    Rule {
        id: "stripe-down".parse().expect("a slug"),
        note: String::new(),
        matches: RuleMatch { kind: Some("*".to_owned()), ..RuleMatch::default() },
        action,
        enabled: true,
        position: 0,
        created_at: Timestamp::EPOCH,
        created_by: "ann".to_owned(),
    }
}

fn retry(max_retries: Option<u32>, backoff: Option<Backoff>, delay: Option<Duration>) -> Rule {
    acting(RuleAction::Retry { max_retries, backoff, delay })
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn failed(cause: Cause) -> Failure {
    Failure::new(cause, "T", "t")
}

/// The decision of `rule` about a job with five retries of seven seconds each.
fn by(rule: &Rule, failure: &Failure, change: impl FnOnce(&mut DecisionInput<'_>)) -> Decision {
    let policy = Policy::default().backoff(Backoff::fixed(seconds(7)));
    let hook = HookAnswer::default();
    let mut situation = DecisionInput {
        policy: &policy,
        attempt: 0,
        crashes: 0,
        deferrals: 0,
        hook,
        rule: Some(rule),
        jitter: 0.5,
        longest_delay: crate::Limits::default().delay,
    };
    change(&mut situation);
    decide(failure, &situation)
}

fn trace(decision: &Decision) -> Vec<String> {
    decision.trace.iter().map(|check| format!("{}={}", check.check, check.answer)).collect()
}

#[test]
fn permanent_kills_at_once_and_the_ledger_names_the_rule() {
    // F18
    let rule = acting(RuleAction::Permanent);
    let decision = by(&rule, &failed(Cause::Error), |_| {});
    assert_eq!(decision.verdict, Verdict::Dead { reason: TerminalReason::NonRetryable });
    assert_eq!(
        trace(&decision),
        ["cause=error", "rule=`stripe-down`: permanent", "attempt=1 of 6", "permanent=yes: the rule says so"]
    );
    assert_eq!(decision.rule_id(), Some("stripe-down"));
    assert_eq!(rule.cause(&failed(Cause::Error)), Cause::Error);
    let json = serde_json::to_string(&decision).expect("plain");
    assert_eq!(serde_json::from_str::<Decision>(&json).expect(&json).rule_id(), Some("stripe-down"));

    let crash = by(&rule, &failed(Cause::Crash), |_| {});
    assert_eq!(crash.verdict, Verdict::Dead { reason: TerminalReason::NonRetryable });
}

#[test]
fn transient_and_pause_queue_go_back_uncharged() {
    // F18
    for rule in [acting(RuleAction::Transient { delay: None }), acting(RuleAction::PauseQueue)] {
        let worn = |situation: &mut DecisionInput<'_>| situation.attempt = 99;
        for cause in [Cause::Error, Cause::Permanent, Cause::Invalid, Cause::Timeout, Cause::Panic] {
            let decision = by(&rule, &failed(cause), worn);
            assert_eq!(decision.verdict, Verdict::Defer { delay: seconds(7) }, "{cause}");
            assert_eq!(decision.rule_id(), Some("stripe-down"));
            assert_eq!(rule.cause(&failed(cause)), Cause::Rejected);
        }
    }
    let decision = by(&acting(RuleAction::Transient { delay: None }), &failed(Cause::Error), |_| {});
    assert_eq!(
        trace(&decision),
        ["cause=error", "rule=`stripe-down`: transient", "charged=no: the rule says so", "delay=7.0 s"]
    );
    let asking = failed(Cause::Error).retry_in(seconds(3));
    let timed = acting(RuleAction::Transient { delay: Some(seconds(40)) });
    assert_eq!(by(&timed, &asking, |_| {}).verdict, Verdict::Defer { delay: seconds(40) });
    let paused = by(&acting(RuleAction::PauseQueue), &asking, |_| {});
    assert_eq!(paused.verdict, Verdict::Defer { delay: seconds(3) });
}

#[test]
fn retry_overrules_marks_and_the_retry_policy_but_not_the_attempts() {
    // F18
    let rule = retry(None, None, None);
    for cause in [Cause::Permanent, Cause::Invalid, Cause::Error] {
        let no = HookAnswer { should_retry: Some(false), ..HookAnswer::default() };
        let decision = by(&rule, &failed(cause), |situation| situation.hook = no);
        assert_eq!(decision.verdict, Verdict::Retry { delay: seconds(7) }, "{cause}");
        assert_eq!(rule.cause(&failed(cause)), cause);
    }
    let worn = |situation: &mut DecisionInput<'_>| situation.attempt = 5;
    let exhausted = Verdict::Dead { reason: TerminalReason::RetryExhausted };
    assert_eq!(by(&rule, &failed(Cause::Error), worn).verdict, exhausted);
    let more = by(&retry(Some(9), None, None), &failed(Cause::Error), worn);
    assert!(matches!(more.verdict, Verdict::Retry { .. }));
    assert!(trace(&more).contains(&"attempt=6 of 10".to_owned()));
    assert_eq!(by(&retry(Some(0), None, None), &failed(Cause::Error), |_| {}).verdict, exhausted);
}

#[test]
fn the_wait_of_a_rule_wins_in_a_fixed_order() {
    // F18, F9
    let asking = failed(Cause::Error).retry_in(seconds(3));
    let hook = HookAnswer { delay: Some(seconds(99)), ..HookAnswer::default() };
    let wait = |rule: &Rule, failure: &Failure| by(rule, failure, |situation| situation.hook = hook).verdict;
    let backoff = Some(Backoff::fixed(seconds(20)));
    assert_eq!(wait(&retry(None, None, Some(seconds(50))), &asking), Verdict::Retry { delay: seconds(50) });
    assert_eq!(wait(&retry(None, backoff, None), &asking), Verdict::Retry { delay: seconds(3) });
    let plain = failed(Cause::Error);
    assert_eq!(wait(&retry(None, backoff, None), &plain), Verdict::Retry { delay: seconds(20) });
    assert_eq!(wait(&retry(None, None, None), &plain), Verdict::Retry { delay: seconds(99) });
    let crash = by(&retry(None, backoff, None), &failed(Cause::Crash), |_| {});
    assert_eq!(crash.verdict, Verdict::Retry { delay: seconds(20) });
}

#[test]
fn no_rule_lifts_the_crash_budget() {
    // F18, C1: a job that takes down process after process ends, whatever the rules say.
    for rule in [
        acting(RuleAction::Transient { delay: None }),
        acting(RuleAction::PauseQueue),
        retry(None, None, None),
    ] {
        assert_eq!(rule.cause(&failed(Cause::Crash)), Cause::Crash);
        let forgiven = by(&rule, &failed(Cause::Crash), |_| {});
        assert!(matches!(forgiven.verdict, Verdict::Retry { .. }));
        assert_eq!(forgiven.rule_id(), Some("stripe-down"));
        let spent = by(&rule, &failed(Cause::Crash), |situation| situation.crashes = 10);
        assert_eq!(spent.verdict, Verdict::Dead { reason: TerminalReason::Poisoned });
    }
}

#[test]
fn reported_failures_signatures_and_what_is_no_failure_stay_as_they_are() {
    // F18, F16
    let mut reported = failed(Cause::Permanent);
    reported.reported = true;
    let untouchable = [reported, failed(Cause::Signature), failed(Cause::Canceled), failed(Cause::Snoozed)];
    for rule in [retry(Some(9), None, None), acting(RuleAction::PauseQueue), acting(RuleAction::Permanent)] {
        for failure in &untouchable {
            let without = by(&rule, failure, |situation| situation.rule = None);
            assert_eq!(by(&rule, failure, |_| {}), without, "{}", failure.cause);
            assert_eq!(rule.cause(failure), failure.cause);
        }
    }
}
