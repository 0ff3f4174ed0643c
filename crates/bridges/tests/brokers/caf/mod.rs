//! Profile `caf` on a real RabbitMQ, between a producer and a consumer that are not changed (B3).

mod answers;
mod before_run;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::sinks::SinkTopic;
use backstop::{Config, DependencySettings};
use backstop_bridges::{
    BridgeSettings, BridgeSink, CafSettings, InvalidMessages, SinkHandle, SinkSettings, SinkTimes, Source,
    SourceHandle, SourceSettings, SourceState,
};
use backstop_store::{JobFilter, PageRequest};
use lapin::types::AMQPValue;
use serde_json::{Value, json};

use crate::stage::{TestEngine, times, until};
use wire::{CafWire, job_service, task, tracked};

/// What a worker of the framework may do, as a job does it.
#[job(max_retries = 3)]
async fn detect(text: String) -> JobResult<Value> {
    match text.as_str() {
        "failure" => Err(Outcome::failure(json!({ "why": "two languages" })).into()),
        "invalid" => Err(Outcome::invalid("the text is empty").into()),
        "runtime" => Err("a null where there should be none".into()),
        "crash" => Err(Outcome::crash("killed by signal 11").into()),
        other => Ok(json!({ "lang": other })),
    }
}

/// A bridge on `lang-in` that answers to `lang-out`.
struct Bridge {
    source: SourceHandle,
    sink: SinkHandle,
}

fn start(wire: &CafWire, engine: &TestEngine, caf: CafSettings) -> Bridge {
    let source = SourceSettings::new("lang-in", "detect").prefetch(20);
    let sink = SinkSettings::new("lang-out", [SinkTopic::Results]);
    let settings = BridgeSettings::new(wire.server.url(), source).with_sink(sink).as_caf(caf);
    let mut often = SinkTimes::default();
    (often.look, often.lease) = (Duration::from_millis(10), Duration::from_millis(500));
    let sink =
        BridgeSink::new(&engine.engine, "lang", &settings).expect("good settings").times(often).start();
    let source =
        Source::new(&engine.engine, "lang", &settings).expect("good settings").times(times()).start();
    Bridge { source, sink }
}

impl Bridge {
    async fn stop(self) {
        self.source.stop().await;
        self.sink.stop().await;
    }
}

/// Runs all that waits.
async fn run(engine: &TestEngine) {
    let worker = engine.engine.worker(()).register::<Detect>().queue("default", 1);
    worker.inline().expect("it has kinds").drain(1_000).await.expect("the store is there");
}

