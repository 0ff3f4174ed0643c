//! Rejected items of remote workers, and who sees them (W9).

use std::time::Duration;

use backstop::rejects::{RejectLimit, RejectSettings};
use backstop::{Backoff, Config, Policy};
use backstop_server::{Caller, Scope};
use serde_json::{Value, json};

use super::stage::{Stage, store};
use crate::harness::Answer;

fn config() -> Config {
    let policy = Policy::default().retries(5).backoff(Backoff::fixed(Duration::from_secs(1)));
    let limit = RejectLimit::NONE.most(5).percent(50.0).expect("a percentage");
    let rejects = RejectSettings::default().limit_of("mail", limit);
    Config::default().kind("mail", policy).rejects(rejects)
}

async fn reject(stage: &Stage, job: &Value, items: Value, seen: Option<u64>) -> Answer {
    let body = json!({ "lease": job["lease"]["token"], "items": items, "seen": seen });
    stage.harness.post("/api/v1/work/reject", body).await
}

fn row(number: u64) -> Value {
    json!({ "error": format!("row {number} has no name"), "error_type": "NoName", "item": { "row": number } })
}

async fn again(stage: &Stage, job: &Value) -> Value {
    let failed = json!({ "type": "failed", "class": "error", "message": "no luck" });
    assert_eq!(stage.finish(job, failed).await["ok"], true);
    tokio::time::advance(Duration::from_secs(2)).await;
    stage.claim_one().await
}

