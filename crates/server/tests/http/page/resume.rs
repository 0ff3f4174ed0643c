//! The link of a resume token: somebody without a token of ours lets one job go on, once (W10).

use backstop_server::{Scope, ServerSettings};
use backstop_testing::TokioClock;
use serde_json::json;

use super::{Visitor, proof, whole_token};
use crate::access::stage::Stage;

/// A job that waits for `approved`, and the resume token for it.
async fn waiting(stage: &Stage, token: &str) -> (String, serde_json::Value) {
    let post = async |path: &str, body: serde_json::Value| {
        stage.call_with("POST", path, Some(token), &body.to_string()).await.json()
    };
    let id = post("/api/v1/jobs", json!({ "kind": "refund" })).await["id"].as_str().unwrap().to_owned();
    let claim = json!({ "worker": "w", "queues": ["default"], "kinds": ["refund"], "limit": 1 });
    let lease = post("/api/v1/work/claim", claim).await["jobs"][0]["lease"]["token"].clone();
    let outcome = json!({ "type": "waiting", "signal": "approved" });
    post("/api/v1/work/finish", json!({ "results": [{ "lease": lease, "outcome": outcome }] })).await;
    let made = post(&format!("/api/v1/jobs/{id}/resume-token"), json!({ "signal": "approved" })).await;
    (id, made)
}

#[tokio::test(start_paused = true)]
async fn whoever_has_the_link_lets_the_job_go_on_once() {
    // W10
    let mut settings = ServerSettings::default();
    settings.public_url = Some("https://jobs.example.com/".to_owned());
    let stage = Stage::on(TokioClock::engine(), settings);
    let all = whole_token(&stage).await;
    let (id, made) = waiting(&stage, &all).await;
    let token = made["token"].as_str().unwrap();
    assert_eq!(made["url"], format!("https://jobs.example.com/api/v1/resume/{token}"));
    assert_eq!(made["page"], format!("https://jobs.example.com/resume/{token}"));
    let state = async || {
        let job = stage.call("GET", &format!("/api/v1/jobs/{id}"), Some(&all)).await.json();
        job["status"].as_str().unwrap().to_owned()
    };

    let (stranger, path) = (Visitor::new(&stage), format!("/resume/{token}"));
    let asked = stranger.get(&path).await;
    assert_eq!(asked.status, 200, "{}", asked.text);
    assert!(asked.text.contains("approved") && !asked.text.contains(&id), "{}", asked.text);
    assert_eq!(state().await, "waiting", "opening the link must not send the signal");
    let proof = proof(&asked.text);
    assert_eq!(stranger.send(&path, &[("payload", "1")]).await.status, 403, "not from this page");
    let wrong = stranger.send(&path, &[("proof", &proof), ("payload", "{oops")]).await;
    assert!(wrong.status == 422 && wrong.text.contains("not valid JSON"), "{}", wrong.text);
    assert_eq!(state().await, "waiting");
    let sent = stranger.send(&path, &[("proof", &proof), ("payload", "\"ann\"")]).await;
    assert!(sent.status == 200 && sent.text.contains("goes on"), "{}", sent.text);
    assert_eq!(state().await, "pending");
    let again = stranger.send(&path, &[("proof", &proof), ("payload", "\"eve\"")]).await;
    assert!(again.status == 409 && again.text.contains("used before"), "{}", again.text);
    let guessed = stranger.get("/resume/rt1.e30.AA").await;
    assert!(guessed.status == 404 && guessed.text.contains("not a resume token"), "{}", guessed.text);
    let reader = stage.token("reader", &[Scope::Read]).await;
    assert_eq!(Visitor::with(&stage, &reader).await.get(&path).await.status, 200, "who is logged in too");
}

#[tokio::test(start_paused = true)]
async fn links_begin_at_the_root_unless_the_address_of_the_server_is_known() {
    // W10
    let stage = super::stage().await;
    let all = whole_token(&stage).await;
    let (_, made) = waiting(&stage, &all).await;
    let token = made["token"].as_str().unwrap();
    assert_eq!(made["url"], format!("/api/v1/resume/{token}"));
    assert_eq!(made["page"], format!("/resume/{token}"));
}
