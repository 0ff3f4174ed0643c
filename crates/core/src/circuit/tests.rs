//! The states of a circuit, step by step.

use super::*;
use crate::id::JobId;

const SETTINGS: CircuitSettings = CircuitSettings {
    window: Duration::from_secs(10),
    failure_rate: 50,
    min_calls: 4,
    open: Duration::from_secs(30),
    probes: 2,
    slow_start: Duration::from_secs(20),
};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000).after(Duration::from_secs(seconds))
}

fn counts(calls: u64, failures: u64) -> CallCounts {
    CallCounts { calls, failures }
}

/// A job whose place in a slow start is this share of it.
fn job(share: f64) -> JobId {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32 is one")]
    let place = (share * f64::from(u32::MAX)) as u32;
    JobId::from_u128(u128::from(place))
}

fn opened() -> Circuit {
    let mut circuit = Circuit::default();
    let change = circuit.record(0, counts(4, 2), &SETTINGS, at(0)).expect("half of four failed");
    assert_eq!((change.state, change.generation, change.until), (CircuitState::Open, 1, Some(at(30))));
    circuit
}

#[test]
fn it_opens_by_the_share_of_failures_among_enough_calls() {
    // H3
    for (calls, failures, opens) in
        [(3, 3, false), (4, 1, false), (4, 2, true), (100, 49, false), (100, 50, true)]
    {
        let mut circuit = Circuit::default();
        let change = circuit.record(0, counts(calls, failures), &SETTINGS, at(0));
        assert_eq!(change.is_some(), opens, "{failures} of {calls}");
    }
    let settings = CircuitSettings { min_calls: 1, failure_rate: 1, ..SETTINGS };
    assert_eq!(Circuit::default().record(0, counts(50, 0), &settings, at(0)), None, "nothing failed");
}

#[test]
fn calls_are_counted_over_the_last_time_only() {
    // H3
    let mut circuit = Circuit::default();
    for second in 0..3 {
        assert_eq!(circuit.record(0, counts(1, 1), &SETTINGS, at(second)), None);
    }
    assert_eq!(circuit.counts(&SETTINGS, at(2)), counts(3, 3));
    assert_eq!(circuit.record(0, counts(1, 1), &SETTINGS, at(11)), None, "the first two are too old");
    assert_eq!(circuit.counts(&SETTINGS, at(11)), counts(2, 2));
    let text = serde_json::to_string(&circuit).expect("JSON");
    assert_eq!(serde_json::from_str::<Circuit>(&text).expect("its own words"), circuit);
}

#[test]
fn open_lets_nothing_through_until_its_time() {
    // H3
    let circuit = opened();
    for second in [0, 29] {
        let told = circuit.admit(job(0.0), &SETTINGS, at(second));
        assert_eq!(told, CircuitAdmission::Wait { until: at(30) });
    }
    assert_eq!(circuit.admit(job(0.0), &SETTINGS, at(30)), CircuitAdmission::Probe);
}

#[test]
fn half_open_lets_exactly_the_allowed_probes_through() {
    // H3
    let mut circuit = opened();
    assert_eq!(circuit.take_probe(job(0.0), &SETTINGS, at(29)), None, "before its time");
    assert_eq!(circuit.take_probe(job(0.0), &SETTINGS, at(30)), Some(2));
    assert_eq!(circuit.state, CircuitState::HalfOpen);
    assert_eq!(circuit.take_probe(job(0.0), &SETTINGS, at(30)), Some(2));
    assert_eq!(circuit.take_probe(job(0.0), &SETTINGS, at(30)), None);
    assert!(matches!(circuit.admit(job(0.0), &SETTINGS, at(30)), CircuitAdmission::Wait { .. }));
    assert_eq!(
        circuit.take_probe(job(0.0), &SETTINGS, at(91)),
        Some(2),
        "who never came back keeps nobody from trying"
    );
}