#[tokio::test(start_paused = true)]
async fn items_are_kept_once_and_the_job_succeeds() {
    // W9, E7
    let stage = Stage::on(store(), config());
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let few = json!([row(1), row(2)]);
    for _ in 0..2 {
        assert_eq!(
            reject(&stage, &job, few.clone(), Some(10)).await.ok(),
            json!({ "ok": true }),
            "a lost answer"
        );
    }
    let job = again(&stage, &job).await;
    let more = json!([row(1), row(2), { "error": "no header", "fingerprint": "header", "item": { "password": "hunter2" },
        "keep": true, "step": "load", "count": 2, "retries": 3, "final": false }]);
    assert_eq!(reject(&stage, &job, more, Some(20)).await.ok(), json!({ "ok": true }));
    assert_eq!(stage.finish(&job, json!({ "type": "succeeded" })).await["status"], "succeeded");
    let shown = stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    assert_eq!(shown["rejects"], json!({ "stored": 4, "run": 2, "rejected": 4, "seen": 20 }));
    assert_eq!(shown["attempt"], 1, "only the run that failed was charged");
    let listed = stage.harness.get(&format!("/api/v1/rejects?job={id}")).await.ok();
    let items = listed["items"].as_array().unwrap();
    assert_eq!((items.len(), &listed["next_cursor"]), (3, &Value::Null));
    assert_eq!(
        (&items[0]["error_type"], &items[0]["item"], &items[0]["run"]),
        (&json!("NoName"), &Value::Null, &json!(1))
    );
    let last = &items[2];
    assert_eq!(
        (&last["scope"], &last["step"], &last["count"]),
        (&json!("stream"), &json!("load"), &json!(2))
    );
    assert_eq!((&last["retries"], &last["final"], &last["run"]), (&json!(3), &json!(false), &json!(2)));
    assert_eq!(last["item"], json!({ "password": "[redacted]" }));
    let revealed = stage.harness.get(&format!("/api/v1/rejects?job={id}&reveal=true")).await.ok();
    assert_eq!(revealed["items"][2]["item"], json!({ "password": "hunter2" }));
    let groups = stage.harness.get("/api/v1/reject-groups").await.ok();
    let mut counts: Vec<_> =
        groups["items"].as_array().unwrap().iter().map(|group| group["items"].clone()).collect();
    counts.sort_by_key(Value::as_u64);
    assert_eq!(counts, [2, 2]);
    let incidents = stage.harness.get("/api/v1/incidents").await.ok();
    assert_eq!(incidents["items"].as_array().unwrap().len(), 1, "that of the run that failed");
    let export = stage.harness.get("/api/v1/rejects/export").await;
    assert_eq!(export.text.lines().count(), 3, "{}", export.text);
    assert!(export.text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[tokio::test(start_paused = true)]
async fn pages_go_on_behind_their_cursor() {
    // W9
    let stage = Stage::on(store(), Config::default());
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let items: Vec<Value> = (0..130).map(row).collect();
    reject(&stage, &job, json!(items), None).await.ok();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = stage.harness.get(&format!("/api/v1/rejects?limit=50{cursor}")).await.ok();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["error"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let expected: Vec<Value> = (0..130).map(|number| format!("row {number} has no name").into()).collect();
    assert_eq!(seen, expected);
    let wrong = stage.harness.get("/api/v1/rejects?cursor=nowhere").await;
    assert_eq!(wrong.status.as_u16(), 422, "{}", wrong.text);
}

#[tokio::test(start_paused = true)]
async fn too_many_fail_the_run_whatever_its_worker_says() {
    // W9
    for (items, seen, told) in
        [(6, 100, Some("the run has rejected 6 items, and its limit is 5")), (4, 7, None)]
    {
        let stage = Stage::on(store(), config());
        let id = stage.submit("mail", json!({})).await;
        let job = stage.claim_one().await;
        let rows: Vec<Value> = (0..items).map(row).collect();
        let answer = reject(&stage, &job, json!(rows), Some(seen)).await.ok();
        assert_eq!(answer.get("over_limit").and_then(Value::as_str), told);
        stage.finish(&job, json!({ "type": "succeeded" })).await;
        let shown = stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
        assert_eq!(
            (&shown["error_type"], &shown["attempt"]),
            (&json!("TooManyRejects"), &json!(1)),
            "{shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_lease_and_a_wrong_item_keep_nothing() {
    // W9, L5
    let stage = Stage::on(store(), config());
    let id = stage.submit("mail", json!({})).await;
    let old = stage.claim_one().await;
    let job = again(&stage, &old).await;
    let stale = reject(&stage, &old, json!([row(1)]), None).await;
    assert_eq!((stale.status.as_u16(), stale.code().as_str()), (409, "stale_lease"), "{}", stale.text);
    let long = reject(&stage, &job, json!([{ "error": "x", "fingerprint": "k".repeat(513) }]), None).await;
    assert_eq!(long.status.as_u16(), 422, "{}", long.text);
    let shown = stage.harness.get(&format!("/api/v1/rejects?job={id}")).await.ok();
    assert_eq!(shown["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_sees_its_own_rejects_alone() {
    // W9, E13
    let stage = Stage::on(store(), Config::default());
    let mut ids = Vec::new();
    for queue in ["default", "acme/default", "other/default"] {
        ids.push(stage.engine().enqueue_raw("mail", "{}").queue(queue).submit().await.unwrap().id);
        let ask = json!({ "worker": "w", "queues": [queue], "kinds": ["mail"] });
        let job = stage.claim(ask).await.remove(0);
        reject(&stage, &job, json!([row(1)]), None).await.ok();
    }
    let scopes = || Scope::ALL.into_iter().collect();
    let acme = Caller::holder("ann", scopes(), Some("acme".to_owned()), None);
    for path in ["/api/v1/rejects", "/api/v1/reject-groups"] {
        let items = stage.harness.get_as(&acme, path).await.ok()["items"].clone();
        assert_eq!(items.as_array().unwrap().len(), 1, "{path}: {items}");
        assert_eq!(items[0]["queue"], "default", "{path}: {items}");
    }
    let theirs = stage.harness.get_as(&acme, &format!("/api/v1/rejects?job={}", ids[2])).await.ok();
    assert_eq!(theirs["items"], json!([]));
    let export = stage.harness.get_as(&acme, "/api/v1/rejects/export").await;
    assert_eq!(export.text.lines().count(), 1, "{}", export.text);
    let bound = Caller::holder("bob", scopes(), None, Some(vec!["elsewhere".to_owned()]));
    let items = stage.harness.get_as(&bound, "/api/v1/rejects").await.ok()["items"].clone();
    assert_eq!(items, json!([]));
    assert_eq!(stage.harness.get_as(&bound, "/api/v1/reject-groups").await.status.as_u16(), 403);
    let reader = Caller::holder("cat", [Scope::Read].into_iter().collect(), None, None);
    assert_eq!(stage.harness.get_as(&reader, "/api/v1/rejects?reveal=true").await.status.as_u16(), 403);
    assert_eq!(stage.harness.get_as(&reader, "/api/v1/rejects/export").await.status.as_u16(), 403);
    assert_eq!(stage.harness.get("/api/v1/rejects").await.ok()["items"].as_array().unwrap().len(), 3);
}
