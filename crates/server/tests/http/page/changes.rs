//! What is said of a change is what became of it.

use std::time::Duration;

use backstop_server::Scope;
use serde_json::json;

use super::{Visitor, dead_letter, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn what_changed_nothing_is_not_called_done() {
    // L7
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    dead_letter(&stage, &all, json!({ "kind": "charge", "max_retries": 0 }), "no", "No").await;
    let jobs = stage.call("GET", "/api/v1/jobs", Some(&all)).await.json();
    let id = jobs["items"][0]["id"].as_str().unwrap();
    let page = visitor.get(&format!("/jobs/{id}")).await.text;
    assert!(
        page.contains("job.retry") && !page.contains("job.cancel"),
        "a dead letter is not canceled: {page}"
    );
    let answer = visitor.act("job.cancel", &[("at.id", id)]).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["location"]),
        (303, &"/queues?done=same.failed".parse().unwrap())
    );
    let shown = visitor.get("/queues?done=same.failed").await.text;
    assert!(
        shown.contains("Nothing was changed: it is failed.") && !shown.contains("is canceled"),
        "{shown}"
    );
    assert!(!visitor.get("/queues?done=same.%3Cb%3Eyou+won").await.text.contains("you won"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_can_be_paused() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    for _ in 0..2 {
        let job = json!({ "kind": "charge", "ordering_key": "k" }).to_string();
        assert_eq!(stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.status, 201);
    }
    let waiting = stage.call("GET", "/api/v1/jobs?status=waiting", Some(&all)).await.json();
    let id = waiting["items"][0]["id"].as_str().expect("the second one waits");
    let page = visitor.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains("job.pause") && page.contains("job.cancel"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_is_given_twice_is_sent_once() {
    // W10
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let job = json!({ "kind": "ask" }).to_string();
    assert_eq!(stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.status, 201);
    let claim = json!({ "worker": "w", "queues": ["default"], "kinds": ["ask"], "limit": 1 }).to_string();
    let claimed = stage.call_with("POST", "/api/v1/work/claim", Some(&all), &claim).await.json();
    let wait = json!({ "results": [{ "lease": claimed["jobs"][0]["lease"]["token"],
        "outcome": { "type": "waiting", "signal": "approved", "timeout_ms": 60_000 } }] });
    let waits = stage.call_with("POST", "/api/v1/work/finish", Some(&all), &wait.to_string()).await;
    assert_eq!(waits.json()["results"][0]["ok"], true, "{}", waits.text);
    let page = visitor.get("/signals").await.text;
    let (_, row) = page.split_once("data-rows=\"awaited\"").expect("it is awaited");
    let (_, id) = row.split_once("name=\"id\" value=\"").expect("it has an id");
    let id = id.split('"').next().unwrap();
    for _ in 0..2 {
        let sent = visitor.act("signal.send", &[("key", "approved"), ("payload", "1"), ("id", id)]).await;
        assert_eq!(sent.status, 303, "{}", sent.text);
    }
    let kept = stage.call("GET", "/api/v1/signals?state=kept", Some(&all)).await.json();
    assert_eq!(kept["items"], json!([]), "the second press lets nobody else go");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_and_a_batch_are_found_where_links_lead() {
    // D3, W5
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let batch = json!({ "name": "import", "jobs": [{ "kind": "row" }, { "kind": "row" }] }).to_string();
    let stored = stage.call_with("POST", "/api/v1/batches", Some(&all), &batch).await;
    assert!(stored.status.is_success(), "{}", stored.text);
    let id = stored.json()["id"].as_str().unwrap().to_owned();
    let jobs = stage.call("GET", "/api/v1/jobs", Some(&all)).await.json();
    let page = visitor.get(&format!("/jobs/{}", jobs["items"][0]["id"].as_str().unwrap())).await.text;
    assert!(page.contains(&format!("href=\"/batches/{id}\"")), "{page}");
    let page = visitor.get(&format!("/batches/{id}")).await;
    assert_eq!(page.status, 200);
    assert!(
        page.text.contains("0 of 2 jobs succeeded") && page.text.contains("batch.cancel"),
        "{}",
        page.text
    );
    assert!(visitor.get("/batches").await.text.contains(&format!("href=\"/batches/{id}\"")));
    let canceled = visitor.act("batch.cancel", &[("at.id", &id)]).await;
    assert_eq!(canceled.status, 303, "{}", canceled.text);
    tokio::time::advance(Duration::from_secs(3)).await;
    let reader = Visitor::with(&stage, &stage.token("reader", &[Scope::Read]).await).await;
    assert!(!reader.get(&format!("/batches/{id}")).await.text.contains("action=\"/act\""));
}
