//! `/api/v1/ordering-keys`, and jobs that wait for their turn (L21).

use backstop_server::Scope;
use serde_json::{Value, json};

use super::{Play, holder, played};
use crate::harness::Harness;

async fn submit(harness: &Harness, key: &str) -> String {
    let job = json!({ "kind": "transfer", "ordering_key": key, "max_retries": 0 });
    let stored = harness.post("/api/v1/jobs", job).await.ok();
    stored["id"].as_str().expect("an id").to_owned()
}

async fn status(harness: &Harness, id: &str) -> Value {
    harness.get(&format!("/api/v1/jobs/{id}")).await.ok()["status"].clone()
}

#[tokio::test]
async fn jobs_of_one_key_wait_for_each_other_and_say_so() {
    // L21
    let harness = Harness::new().await;
    let (first, second) = (submit(&harness, "account 7").await, submit(&harness, "account 7").await);
    assert_eq!(
        (status(&harness, &first).await, status(&harness, &second).await),
        (json!("pending"), json!("waiting"))
    );
    let job = harness.get(&format!("/api/v1/jobs/{second}")).await.ok();
    assert_eq!(job["ordering_key"], "account 7");
    let waiting = json!({ "reason": "ordering_key", "key": "account 7", "holder": first, "position": 1 });
    assert_eq!(job["waiting_for"], waiting);
    let explained = harness.get(&format!("/api/v1/jobs/{second}/explain")).await.ok();
    let because = explained["because"].as_str().expect("a sentence");
    assert!(because.contains("account 7") && because.contains(&first), "{because}");
    let listed = harness.get("/api/v1/ordering-keys").await.ok();
    let line = json!({ "key": "account 7", "head": first, "status": "pending", "blocked": false, "waiting": 1,
        "queue": "default", "kind": "transfer" });
    assert_eq!(listed, json!({ "items": [line], "next_cursor": null }));
    assert_eq!(harness.get("/api/v1/ordering-keys?blocked=true").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_blocked_key_is_listed_and_skipped() {
    // L21
    let harness = Harness::new().await;
    let (first, second) = (submit(&harness, "a/b").await, submit(&harness, "a/b").await);
    harness.post(&format!("/api/v1/jobs/{first}/pause"), json!({})).await.ok();
    let blocked = harness.get("/api/v1/ordering-keys?blocked=true&limit=1").await.ok();
    assert_eq!(
        (&blocked["items"][0]["status"], &blocked["items"][0]["blocked"]),
        (&json!("paused"), &json!(true))
    );
    let skipped = harness.post("/api/v1/ordering-keys/a%2Fb/skip", json!({ "reason": "no use" })).await.ok();
    assert_eq!(skipped, json!({ "job": first, "was": "paused", "changed": true }));
    let job = harness.get(&format!("/api/v1/jobs/{first}")).await.ok();
    assert_eq!((&job["status"], &job["cancel_reason"]), (&json!("canceled"), &json!("no use")));
    assert_eq!(status(&harness, &second).await, "pending");
    assert_eq!(harness.post("/api/v1/ordering-keys/none/skip", json!({})).await.code(), "not_found");
    let bad = json!({ "kind": "transfer", "ordering_key": "" });
    assert_eq!(harness.post("/api/v1/jobs", bad).await.code(), "invalid");
}

#[tokio::test]
async fn a_dead_head_is_given_up_by_a_skip() {
    // L1, L21: a dead letter is paused and canceled, which the table of states allows.
    let harness = Harness::new().await;
    let first = harness.engine().enqueue(Play { ends: "permanent".to_owned() }).ordering_key("k");
    let first = first.submit().await.expect("stored").id.to_string();
    let second = submit(&harness, "k").await;
    played(&harness, "default", &[]).await;
    let explained = harness.get(&format!("/api/v1/jobs/{second}/explain")).await.ok();
    let next = explained["next"].as_str().expect("a sentence");
    assert!(next.contains("backstop key skip k") && next.contains("backstop job retry"), "{next}");
    let skipped = harness.post("/api/v1/ordering-keys/k/skip", json!({})).await.ok();
    assert_eq!(skipped, json!({ "job": first, "was": "failed", "changed": true }));
    assert_eq!(status(&harness, &first).await, "canceled");
    assert_eq!(status(&harness, &second).await, "pending");
}

#[tokio::test]
async fn a_tenant_has_keys_of_its_own() {
    // E13, L21
    let harness = Harness::new().await;
    let (acme, other) = (holder(&Scope::ALL, Some("acme"), None), holder(&Scope::ALL, Some("other"), None));
    let job = json!({ "kind": "transfer", "ordering_key": "k" });
    for caller in [&acme, &acme, &other] {
        harness.post_as(caller, "/api/v1/jobs", job.clone()).await.ok();
    }
    let listed = harness.get_as(&acme, "/api/v1/ordering-keys").await;
    assert!(!listed.text.contains("acme/") && !listed.text.contains("other"), "{}", listed.text);
    let lines = listed.ok()["items"].clone();
    assert_eq!(
        (lines.as_array().unwrap().len(), &lines[0]["key"], &lines[0]["waiting"]),
        (1, &json!("k"), &json!(1))
    );
    let waiting = harness.get_as(&acme, "/api/v1/jobs?status=waiting").await.ok();
    assert_eq!(waiting["items"][0]["waiting_for"], json!({ "reason": "ordering_key", "key": "k" }));
    let id = waiting["items"][0]["id"].as_str().unwrap().to_owned();
    let told = harness.get_as(&acme, &format!("/api/v1/jobs/{id}/explain")).await;
    assert!(told.status.is_success() && !told.text.contains("acme/"), "{}", told.text);
    harness.post_as(&other, "/api/v1/ordering-keys/k/skip", json!({})).await.ok();
    assert_eq!(
        harness.get_as(&acme, "/api/v1/ordering-keys").await.ok()["items"][0]["waiting"],
        1,
        "not theirs"
    );
    assert_eq!(harness.get_as(&other, "/api/v1/ordering-keys").await.ok()["items"], json!([]));
    let reader = holder(&[Scope::Read], Some("acme"), None);
    assert_eq!(harness.post_as(&reader, "/api/v1/ordering-keys/k/skip", json!({})).await.status, 403);
}
