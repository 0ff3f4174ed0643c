//! What every process of a store knows of bridges, and what it can ask of those that others run, on every store
//! (B1, B2, B5).
#![allow(missing_docs, reason = "a test")]

#[path = "stores/counted.rs"]
mod counted;
mod stores;

use std::sync::Arc;
use std::time::Duration;

use backstop::Config;
use backstop::bridges::{
    BridgeCheck, BridgeProblem, BridgeRefusal, BridgeReport, BridgeState, BridgeTest, BridgeTestAnswer,
    BridgeTester, BridgeView, SILENT_AFTER, SinkReport, SourceReport, TOLD_EVERY,
};
use backstop::prelude::*;
use backstop::sinks::{Sink, SinkLimits, SinkTopic};
use backstop_store::{ManualClock, ModelStore, Store};

use crate::counted::CountedStore;

const NAME: &str = "orders";

#[job]
async fn nothing() {}

/// A bridge in both directions.
fn report(state: BridgeState, admitted: u64) -> BridgeReport {
    let mut report = BridgeReport::new(NAME, "redis://127.0.0.1");
    report.source = Some(SourceReport {
        queue: "in".into(),
        kind: "charge".into(),
        to_queue: "default".into(),
        consumer: NAME.into(),
        concurrency: 4,
        consuming: 3,
        state,
        received: admitted,
        admitted,
        duplicates: 0,
        invalid: 0,
        abandoned: 0,
        rejected: 0,
        passed_on: 0,
        discarded: 0,
        given_back: 0,
        backlog: Some(3),
        problem: (state == BridgeState::Disconnected)
            .then(|| BridgeProblem::new("broker_unavailable", "the broker is unavailable")),
    });
    report.sink = Some(SinkReport {
        queue: "out".into(),
        of: [SinkTopic::Results].into(),
        state,
        publishes: true,
        repeated: 0,
        problem: None,
    });
    report
}

/// A process on a store.
fn process(store: &Arc<dyn Store>, node: &str) -> Backstop {
    Backstop::on(store.clone(), Config::default().node(node))
}

async fn shown(engine: &Backstop) -> BridgeView {
    engine.bridges().show(NAME).await.expect("the store is there").expect("it is known")
}

/// B1, B2: what one process tells another one shows, and what that one asks is heard.
async fn every_process_shows_and_pauses_a_bridge(store: &Arc<dyn Store>) {
    let (runs, shows) = (process(store, "runs"), process(store, "shows"));
    assert!(shows.bridges().list().await.expect("read").is_empty());
    runs.sinks().set(&Sink::new(NAME, [SinkTopic::Results]), SinkLimits::default()).await.expect("kept");
    let mut reporter = runs.bridges().reporter();
    assert!(reporter.tell(&[report(BridgeState::Running, 7)]).await.expect("told"));
    assert!(!reporter.tell(&[report(BridgeState::Running, 7)]).await.expect("read"), "nothing is new");
    let view = shown(&shows).await;
    assert_eq!((view.state, view.counts.admitted, view.source_backlog()), (BridgeState::Running, 7, Some(3)));
    assert_eq!((view.processes[0].node.as_str(), view.processes[0].publishes), ("runs", true));
    assert!(reporter.tell(&[report(BridgeState::Disconnected, 7)]).await.expect("told"), "at once");
    let view = shown(&shows).await;
    assert_eq!(view.state, BridgeState::Disconnected);
    assert_eq!(view.problem.map(|problem| problem.code).as_deref(), Some("broker_unavailable"));
    for (by, expected) in [("ann", "ann"), ("bob", "ann")] {
        let paused = shows.bridges().pause(NAME, by).await.expect("it is known");
        assert_eq!(paused.state, BridgeState::Paused);
        assert_eq!(paused.paused.map(|pause| pause.by).as_deref(), Some(expected), "it was paused already");
    }
    let asked = runs.bridges().reporter().asked().await.expect("read").expect("the first time");
    assert_eq!(asked.paused, [NAME]);
    assert!(runs.sinks().show(NAME).await.expect("read").expect("it is there").paused, "its sink too");
    let resumed = shows.bridges().resume(NAME).await.expect("it is known");
    assert_eq!((resumed.state, resumed.paused), (BridgeState::Disconnected, None));
    assert!(!runs.sinks().show(NAME).await.expect("read").expect("it is there").paused);
    let asked = runs.bridges().reporter().asked().await.expect("read").expect("the first time");
    assert!(asked.paused.is_empty());
    reporter.end(&[report(BridgeState::Running, 9)]).await.expect("told");
    runs.sinks().remove(NAME).await.expect("removed");
}

