//! `/api/v1/bridges`: how bridges are, whichever process runs them, and what could not become a job.

use std::sync::Arc;

use backstop::Backstop;
use backstop::bridges::{
    BridgeCheck, BridgeProblem, BridgeReport, BridgeState, BridgeTest, BridgeTestAnswer, BridgeTester,
    InvalidMessage, SinkReport, SourceReport,
};
use backstop::sinks::{Sink, SinkLimits, SinkTopic};
use backstop_server::Scope;
use serde_json::{Value, json};

use super::{holder, played, refused, send_as};

const BRIDGES: &str = "/api/v1/bridges";

fn report(name: &str, state: BridgeState) -> BridgeReport {
    let mut report = BridgeReport::new(name, "redis://127.0.0.1:6379");
    report.source = Some(SourceReport {
        queue: "in".into(),
        kind: "play".into(),
        to_queue: "default".into(),
        consumer: name.into(),
        concurrency: 4,
        consuming: 3,
        state,
        received: 9,
        admitted: 7,
        duplicates: 2,
        invalid: 1,
        abandoned: 0,
        rejected: 3,
        passed_on: 4,
        discarded: 5,
        given_back: 6,
        backlog: Some(5),
        problem: (state == BridgeState::Disconnected)
            .then(|| BridgeProblem::new("broker_unavailable", "the broker is unavailable")),
    });
    report.sink = Some(SinkReport {
        queue: "out".into(),
        of: [SinkTopic::Results].into(),
        state: BridgeState::Running,
        publishes: true,
        repeated: 0,
        problem: None,
    });
    report
}

/// Lets a process tell of a bridge.
async fn told(engine: &Backstop, bridges: &[BridgeReport]) {
    engine.bridges().reporter().tell(bridges).await.expect("the store is there");
}

async fn keep_invalid(engine: &Backstop, bridge: &str, bodies: &[&[u8]]) {
    let message = |(at, body): (usize, &&[u8])| {
        let headers = [("secret".to_owned(), "hunter2".to_owned())];
        InvalidMessage::new(&format!("m-{at}"), body, &headers, "the body is not JSON".into(), false)
    };
    let messages = bodies.iter().enumerate().map(message).collect();
    engine.bridges().invalid().put(bridge, messages).await.expect("kept");
}

#[tokio::test]
async fn a_bridge_is_listed_paused_and_resumed() {
    // B1, B2, B8
    let harness = played(&[]).await;
    assert_eq!(harness.get(BRIDGES).await.ok(), json!({ "items": [], "next_cursor": null }));
    let engine = harness.engine();
    engine
        .sinks()
        .set(&Sink::new("orders", [SinkTopic::Results]), SinkLimits::default())
        .await
        .expect("kept");
    told(engine, &[report("orders", BridgeState::Running), BridgeReport::new("zebra", "nats://127.0.0.1")])
        .await;
    let list = harness.get(BRIDGES).await.ok();
    let orders = &list["items"][0];
    let expected = json!({ "name": "orders", "state": "running", "in": 7, "out": 0, "backlog": 5, "lag_ms": 0,
        "duplicates": 2, "invalid": 0, "last_error": null, "broker": "redis://127.0.0.1:6379" });
    for (field, value) in expected.as_object().expect("fields") {
        assert_eq!(&orders[field], value, "{field}");
    }
    assert_eq!((&orders["source"]["kind"], &orders["sink"]["of"]), (&json!("play"), &json!(["results"])));
    assert_eq!(orders["processes"][0]["consuming"], 3);
    let counts = [("rejected", 3), ("passed_on", 4), ("discarded", 5), ("given_back", 6)];
    for (field, count) in counts.into_iter().chain([("concurrency", 4), ("consuming", 3)]) {
        assert_eq!(orders["source"][field], count, "{field}");
    }
    assert_eq!(harness.get(&format!("{BRIDGES}/orders")).await.ok(), *orders);
    let first = harness.get(&format!("{BRIDGES}?limit=1")).await.ok();
    assert_eq!(first["next_cursor"], "orders");
    let second = harness.get(&format!("{BRIDGES}?limit=1&cursor=orders")).await.ok();
    assert_eq!((&second["items"][0]["name"], &second["next_cursor"]), (&json!("zebra"), &Value::Null));
    let paused = harness.post(&format!("{BRIDGES}/orders/pause"), json!({ "by": "ann" })).await.ok();
    assert_eq!((&paused["state"], &paused["paused_by"]), (&json!("paused"), &json!("ann")));
    let resumed = harness.post(&format!("{BRIDGES}/orders/resume"), json!({})).await.ok();
    assert_eq!((&resumed["state"], &resumed["paused_by"]), (&json!("running"), &Value::Null));
    let audit = harness.get("/api/v1/audit").await.ok();
    let paths: Vec<&str> =
        audit["items"].as_array().expect("lines").iter().filter_map(|it| it["path"].as_str()).collect();
    assert_eq!(paths, ["/api/v1/bridges/orders/resume", "/api/v1/bridges/orders/pause"]);
}

/// Tests the bridges of this process.
struct Tester;

