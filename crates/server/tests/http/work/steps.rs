//! Durable steps of remote workers (W7).

use std::sync::Arc;
use std::time::Duration;

use backstop::{Backoff, Config, Encryption, Policy};
use backstop_core::sealing::{SealingKeys, is_sealed};
use backstop_core::signing::SecretKey;
use backstop_store::{DocumentRange, Drawer, Store};
use serde_json::{Value, json};

use super::stage::{Stage, store};
use crate::harness::Answer;

fn quick() -> Config {
    let policy = Policy::default().retries(5).backoff(Backoff::fixed(Duration::from_secs(1)));
    Config::default().kind("mail", policy)
}

async fn step(stage: &Stage, job: &Value, name: &str, result: Value) -> Answer {
    let body = json!({ "lease": job["lease"]["token"], "name": name, "result": result });
    stage.harness.post("/api/v1/work/step", body).await
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (status, code), "{}", answer.text);
}

/// Ends a run by an error and claims the job again.
async fn again(stage: &Stage, job: &Value) -> Value {
    let failed = json!({ "type": "failed", "class": "error", "message": "no luck" });
    assert_eq!(stage.finish(job, failed).await["ok"], true);
    tokio::time::advance(Duration::from_secs(2)).await;
    stage.claim_one().await
}

async fn stored(store: &Arc<dyn Store>) -> Vec<String> {
    let page = store.documents(DocumentRange::first(Drawer::Steps, 10)).await.unwrap();
    page.items.iter().map(|document| document.body.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_comes_with_the_next_claim_in_its_order() {
    // W7, E7
    let stage = Stage::on(store(), quick());
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    assert_eq!(job["steps"], json!({}));
    for (name, result) in [("render", json!({ "pages": 3 })), ("fetch", Value::Null), ("a", json!("é"))] {
        assert_eq!(step(&stage, &job, name, result).await.ok(), json!({ "ok": true }));
    }
    let claimed = stage.harness.engine().clone();
    let next = again(&stage, &job).await;
    assert_eq!(next["steps"], json!({ "render": { "pages": 3 }, "fetch": null, "a": "é" }));
    let steps = claimed.job(id.parse().unwrap()).await.unwrap().unwrap().view.record.steps_in_order();
    let order: Vec<_> = steps.iter().map(|step| (step.index, step.name.as_str())).collect();
    assert_eq!(order, [(0, "render"), (1, "fetch"), (2, "a")]);
    let shown = stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    assert_eq!(shown["steps"][0], json!({ "index": 0, "name": "render", "run": 1, "state": "done" }));
    assert!(!shown.to_string().contains("pages"), "results are for workers only");
    let explained = stage.harness.get(&format!("/api/v1/jobs/{id}/explain")).await.ok().to_string();
    assert!(explained.contains("step `fetch` at index 1 is done: run 1 stored its result"), "{explained}");
}

#[tokio::test(start_paused = true)]
async fn the_order_of_the_names_is_that_of_the_calls() {
    // W7
    let stage = Stage::on(store(), quick());
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    for name in ["z", "a", "m"] {
        step(&stage, &job, name, json!(1)).await.ok();
    }
    let failed = json!({ "type": "failed", "class": "error", "message": "no luck" });
    stage.finish(&job, failed).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"] });
    let answer = stage.harness.post("/api/v1/work/claim", ask).await;
    assert!(answer.text.contains(r#""steps":{"z":1,"a":1,"m":1}"#), "{}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn a_stored_step_stays_and_a_stale_lease_stores_none() {
    // W7, L5
    let store = store();
    let stage = Stage::on(store.clone(), quick());
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    step(&stage, &job, "fetch", json!(1)).await.ok();
    assert_eq!(step(&stage, &job, "fetch", json!(2)).await.ok(), json!({ "ok": true }));
    let next = again(&stage, &job).await;
    assert_eq!(next["steps"], json!({ "fetch": 1 }));
    refused(&step(&stage, &job, "late", json!(3)).await, 409, "stale_lease");
    assert_eq!(stored(&store).await, ["1"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_step_is_refused() {
    // W7, L20
    let stage = Stage::on(store(), quick());
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    refused(&step(&stage, &job, "", json!(1)).await, 422, "invalid");
    refused(&step(&stage, &job, &"x".repeat(129), json!(1)).await, 422, "too_large");
    refused(&step(&stage, &job, "large", json!("x".repeat(70_000))).await, 422, "too_large");
    let body = json!({ "lease": job["lease"]["token"], "name": "fetch" });
    assert_eq!(stage.harness.post("/api/v1/work/step", body).await.status, 422);
}

#[tokio::test(start_paused = true)]
async fn results_of_a_sealed_kind_are_sealed_in_the_store_and_opened_for_the_worker() {
    // W7, E12
    let store = store();
    let keys = SealingKeys::new(vec![SecretKey::new("s1", vec![1; 32]).unwrap()]).unwrap();
    let stage = Stage::on(store.clone(), quick().encryption(Encryption::new(keys).kind("mail")));
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    step(&stage, &job, "fetch", json!("needle")).await.ok();
    let kept = stored(&store).await;
    assert!(kept.len() == 1 && is_sealed(&kept[0]) && !kept[0].contains("needle"), "{kept:?}");
    assert_eq!(again(&stage, &job).await["steps"], json!({ "fetch": "needle" }));
}