/// B1: what processes did that have stopped is kept, each once, and the bridge says since when nobody runs it.
async fn counts_outlive_processes(store: &Arc<dyn Store>) {
    let shows = process(store, "shows");
    let before = shown(&shows).await;
    assert_eq!((before.state, before.counts.admitted), (BridgeState::NotRunning, 9));
    let mut reporters = Vec::new();
    for node in ["one", "two"] {
        let mut reporter = process(store, node).bridges().reporter();
        reporter.tell(&[report(BridgeState::Running, 10)]).await.expect("told");
        reporters.push(reporter);
    }
    assert_eq!(shown(&shows).await.counts.admitted, 29);
    for (reporter, left) in reporters.into_iter().zip([1, 0]) {
        reporter.end(&[report(BridgeState::NotRunning, 15)]).await.expect("told");
        assert_eq!(shown(&shows).await.processes.len(), left);
    }
    let after = shown(&shows).await;
    assert_eq!((after.state, after.counts.admitted), (BridgeState::NotRunning, 39));
    let problem = after.problem.expect("a problem");
    assert_eq!(problem.code, "not_running");
    assert!(problem.message.ends_with("the last one was two"), "{}", problem.message);
}

/// B1: a test that is asked for in one process is made by one that runs the bridge.
async fn a_test_is_answered_by_whoever_runs_the_bridge(store: &Arc<dyn Store>) {
    let (runs, asks) = (process(store, "runs"), process(store, "asks"));
    let unknown = asks.bridges().test("other").await.expect_err("nobody runs it");
    assert!(matches!(unknown, BridgeRefusal::Unknown(name) if name == "other"));
    let stopped = asks.bridges().test(NAME).await.expect_err("nobody runs it");
    assert!(matches!(stopped, BridgeRefusal::NotRunning { .. }), "{stopped}");
    let mut reporter = runs.bridges().reporter();
    reporter.tell(&[report(BridgeState::Running, 0)]).await.expect("told");
    let answers = async {
        loop {
            // A reporter of its own: the first look is never too early.
            let asked = runs.bridges().reporter().asked().await.expect("read").expect("the first time");
            if let Some((name, request)) = asked.tests.into_iter().next() {
                return runs.bridges().answer(&name, &request, tested("runs")).await.expect("stored");
            }
            tokio::task::yield_now().await;
        }
    };
    let (test, ()) = tokio::join!(asks.bridges().test(NAME), answers);
    let test = test.expect("an answer");
    assert_eq!((test.node.as_str(), test.is_ok()), ("runs", false));
    reporter.end(&[report(BridgeState::NotRunning, 0)]).await.expect("told");
}

fn tested(node: &str) -> BridgeTest {
    let refused = BridgeProblem::new("no_such_queue", "queue `out` does not exist");
    BridgeTest {
        node: node.to_owned(),
        source: Some(BridgeCheck { took_ms: 1, problem: None }),
        sink: Some(BridgeCheck { took_ms: 1, problem: Some(refused) }),
        problem: None,
    }
}

async fn everything(store: Arc<dyn Store>) {
    what_nobody_runs_can_be_removed(&store).await;
    every_process_shows_and_pauses_a_bridge(&store).await;
    counts_outlive_processes(&store).await;
    a_test_is_answered_by_whoever_runs_the_bridge(&store).await;
}

#[tokio::test]
async fn in_memory() {
    // B1, B2
    stores::in_memory(everything).await;
}

#[tokio::test]
async fn on_sqlite() {
    // B1, B2
    stores::on_sqlite("bridges", everything).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // B1, B2
    stores::on_postgres("bridges", everything).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // B1, B2
    stores::on_mysql("bridges", everything).await;
}

/// Time that passes here and in the store.
async fn pass(clock: &ManualClock, span: Duration) {
    clock.advance(span);
    tokio::time::advance(span).await;
}

/// B1: nothing is written while nothing changes but a sign of life, and a read every five seconds hears what people ask.
#[tokio::test(start_paused = true)]
async fn a_quiet_bridge_costs_few_calls() {
    let (clock, mut before) = (ManualClock::default(), 0);
    let counted = CountedStore::over(Arc::new(ModelStore::new(Arc::new(clock.clone()))));
    let store: Arc<dyn Store> = counted.clone();
    let engine = process(&store, "runs");
    let mut reporter = engine.bridges().reporter();
    let bridges: Vec<BridgeReport> = (0..20)
        .map(|at| BridgeReport { name: format!("b{at}"), ..report(BridgeState::Running, 1) })
        .collect();
    for second in 0..600 {
        if second == 60 {
            before = counted.calls();
        }
        reporter.asked().await.expect("read");
        reporter.tell(&bridges).await.expect("told");
        reporter.gather().await.expect("read");
        pass(&clock, Duration::from_secs(1)).await;
    }
    // In nine minutes: 108 reads of what people ask, 36 signs of life, 9 looks for processes that are gone.
    assert_eq!(counted.calls() - before, 108 + 36 + 9);
}