impl BridgeTester for Tester {
    fn test<'a>(&'a self, bridge: &'a str) -> BridgeTestAnswer<'a> {
        let problem = Some(BridgeProblem::new("no_such_queue", "queue `out` does not exist"));
        let test = BridgeTest {
            node: "here".into(),
            source: Some(BridgeCheck { took_ms: 3, problem: None }),
            sink: Some(BridgeCheck { took_ms: 4, problem }),
            problem: None,
        };
        Box::pin(async move { (bridge == "orders").then_some(test) })
    }
}

#[tokio::test]
async fn a_test_says_what_is_wrong_where() {
    // B1, B2
    let harness = played(&[]).await;
    let tester: Arc<dyn BridgeTester> = Arc::new(Tester);
    harness.engine().bridges().attach(&tester);
    let test = harness.post(&format!("{BRIDGES}/orders/test"), json!({})).await.ok();
    assert_eq!((&test["ok"], &test["node"]), (&json!(false), &json!("here")));
    let well = json!({ "ok": true, "took_ms": 3, "error": null, "error_code": null });
    let sink = json!({ "ok": false, "took_ms": 4, "error": "queue `out` does not exist", "error_code": "no_such_queue" });
    assert_eq!((&test["source"], &test["sink"]), (&well, &sink));
    let engine = harness.engine();
    let mut gone = engine.bridges().reporter();
    gone.tell(&[report("gone", BridgeState::Running)]).await.expect("told");
    gone.end(&[report("gone", BridgeState::NotRunning)]).await.expect("told");
    refused(&harness.post(&format!("{BRIDGES}/gone/test"), json!({})).await, 409, "bridge_not_running", None);
    let shown = harness.get(&format!("{BRIDGES}/gone")).await.ok();
    assert_eq!((&shown["state"], &shown["error_code"]), (&json!("not_running"), &json!("not_running")));
    assert!(shown["last_error"].as_str().expect("words").starts_with("no process runs it since "), "{shown}");
}

#[tokio::test]
async fn nobody_knows_a_bridge_that_no_process_has_run() {
    // B1
    let harness = played(&[]).await;
    for path in ["", "/invalid", "/invalid/export"] {
        refused(&harness.get(&format!("{BRIDGES}/orders{path}")).await, 404, "no_such_bridge", None);
    }
    for verb in ["pause", "resume", "test"] {
        let path = format!("{BRIDGES}/orders/{verb}");
        refused(&harness.post(&path, json!({})).await, 404, "no_such_bridge", None);
    }
    let keys = json!({ "keys": ["k"] });
    refused(
        &harness.post(&format!("{BRIDGES}/orders/invalid/purge"), keys).await,
        404,
        "no_such_bridge",
        None,
    );
    for keys in [json!([]), json!(vec!["k"; 501])] {
        let path = format!("{BRIDGES}/orders/invalid/purge");
        refused(&harness.post(&path, json!({ "keys": keys })).await, 422, "invalid", Some("keys"));
    }
}

#[tokio::test]
async fn a_bridge_is_about_everybodys_jobs() {
    // E13, B1
    let harness = played(&[]).await;
    told(harness.engine(), &[report("orders", BridgeState::Running)]).await;
    keep_invalid(harness.engine(), "orders", &[b"x"]).await;
    let every: Vec<Scope> = Scope::ALL.to_vec();
    let reads = ["", "/orders", "/orders/invalid", "/orders/invalid/export"];
    let verbs = [
        ("pause", Scope::Operate),
        ("resume", Scope::Operate),
        ("test", Scope::Operate),
        ("invalid/purge", Scope::Admin),
    ];
    for caller in [holder(&every, Some("acme"), None), holder(&every, None, Some(&["mail"]))] {
        for path in reads {
            refused(
                &send_as(&harness, &caller, "GET", &format!("{BRIDGES}{path}"), None).await,
                403,
                "forbidden",
                None,
            );
        }
        for (verb, _) in verbs {
            let path = format!("{BRIDGES}/orders/{verb}");
            let answer = send_as(&harness, &caller, "POST", &path, Some(json!({ "keys": ["k"] }))).await;
            assert_eq!(answer.status.as_u16(), 403, "{verb}: {}", answer.text);
        }
    }
    for (verb, needed) in verbs {
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != needed).collect();
        let path = format!("{BRIDGES}/orders/{verb}");
        let answer =
            send_as(&harness, &holder(&others, None, None), "POST", &path, Some(json!({ "keys": ["k"] })))
                .await;
        assert_eq!(answer.status.as_u16(), 403, "{verb}: {}", answer.text);
    }
    let reader = holder(&[Scope::Read], None, None);
    for (path, status) in
        [("/orders/invalid", 200), ("/orders/invalid?reveal=true", 403), ("/orders/invalid/export", 403)]
    {
        let answer = send_as(&harness, &reader, "GET", &format!("{BRIDGES}{path}"), None).await;
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text);
        assert!(!answer.text.contains("hunter2"), "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn invalid_messages_are_paged_exported_with_raw_bytes_and_removed() {
    // B4
    let harness = played(&[]).await;
    let engine = harness.engine();
    told(engine, &[report("orders", BridgeState::Running)]).await;
    keep_invalid(engine, "orders", &[b"\xff\0{", b"", b"[1"]).await;
    assert_eq!(harness.get(&format!("{BRIDGES}/orders")).await.ok()["invalid"], 3);
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = harness.get(&format!("{BRIDGES}/orders/invalid?limit=2{cursor}")).await.ok();
        found.extend(page["items"].as_array().expect("items").clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|one| one.get("body").is_none() && one.get("headers").is_none()), "{found:?}");
    let revealed = harness.get(&format!("{BRIDGES}/orders/invalid?reveal=true")).await.ok();
    let exported = harness.get(&format!("{BRIDGES}/orders/invalid/export")).await;
    let lines: Vec<Value> =
        exported.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(Value::from(lines.clone()), revealed["items"]);
    let first = lines.iter().find(|line| line["id"] == "m-0").expect("it is kept");
    assert_eq!((&first["body"], &first["bytes"]), (&json!("/wB7"), &json!(3)));
    assert_eq!(first["headers"], json!([["secret", "hunter2"]]));
    let key = &first["key"];
    let path = format!("{BRIDGES}/orders/invalid/purge");
    for removed in [1, 0] {
        let answer = harness.post(&path, json!({ "keys": [key, key, "absent"] })).await.ok();
        assert_eq!(answer, json!({ "removed": removed }));
    }
    assert_eq!(harness.get(&format!("{BRIDGES}/orders")).await.ok()["invalid"], 2);
    let long = "c".repeat(301);
    refused(
        &harness.get(&format!("{BRIDGES}/orders/invalid?cursor={long}")).await,
        422,
        "invalid",
        Some("cursor"),
    );
}

