//! Every check of the pipeline, and what each cause comes to.

use std::time::Duration;

use super::*;
use crate::job::Policy;
use crate::limits::Limits;

fn situation(policy: &Policy) -> DecisionInput<'_> {
    let hook = HookAnswer::default();
    let longest_delay = Limits::default().delay;
    DecisionInput {
        policy,
        attempt: 0,
        crashes: 0,
        deferrals: 0,
        hook,
        rule: None,
        jitter: 0.5,
        longest_delay,
    }
}

fn error() -> Failure {
    Failure::new(Cause::Error, "IoError", "connection refused")
}

fn fixed(seconds: u64) -> Policy {
    Policy::default().backoff(Backoff::fixed(Duration::from_secs(seconds)))
}

/// The trace as `check=answer` words.
fn trace(decision: &Decision) -> Vec<String> {
    decision.trace.iter().map(|check| format!("{}={}", check.check, check.answer)).collect()
}

#[test]
fn a_plain_error_is_retried_by_the_backoff() {
    // F4: the order of the checks is the order of the trace.
    let policy = fixed(7).retries(5);
    let decision = decide(&error(), &situation(&policy));
    assert_eq!(decision.verdict, Verdict::Retry { delay: Duration::from_secs(7) });
    assert_eq!(
        trace(&decision),
        [
            "cause=error",
            "attempt=1 of 6",
            "permanent=no",
            "retry_policy=says yes",
            "attempts_left=5",
            "delay=7.0 s, by the job's backoff"
        ]
    );
}

#[test]
fn no_wait_is_longer_than_the_limit() {
    // L20: whoever asks for it.
    let limit = Duration::from_secs(60);
    let policy = fixed(7_000);
    let wait = |failure: &Failure| match decide(
        failure,
        &DecisionInput { longest_delay: limit, ..situation(&policy) },
    )
    .verdict
    {
        Verdict::Retry { delay } | Verdict::Defer { delay } => delay,
        other => panic!("{other:?}"),
    };
    let asked = Duration::from_secs(3_600);
    for failure in [
        error(),
        error().retry_in(asked),
        Failure::new(Cause::Crash, "Crash", "gone"),
        Failure::new(Cause::Snoozed, "Snoozed", "later").retry_in(asked),
        Failure::new(Cause::Rejected, "Transient", "away"),
    ] {
        assert_eq!(wait(&failure), limit, "{failure:?}");
    }
}

#[test]
fn max_retries_n_means_n_plus_one_runs() {
    // F5
    for max_retries in [0, 1, 5] {
        let policy = Policy::default().retries(max_retries);
        let runs = (0..)
            .find(|attempt| {
                let decision = decide(&error(), &DecisionInput { attempt: *attempt, ..situation(&policy) });
                decision.verdict == Verdict::Dead { reason: TerminalReason::RetryExhausted }
            })
            .expect("it ends")
            + 1;
        assert_eq!(runs, max_retries + 1);
    }
}

#[test]
fn a_permanent_failure_is_dead_whatever_retries_are_left() {
    // F6
    let policy = Policy::default().retries(1_000);
    let failure = Failure::new(Cause::Permanent, "BadAddress", "not an address").because("cannot be fixed");
    let decision = decide(&failure, &situation(&policy));
    assert_eq!(decision.verdict, Verdict::Dead { reason: TerminalReason::NonRetryable });
    assert!(trace(&decision).contains(&"permanent=yes: cannot be fixed".to_owned()));
}

#[test]
fn invalid_input_is_never_retried() {
    // E11
    let policy = Policy::default();
    let failure = Failure::new(Cause::Invalid, "PayloadDecode", "missing field");
    assert_eq!(
        decide(&failure, &situation(&policy)).verdict,
        Verdict::Dead { reason: TerminalReason::Invalid }
    );
}

#[test]
fn a_reported_failure_has_its_own_reason() {
    // F16
    let policy = Policy::default();
    let mut failure = Failure::new(Cause::Permanent, "ReportedFailure", "declined");
    failure.reported = true;
    let verdict = decide(&failure, &situation(&policy)).verdict;
    assert_eq!(verdict, Verdict::Dead { reason: TerminalReason::ReportedFailure });
}

#[test]
fn the_policy_hook_can_say_no_and_give_a_delay() {
    // F7
    let policy = fixed(7);
    let no = HookAnswer { should_retry: Some(false), ..HookAnswer::default() };
    let decision = decide(&error(), &DecisionInput { hook: no, ..situation(&policy) });
    assert_eq!(decision.verdict, Verdict::Dead { reason: TerminalReason::PolicyRejected });

    let later = HookAnswer { delay: Some(Duration::from_secs(99)), ..HookAnswer::default() };
    let decision = decide(&error(), &DecisionInput { hook: later, ..situation(&policy) });
    assert_eq!(decision.verdict, Verdict::Retry { delay: Duration::from_secs(99) });

    let panicked = HookAnswer { panicked: true, ..HookAnswer::default() };
    let decision = decide(&error(), &DecisionInput { hook: panicked, ..situation(&policy) });
    assert_eq!(decision.verdict, Verdict::Retry { delay: Duration::from_secs(7) });
    assert!(trace(&decision).contains(&"retry_policy=panicked, counts as yes".to_owned()));
}

