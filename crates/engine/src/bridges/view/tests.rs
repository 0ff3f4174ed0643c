//! How bridges stand, by table.

use super::super::stored::{StoredProcess, StoredRequests};
use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

fn source(state: BridgeState) -> SourceReport {
    SourceReport {
        queue: "in".into(),
        kind: "charge".into(),
        to_queue: "default".into(),
        consumer: "orders".into(),
        concurrency: 4,
        consuming: 3,
        state,
        received: 12,
        admitted: 10,
        duplicates: 2,
        invalid: 1,
        abandoned: 0,
        rejected: 0,
        passed_on: 0,
        discarded: 0,
        given_back: 0,
        backlog: Some(7),
        problem: (state == BridgeState::Disconnected).then(|| BridgeProblem::new("broker_unavailable", "no")),
    }
}

fn report(name: &str, state: BridgeState) -> BridgeReport {
    BridgeReport { source: Some(source(state)), ..BridgeReport::new(name, "redis://127.0.0.1") }
}

/// A process that was heard of so many seconds ago.
fn process(node: &str, age: u64, bridges: Vec<BridgeReport>) -> (String, i64, StoredProcess) {
    let at = NOW.before(Duration::from_secs(age));
    (node.to_owned(), 1, StoredProcess { node: node.to_owned(), since: Timestamp::EPOCH, at, bridges })
}

fn documents(processes: Vec<(String, i64, StoredProcess)>) -> BridgeDocuments {
    BridgeDocuments { processes, now: NOW, ..BridgeDocuments::default() }
}

fn only(found: &BridgeDocuments, around: &BridgeContext) -> BridgeView {
    let mut all = views(found, around);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn the_worst_process_that_is_heard_of_decides() {
    // B1, B5
    use BridgeState::{Disconnected, Failed, Held, NotRunning, Running, Starting};
    for (told, expected) in [
        (vec![(Running, 1)], Running),
        (vec![(Running, 1), (Disconnected, 2)], Disconnected),
        (vec![(Starting, 1), (Held, 2)], Held),
        (vec![(Running, 1), (Disconnected, 46)], Running),
        (vec![(Running, 45)], NotRunning),
        (vec![(Running, 44)], Running),
        (vec![(Failed, 1), (Running, 1)], Failed),
    ] {
        let one = |(at, (state, age)): (usize, (BridgeState, u64))| {
            process(&format!("node-{at}"), age, vec![report("orders", state)])
        };
        let found = documents(told.iter().copied().enumerate().map(one).collect());
        let view = only(&found, &BridgeContext::default());
        assert_eq!(view.state, expected, "{told:?}");
        let heard = told.iter().filter(|(_, age)| *age < 45).count();
        assert_eq!(view.consuming(), 3 * u32::try_from(heard).expect("few"), "{told:?}");
        assert_eq!(view.counts.admitted, 10 * told.len() as u64, "what silent ones have done counts too");
    }
}

#[test]
fn one_that_nobody_runs_says_since_when() {
    // B1
    let found = documents(vec![process("node-1", 100, vec![report("orders", BridgeState::Running)])]);
    let view = only(&found, &BridgeContext::default());
    let problem = view.problem.clone().expect("a problem");
    assert_eq!(problem.code, "not_running");
    let since = NOW.before(Duration::from_secs(100));
    assert_eq!(problem.message, format!("no process runs it since {since}; the last one was node-1"));
    assert_eq!((view.processes[0].state, view.source_backlog()), (BridgeState::NotRunning, None));
}

#[test]
fn a_pause_is_shown_for_what_runs_and_hides_no_failure() {
    // B1
    use BridgeState::{Disconnected, Failed, NotRunning, Paused, Running};
    let pause = BridgePause { by: "ann".into(), at: NOW };
    for (state, age, expected) in
        [(Running, 1, Paused), (Disconnected, 1, Paused), (Running, 60, NotRunning), (Failed, 1, Failed)]
    {
        let mut found = documents(vec![process("node-1", age, vec![report("orders", state)])]);
        let control = StoredRequests { paused: Some(pause.clone()), test: None };
        found.controls.push(("orders".to_owned(), control));
        let view = only(&found, &BridgeContext::default());
        assert_eq!((view.state, view.paused.as_ref()), (expected, Some(&pause)), "{state:?}");
    }
}

#[test]
fn a_process_has_paused_a_bridge_when_both_directions_have_stopped() {
    // B1, B2
    use BridgeState::{Disconnected, Paused, Running, Starting};
    for (source_state, sink_state, expected) in [
        (Paused, Some(Paused), Paused),
        (Running, Some(Paused), Running),
        (Paused, Some(Disconnected), Disconnected),
        (Paused, None, Paused),
        (Starting, Some(Running), Starting),
    ] {
        let mut report = report("orders", source_state);
        report.sink = sink_state.map(|state| SinkReport {
            queue: "out".into(),
            of: BTreeSet::new(),
            state,
            publishes: false,
            repeated: 0,
            problem: None,
        });
        assert_eq!(report.state(), expected, "{source_state:?} {sink_state:?}");
    }
}

#[test]
fn what_processes_did_that_are_gone_is_added() {
    // B1
    let mut found = documents(vec![process("node-2", 1, vec![report("orders", BridgeState::Running)])]);
    let counts = BridgeCounts { admitted: 100, duplicates: 3, ..BridgeCounts::default() };
    let last = report("orders", BridgeState::Running).without_counts();
    let past = StoredHistory { counts, at: Timestamp::EPOCH, node: "node-1".into(), last };
    found.past.push(("orders".to_owned(), 1, past));
    let view = only(&found, &BridgeContext::default());
    assert_eq!((view.counts.admitted, view.counts.duplicates, view.state), (110, 5, BridgeState::Running));
    found.processes.clear();
    let view = only(&found, &BridgeContext::default());
    assert_eq!((view.counts.admitted, view.state), (100, BridgeState::NotRunning));
}

#[test]
fn an_unknown_kind_and_a_shared_consumer_are_named() {
    // B1
    let running = || vec![report("a", BridgeState::Running), report("b", BridgeState::Running)];
    let both = views(&documents(vec![process("node-1", 1, running())]), &BridgeContext::default());
    for view in &both {
        let problem = view.problem.as_ref().expect("a problem");
        assert_eq!(problem.code, "same_consumer");
        assert!(problem.message.starts_with("bridges `a` and `b` both take `in` as consumer `orders`"));
    }
    let found = documents(vec![process("node-1", 1, vec![report("a", BridgeState::Running)])]);
    let kinds = |kinds: &[&str]| BridgeContext {
        kinds: Some(kinds.iter().map(ToString::to_string).collect()),
        ..BridgeContext::default()
    };
    assert_eq!(only(&found, &kinds(&["charge"])).problem, None);
    let problem = only(&found, &kinds(&["chrage"])).problem.expect("a problem");
    assert_eq!(problem.code, "unknown_kind");
    assert!(problem.message.starts_with("no worker knows kind `charge`"), "{}", problem.message);
}