async fn queues(wire: &CafWire) {
    for queue in ["lang-in", "lang-out", "tracking-in"] {
        wire.queue(queue, &[]).await;
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_tasks_are_answered_as_the_framework_answers_them() {
    // B1, B3, B4, E11, F5
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    let bridge = start(&wire, &engine, CafSettings::default());
    for (id, word) in [("1", "fr"), ("2", "failure"), ("3", "invalid"), ("4", "runtime")] {
        wire.produce("lang-in", &task(id, word, "lang-in"), &[], 0).await;
    }
    let mut unreadable = task("5", "fr", "lang-in");
    unreadable["taskData"] = json!("%%%");
    wire.produce("lang-in", &unreadable, &[], 0).await;
    wire.produce("lang-in", &json!({ "no": "task" }), &[], 0).await;
    // The same message again, as after a connection that broke: one job, one response.
    wire.produce("lang-in", &task("1", "fr", "lang-in"), &[], 0).await;
    let status = until(&bridge.source, |status| status.acked == 7).await;
    assert_eq!((status.admitted, status.duplicates, status.invalid), (4, 1, 2));
    assert_eq!(wire.depth("lang-in").await, 0, "none goes round");
    run(&engine).await;
    let heard = wire.consume("lang-out", 5).await;
    let answers: BTreeMap<&str, &Value> =
        heard.iter().map(|one| (text(&one.task["taskId"]), &one.task)).collect();
    assert_eq!(answers.len(), 5, "one response each");
    for (id, status, data) in [
        ("1", "RESULT_SUCCESS", r#"{"lang":"fr"}"#),
        ("2", "RESULT_FAILURE", r#"{"why":"two languages"}"#),
        ("3", "INVALID_TASK", "the text is empty"),
        ("4", "RESULT_EXCEPTION", "a null where there should be none"),
        ("5", "INVALID_TASK", "its `taskData` is not base64"),
    ] {
        let answer = answers[id];
        assert_eq!(text(&answer["taskStatus"]), status, "{answer}");
        assert!(text(&answer["taskData"]).contains(data), "{answer}");
        assert_eq!((&answer["version"], text(&answer["to"])), (&json!(3), "lang-out"));
        assert_eq!(answer["context"], json!({ "/caf/lang": "Y3R4" }));
        assert_eq!(answer["sourceInfo"], json!({ "name": "lang", "version": "UNKNOWN" }));
        assert_eq!(text(&answer["correlationId"]), format!("C-{id}"));
    }
    let request = PageRequest { limit: 10, after: None };
    let jobs = engine.engine.jobs(JobFilter::default(), request).await.expect("there").items;
    assert!(jobs.iter().all(|job| job.record.runs == 1), "nothing is tried again, also not an exception");
    let kept = InvalidMessages::of(&engine.engine).count("lang").await.expect("there");
    assert_eq!(kept, 2, "both are in the invalid channel with their bytes");
    bridge.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_poison_is_counted_answered_and_copied() {
    // B3, C1
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    wire.queue("lang-retry", &[]).await;
    // A quorum queue counts by itself: given back eleven times, it has been delivered too often.
    wire.queue("quorum-in", &[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await;
    wire.produce("quorum-in", &task("q", "fr", "quorum-in"), &[], 0).await;
    for _ in 0..11 {
        wire.drop_one("quorum-in").await;
    }
    let sink = SinkSettings::new("lang-out", [SinkTopic::Results]);
    let source = SourceSettings::new("quorum-in", "detect");
    let settings = BridgeSettings::new(wire.server.url(), source).with_sink(sink);
    let settings = settings.as_caf(CafSettings::default());
    let quorum = Source::new(&engine.engine, "quorum", &settings).expect("good").times(times()).start();
    let status = until(&quorum, |status| status.acked == 1).await;
    assert_eq!((status.admitted, status.passed_on), (0, 1));
    quorum.stop().await;
    let poison = wire.consume("lang-out", 1).await;
    assert_eq!(text(&poison[0].task["taskStatus"]), "RESULT_EXCEPTION");
    assert!(
        text(&poison[0].task["taskData"]).contains("It was retried 11 times, the limit is 10"),
        "{poison:?}"
    );
    let copy = wire.consume("quorum-reject", 1).await;
    assert_eq!(text(&copy[0].task["taskData"]), r#"{"text":"fr"}"#);

    // The count that another worker has stamped goes on here, and a crash is one more.
    let bridge = start(&wire, &engine, CafSettings::default());
    let stamp = "x-caf-worker-retry";
    wire.produce("lang-in", &task("c", "crash", "lang-in"), &[(stamp, "10")], 0).await;
    until(&bridge.source, |status| status.acked == 1).await;
    run(&engine).await;
    let poison = wire.consume("lang-out", 1).await;
    let data = text(&poison[0].task["taskData"]);
    assert_eq!(text(&poison[0].task["taskStatus"]), "RESULT_EXCEPTION");
    assert!(data.starts_with("lang could not process the item. It was retried 11 times"), "{data}");
    assert!(data.contains("killed by signal 11"), "{data}");
    let copy = wire.consume("lang-reject", 1).await;
    assert_eq!(text(&copy[0].task["taskData"]), r#"{"text":"crash"}"#);
    // The queue of rejected tasks is a quorum queue, which counts its own deliveries beside that.
    let ours: Vec<_> = copy[0].headers.iter().filter(|(name, _)| name != "x-delivery-count").collect();
    assert_eq!(ours, [&(stamp.to_owned(), "11".to_owned())]);
    bridge.stop().await;

    // What was delivered before goes to the queue of retries, stamped, when there is one.
    wire.produce("lang-in", &task("r", "fr", "lang-in"), &[(stamp, "2")], 0).await;
    wire.drop_one("lang-in").await;
    let mut caf = CafSettings::default();
    caf.retry_queue = Some("lang-retry".to_owned());
    let bridge = start(&wire, &engine, caf);
    until(&bridge.source, |status| status.passed_on == 1).await;
    let again = wire.consume("lang-retry", 1).await;
    assert_eq!((text(&again[0].task["taskId"]), again[0].headers[0].1.as_str()), ("r", "3"));
    bridge.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_tasks_of_others_and_of_jobs_that_are_over_or_paused() {
    // B3, B6, L3
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    for queue in ["ocr-in", "lang-paused"] {
        wire.queue(queue, &[]).await;
    }
    let (service, asked) = job_service().await;
    let mut caf = CafSettings::default();
    (caf.paused_queue, caf.max_priority) = (Some("lang-paused".to_owned()), 9);
    caf.status_hosts.insert("127.0.0.1".to_owned());
    let bridge = start(&wire, &engine, caf);
    let url = |word: &str| format!("{service}/{word}");
    wire.produce("lang-in", &task("other", "fr", "ocr-in"), &[("x-own", "kept")], 3).await;
    wire.produce("lang-in", &task("lost", "fr", "no-such-queue"), &[], 0).await;
    wire.produce("lang-in", &tracked("gone", "fr", "lang-in", &url("Gone")), &[], 0).await;
    wire.produce("lang-in", &tracked("over", "fr", "lang-in", &url("Cancelled")), &[], 0).await;
    wire.produce("lang-in", &tracked("paused", "fr", "lang-in", &url("Paused")), &[], 0).await;
    wire.produce("lang-in", &tracked("active", "fr", "lang-in", &url("Active")), &[], 9).await;
    let mut nowhere = task("nowhere", "fr", "lang-in");
    nowhere["to"] = Value::Null;
    wire.produce("lang-in", &nowhere, &[], 0).await;
    // Nobody answers there: it counts as active.
    wire.produce("lang-in", &tracked("silent", "fr", "lang-in", "http://127.0.0.1:1/x"), &[], 0).await;
    let settled = |status: &backstop_bridges::SourceStatus| status.acked + status.abandoned == 8;
    let status = until(&bridge.source, settled).await;
    assert_eq!((status.admitted, status.passed_on, status.discarded), (3, 2, 2));
    assert_eq!(status.abandoned, 1, "its queue does not exist: its broker keeps it");
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    let other = wire.consume("ocr-in", 1).await;
    assert_eq!(other[0].task["taskId"], "other");
    assert_eq!(other[0].headers, [("x-own".to_owned(), "kept".to_owned())]);
    assert_eq!(wire.consume("lang-paused", 1).await[0].task["taskId"], "paused");
    assert_eq!(wire.consume("lang-in.dead", 1).await[0].task["taskId"], "lost");
    let request = PageRequest { limit: 10, after: None };
    let jobs = engine.engine.jobs(JobFilter::default(), request).await.expect("there").items;
    let urgent = jobs.iter().filter(|job| job.job.spec.priority == backstop::Priority::Critical).count();
    assert_eq!(urgent, 1, "the one with priority 9 of 9");
    run(&engine).await;
    let heard = wire.consume("lang-out", 3).await;
    assert!(heard.iter().all(|one| one.task["tracking"].is_null()), "tracking ends at `trackTo`");
    // Whoever follows the two tracked ones is told that their part is complete.
    let reports = wire.consume("tracking-in", 2).await;
    for report in &reports {
        assert_eq!(report.task["taskClassifier"], "TrackingReportTask");
        assert!(text(&report.task["taskData"]).contains(r#""status":"Complete""#), "{report:?}");
    }
    bridge.stop().await;
}

/// A worker whose dependency may be away.
#[derive(Default)]
struct Site {
    is_up: AtomicBool,
    began: tokio::sync::Notify,
}

/// Never ends while its dependency is away.
#[job]
async fn hang(cx: JobContext<Site>, text: String) -> JobResult<String> {
    cx.app().began.notify_one();
    if !cx.app().is_up.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    Ok(text)
}

#[job(dependency = "model")]
async fn classify(cx: JobContext<Site>, text: String) -> JobResult<String> {
    if !cx.app().is_up.load(Ordering::SeqCst) {
        return Err(Outcome::transient("model").into());
    }
    Ok(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_rejected_tasks_wait_and_the_source_takes_no_more_until_it_is_healthy() {
    // B1, B3, H1
    let wire = CafWire::start().await;
    queues(&wire).await;
    let often = DependencySettings::default().every(Duration::from_millis(50));
    let engine = TestEngine::new(Config::default().dependency("model", often)).await;
    let site = Arc::new(Site::default());
    site.is_up.store(true, Ordering::SeqCst);
    let check = |site: Arc<Site>| async move {
        if site.is_up.load(Ordering::SeqCst) { Ok(()) } else { Err("nobody answers".into()) }
    };
    let worker = engine.engine.worker_sharing(site.clone()).register::<Classify>().queue("default", 1);
    let worker = worker.check("model", check).start().await.expect("started");
    let source = SourceSettings::new("lang-in", "classify").prefetch(1);
    let sink = SinkSettings::new("lang-out", [SinkTopic::Results]);
    let settings = BridgeSettings::new(wire.server.url(), source).with_sink(sink);
    let settings = settings.as_caf(CafSettings::default());
    let sink = BridgeSink::new(&engine.engine, "lang", &settings).expect("good settings").start();
    let source = Source::new(&engine.engine, "lang", &settings).expect("good").times(times()).start();
    until(&source, |status| status.state == SourceState::Consuming).await;
    site.is_up.store(false, Ordering::SeqCst);
    wire.produce("lang-in", &task("1", "a", "lang-in"), &[], 0).await;
    let held = until(&source, |status| status.state == SourceState::Held).await;
    let why = held.last_error.unwrap_or_default();
    assert_eq!(why, "dependency `model` is unavailable to every worker that needs it");
    for id in ["2", "3"] {
        wire.produce("lang-in", &task(id, "b", "lang-in"), &[], 0).await;
    }
    until(&source, |status| status.failures > held.failures).await;
    assert!(wire.depth("lang-in").await >= 2, "messages stay with the broker");
    site.is_up.store(true, Ordering::SeqCst);
    let heard = wire.consume("lang-out", 3).await;
    assert!(heard.iter().all(|one| one.task["taskStatus"] == "RESULT_SUCCESS"), "{heard:?}");
    source.stop().await;
    sink.stop().await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caf_interrupted_tasks_are_run_again_and_answered_once() {
    // B3, L18: what a worker that stops has in hand is no exception, although none is ever retried.
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    let sink = SinkSettings::new("lang-out", [SinkTopic::Results]);
    let settings = BridgeSettings::new(wire.server.url(), SourceSettings::new("lang-in", "hang"));
    let settings = settings.with_sink(sink).as_caf(CafSettings::default());
    let sink = BridgeSink::new(&engine.engine, "lang", &settings).expect("good settings").start();
    let source = Source::new(&engine.engine, "lang", &settings).expect("good").times(times()).start();
    let site = Arc::new(Site::default());
    let worker = || engine.engine.worker_sharing(site.clone()).register::<Hang>().queue("default", 1);
    let first = worker().grace(Duration::from_millis(10)).start().await.expect("started");
    wire.produce("lang-in", &task("1", "fr", "lang-in"), &[], 0).await;
    crate::stage::soon("a run that hangs", site.began.notified()).await;
    first.stop().await;
    assert_eq!(wire.depth("lang-out").await, 0, "nobody is told that it failed");
    site.is_up.store(true, Ordering::SeqCst);
    let second = worker().start().await.expect("started");
    let heard = wire.consume("lang-out", 1).await;
    assert_eq!(text(&heard[0].task["taskStatus"]), "RESULT_SUCCESS");
    second.stop().await;
    source.stop().await;
    sink.stop().await;
}
