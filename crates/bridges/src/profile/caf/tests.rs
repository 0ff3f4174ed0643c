//! Tables of the translation: what a task becomes, and what the end of a job becomes.

use backstop::JobId;
use backstop::sinks::{MessageBody, ResultStatus};
use backstop_core::Timestamp;
use backstop_core::failure::TerminalReason;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::*;
use crate::message::{DeliveryTag, MessageId};
use crate::profile::MessageProfile;
use crate::settings::{BridgeSettings, SinkSettings, SourceSettings};

/// A task as a producer of the framework writes it.
fn task() -> Value {
    json!({
        "version": 3, "taskId": "J1.1", "taskClassifier": "LangDetect", "taskApiVersion": 2,
        "taskData": BASE64_STANDARD.encode(r#"{"text":"é"}"#), "taskStatus": "NEW_TASK",
        "context": { "/caf/lang": "Y3R4" }, "to": "lang-in",
        "tracking": {
            "jobTaskId": "J1.1", "lastStatusCheckTime": 1_000, "statusCheckIntervalMillis": 500,
            "statusCheckUrl": "http://jobs:8080/J1/status", "trackingPipe": "tracking", "trackTo": "final",
        },
        "sourceInfo": { "name": "importer", "version": "1.0" }, "priority": null, "correlationId": "C7",
        "later": { "field": true },
    })
}

fn changed(change: impl FnOnce(&mut Value)) -> BrokerMessage {
    let mut task = task();
    change(&mut task);
    message(task.to_string().into_bytes())
}

fn message(body: Vec<u8>) -> BrokerMessage {
    let id = MessageId::of_body(&body);
    BrokerMessage { body, deliveries: Some(1), ..BrokerMessage::new(id, DeliveryTag::new("1")) }
}

fn profile(caf: CafSettings) -> CafProfile {
    let sink = SinkSettings::new("lang-out", [backstop::sinks::SinkTopic::Results]);
    let source = SourceSettings::new("lang-in", "detect");
    let settings = BridgeSettings::new("amqp://127.0.0.1", source).with_sink(sink).as_caf(caf);
    match settings.message_profile("lang").unwrap() {
        MessageProfile::Caf(caf) => *caf,
        other => panic!("{other:?}"),
    }
}

fn route() -> JobRoute {
    JobRoute::new("lang", "detect", "default")
}

fn read(caf: &CafProfile, message: &BrokerMessage) -> Result<ReadMessage, MessageProblem> {
    caf.read(&route(), message, None, 9)
}

fn job(found: Result<ReadMessage, MessageProblem>) -> MessageJob {
    match found {
        Ok(ReadMessage::Job(job)) => *job,
        other => panic!("{other:?}"),
    }
}

/// The queue, the TaskMessage with its data as text, and the headers.
type Opened = (String, Value, Vec<(String, String)>);

fn published(found: Result<ReadMessage, MessageProblem>) -> Vec<Opened> {
    match found {
        Ok(ReadMessage::Publish(all) | ReadMessage::Poisoned(all, _)) => {
            all.into_iter().map(opened).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn opened(sent: Addressed) -> Opened {
    let mut task: Value = serde_json::from_slice(&sent.message.body).unwrap();
    let data = BASE64_STANDARD.decode(task["taskData"].as_str().unwrap()).unwrap();
    task["taskData"] = Value::from(String::from_utf8(data).unwrap());
    (sent.queue, task, sent.message.headers)
}

#[test]
fn a_task_becomes_a_job_with_all_that_its_response_needs() {
    // B1, B3
    let caf = profile(CafSettings::default());
    let found = job(read(&caf, &changed(|_| {})));
    assert_eq!((found.payload.as_str(), &*found.kind), (r#"{"text":"é"}"#, "detect"));
    assert_eq!((found.max_retries, found.max_crashes, found.priority), (Some(0), Some(10), None));
    assert_eq!(found.correlation_id.as_deref(), Some("C7"));
    let kept = &found.params.unwrap()["caf"];
    assert_eq!((&kept["taskId"], &kept["taskStatus"]), (&json!("J1.1"), &json!("NEW_TASK")));
    assert_eq!(kept["context"], json!({ "/caf/lang": "Y3R4" }));
    assert_eq!(kept.get("taskData"), None, "the data is the payload, and is kept once");
    for status in task::STATUSES {
        // A worker in the middle of a line gets results of the one before.
        let found = job(read(&caf, &changed(|task| task["taskStatus"] = json!(status))));
        assert_eq!(found.params.unwrap()["caf"]["taskStatus"], json!(status));
    }
}

#[test]
fn a_task_is_known_by_its_id_and_data_whatever_its_tracking_says() {
    // B1
    let caf = profile(CafSettings::default());
    let key = |message: &BrokerMessage| job(read(&caf, message)).key;
    let first = key(&changed(|_| {}));
    assert!(first.starts_with("lang/J1.1:"), "{first}");
    assert_eq!(first, key(&changed(|task| task["tracking"]["lastStatusCheckTime"] = json!(7_000))));
    assert_ne!(first, key(&changed(|task| task["taskId"] = json!("J1.2"))));
    assert_ne!(first, key(&changed(|task| task["taskData"] = json!(BASE64_STANDARD.encode("{}")))));
    assert_ne!(
        first,
        key(&changed(|task| task["sourceInfo"]["name"] = json!("other"))),
        "it came round again"
    );
    let named = BrokerMessage { id: MessageId::producer("m-1"), ..changed(|_| {}) };
    assert_eq!(key(&named), "lang/m-1", "a producer that gives ids is believed");
}

#[test]
fn what_cannot_be_read_is_invalid_and_answered_where_somebody_can_be() {
    // B3, B4, E11
    let caf = profile(CafSettings::default());
    let absent = |field: &'static str| changed(move |task| task[field] = Value::Null);
    for (message, reason, answered) in [
        (message(b"".to_vec()), "the body is empty", false),
        (message(b"not json".to_vec()), "it is not a TaskMessage: ", false),
        (message(b"[]".to_vec()), "it is not a TaskMessage: ", false),
        (absent("taskId"), "its `taskId` is missing", false),
        (changed(|task| task["taskData"] = json!(["x"])), "it is not a TaskMessage: ", false),
        (absent("taskData"), "its `taskData` is missing", true),
        (absent("taskStatus"), "its `taskStatus` is missing", true),
        (absent("taskClassifier"), "its `taskClassifier` is missing", true),
        (changed(|task| task["taskStatus"] = json!("DONE")), "its `taskStatus` `DONE` is unknown", true),
        (changed(|task| task["taskData"] = json!("%")), "its `taskData` is not base64", true),
        (changed(|task| task["taskData"] = json!("/w==")), "its `taskData` is not UTF-8 text", true),
        (changed(|task| task["version"] = json!(4)), "it is a TaskMessage of version 4", true),
    ] {
        let problem = read(&caf, &message).unwrap_err().to_string();
        assert!(problem.starts_with(reason), "{problem}");
        let answers: Vec<_> = caf.refusal(&message, &problem, 9).into_iter().map(opened).collect();
        assert_eq!(answers.len(), if answered { 2 } else { 0 }, "{problem}");
        let Some((queue, response, _)) = answers.last() else { continue };
        assert_eq!((queue.as_str(), &response["taskStatus"]), ("lang-out", &json!("INVALID_TASK")));
        assert_eq!((&response["taskId"], &response["taskData"]), (&json!("J1.1"), &json!(problem)));
        assert_eq!(response["context"], json!({ "/caf/lang": "Y3R4" }));
    }
}

#[test]
fn deliveries_are_counted_and_over_the_limit_is_poison() {
    // B3, C1
    let retrying = CafSettings { retry_queue: Some("lang-retry".into()), ..CafSettings::default() };
    let (usual, retrying) = (profile(CafSettings::default()), profile(retrying));
    let delivered = |before: bool, header: Option<(&str, &str)>| BrokerMessage {
        deliveries: (!before).then_some(1),
        headers: header.map(|(name, count)| (name.to_owned(), count.to_owned())).into_iter().collect(),
        ..changed(|_| {})
    };
    let (stamp, count) = (RETRY_HEADER, DELIVERY_HEADER);
    let handle = |crashes| DeliveryDecision::Handle { crashes };
    for (message, expected, with_queue) in [
        (delivered(false, None), handle(10), handle(10)),
        (delivered(false, Some((stamp, "3"))), handle(7), handle(7)),
        (delivered(false, Some((stamp, "99"))), handle(0), handle(0)),
        (delivered(false, Some((stamp, "odd"))), handle(10), handle(10)),
        (delivered(true, None), handle(10), DeliveryDecision::Retry(1)),
        (delivered(true, Some((stamp, "9"))), handle(1), DeliveryDecision::Retry(10)),
        (delivered(true, Some((stamp, "10"))), DeliveryDecision::Poison(10), DeliveryDecision::Poison(10)),
        (delivered(true, Some((count, "10"))), handle(0), handle(0)),
        (delivered(true, Some((count, "11"))), DeliveryDecision::Poison(11), DeliveryDecision::Poison(11)),
    ] {
        assert_eq!(usual.delivery(&message), expected, "{:?}", message.headers);
        assert_eq!(retrying.delivery(&message), with_queue, "{:?} with a queue", message.headers);
    }
    let again = published(read(&retrying, &delivered(true, Some((stamp, "2")))));
    assert_eq!((again[0].0.as_str(), &again[0].1["taskId"]), ("lang-retry", &json!("J1.1")));
    assert_eq!(again[0].2, [(stamp.to_owned(), "3".to_owned())], "stamped, and once");
    let poison = published(read(&usual, &delivered(true, Some((count, "11")))));
    let queues: Vec<&str> = poison.iter().map(|(queue, ..)| queue.as_str()).collect();
    assert_eq!(queues, ["tracking", "lang-reject", "lang-out"]);
    let (_, copy, headers) = &poison[1];
    assert_eq!(
        (&copy["taskData"], &copy["taskStatus"]),
        (&json!(r#"{"text":"é"}"#), &json!("RESULT_EXCEPTION"))
    );
    assert_eq!(headers[..], [(stamp.to_owned(), "11".to_owned())]);
    let text = poison[2].1["taskData"].as_str().unwrap();
    assert!(text.starts_with("lang could not process the item. It was retried 11 times"), "{text}");
}

#[test]
fn tasks_for_others_are_passed_on_and_none_is_dropped() {
    let caf = profile(CafSettings::default());
    let other = BrokerMessage {
        headers: vec![("x-own".into(), "1".into()), (DELIVERY_HEADER.into(), "2".into())],
        priority: Some(4),
        ..changed(|task| task["to"] = json!("ocr-in"))
    };
    let Ok(ReadMessage::Publish(all)) = read(&caf, &other) else { panic!("it is not for this worker") };
    assert_eq!((all.len(), all[0].queue.as_str(), &all[0].message.body), (1, "ocr-in", &other.body));
    assert_eq!(all[0].message.headers, [("x-own".to_owned(), "1".to_owned())]);
    assert_eq!(all[0].message.priority, Some(4));
    let last = published(read(&caf, &changed(|task| task["to"] = json!("FINAL"))));
    assert_eq!(last[0].1["tracking"], Value::Null, "tracking ends there");
    for own in [Value::Null, json!(""), json!("LANG-IN")] {
        job(read(&caf, &changed(|task| task["to"] = own)));
    }
}

#[test]
fn the_status_of_a_job_is_asked_when_it_is_due_and_decides() {
    let caf = profile(CafSettings::default());
    let url = "http://jobs:8080/J1/status".to_owned();
    let with = |key: &'static str, value: Value| changed(move |task| task["tracking"][key] = value);
    for (message, now, expected) in [
        (changed(|_| {}), 1_499, None),
        (changed(|_| {}), 1_500, Some(url.clone())),
        (with("lastStatusCheckTime", Value::Null), 0, Some(url.clone())),
        (with("lastStatusCheckTime", json!("1970-01-01T00:00:02Z")), 2_499, None),
        (with("lastStatusCheckTime", json!("1970-01-01T00:00:02Z")), 2_500, Some(url)),
        (with("statusCheckUrl", Value::Null), 9_000, None),
        (changed(|task| task["tracking"] = Value::Null), 9_000, None),
        (message(b"not json".to_vec()), 9_000, None),
    ] {
        assert_eq!(caf.question(&message, now), expected, "{now}");
    }
    let paused = CafSettings { paused_queue: Some("lang-paused".into()), ..CafSettings::default() };
    let pausing = profile(paused);
    let answer = |status| Some(StatusAnswer { status, at_ms: 2_000, interval_ms: 30_000 });
    let by = |caf: &CafProfile, status| caf.read(&route(), &changed(|_| {}), answer(status), 9);
    let kept = job(by(&caf, TrackedStatus::Active)).params.unwrap();
    assert_eq!(kept.pointer("/caf/tracking/lastStatusCheckTime"), Some(&json!(2_000)));
    job(by(&caf, TrackedStatus::Paused));
    assert_eq!(published(by(&pausing, TrackedStatus::Paused))[0].0, "lang-paused");
    for status in [TrackedStatus::Over, TrackedStatus::Gone] {
        assert!(matches!(by(&caf, status), Ok(ReadMessage::Discard(_))), "{status:?}");
    }
    let bounded = CafSettings { status_hosts: ["jobs".to_owned()].into(), ..CafSettings::default() };
    let bounded = profile(bounded);
    for (url, named) in [
        ("http://jobs:8080/x", true),
        ("https://elsewhere/x", false),
        ("http://jobs@elsewhere/x", false),
        ("file:///etc/passwd", false),
        ("file://jobs/etc/passwd", false),
        ("no address", false),
    ] {
        assert_eq!((caf.may_ask(url), bounded.may_ask(url)), (false, named), "{url}");
    }
}

#[test]
fn a_task_that_waited_is_asked_about_again_before_it_runs() {
    // B3
    let caf = profile(CafSettings::default());
    let params = job(read(&caf, &changed(|_| {}))).params.unwrap();
    let url = Some("http://jobs:8080/J1/status".to_owned());
    assert_eq!(caf.question_before_run(&params, 1_499), None, "the last answer still holds");
    assert_eq!(caf.question_before_run(&params, 1_500), url);
    let mut other = params.clone();
    other["caf"]["bridge"] = json!("another");
    for params in [other, json!({}), json!({ "caf": { "bridge": "lang", "tracking": 7 } }), json!([])] {
        assert_eq!(caf.question_before_run(&params, 9_000), None, "{params}");
    }
    let mut paused = CafSettings { paused_queue: Some("lang-paused".into()), ..CafSettings::default() };
    paused.status_hosts.insert("jobs".to_owned());
    let pausing = profile(paused);
    assert_eq!((caf.asks(), pausing.asks()), (false, true));
    let answer = |status, interval_ms| StatusAnswer { status, at_ms: 2_000, interval_ms };
    let wait = |seconds| RunDecision::Wait(Duration::from_secs(seconds));
    for (status, interval_ms, expected, with_a_queue) in [
        (TrackedStatus::Active, 5_000, RunDecision::Run, RunDecision::Run),
        (TrackedStatus::Paused, 5_000, RunDecision::Run, wait(5)),
        (TrackedStatus::Paused, -1, RunDecision::Run, wait(1)),
        (TrackedStatus::Paused, i64::MAX, RunDecision::Run, wait(600)),
        (TrackedStatus::Over, 0, RunDecision::CallOff(OVER), RunDecision::CallOff(OVER)),
        (TrackedStatus::Gone, 0, RunDecision::CallOff(GONE), RunDecision::CallOff(GONE)),
    ] {
        let decided = |caf: &CafProfile| caf.before_run(answer(status, interval_ms));
        assert_eq!((decided(&caf), decided(&pausing)), (expected, with_a_queue), "{status:?}");
    }
}

#[test]
fn priorities_are_levels_of_the_largest_one() {
    for (priority, most, expected) in [
        (Some(9), 0, None),
        (None, 0, None),
        (None, 9, Some(Priority::Lowest)),
        (Some(1), 9, Some(Priority::Lowest)),
        (Some(4), 9, Some(Priority::Normal)),
        (Some(9), 9, Some(Priority::Critical)),
        (Some(255), 9, Some(Priority::Critical)),
        (Some(255), 255, Some(Priority::Critical)),
        (Some(2), 4, Some(Priority::Normal)),
        (Some(1), 1, Some(Priority::Normal)),
    ] {
        assert_eq!(level(priority, most), expected, "{priority:?} of {most}");
    }
}

/// The result of a job that was a task, as the outbox has it.
fn ended(status: ResultStatus, reason: Option<TerminalReason>, result: Option<Value>) -> OutboxMessage {
    let failed = reason.is_some();
    OutboxMessage {
        id: "job:0:1:result".to_owned(),
        job: Some(JobId::from_u128(7)),
        kind: "detect".into(),
        queue: "default".into(),
        queues: [].into(),
        tenant: "default".to_owned(),
        business_key: None,
        correlation_id: Some("C7".to_owned()),
        at: Timestamp::EPOCH,
        body: MessageBody::Result {
            status,
            run: 1,
            result,
            reason,
            error_type: failed.then(|| "LanguageError".to_owned()),
            error: failed.then(|| "no such language".to_owned()),
        },
    }
}

#[test]
fn the_end_of_a_job_is_a_response_with_context_and_source() {
    // B3
    let caf = profile(CafSettings { worker_version: Some("4.2".into()), ..CafSettings::default() });
    let params = job(read(&caf, &changed(|_| {}))).params;
    let known = KnownJob { params, payload: Some(r#"{"text":"é"}"#.to_owned()), crashes: 11 };
    let value = json!({ "lang": "fr" });
    let reason = |reason| Some(reason);
    for (message, status, data, reports) in [
        (
            ended(ResultStatus::ResultSuccess, None, Some(value.clone())),
            "RESULT_SUCCESS",
            r#"{"lang":"fr"}"#,
            "Progress",
        ),
        (ended(ResultStatus::ResultSuccess, None, None), "RESULT_SUCCESS", "", "Progress"),
        (
            ended(ResultStatus::ResultFailure, reason(TerminalReason::ReportedFailure), Some(value)),
            "RESULT_FAILURE",
            r#"{"lang":"fr"}"#,
            "Progress",
        ),
        (
            ended(ResultStatus::ResultException, reason(TerminalReason::RetryExhausted), None),
            "RESULT_EXCEPTION",
            "LanguageError: no such language",
            "Failed",
        ),
        (
            ended(ResultStatus::InvalidTask, reason(TerminalReason::Invalid), None),
            "INVALID_TASK",
            "no such language",
            "Failed",
        ),
        (
            ended(ResultStatus::ResultException, reason(TerminalReason::Poisoned), None),
            "RESULT_EXCEPTION",
            "lang could not process the item. It was retried 11 times, the limit is 10: no such language",
            "Failed",
        ),
    ] {
        let sent: Vec<_> = caf.answers(&message, Some(&known)).into_iter().map(opened).collect();
        let (queue, response, _) = sent.last().unwrap();
        assert_eq!((queue.as_str(), &response["to"]), ("lang-out", &json!("lang-out")));
        assert_eq!((&response["taskStatus"], &response["taskData"]), (&json!(status), &json!(data)));
        assert_eq!((&response["version"], &response["taskId"]), (&json!(3), &json!("J1.1")));
        assert_eq!(
            (&response["taskClassifier"], &response["taskApiVersion"]),
            (&json!("LangDetect"), &json!(2))
        );
        assert_eq!(response["context"], json!({ "/caf/lang": "Y3R4" }));
        assert_eq!(response["sourceInfo"], json!({ "name": "lang", "version": "4.2" }));
        assert_eq!(
            (&response["correlationId"], &response["tracking"]["trackTo"]),
            (&json!("C7"), &json!("final"))
        );
        let (pipe, report, _) = &sent[0];
        assert_eq!((pipe.as_str(), &report["taskClassifier"]), ("tracking", &json!("TrackingReportTask")));
        let report: Value = serde_json::from_str(report["taskData"].as_str().unwrap()).unwrap();
        let report = &report["trackingReports"][0];
        assert_eq!((&report["jobTaskId"], &report["status"]), (&json!("J1.1"), &json!(reports)));
        assert_eq!(report.pointer("/failure/failureMessage"), (reports == "Failed").then_some(&json!(data)));
        assert_eq!(sent.len(), if data.contains("could not process") { 3 } else { 2 });
    }
}

#[test]
fn tracking_ends_where_it_says() {
    // B3
    let caf = profile(CafSettings::default());
    let last = changed(|task| task["tracking"]["trackTo"] = json!("lang-out"));
    let known = KnownJob { params: job(read(&caf, &last)).params, ..KnownJob::default() };
    let end = ended(ResultStatus::ResultSuccess, None, None);
    let sent: Vec<_> = caf.answers(&end, Some(&known)).into_iter().map(opened).collect();
    assert!(sent[0].1["taskData"].as_str().unwrap().contains(r#""status":"Complete""#), "{:?}", sent[0]);
    assert_eq!(sent[1].1["tracking"], Value::Null);
    let quiet = profile(CafSettings { disable_zero_progress: true, ..CafSettings::default() });
    let known = KnownJob { params: job(read(&caf, &changed(|_| {}))).params, ..KnownJob::default() };
    assert_eq!(quiet.answers(&end, Some(&known)).len(), 1, "no report of no progress");
}

#[test]
fn a_bridge_answers_what_it_took_and_one_without_a_source_answers_all() {
    // B3
    let end = ended(ResultStatus::ResultSuccess, None, None);
    let caf = profile(CafSettings::default());
    let own = KnownJob { params: job(read(&caf, &changed(|_| {}))).params, ..KnownJob::default() };
    let mut other = own.clone();
    other.params.as_mut().unwrap()["caf"]["bridge"] = json!("ocr");
    let plain = KnownJob { params: Some(json!({ "colour": "red" })), ..KnownJob::default() };
    for (known, answers) in [(Some(&own), 2), (Some(&other), 0), (Some(&plain), 0), (None, 0)] {
        assert_eq!(caf.answers(&end, known).len(), answers, "{known:?}");
    }
    let sink = SinkSettings::new("lang-out", [backstop::sinks::SinkTopic::Results]);
    let settings = BridgeSettings::of_sink("amqp://127.0.0.1", sink).as_caf(CafSettings::default());
    let all = settings.message_profile("answers").unwrap();
    assert_eq!(all.answers(&end, Some(&own)).len(), 2);
    // A job that was no task has its own names.
    let sent: Vec<_> = all.answers(&end, None).into_iter().map(opened).collect();
    assert_eq!((sent.len(), &sent[0].1["taskId"]), (1, &json!(end.job.map(|job| job.to_string()))));
    assert_eq!((&sent[0].1["taskClassifier"], &sent[0].1["context"]), (&json!("detect"), &json!({})));
}

#[test]
fn settings_that_cannot_be_meant_are_named() {
    let source = || SourceSettings::new("lang-in", "detect");
    let caf = |url: &str| BridgeSettings::new(url, source()).as_caf(CafSettings::default());
    let none = CafSettings { retry_limit: Some(0), ..CafSettings::default() };
    let events = SinkSettings::new("out", [backstop::sinks::SinkTopic::Events]);
    let plain = BridgeSettings {
        caf: Some(CafSettings::default()),
        ..BridgeSettings::new("amqp://127.0.0.1", source())
    };
    for (settings, told) in [
        (caf("redis://127.0.0.1"), "`profile` is \"caf\", which is for RabbitMQ"),
        (caf("amqp://127.0.0.1").as_caf(none), "`caf.retry_limit` is 0"),
        (caf("amqp://127.0.0.1").with_sink(events), "`sink.of` may only be [\"results\"]"),
        (plain, "`caf` is for profile = \"caf\""),
    ] {
        let fault = settings.check("lang", |_| true).unwrap_err().to_string();
        assert!(fault.contains(told), "{fault}");
    }
}
