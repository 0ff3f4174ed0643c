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

const CHANGE: &str = "/api/v1/jobs/change";

async fn submit(harness: &Harness, kind: &str, queue: &str, jobs: usize) {
    for _ in 0..jobs {
        harness.engine().enqueue_raw(kind, "{}").queue(queue).submit().await.unwrap();
    }
}

async fn count(harness: &Harness, query: &str) -> usize {
    let found = harness.get(&format!("/api/v1/jobs?limit=200&{query}")).await.ok();
    found["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn many_jobs_are_changed_together_as_they_were_counted() {
    // L7, L8
    let harness = Harness::new().await;
    submit(&harness, "mail", "default", 5).await;
    submit(&harness, "mail", "slow", 2).await;
    submit(&harness, "report", "default", 3).await;
    let mails = json!({ "change": "pause", "status": "pending", "kind": "mail" });
    let with = |more: serde_json::Value| {
        let mut body = mails.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let counted = harness.post(CHANGE, with(json!({ "dry_run": true }))).await.ok();
    let groups = json!([{ "queue": "default", "kind": "mail", "reason": null, "fingerprint": null, "jobs": 5 },
        { "queue": "slow", "kind": "mail", "reason": null, "fingerprint": null, "jobs": 2 }]);
    assert_eq!(counted["survey"], json!({ "groups": groups, "complete": true }));
    assert_eq!((&counted["dry_run"], &counted["changed"]), (&json!(true), &json!(0)));
    assert_eq!(count(&harness, "status=pending").await, 10, "counting changes nothing");
    let refused = harness.post(CHANGE, with(json!({ "expected": 6 }))).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "more_than_expected".to_owned()));
    assert_eq!(count(&harness, "status=paused").await, 0);
    let done = harness.post(CHANGE, with(json!({ "expected": 7 }))).await.ok();
    let expected = json!({ "dry_run": false, "changed": 7, "left": 0, "next_cursor": null });
    assert_eq!(done, expected);
    assert_eq!(count(&harness, "status=paused&kind=mail").await, 7);
    let resume = json!({ "change": "resume", "status": "paused", "queue": "slow" });
    assert_eq!(harness.post(CHANGE, resume).await.ok()["changed"], 2);
    let cancel = json!({ "change": "cancel", "status": "paused", "kind": "mail", "note": "not needed" });
    assert_eq!(harness.post(CHANGE, cancel.clone()).await.ok()["changed"], 5);
    assert_eq!(harness.post(CHANGE, cancel).await.ok()["changed"], 0, "there are no more");
    let canceled = harness.get("/api/v1/jobs?status=canceled&limit=1").await.ok();
    assert_eq!(canceled["items"][0]["cancel_reason"], "not needed");
    let all = json!({ "change": "cancel", "status": "pending", "all": true });
    assert_eq!(harness.post(CHANGE, all).await.ok()["changed"], 5);
}

#[tokio::test]
async fn one_call_changes_so_many_jobs_and_tells_where_to_go_on() {
    // L7
    let harness = Harness::new().await;
    for _ in 0..13 {
        let jobs: Vec<_> = (0..800).map(|_| harness.engine().enqueue_raw("mail", "{}")).collect();
        harness.engine().submit_all(jobs, false).await.unwrap();
    }
    let mut body = json!({ "change": "cancel", "status": "pending", "kind": "mail" });
    let first = harness.post(CHANGE, body.clone()).await.ok();
    assert_eq!((&first["changed"], &first["left"]), (&json!(10_000), &json!(0)));
    body["cursor"] = first["next_cursor"].clone();
    let last = harness.post(CHANGE, body).await.ok();
    assert_eq!((&last["changed"], &last["next_cursor"]), (&json!(400), &json!(null)));
}

#[tokio::test]
async fn a_change_of_many_jobs_that_cannot_be_meant_is_refused() {
    // L20
    let harness = Harness::new().await;
    submit(&harness, "mail", "default", 2).await;
    for (body, code, said) in [
        (json!({ "status": "pending", "kind": "mail" }), "invalid", "change"),
        (json!({ "change": "retry", "status": "failed", "kind": "mail" }), "invalid", "retry"),
        (json!({ "change": "cancel", "kind": "mail" }), "invalid", "say in which state"),
        (json!({ "change": "cancel", "status": "succeeded", "kind": "mail" }), "invalid", "paused, waiting"),
        (json!({ "change": "resume", "status": "pending", "kind": "mail" }), "invalid", "paused"),
        (json!({ "change": "cancel", "status": "pending" }), "needs_all", "every job that is pending"),
        (json!({ "change": "cancel", "status": "pending", "knd": "mail" }), "invalid", "knd"),
    ] {
        let refused = harness.post(CHANGE, body.clone()).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (422, code), "{body}");
        assert!(refused.text.contains(said), "{body}: {}", refused.text);
    }
    assert_eq!(count(&harness, "status=pending").await, 2);
}