#[test]
fn the_try_of_a_dead_run_is_taken_by_another() {
    // H3
    let mut circuit = opened();
    circuit.take_probe(job(0.1), &SETTINGS, at(30));
    circuit.take_probe(job(0.2), &SETTINGS, at(30));
    assert_eq!(circuit.probes_of(&[job(0.3)]), [], "it has not tried");
    let dead = circuit.probes_of(&[job(0.3), job(0.1)]);
    assert_eq!(dead, [CircuitProbe { since: at(30), job: job(0.1) }]);
    assert!(circuit.take_back(&dead));
    assert_eq!(circuit.take_probe(job(0.1), &SETTINGS, at(31)), Some(2), "in its place");
    assert_eq!(circuit.take_probe(job(0.5), &SETTINGS, at(31)), None, "and no more than that");
    assert!(!circuit.take_back(&dead), "the later try of the same job stays");
}

#[test]
fn all_probes_have_to_succeed_and_one_failure_opens_it_again() {
    // H3
    let mut circuit = opened();
    circuit.take_probe(job(0.0), &SETTINGS, at(30));
    circuit.take_probe(job(0.0), &SETTINGS, at(30));
    assert_eq!(circuit.record(2, counts(1, 0), &SETTINGS, at(31)), None, "one of two");
    let mut failing = circuit.clone();
    let again = failing.record(2, counts(1, 1), &SETTINGS, at(31)).expect("it opens");
    assert_eq!((again.state, again.generation, again.until), (CircuitState::Open, 3, Some(at(61))));
    let closed = circuit.record(2, counts(1, 0), &SETTINGS, at(31)).expect("it closes");
    assert_eq!((closed.state, closed.generation), (CircuitState::Closed, 3));
}

#[test]
fn what_was_let_through_before_says_nothing_now() {
    // H3: late answers are ignored.
    let mut circuit = opened();
    assert_eq!(circuit.record(0, counts(9, 9), &SETTINGS, at(1)), None);
    circuit.take_probe(job(0.0), &SETTINGS, at(30));
    let before = circuit.clone();
    assert_eq!(circuit.record(0, counts(9, 9), &SETTINGS, at(31)), None);
    assert_eq!(circuit.record(0, counts(9, 0), &SETTINGS, at(31)), None);
    assert_eq!(circuit, before);
}

#[test]
fn neutral_calls_count_and_ignored_ones_have_not_been_made() {
    // H4
    let mut told = CallCounts::default();
    for result in [CallResult::Success, CallResult::Failure, CallResult::Neutral, CallResult::Ignored] {
        told.add(result);
    }
    assert_eq!(told, counts(3, 1));
    let mut circuit = opened();
    circuit.take_probe(job(0.1), &SETTINGS, at(30));
    circuit.take_probe(job(0.2), &SETTINGS, at(30));
    circuit.give_back(1, &[job(0.2)]);
    assert_eq!(circuit.take_probe(job(0.3), &SETTINGS, at(31)), None, "late answers are ignored");
    circuit.give_back(2, &[job(0.2), job(0.9)]);
    assert_eq!(circuit.probes_of(&[job(0.1)]).len(), 1, "what another has tried stays");
    assert_eq!(circuit.take_probe(job(0.3), &SETTINGS, at(31)), Some(2), "it has tried nothing: another may");
    assert_eq!(circuit.take_probe(job(0.4), &SETTINGS, at(31)), None);
}

#[test]
fn when_it_closes_jobs_are_let_go_one_after_another() {
    // H3: slow start.
    let mut circuit = opened();
    circuit.take_probe(job(0.0), &SETTINGS, at(30));
    circuit.record(2, counts(2, 0), &SETTINGS, at(40)).expect("it closes");
    for (share, second, goes) in [(0.0, 40, true), (0.5, 49, false), (0.5, 51, true), (0.99, 60, true)] {
        let told = circuit.admit(job(share), &SETTINGS, at(second));
        assert_eq!(told == CircuitAdmission::Go { generation: 3 }, goes, "{share} at {second}: {told:?}");
    }
    let settings = CircuitSettings { slow_start: Duration::ZERO, ..SETTINGS };
    assert_eq!(circuit.admit(job(0.99), &settings, at(40)), CircuitAdmission::Go { generation: 3 });
    assert_eq!(Circuit::default().admit(job(0.99), &SETTINGS, at(0)), CircuitAdmission::Go { generation: 0 });
}

