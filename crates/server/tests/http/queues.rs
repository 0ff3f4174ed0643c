//! `/api/v1/queues`.

use serde_json::json;

use crate::harness::Harness;

#[tokio::test]
async fn a_queue_is_listed_paused_and_resumed() {
    let harness = Harness::new().await;
    harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    let listed = harness.get("/api/v1/queues").await.ok();
    assert_eq!(listed["items"][0]["name"], "default");
    assert_eq!(listed["items"][0]["pending"], 1);
    let paused = harness.post("/api/v1/queues/default/pause", json!({})).await.ok();
    assert_eq!(paused, json!({ "changed": true, "status": "paused" }));
    let again = harness.post("/api/v1/queues/default/pause", json!({})).await.ok();
    assert_eq!(again["changed"], false);
    let resumed = harness.post("/api/v1/queues/default/resume", json!({})).await.ok();
    assert_eq!(resumed["changed"], true);
}

#[tokio::test]
async fn an_unknown_path_and_a_wrong_method_are_refused_in_the_one_shape() {
    let harness = Harness::new().await;
    assert_eq!(harness.get("/api/v1/nothing").await.code(), "no_such_path");
    assert_eq!(harness.post("/api/v1/queues", json!({})).await.code(), "method_not_allowed");
}
