//! Remote workers that wait for signals (W10).

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use backstop::Config;
use serde_json::{Value, json};

use super::stage::{Stage, store};

fn waits(timeout_ms: Option<u64>) -> Value {
    match timeout_ms {
        Some(time) => json!({ "type": "waiting", "signal": "approved", "timeout_ms": time }),
        None => json!({ "type": "waiting", "signal": "approved" }),
    }
}

async fn sent(stage: &Stage, body: Value) -> Value {
    stage.harness.post("/api/v1/signals", body).await.ok()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_goes_on_with_what_came() {
    // W10, E7
    let stage = Stage::on(store(), Config::default());
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    assert_eq!(job["signals"], json!({}));
    let answer = stage.finish(&job, waits(Some(60_000))).await;
    assert_eq!((&answer["ok"], &answer["status"]), (&json!(true), &json!("waiting")), "{answer}");
    let again = stage.finish(&job, waits(Some(60_000))).await;
    assert_eq!(
        (&again["ok"], &again["status"]),
        (&json!(true), &json!("waiting")),
        "the same end again: {again}"
    );
    for other in [json!({ "type": "succeeded" }), json!({ "type": "waiting", "signal": "other" })] {
        let refused = stage.finish(&job, other).await;
        assert_eq!(refused["error"]["code"], "stale_lease", "{refused}");
    }
    let shown = stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    assert_eq!((&shown["status"], &shown["attempt"]), (&json!("waiting"), &json!(0)));
    assert_eq!(
        (&shown["waiting_for"]["reason"], &shown["waiting_for"]["key"]),
        (&json!("signal"), &json!("approved"))
    );
    let who = stage.harness.get("/api/v1/signals?state=waiting").await.ok();
    assert_eq!((&who["items"][0]["key"], &who["items"][0]["job"]), (&json!("approved"), &json!(id)), "{who}");
    let body = json!({ "key": "approved", "payload": { "by": "ann" }, "id": "m1" });
    assert_eq!(sent(&stage, body.clone()).await, json!({ "delivered": 1, "kept": false }));
    assert_eq!(sent(&stage, body).await, json!({ "delivered": 1, "kept": false }), "the same id again");
    let next = stage.claim_one().await;
    assert_eq!((&next["signals"], &next["steps"]), (&json!({ "approved": { "by": "ann" } }), &json!({})));
    assert_eq!(stage.finish(&next, json!({ "type": "succeeded" })).await["status"], "succeeded");
}

#[tokio::test(start_paused = true)]
async fn an_early_signal_and_the_end_of_the_time_come_with_the_next_claim() {
    // W10, E7
    let stage = Stage::on(store(), Config::default());
    assert_eq!(sent(&stage, json!({ "key": "approved" })).await, json!({ "delivered": 0, "kept": true }));
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    assert_eq!(stage.finish(&job, waits(None)).await["status"], "pending", "it was sent before");
    let next = stage.claim_one().await;
    assert_eq!(
        next["signals"],
        json!({ "approved": {} }),
        "nothing came with it, and that is not the end of the time"
    );
    // The same key again, and nobody sends it.
    assert_eq!(stage.finish(&next, waits(Some(1_000))).await["status"], "waiting");
    tokio::time::advance(Duration::from_secs(2)).await;
    let (node, term) = (backstop::WorkerId::from_u128(9), Duration::from_secs(60));
    stage.harness.engine().maintain(node, term).await.expect("the store is there");
    let late = stage.claim_one().await;
    assert_eq!(late["signals"], json!({ "approved": null }));
}

#[tokio::test(start_paused = true)]
async fn a_resume_token_sends_its_signal_once_and_to_its_job() {
    // W10, E13
    let stage = Stage::on(store(), Config::default());
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    stage.finish(&job, waits(None)).await;
    let other = stage.submit("mail", json!({})).await;
    let second = stage.claim_one().await;
    stage.finish(&second, waits(None)).await;
    let body = json!({ "signal": "approved", "expires_in_ms": 60_000 });
    let made = stage.harness.post(&format!("/api/v1/jobs/{id}/resume-token"), body).await.ok();
    let url = made["url"].as_str().expect("a path").to_owned();
    // Whoever looks sends nothing.
    let looked = stage.harness.get(&url).await.ok();
    assert_eq!(looked["signal"], "approved");
    assert_eq!(stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok()["status"], "waiting");
    for wrong in [format!("{url}x"), url.replace("rt1.", "lt1."), "/api/v1/resume/rt1.e30.AA".to_owned()] {
        let refused = stage.harness.post(&wrong, json!({})).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (404, "no_such_token"), "{wrong}");
    }
    let used = stage.harness.post(&url, json!({ "payload": "ann" })).await.ok();
    assert_eq!(used, json!({ "delivered": 1, "kept": false }));
    let again = stage.harness.post(&url, json!({ "payload": "eve" })).await;
    assert_eq!((again.status.as_u16(), again.code().as_str()), (409, "used"), "{}", again.text);
    assert_eq!(stage.harness.get(&format!("/api/v1/jobs/{other}")).await.ok()["status"], "waiting");
    let next = stage.claim_one().await;
    assert_eq!((&next["id"], &next["signals"]), (&json!(id), &json!({ "approved": "ann" })));
    stage.finish(&next, json!({ "type": "succeeded" })).await;
    let ended = stage.harness.post(&url, json!({})).await;
    assert_eq!((ended.status.as_u16(), ended.code().as_str()), (409, "job_ended"), "{}", ended.text);
    tokio::time::advance(Duration::from_secs(61)).await;
    let expired = stage.harness.post(&url, json!({})).await;
    assert_eq!((expired.status.as_u16(), expired.code().as_str()), (404, "no_such_token"));
}

