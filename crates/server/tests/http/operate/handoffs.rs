//! `/api/v1/handoffs`.

use backstop::handoffs::{HandOff, HandOffRefusal};
use backstop_server::Scope;
use serde_json::json;

use super::{holder, played, refused, send_as};

const HANDOFFS: &str = "/api/v1/handoffs";

#[tokio::test]
async fn a_hand_off_is_listed_shown_and_let_go_on() {
    // B7, B8
    let harness = played(&[]).await;
    assert_eq!(harness.get(HANDOFFS).await.ok()["items"], json!([]));
    refused(&harness.get(&format!("{HANDOFFS}/paid")).await, 404, "no_such_handoff", None);
    refused(&harness.post(&format!("{HANDOFFS}/paid/retry"), json!({})).await, 404, "no_such_handoff", None);
    let engine = harness.api.engine();
    let paid = HandOff::new("paid", "https://warehouse.example").kind("play");
    engine.handoffs().set(&paid).await.expect("set");
    let shown = harness.get(&format!("{HANDOFFS}/paid")).await.ok();
    assert_eq!(
        (&shown["state"], &shown["backlog"], &shown["lag_ms"]),
        (&json!("unserved"), &json!(0), &json!(0))
    );
    assert_eq!((&shown["to"], &shown["kind"]), (&json!("https://warehouse.example"), &json!("paid")));
    assert_eq!((&shown["tenant"], &shown["kinds"]), (&json!("default"), &json!(["play"])));
    let (code, message) = ("unauthorized".to_owned(), "this needs a valid token".to_owned());
    let publisher = engine.handoffs().publisher("paid");
    assert!(publisher.stop(HandOffRefusal { status: 401, code, message, job: None }).await.expect("kept"));
    let listed = harness.get(HANDOFFS).await.ok();
    let stopped = &listed["items"][0]["stopped"];
    assert_eq!((&listed["items"][0]["state"], &stopped["status"]), (&json!("stopped"), &json!(401)));
    assert!(stopped["way_out"].as_str().is_some_and(|text| text.contains("token")), "{stopped}");
    let ready = harness.get("/health/ready").await.ok();
    let check = ready["checks"].as_array().expect("checks").iter().find(|one| one["name"] == "handoff/paid");
    let check = check.expect("it is noted");
    assert_eq!(
        (&ready["status"], &check["ok"]),
        (&json!("ready"), &json!(false)),
        "it never turns the engine red"
    );
    let metrics = harness.get("/metrics").await.text;
    for line in [
        "backstop_handoff_backlog{handoff=\"paid\"} 0",
        "backstop_handoff_stopped{handoff=\"paid\"} 1",
        "backstop_handoff_refused_total{handoff=\"paid\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let again = harness.post(&format!("{HANDOFFS}/paid/retry"), json!({ "by": "ann" })).await.ok();
    assert_eq!((again.get("stopped"), &again["retried_by"]), (None, &json!("ann")));
}

#[tokio::test]
async fn hand_offs_are_for_those_who_see_everything() {
    // B7, E13
    let harness = played(&[]).await;
    let paid = HandOff::new("paid", "https://warehouse.example");
    harness.api.engine().handoffs().set(&paid).await.expect("set");
    let reader = holder(&[Scope::Read], None, None);
    assert_eq!(send_as(&harness, &reader, "GET", HANDOFFS, None).await.status, 200);
    let retry = format!("{HANDOFFS}/paid/retry");
    assert_eq!(send_as(&harness, &reader, "POST", &retry, Some(json!({}))).await.status, 403);
    let tenant = holder(&[Scope::Read, Scope::Operate], Some("acme"), None);
    for (method, path) in [("GET", HANDOFFS), ("POST", retry.as_str())] {
        assert_eq!(send_as(&harness, &tenant, method, path, Some(json!({}))).await.status, 403, "{path}");
    }
}
