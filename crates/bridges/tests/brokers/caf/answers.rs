//! Who is answered, by which bridge, and what a source does while nobody can be answered (B2, B3).

use std::time::Duration;

use backstop::Config;
use backstop::sinks::SinkTopic;
use backstop_bridges::{
    BridgeRunner, BridgeSettings, BridgeSink, CafSettings, SinkSettings, Source, SourceSettings, SourceState,
};
use lapin::types::AMQPValue;

use super::wire::{CafWire, task, tracked};
use super::{Detect, queues, run, start, text};
use crate::stage::{TestEngine, soon, times, until};

fn settings(wire: &CafWire, from: &str, to: &str) -> BridgeSettings {
    let source = SourceSettings::new(from, "detect");
    let sink = SinkSettings::new(to, [SinkTopic::Results]);
    BridgeSettings::new(wire.server.url(), source).with_sink(sink).as_caf(CafSettings::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_bridges_of_one_store_answer_their_own_tasks_alone() {
    // B3: two bridges on one engine whose sinks take the same kind, and a job that nobody's task was.
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    for queue in ["one-in", "one-out", "two-in", "two-out"] {
        wire.queue(queue, &[]).await;
    }
    let mut running = Vec::new();
    for (name, from, to) in [("one", "one-in", "one-out"), ("two", "two-in", "two-out")] {
        let settings = settings(&wire, from, to);
        let sink = BridgeSink::new(&engine.engine, name, &settings).expect("good settings").start();
        let source =
            Source::new(&engine.engine, name, &settings).expect("good settings").times(times()).start();
        until(&source, |status| status.state == SourceState::Consuming).await;
        running.push((source, sink));
    }
    engine.engine.enqueue(Detect { text: "fr".to_owned() }).submit().await.expect("stored");
    wire.produce("one-in", &task("1", "fr", "one-in"), &[], 0).await;
    wire.produce("two-in", &task("2", "fr", "two-in"), &[], 0).await;
    for (source, _) in &running {
        until(source, |status| status.acked == 1).await;
    }
    run(&engine).await;
    for (source, sink) in running {
        // All that the store holds for it: what is not its own is removed without a message.
        soon("what the sink takes", sink.until(|status| status.published == 3)).await;
        source.stop().await;
        sink.stop().await;
    }
    for (queue, id) in [("one-out", "1"), ("two-out", "2")] {
        let heard = wire.consume(queue, 1).await;
        assert_eq!(text(&heard[0].task["taskId"]), id, "{heard:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_a_source_takes_no_tasks_while_nobody_can_be_answered() {
    // B2, B3: the output queue does not exist. What was acknowledged by then is answered when it does.
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    wire.queue("lang-in", &[]).await;
    let bridge = start(&wire, &engine, CafSettings::default());
    wire.produce("lang-in", &task("1", "fr", "lang-in"), &[], 0).await;
    until(&bridge.source, |status| status.acked == 1).await;
    run(&engine).await;
    let held = until(&bridge.source, |status| status.state == SourceState::Held).await;
    let why = held.last_error.unwrap_or_default();
    assert!(why.starts_with("sink `lang`, which answers messages, does not publish: "), "{why}");
    assert!(why.contains("`lang-out` does not exist"), "{why}");
    wire.produce("lang-in", &task("2", "fr", "lang-in"), &[], 0).await;
    until(&bridge.source, |status| status.failures > held.failures + 2).await;
    assert_eq!(bridge.source.status().acked, 1, "its producer keeps what nobody can answer");
    wire.queue("lang-out", &[]).await;
    until(&bridge.source, |status| status.acked == 2).await;
    run(&engine).await;
    let heard = wire.consume("lang-out", 2).await;
    assert_eq!((text(&heard[0].task["taskId"]), text(&heard[1].task["taskId"])), ("1", "2"));
    bridge.stop().await;

    // The same while half of what the sink may hold waits: the other half is for the jobs that there are.
    let mut small = settings(&wire, "lang-in", "lang-out");
    let sink = small.sink.as_mut().expect("it has one");
    sink.most_rows = Some(4);
    let source = Source::new(&engine.engine, "small", &small).expect("good settings").times(times()).start();
    for id in ["3", "4"] {
        wire.produce("lang-in", &task(id, "fr", "lang-in"), &[], 0).await;
        until(&source, |status| status.state == SourceState::Consuming).await;
        soon("a task", source.until(|status| status.acked > u64::from(id == "4"))).await;
        run(&engine).await;
    }
    let held = until(&source, |status| status.state == SourceState::Held).await;
    let why = held.last_error.unwrap_or_default();
    assert!(why.starts_with("too much waits for sink `small`, which answers messages"), "{why}");
    source.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_a_worker_at_the_end_of_the_line_reports_and_copies_what_is_poisoned() {
    // B3, C1: no output queue, and still whoever follows the job is told, and poison is kept.
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    let source = SourceSettings::new("lang-in", "detect");
    let settings = BridgeSettings::new(wire.server.url(), source).as_caf(CafSettings::default());
    let runner = BridgeRunner::start(&engine.engine, &[("lang".to_owned(), settings)].into());
    let status = "http://127.0.0.1:1/x";
    wire.produce("lang-in", &tracked("good", "fr", "lang-in", status), &[], 0).await;
    wire.produce("lang-in", &tracked("bad", "runtime", "lang-in", status), &[], 0).await;
    wire.produce("lang-in", &task("dies", "crash", "lang-in"), &[("x-caf-worker-retry", "10")], 0).await;
    let taken = async {
        while engine.payloads().await.len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    soon("three jobs", taken).await;
    run(&engine).await;
    let reports = wire.consume("tracking-in", 2).await;
    for (id, status) in [("good", "Complete"), ("bad", "Failed")] {
        let of = |report: &&super::wire::Heard| text(&report.task["taskData"]).contains(id);
        let report = reports.iter().find(of).expect("one for each that is followed");
        assert!(text(&report.task["taskData"]).contains(&format!(r#""status":"{status}""#)), "{report:?}");
    }
    let copy = wire.consume("lang-reject", 1).await;
    assert_eq!(text(&copy[0].task["taskId"]), "dies");
    assert_eq!(text(&copy[0].task["taskData"]), r#"{"text":"crash"}"#);
    assert_eq!(wire.depth("lang-out").await, 0, "nobody is answered");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_queues_are_made_as_workers_of_the_framework_declare_them() {
    // B3: who declares a queue with other arguments is refused by the broker, and an unchanged worker would not start.
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    let names = ["retry", "paused", "invalid", "copies"];
    for (index, (kind, priority)) in [("quorum", 0), ("classic", 9)].into_iter().enumerate() {
        let mut caf = CafSettings::default();
        let name = |name: &str| Some(format!("{name}-{index}"));
        (caf.retry_queue, caf.paused_queue) = (name(names[0]), name(names[1]));
        (caf.invalid_queue, caf.reject_queue) = (name(names[2]), name(names[3]));
        caf.max_priority = priority;
        if kind == "classic" {
            caf.queue_type = backstop_bridges::CafQueueKind::Classic;
        }
        let bridge = start(&wire, &engine, caf);
        until(&bridge.source, |status| status.state == SourceState::Consuming).await;
        bridge.stop().await;
        let mut arguments = vec![("x-queue-type", AMQPValue::LongString(kind.into()))];
        if priority > 0 {
            arguments.push(("x-max-priority", AMQPValue::LongInt(priority.into())));
        }
        for name in names {
            wire.queue(&format!("{name}-{index}"), &arguments).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_invalid_tasks_have_a_queue_of_their_own_and_diversion_can_be_turned_off() {
    // B3
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    let mut caf = CafSettings::default();
    (caf.invalid_queue, caf.check_diverted) = (Some("lang-invalid".to_owned()), Some(false));
    let bridge = start(&wire, &engine, caf);
    wire.produce("lang-in", &task("1", "invalid", "lang-in"), &[], 0).await;
    wire.produce("lang-in", &task("2", "fr", "another"), &[], 0).await;
    let status = until(&bridge.source, |status| status.acked == 2).await;
    assert_eq!((status.admitted, status.passed_on), (2, 0));
    run(&engine).await;
    let invalid = wire.consume("lang-invalid", 1).await;
    let (id, to) = (text(&invalid[0].task["taskId"]), text(&invalid[0].task["to"]));
    assert_eq!((id, to, text(&invalid[0].task["taskStatus"])), ("1", "lang-invalid", "INVALID_TASK"));
    assert_eq!(text(&wire.consume("lang-out", 1).await[0].task["taskId"]), "2");
    tokio::time::timeout(Duration::from_secs(60), bridge.stop()).await.expect("it ends");
}