/// A job that waits for `approved`, and the path of a resume token for it.
async fn linked(stage: &Stage) -> (String, String) {
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    stage.finish(&job, waits(None)).await;
    let made =
        stage.harness.post(&format!("/api/v1/jobs/{id}/resume-token"), json!({ "signal": "approved" })).await;
    (id, made.ok()["url"].as_str().expect("a path").to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_system_outside_resumes_a_job_with_a_body_of_its_own() {
    // W10
    let stage = Stage::on(store(), Config::default());
    let hook = json!({ "event": "order.paid", "payload": { "id": 7 } });
    for (body, expected) in [
        (hook.clone(), hook),
        (json!([1, "two"]), json!([1, "two"])),
        (json!("ann"), json!("ann")),
        (json!({ "payload": { "id": 7 } }), json!({ "id": 7 })),
        (json!({ "payload": null }), json!({})),
        (json!({}), json!({})),
    ] {
        let (id, url) = linked(&stage).await;
        let sent = stage.harness.post(&url, body.clone()).await.ok();
        assert_eq!(sent, json!({ "delivered": 1, "kept": false }), "{body}");
        let next = stage.claim_one().await;
        assert_eq!((&next["id"], &next["signals"]), (&json!(id), &json!({ "approved": expected })), "{body}");
        stage.finish(&next, json!({ "type": "succeeded" })).await;
    }
}

fn sent_as(path: &str, kind: &str, body: &str) -> Request {
    Request::post(path).header("content-type", kind).body(Body::from(body.to_owned())).expect("a request")
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_a_payload_is_refused_and_uses_no_token() {
    // W10, E10
    let stage = Stage::on(store(), Config::default());
    let (id, url) = linked(&stage).await;
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let large = format!("\"{}\"", "x".repeat(100_000));
    for (kind, body, status, says) in [
        ("application/json", "no".to_owned(), 400, "not valid JSON"),
        ("application/json", "{} {}".to_owned(), 400, "not valid JSON"),
        ("application/json", nested(200), 400, "not valid JSON"),
        ("application/json", nested(127), 422, "nested more than 100 levels"),
        ("application/json", nested(101), 422, "nested more than 100 levels"),
        ("application/json", large, 422, "payload"),
        ("application/x-www-form-urlencoded", "payload=yes".to_owned(), 415, "must be JSON"),
        ("text/xml", "<paid/>".to_owned(), 415, "must be JSON"),
    ] {
        let answer = stage.harness.send(sent_as(&url, kind, &body)).await;
        assert_eq!(answer.status.as_u16(), status, "{kind}: {}", answer.text);
        assert!(answer.text.contains(says), "{}", answer.text);
    }
    assert_eq!(stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok()["status"], "waiting");
    // What is as deep as may be comes back as it was, and so does what says that it is written in JSON.
    let answer = stage.harness.send(sent_as(&url, "application/cloudevents+json", &nested(100))).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
    let next = stage.claim_one().await;
    assert_eq!(next["signals"]["approved"].to_string(), nested(100));
}