/// B1: a process that is silent is shown as such, its counts are taken over once, and it may come back.
#[tokio::test(start_paused = true)]
async fn a_silent_process_is_not_running_and_may_come_back() {
    let clock = ManualClock::default();
    let store: Arc<dyn Store> = Arc::new(ModelStore::new(Arc::new(clock.clone())));
    let (silent, other) = (process(&store, "silent"), process(&store, "other"));
    let mut reporter = silent.bridges().reporter();
    reporter.asked().await.expect("read");
    reporter.tell(&[report(BridgeState::Running, 10)]).await.expect("told");
    pass(&clock, SILENT_AFTER - Duration::from_secs(1)).await;
    assert_eq!(shown(&other).await.state, BridgeState::Running);
    pass(&clock, Duration::from_secs(1)).await;
    assert_eq!(shown(&other).await.state, BridgeState::NotRunning);
    // Longer than a process may be away before another one takes its counts over.
    pass(&clock, Duration::from_secs(600)).await;
    other.bridges().reporter().gather().await.expect("read");
    other.bridges().reporter().gather().await.expect("read");
    let view = shown(&other).await;
    assert_eq!((view.processes.len(), view.counts.admitted), (0, 10), "once");
    reporter.asked().await.expect("read");
    assert!(reporter.tell(&[report(BridgeState::Running, 14)]).await.expect("told"));
    let view = shown(&other).await;
    assert_eq!(
        (view.state, view.counts.admitted),
        (BridgeState::Running, 14),
        "what it did since, and no more"
    );
    pass(&clock, TOLD_EVERY).await;
    reporter.tell(&[report(BridgeState::Running, 20)]).await.expect("told");
    reporter.end(&[report(BridgeState::NotRunning, 21)]).await.expect("told");
    assert_eq!(shown(&other).await.counts.admitted, 21);
    let source_only = BridgeReport { name: "mail".into(), sink: None, ..report(BridgeState::Running, 1) };
    let mut mail = silent.bridges().reporter();
    mail.tell(&[source_only]).await.expect("told");
    let names = async || {
        let known = other.bridges().list().await.expect("read");
        known.into_iter().map(|view| view.name).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["mail", NAME]);
    // Taken over, and a month later nobody asks for it any more. What may have a backlog is shown until it is removed.
    for days in [1, 31] {
        pass(&clock, Duration::from_secs(days * 86_400)).await;
        other.bridges().reporter().gather().await.expect("read");
    }
    assert_eq!(names().await, [NAME]);
    assert_eq!(other.bridges().remove(NAME).await.expect("nobody runs it"), 0);
    assert!(names().await.is_empty());
}

/// B2, B4, D6: what nobody runs any more is removed with what waits for it, and nothing else is.
async fn what_nobody_runs_can_be_removed(store: &Arc<dyn Store>) {
    let engine = process(store, "runs");
    let bridges = engine.bridges();
    assert!(matches!(bridges.remove(NAME).await, Err(BridgeRefusal::Unknown(_))));
    for name in [NAME, "other"] {
        let sink = Sink::new(name, [SinkTopic::Results]);
        engine.sinks().set(&sink, SinkLimits::default()).await.expect("kept");
    }
    engine.enqueue(Nothing {}).submit().await.expect("stored");
    let worker = engine.worker(()).register::<Nothing>().queue("default", 1).inline().expect("it has a kind");
    assert_eq!(worker.drain(10).await.expect("the store is there").len(), 1);
    let mut reporter = bridges.reporter();
    let other = BridgeReport { name: "other".into(), ..report(BridgeState::Running, 1) };
    reporter.tell(&[report(BridgeState::Running, 1), other.clone()]).await.expect("told");
    let refused = bridges.remove(NAME).await.expect_err("it runs").to_string();
    assert_eq!(refused, "bridge `orders` is run by runs");
    reporter.end(&[report(BridgeState::NotRunning, 1), other]).await.expect("told");
    assert_eq!(bridges.remove(NAME).await.expect("nobody runs it"), 1, "the message that waited");
    assert!(matches!(bridges.remove(NAME).await, Err(BridgeRefusal::Unknown(_))));
    let left = bridges.show("other").await.expect("read").expect("it is known");
    assert_eq!(left.outbox_backlog(), 1, "nothing of it is gone");
    // One whose bridge nobody knows has a backlog all the same.
    engine.sinks().set(&Sink::new(NAME, [SinkTopic::Results]), SinkLimits::default()).await.expect("kept");
    assert_eq!(bridges.remove(NAME).await.expect("nobody runs it"), 0);
    assert!(engine.sinks().show(NAME).await.expect("read").is_none());
    bridges.remove("other").await.expect("nobody runs it");
}

/// Tests the bridges of a process.
struct Tester;

impl BridgeTester for Tester {
    fn test<'a>(&'a self, bridge: &'a str) -> BridgeTestAnswer<'a> {
        Box::pin(async move { (bridge == NAME).then(|| tested("here")) })
    }
}

/// B1: a process that runs the bridge itself answers at once, and not when its bridges have stopped.
#[tokio::test]
async fn a_test_is_made_here_when_the_bridge_is_here() {
    let engine = Backstop::open("memory:").await.expect("opened");
    let tester: Arc<dyn BridgeTester> = Arc::new(Tester);
    engine.bridges().attach(&tester);
    assert_eq!(engine.bridges().test(NAME).await.expect("an answer").node, "here");
    drop(tester);
    assert!(matches!(engine.bridges().test(NAME).await, Err(BridgeRefusal::Unknown(_))));
}