#[test]
fn retry_in_wins_over_hook_and_backoff() {
    // F9
    let policy = fixed(7);
    let hook = HookAnswer { delay: Some(Duration::from_secs(99)), ..HookAnswer::default() };
    let failure = error().retry_in(Duration::from_secs(3));
    let decision = decide(&failure, &DecisionInput { hook, ..situation(&policy) });
    assert_eq!(decision.verdict, Verdict::Retry { delay: Duration::from_secs(3) });
}

#[test]
fn permanent_is_checked_before_the_policy_and_the_policy_before_the_budget() {
    // F4
    let policy = Policy::default().retries(0);
    let no = HookAnswer { should_retry: Some(false), ..HookAnswer::default() };
    let spent = DecisionInput { attempt: 9, hook: no, ..situation(&policy) };
    let permanent = Failure::new(Cause::Permanent, "X", "x");
    let reason = |failure: &Failure| decide(failure, &spent).verdict;
    assert_eq!(reason(&permanent), Verdict::Dead { reason: TerminalReason::NonRetryable });
    assert_eq!(reason(&error()), Verdict::Dead { reason: TerminalReason::PolicyRejected });
}

#[test]
fn ten_crashes_are_forgiven_and_the_eleventh_is_not() {
    // C1: budget 10, so 11 starts.
    let policy = Policy::default();
    let crash = Failure::new(Cause::Crash, "Crash", "died");
    for crashes in 0..10 {
        let verdict = decide(&crash, &DecisionInput { crashes, ..situation(&policy) }).verdict;
        assert!(matches!(verdict, Verdict::Retry { .. }), "crash {} is forgiven", crashes + 1);
    }
    let verdict = decide(&crash, &DecisionInput { crashes: 10, ..situation(&policy) }).verdict;
    assert_eq!(verdict, Verdict::Dead { reason: TerminalReason::Poisoned });
}

#[test]
fn what_nobody_is_to_blame_for_goes_back_for_ever() {
    // F3: none of these ever dies of a budget.
    let policy = Policy::default().retries(0).crashes(0);
    let spent =
        DecisionInput { attempt: u32::MAX, crashes: u32::MAX, deferrals: u32::MAX, ..situation(&policy) };
    let free = [
        Cause::Interrupted,
        Cause::Rejected,
        Cause::CircuitOpen,
        Cause::RateLimited,
        Cause::NoPermit,
        Cause::LockHeld,
        Cause::Snoozed,
        Cause::LeaseLost,
        Cause::UnknownKind,
        Cause::EngineFault,
    ];
    for cause in free {
        let verdict = decide(&Failure::new(cause, "T", "t"), &spent).verdict;
        assert!(matches!(verdict, Verdict::Defer { .. }), "{cause}: {verdict:?}");
    }
}

#[test]
fn a_stopped_workers_jobs_go_back_at_once() {
    // L18
    let policy = fixed(7);
    let interrupted = Failure::new(Cause::Interrupted, "Interrupted", "the worker stops");
    assert_eq!(decide(&interrupted, &situation(&policy)).verdict, Verdict::Defer { delay: Duration::ZERO });
}

#[test]
fn every_cause_has_a_verdict_and_none_overflows() {
    // F2, F8
    let policy = Policy::default().retries(u32::MAX).crashes(u32::MAX);
    for cause in Cause::ALL {
        for used in [0, 309, u32::MAX - 1, u32::MAX] {
            let worn = DecisionInput { attempt: used, crashes: used, deferrals: used, ..situation(&policy) };
            let failure = Failure::new(*cause, "T", "t").retry_in(Duration::MAX);
            let _ = decide(&failure, &worn);
        }
    }
}

#[test]
fn a_decision_goes_round_as_json() {
    let policy = fixed(7);
    for failure in
        [error(), Failure::new(Cause::Canceled, "C", "enough"), Failure::new(Cause::Signature, "S", "s")]
    {
        let decision = decide(&failure, &situation(&policy));
        let json = serde_json::to_string(&decision).expect("plain");
        assert_eq!(serde_json::from_str::<Decision>(&json).expect(&json), decision);
    }
}

#[test]
fn a_decision_without_a_rule_names_none() {
    // F18: old stored decisions have no such check.
    let policy = fixed(7);
    assert_eq!(decide(&error(), &situation(&policy)).rule_id(), None);
    let old = r#"{"verdict":"retry","delay_ms":7000,"trace":[{"check":"cause","answer":"error"}]}"#;
    assert_eq!(serde_json::from_str::<Decision>(old).expect(old).rule_id(), None);
}

#[test]
fn a_retry_is_smeared_only_forward() {
    // F19
    let policy = fixed(2);
    let why = "this kind has used its retries per second";
    let planned = decide(&error(), &situation(&policy));
    let mut moved = planned.clone();
    moved.smear(Duration::from_secs(14), why);
    assert_eq!(moved.verdict, Verdict::Retry { delay: Duration::from_secs(14) });
    let last = "retry_budget=moved from 2.0 s to 14.0 s: this kind has used its retries per second";
    assert_eq!(trace(&moved).last().map(String::as_str), Some(last));

    let mut kept = planned.clone();
    kept.smear(Duration::from_secs(2), why);
    kept.smear(Duration::ZERO, why);
    assert_eq!(kept, planned);
    let mut dead = decide(&Failure::new(Cause::Permanent, "T", "t"), &situation(&policy));
    let was = dead.clone();
    dead.smear(Duration::from_secs(14), why);
    assert_eq!(dead, was);
}
