//! What people are told of circuits (H3).

use std::time::Duration;

use backstop::circuits::{CircuitAlert, CircuitState};
use backstop::prelude::*;
use backstop_store::{DocumentRange, Drawer};

use crate::stage::{Ear, Stage};

/// Never reaches what it calls.
#[job(dependency = "partner", max_retries = 0)]
async fn call(cx: JobContext<()>) -> JobResult {
    Err(format!("no answer in run {}", cx.run_number()).into())
}

fn told(ear: &Ear) -> Vec<(u64, CircuitState)> {
    let of = |message: backstop::AlertMessage| {
        let circuit: CircuitAlert = message.circuit?;
        assert_eq!((message.reason, message.jobs.len(), message.kind.as_str()), (None, 0, ""));
        Some((message.count, circuit.state))
    };
    ear.heard().into_iter().filter_map(of).collect()
}

#[tokio::test]
async fn a_circuit_that_opens_and_closes_is_told_once_each() {
    // H3, D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    // Calls are told to the circuit together: so many that those which wait to be told do not matter.
    for _ in 0..60 {
        stage.engine.enqueue(Call {}).submit().await.expect("admitted");
    }
    let worker = stage.engine.worker(()).register::<Call>().queue("default", 1).inline().expect("a worker");
    worker.drain(100).await.expect("the model is there");
    stage.maintain().await;
    assert_eq!(told(&ear), [(1, CircuitState::Open)]);
    let message = ear.heard().into_iter().find(|message| message.circuit.is_some()).expect("it was told");
    assert_eq!(message.incident, "circuit:partner");
    let words = message.error.expect("a sentence");
    assert!(words.starts_with("the circuit of `partner` is open: "), "{words}");
    assert!(words.contains(" calls failed; its jobs wait, and it is tried again at "), "{words}");
    let circuit = message.circuit.expect("about it");
    assert_eq!((circuit.key.as_str(), circuit.generation, circuit.by), ("partner", 1, None));
    assert!(circuit.until.is_some());

    // Tried, and opened again: it was so before.
    stage.clock.advance(Duration::from_secs(31));
    let stage = stage.restart([ear.clone()]);
    let worker = stage.engine.worker(()).register::<Call>().queue("default", 1).inline().expect("a worker");
    stage.engine.enqueue(Call {}).submit().await.expect("admitted");
    worker.drain(1).await.expect("the model is there");
    let seen = stage.engine.circuits().get("partner").await.expect("the model is there").expect("known");
    assert_eq!((seen.circuit.state, seen.circuit.generation), (CircuitState::Open, 3));
    stage.pass(61).await;
    assert_eq!(told(&ear).len(), 1, "an alert that it is still open would repeat the first");
    stage.engine.circuits().close("partner", "ann").await.expect("closed");
    stage.maintain().await;
    assert_eq!(told(&ear), [(1, CircuitState::Open), (1, CircuitState::Closed)]);
    stage.engine.circuits().close("partner", "ann").await.expect("closed");
    stage.pass(61).await;
    assert_eq!((told(&ear).len(), stage.outbox().await), (2, 0), "it was closed before");
}

#[tokio::test]
async fn changes_within_the_gap_are_told_together() {
    // H3, D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    let circuits = stage.engine.circuits();
    circuits.open("partner", "ann", None).await.expect("opened");
    circuits.open("other", "ann", None).await.expect("opened");
    stage.maintain().await;
    assert_eq!(told(&ear), [(1, CircuitState::Open); 2], "each circuit by itself");
    for _ in 0..3 {
        circuits.close("partner", "bob").await.expect("closed");
        circuits.open("partner", "bob", None).await.expect("opened");
    }
    circuits.close("partner", "bob").await.expect("closed");
    stage.maintain().await;
    assert_eq!(told(&ear).len(), 2, "not within the gap");
    stage.pass(61).await;
    assert_eq!(told(&ear)[2..], [(7, CircuitState::Closed)], "how it is now, and how often it changed");
    let log = stage.log("circuit:partner").await;
    assert_eq!((log.told, log.suppressed, log.waiting), (2, 6, 0));

    // What was told goes with the circuit that nobody needs any more.
    stage.pass(2 * 86_400).await;
    let logs = stage.engine.store().documents(DocumentRange::first(Drawer::AlertLog, 9)).await;
    assert_eq!(logs.expect("the model is there").items, [], "nothing is left");
}

#[tokio::test]
async fn nobody_to_tell_stores_nothing() {
    // H3, D3
    let stage = Stage::new([]);
    stage.engine.circuits().open("partner", "ann", None).await.expect("opened");
    assert_eq!(stage.outbox().await, 0);
}
