//! The archive on the page: found by how jobs ended, counted before anything of it goes.

use std::time::Duration;

use backstop::{Config, Retention, worker_id};
use backstop_server::{Scope, ServerSettings};
use backstop_testing::TokioClock;
use serde_json::{Value, json};

use super::{Visitor, dead_letter, proof, whole_token};
use crate::access::stage::Stage;

/// A stage with an archived dead letter of the kind `charge`, and a canceled job of the kind `mail`.
async fn archived() -> (Stage, String) {
    let at_once = Retention::default().canceled(Some(Duration::ZERO)).failed(Some(Duration::ZERO));
    let engine = TokioClock::engine_with(Config::default().retention(at_once));
    let stage = Stage::on(engine, ServerSettings::default());
    let all = whole_token(&stage).await;
    let job = json!({ "kind": "charge", "queue": "pay", "max_retries": 0 });
    dead_letter(&stage, &all, job, "<script>run()</script>", "No").await;
    let mail = json!({ "kind": "mail" }).to_string();
    let id = stage.call_with("POST", "/api/v1/jobs", Some(&all), &mail).await.json()["id"].clone();
    let cancel = format!("/api/v1/jobs/{}/cancel", id.as_str().unwrap());
    assert_eq!(stage.call("POST", &cancel, Some(&all)).await.status, 200);
    stage.api.engine().maintain(worker_id(), Duration::from_secs(30)).await.unwrap();
    // Whoever led maintenance has stopped long ago.
    tokio::time::advance(Duration::from_secs(60)).await;
    (stage, all)
}

async fn kinds(stage: &Stage, token: &str, query: &str) -> Vec<String> {
    let found = stage.call("GET", &format!("/api/v1/archive?{query}"), Some(token)).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let found = found.json();
    let kind = |row: &Value| row["job"]["kind"].as_str().unwrap().to_owned();
    found["items"].as_array().unwrap().iter().map(kind).collect()
}

#[tokio::test(start_paused = true)]
async fn archived_jobs_are_found_by_how_they_ended_and_when_they_came() {
    // L16
    let (stage, all) = archived().await;
    for (query, expected) in [
        ("", &["mail", "charge"][..]),
        ("status=failed", &["charge"]),
        ("status=canceled&kind=mail&queue=default", &["mail"]),
        ("kind=mail&queue=pay", &[]),
        ("created_before=2000-01-01T00:00:00Z", &[]),
        ("created_before=9999-01-01T00:00:00Z&queue=pay", &["charge"]),
        ("limit=1&status=failed", &["charge"]),
    ] {
        assert_eq!(kinds(&stage, &all, query).await, expected, "{query}");
    }
    let visitor = Visitor::with(&stage, &all).await;
    let page = visitor.get("/archive?status=failed").await.text;
    assert!(page.contains("<code>charge</code>") && !page.contains("<code>mail</code>"), "{page}");
    assert!(
        page.contains("&lt;script&gt;run()") && !page.contains("<script>run()"),
        "its error is text: {page}"
    );
    assert!(visitor.get("/archive?kind=nobody").await.text.contains("No archived job is like that."));
    // A tenant finds its own, by its own names.
    let acme = stage.token_of("acme", &Scope::ALL, Some("acme")).await;
    assert_eq!(kinds(&stage, &acme, "queue=pay").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_goes_for_good_is_counted_first() {
    // D5
    let (stage, all) = archived().await;
    let visitor = Visitor::with(&stage, &all).await;
    let page = visitor.get("/archive").await.text;
    assert!(page.contains("Remove old ones…") && !page.contains("archive.prune"), "{page}");
    let stands = proof(&page);
    let send =
        async |days: &str| visitor.send("/archive", &[("proof", stands.as_str()), ("days", days)]).await;
    let counted = send("0").await;
    assert!(counted.text.contains("Remove 1 job for good"), "one that never ran stays: {}", counted.text);
    assert!(counted.text.contains("name=\"keep_ms\" value=\"0\""), "{}", counted.text);
    assert!(!counted.text.contains("data-every"), "an open page does not count again and again");
    let none = send("365").await.text;
    assert!(none.contains("no job that ran was archived") && !none.contains("archive.prune"), "{none}");
    assert_eq!(send("many").await.status, 422);
    assert_eq!(visitor.send("/archive", &[("days", "0")]).await.status, 403, "not without the proof");
    assert_eq!(kinds(&stage, &all, "").await, ["mail", "charge"], "nothing is gone yet");
    let done = visitor.act("archive.prune", &[("keep_ms", "0")]).await;
    assert_eq!(done.status, 303, "{}", done.text);
    assert_eq!(kinds(&stage, &all, "").await, ["mail"]);
    let operator = stage.token("operator", &[Scope::Read, Scope::Operate]).await;
    let operator = Visitor::with(&stage, &operator).await;
    let page = operator.get("/archive").await.text;
    assert!(!page.contains("Remove old ones"), "{page}");
    let made_up = [("proof", &*proof(&page)), ("days", "0")];
    assert_eq!(operator.send("/archive", &made_up).await.status, 403);
}
