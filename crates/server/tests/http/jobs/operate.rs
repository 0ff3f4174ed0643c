//! Moving jobs.

use serde_json::json;

use super::played;
use crate::harness::Harness;

#[tokio::test]
async fn jobs_are_called_off_held_back_let_go_and_driven_again() {
    // L7, L8, L9
    let harness = Harness::new().await;
    let stored = harness.post("/api/v1/jobs", json!({ "kind": "mail" })).await.ok();
    let id = stored["id"].as_str().unwrap();
    let post =
        async |id: &str, verb: &str| harness.post(&format!("/api/v1/jobs/{id}/{verb}"), json!({})).await;
    assert_eq!(post(id, "pause").await.ok(), json!({ "changed": true, "status": "paused" }));
    assert_eq!(post(id, "resume").await.ok(), json!({ "changed": true, "status": "pending" }));
    let refused = post(id, "retry").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "wrong_state".to_owned()));
    let path = format!("/api/v1/jobs/{id}/cancel");
    let canceled = harness.post(&path, json!({ "reason": "not needed" })).await.ok();
    assert_eq!(canceled, json!({ "changed": true, "status": "canceled" }));
    assert_eq!(post(id, "cancel").await.ok(), json!({ "changed": false, "status": "canceled" }));
    let shown = harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    assert_eq!(shown["cancel_reason"], "not needed");
    let dead = played(&harness, "default", &["permanent"]).await[0].to_string();
    assert_eq!(post(&dead, "retry").await.ok(), json!({ "changed": true, "status": "pending" }));
    for verb in ["cancel", "pause", "resume", "retry"] {
        assert_eq!(post("0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f", verb).await.code(), "no_such_job", "{verb}");
        assert_eq!(post("nonsense", verb).await.status, 404, "{verb}");
    }
    assert_eq!(harness.post(&path, json!({ "why": "?" })).await.code(), "invalid");
}

#[tokio::test]
async fn a_reason_may_be_left_out() {
    // L7
    let harness = Harness::new().await;
    let id = harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap().id;
    let request = axum::http::Request::post(format!("/api/v1/jobs/{id}/cancel"));
    harness.send(request.body(axum::body::Body::empty()).unwrap()).await.ok();
    let shown = harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    assert_eq!(shown["cancel_reason"], "canceled by local");
}