#[tokio::test]
async fn a_bridge_is_checked_and_never_turns_the_engine_red() {
    // B5, H2
    let harness = played(&[]).await;
    let failed = BridgeReport {
        problem: Some(BridgeProblem::new("same_consumer", "two bridges")),
        ..report("failed", BridgeState::Starting)
    };
    told(
        harness.engine(),
        &[report("away", BridgeState::Disconnected), failed, report("well", BridgeState::Running)],
    )
    .await;
    let ready = harness.get("/health/ready").await.ok();
    assert_eq!(ready["status"], "ready");
    let check = |name: &str| {
        let mut checks = ready["checks"].as_array().expect("checks").iter();
        checks
            .find(|check| check["name"] == name)
            .unwrap_or_else(|| panic!("{name} is not in {ready}"))
            .clone()
    };
    for (name, ok, problem) in [
        ("bridge/away", false, json!("disconnected")),
        ("bridge/failed", false, json!("failed")),
        ("bridge/well", true, Value::Null),
    ] {
        let check = check(name);
        assert_eq!(
            (&check["ok"], &check["problem"], &check["required"]),
            (&json!(ok), &problem, &json!(false)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn the_three_channels_have_figures_of_their_own() {
    // B8, V3
    let harness = played(&["permanent"]).await;
    let engine = harness.engine();
    engine
        .sinks()
        .set(&Sink::new("orders", [SinkTopic::Results]), SinkLimits::default())
        .await
        .expect("kept");
    engine.enqueue(super::Play { ends: "well".into() }).submit().await.expect("stored");
    let worker = engine.worker(()).register::<super::Play>().queue("default", 1).inline().expect("a worker");
    worker.drain(10).await.expect("the store is there");
    keep_invalid(engine, "orders", &[b"x"]).await;
    told(engine, &[report("orders", BridgeState::Running), report("away", BridgeState::Disconnected)]).await;
    let text = harness.get("/metrics").await.text;
    for line in [
        "backstop_bridge_up{bridge=\"orders\"} 1",
        "backstop_bridge_up{bridge=\"away\"} 0",
        "backstop_bridge_in_total{bridge=\"orders\"} 7",
        "backstop_bridge_duplicates_total{bridge=\"orders\"} 2",
        "backstop_bridge_invalid_total{bridge=\"orders\"} 1",
        "backstop_bridge_no_job_total{bridge=\"orders\",how=\"rejected\"} 3",
        "backstop_bridge_no_job_total{bridge=\"orders\",how=\"given_back\"} 6",
        "backstop_bridge_invalid_stored{bridge=\"orders\"} 1",
        "backstop_bridge_source_backlog{bridge=\"orders\"} 5",
        "backstop_bridge_out_total{bridge=\"orders\"} 0",
        "backstop_bridge_outbox_backlog{bridge=\"orders\"} 1",
        "backstop_bridge_outbox_refused_total{bridge=\"orders\"} 0",
        "backstop_rejects_stored 0",
        "backstop_jobs{queue=\"default\",state=\"failed\"} 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
    }
    assert!(text.contains("backstop_bridge_outbox_lag_seconds{bridge=\"orders\"} "), "{text}");
    assert!(!text.contains("backstop_bridge_outbox_backlog{bridge=\"away\"}"), "it has no sink in the store");
}
