//! The audit log: every call that changes something, and nothing that should not be told.

use backstop_server::{Scope, Settings, table};
use backstop_testing::TokioClock;
use serde_json::{Value, json};

use super::stage::Stage;

async fn log(stage: &Stage, token: &str) -> Vec<Value> {
    stage.call("GET", "/api/v1/audit", Some(token)).await.json()["items"].as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn every_call_that_changes_something_is_written_down_before_it_is_answered() {
    let stage = Stage::on(TokioClock::engine(), Settings::default());
    let admin = stage.token("ada", &[Scope::Admin, Scope::Operate, Scope::Read]).await;
    let reader = stage.token("rita", &[Scope::Read]).await;
    stage.call("GET", "/api/v1/queues", Some(&admin)).await;
    assert_eq!(stage.call("POST", "/api/v1/queues/mail/pause", Some(&admin)).await.status, 200);
    let lines = log(&stage, &admin).await;
    assert_eq!(lines.len(), 1, "reads are not in it, and the pause is: {lines:?}");
    let now = stage.api.engine().store().now().await.unwrap();
    assert_eq!(
        lines[0],
        json!({ "at": now.to_string(), "who": "ada", "tenant": null, "method": "POST", "status": 200, "count": 1,
            "route": "/api/v1/queues/{name}/pause", "path": "/api/v1/queues/mail/pause", "from": null })
    );
    // Those who were turned away are in it too, a little later.
    assert_eq!(stage.call("POST", "/api/v1/queues/mail/pause", Some(&reader)).await.status, 403);
    assert_eq!(stage.call("POST", "/api/v1/queues/mail/pause", None).await.status, 401);
    assert_eq!(stage.call("POST", "/api/v1/queues/bills/pause", None).await.status, 401);
    stage.call("POST", "/api/v1/queues/mail/resume", Some(&admin)).await;
    let lines = log(&stage, &admin).await;
    let told: Vec<_> =
        lines.iter().map(|line| (line["who"].as_str().unwrap(), line["status"].as_u64())).collect();
    assert_eq!(told, [("ada", Some(200)), ("nobody", Some(401)), ("rita", Some(403)), ("ada", Some(200))]);
    // Calls that are alike are one line; nobody chooses what stands in it.
    assert_eq!((&lines[1]["count"], &lines[1]["path"]), (&json!(2), &json!("/api/v1/queues/{name}/pause")));
}

#[tokio::test(start_paused = true)]
async fn it_is_read_in_pages_without_a_gap_or_a_repeat() {
    let stage = Stage::on(TokioClock::engine(), Settings::default());
    let admin = stage.token("ada", &[Scope::Admin, Scope::Operate]).await;
    for nth in 0..57 {
        let path = format!("/api/v1/queues/q{nth}/pause");
        // Some go into documents of their own, some together.
        match nth % 3 {
            0 => drop(stage.call("POST", &path, Some(&admin)).await),
            _ => drop(stage.call("DELETE", &format!("/api/v1/tokens/q{nth}"), Some(&admin)).await),
        }
    }
    stage.call("POST", "/api/v1/queues/last/pause", Some(&admin)).await;
    let (mut paths, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = stage.call("GET", &format!("/api/v1/audit?limit=7{cursor}"), Some(&admin)).await.json();
        let items = page["items"].as_array().unwrap();
        paths.extend(items.iter().map(|line| line["path"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        assert_eq!(items.len(), 7);
    }
    assert_eq!(paths.len(), 58);
    assert!(paths[0].ends_with("/last/pause") && paths[57].ends_with("/q0/pause"), "{paths:?}");
    let mut once = paths.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), 58, "{paths:?}");
    for (query, field) in
        [("cursor=x", "cursor"), ("cursor=..", "cursor"), ("limit=0", "limit"), ("a=b", "a")]
    {
        let reply = stage.call("GET", &format!("/api/v1/audit?{query}"), Some(&admin)).await;
        assert_eq!((reply.status.as_u16(), reply.code()), (422, "invalid".to_owned()), "{query}");
        assert_eq!(reply.json()["error"]["details"]["field"], field);
    }
}

#[tokio::test(start_paused = true)]
async fn no_secret_and_no_payload_is_in_it() {
    let stage = Stage::on(TokioClock::engine(), Settings::default());
    let admin = stage.token("ada", &Scope::ALL).await;
    let new = json!({ "name": "fresh", "scopes": ["read"] }).to_string();
    let made = stage.call_with("POST", "/api/v1/tokens", Some(&admin), &new).await.json();
    let fresh = made["token"].as_str().unwrap();
    // Somebody who takes the token for its name.
    stage.call("DELETE", &format!("/api/v1/tokens/{fresh}"), Some(&admin)).await;
    let job = json!({ "kind": "send", "payload": { "to": "hunter2" } }).to_string();
    stage.call_with("POST", "/api/v1/jobs", Some(&admin), &job).await;
    stage.call("POST", "/api/v1/queues/mail/pause?key=hunter2", Some(&admin)).await;
    let text = stage.call("GET", "/api/v1/audit", Some(&admin)).await.text;
    for secret in [fresh, &admin, "hunter2"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("/api/v1/tokens/[redacted]"), "{text}");
}

#[test]
fn no_route_changes_the_log() {
    let changes = table().into_iter().filter(|route| route.path.contains("audit") && route.method != "GET");
    assert_eq!(changes.count(), 0);
}