#[test]
fn a_person_opens_and_closes_it() {
    // H3
    let mut circuit = Circuit::default();
    circuit.open_by_hand("ann", Duration::from_secs(300), at(0));
    assert_eq!(circuit.admit(job(0.0), &SETTINGS, at(299)), CircuitAdmission::Wait { until: at(300) });
    circuit.close_by_hand("ann", at(10));
    assert_eq!(
        circuit.admit(job(0.99), &SETTINGS, at(10)),
        CircuitAdmission::Go { generation: 2 },
        "at once"
    );
}

#[test]
fn settings_that_could_never_decide_are_refused() {
    // H3
    assert_eq!(SETTINGS.check(), Ok(()));
    for (settings, field) in [
        (CircuitSettings { failure_rate: 0, ..SETTINGS }, "failure_rate"),
        (CircuitSettings { failure_rate: 101, ..SETTINGS }, "failure_rate"),
        (CircuitSettings { min_calls: 0, ..SETTINGS }, "min_calls"),
        (CircuitSettings { probes: 0, ..SETTINGS }, "probes"),
        (CircuitSettings { open: Duration::ZERO, ..SETTINGS }, "open"),
        (CircuitSettings { window: Duration::ZERO, ..SETTINGS }, "window"),
    ] {
        let problem = settings.check().expect_err(field).to_string();
        assert!(problem.contains(field), "{problem}");
    }
}

#[test]
fn what_is_put_off_together_comes_back_over_a_while() {
    // H3
    assert_eq!(SETTINGS.spread(job(0.0)), Duration::ZERO);
    assert_eq!(SETTINGS.spread(job(0.5)).as_secs(), 14, "half of the time that it stays open");
    let long = CircuitSettings { open: Duration::from_secs(3_600), ..SETTINGS };
    assert_eq!(long.spread(job(1.0)), Duration::from_secs(30), "half a minute at most");
}

#[test]
fn it_is_shut_while_it_is_open_and_while_others_try_it() {
    // H3
    assert!(!Circuit::default().is_shut(&SETTINGS, at(0)));
    let mut circuit = opened();
    assert!(circuit.is_shut(&SETTINGS, at(29)));
    assert!(!circuit.is_shut(&SETTINGS, at(30)), "it may be tried");
    circuit.take_probe(job(0.0), &SETTINGS, at(30)).expect("the first of two");
    assert!(!circuit.is_shut(&SETTINGS, at(30)));
    circuit.take_probe(job(0.0), &SETTINGS, at(30)).expect("the second");
    assert!(circuit.is_shut(&SETTINGS, at(31)));
    assert!(!circuit.is_shut(&SETTINGS, at(91)), "who tried it is gone");
}

#[test]
fn a_circuit_that_nobody_called_for_long_says_nothing() {
    // H3
    let day = Duration::from_secs(86_400);
    assert!(Circuit::default().is_idle(day, at(0)));
    let mut called = Circuit::default();
    called.record(0, counts(1, 0), &SETTINGS, at(0));
    assert!(!called.is_idle(day, at(86_399)));
    assert!(called.is_idle(day, at(86_400)));
    assert!(
        !opened().is_idle(day, at(86_429)) && opened().is_idle(day, at(86_430)),
        "a day after it may be tried"
    );
    let mut closed = opened();
    closed.close_by_hand("ann", at(100));
    assert!(!closed.is_idle(day, at(86_499)) && closed.is_idle(day, at(86_500)));
}
