//! `/api/v1/rules`.

use axum::http::{Method, Request};
use backstop_server::Scope;
use serde_json::json;

use super::{holder, played, refused, send_as};

const RULES: &str = "/api/v1/rules";

#[tokio::test]
async fn a_rule_is_tried_kept_switched_and_removed() {
    // F18
    let harness = played(&["permanent", "rain", "well"]).await;
    let tried =
        harness.post(&format!("{RULES}/test"), json!({ "matches": { "text": "card is" } })).await.ok();
    assert_eq!((&tried["looked_at"], tried["matched"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(tried["matched"][0]["kind"], "play");
    let new = json!({ "id": "stolen", "matches": { "text": "stolen" }, "action": { "transient": { "delay_ms": 30000 } },
        "by": "ann" });
    let answer = harness.post(RULES, new.clone()).await;
    assert_eq!(answer.status.as_u16(), 201);
    let kept = answer.ok();
    assert_eq!(
        (&kept["enabled"], &kept["created_by"], &kept["position"]),
        (&json!(true), &json!("ann"), &json!(0))
    );
    refused(&harness.post(RULES, new).await, 409, "rule_exists", None);
    assert_eq!(harness.post(&format!("{RULES}/stolen/disable"), json!({})).await.ok()["enabled"], false);
    assert_eq!(harness.get(RULES).await.ok()["items"][0]["enabled"], false);
    assert_eq!(harness.post(&format!("{RULES}/stolen/enable"), json!({})).await.ok()["enabled"], true);
    let tried = harness.post(&format!("{RULES}/test"), json!({ "id": "stolen" })).await.ok();
    assert_eq!(tried["matched"].as_array().unwrap().len(), 1);
    let removed = harness.json(Method::DELETE, &format!("{RULES}/stolen"), json!({})).await.ok();
    assert_eq!(removed["id"], "stolen");
    refused(
        &harness.json(Method::DELETE, &format!("{RULES}/stolen"), json!({})).await,
        404,
        "no_such_rule",
        None,
    );
    assert_eq!(harness.get(RULES).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_rule_that_cannot_work_is_refused() {
    // F18
    let harness = played(&["rain"]).await;
    let table = [
        (json!({ "id": "r", "matches": {}, "action": "permanent" }), "invalid_rule"),
        (json!({ "id": "r", "matches": { "text": "(" }, "action": "permanent" }), "invalid_rule"),
        (json!({ "id": "R s", "matches": { "text": "x" }, "action": "permanent" }), "invalid"),
        (json!({ "id": "r", "matches": { "txt": "x" }, "action": "permanent" }), "invalid"),
        (json!({ "id": "r", "matches": { "text": "x" }, "action": "explode" }), "invalid"),
        (json!({ "id": "r", "matches": ["x"], "action": "permanent" }), "invalid"),
        (json!({ "id": "r", "matches": { "text": "x" }, "action": { "retry": [1] } }), "invalid"),
        (json!({ "id": "r", "matches": { "text": "x" } }), "invalid"),
    ];
    for (body, code) in table {
        let answer = harness.post(RULES, body.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (422, code), "{body}: {}", answer.text);
    }
    let tests =
        [json!({}), json!({ "id": "r", "matches": { "text": "x" } }), json!({ "matches": { "text": "(" } })];
    for body in tests {
        assert_eq!(harness.post(&format!("{RULES}/test"), body.clone()).await.status.as_u16(), 422, "{body}");
    }
    refused(&harness.post(&format!("{RULES}/test"), json!({ "id": "r" })).await, 404, "no_such_rule", None);
    refused(
        &harness.post(&format!("{RULES}/test"), json!({ "id": "r", "most": 0 })).await,
        422,
        "invalid",
        Some("most"),
    );
    assert_eq!(harness.get(RULES).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_body_that_is_no_json_or_does_not_say_so_is_refused() {
    let harness = played(&[]).await;
    let post = |kind: &'static str, body: &'static str| {
        Request::post(RULES).header("content-type", kind).body(axum::body::Body::from(body)).unwrap()
    };
    refused(&harness.send(post("application/json", "{")).await, 400, "unreadable", None);
    refused(&harness.send(post("text/plain", "{}")).await, 415, "unsupported_media_type", None);
}

#[tokio::test]
async fn rules_are_changed_by_admins_who_see_all() {
    // E13
    let harness = played(&[]).await;
    let new = json!({ "id": "r", "matches": { "text": "x" }, "action": "permanent" });
    let operator = holder(&[Scope::Operate, Scope::Read], None, None);
    refused(&send_as(&harness, &operator, "POST", RULES, Some(new.clone())).await, 403, "forbidden", None);
    let acme = holder(&Scope::ALL, Some("acme"), None);
    refused(&send_as(&harness, &acme, "POST", RULES, Some(new.clone())).await, 403, "forbidden", None);
    let admin = holder(&[Scope::Admin], None, None);
    let kept = send_as(&harness, &admin, "POST", RULES, Some(new)).await.ok();
    assert_eq!(kept["created_by"], "robot");
}
