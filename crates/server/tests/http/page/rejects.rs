//! Rejected items on the page: told by cause, and taken along as a file by those who may see them in the clear.

use std::time::Duration;

use backstop::worker_id;
use backstop_server::Scope;
use serde_json::json;

use super::escaping::is_clean;
use super::{Visitor, proof, stage, whole_token};
use crate::access::stage::Stage;

const HOSTILE: &str = "<script>run()</script>";

/// A job that leaves out two items for one reason, and is done.
async fn rejects(stage: &Stage, token: &str) {
    let call = async |path: &str, body: serde_json::Value| {
        let reply = stage.call_with("POST", path, Some(token), &body.to_string()).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        reply.json()
    };
    call("/api/v1/jobs", json!({ "kind": "import" })).await;
    let claim = json!({ "worker": "w", "queues": ["default"], "kinds": ["import"], "limit": 1 });
    let claimed = call("/api/v1/work/claim", claim).await;
    let lease = claimed["jobs"][0]["lease"]["token"].clone();
    let item = |number: u32| {
        let item = json!({ "row": number, "password": "hunter2", "name": HOSTILE });
        json!({ "error": HOSTILE, "error_type": "Wrong", "item": item, "keep": true })
    };
    call("/api/v1/work/reject", json!({ "lease": lease, "items": [item(1), item(2)], "seen": 9 })).await;
    let finish = json!({ "results": [{ "lease": lease, "outcome": { "type": "succeeded" } }] });
    assert_eq!(call("/api/v1/work/finish", finish).await["results"][0]["ok"], true);
    stage.api.engine().maintain(worker_id(), Duration::from_secs(30)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_items_of_a_cause_are_taken_along_by_those_who_may_and_that_is_written_down() {
    // W9, F11
    let stage = stage().await;
    let all = whole_token(&stage).await;
    rejects(&stage, &all).await;
    let groups = stage.call("GET", "/api/v1/reject-groups", Some(&all)).await.json();
    let path = format!("/rejects/{}", groups["items"][0]["fingerprint"].as_str().unwrap());
    let visitor = Visitor::with(&stage, &all).await;
    let page = visitor.get(&path).await.text;
    assert!(page.contains("2 items of <code>import</code>") && page.contains("/export\""), "{page}");
    assert!(!page.contains("hunter2"), "what is shown is masked: {page}");
    assert_eq!(is_clean(&page), Ok(()), "{page}");
    let form = [("proof", &*proof(&page))];
    let file = visitor.send(&format!("{path}/export"), &form).await;
    assert_eq!(file.status, 200, "{}", file.text);
    assert_eq!(file.headers["content-type"], "application/x-ndjson");
    assert_eq!(file.headers["content-disposition"], "attachment; filename=\"rejects.ndjson\"");
    assert_eq!((file.text.lines().count(), file.text.matches("hunter2").count()), (2, 2), "{}", file.text);
    assert_eq!(visitor.send(&format!("{path}/export"), &[]).await.status, 403, "not without the proof");
    let list = visitor.get("/rejects").await.text;
    assert!(list.contains("action=\"/rejects/export\""), "{list}");
    let whole = visitor.send("/rejects/export", &[("proof", &*proof(&list))]).await;
    assert_eq!((whole.status.as_u16(), whole.text.lines().count()), (200, 2), "{}", whole.text);
    assert_eq!(visitor.send("/rejects/export", &[]).await.status, 403, "not without the proof");
    let log = stage.call("GET", "/api/v1/audit", Some(&all)).await.json();
    let lines = log["items"].as_array().unwrap();
    let told = lines.iter().filter(|line| line["path"] == format!("{path}/export") && line["status"] == 200);
    assert_eq!(told.count(), 1, "{log}");
    let reader = stage.token("reader", &[Scope::Read]).await;
    let reader = Visitor::with(&stage, &reader).await;
    let page = reader.get(&path).await.text;
    assert!(page.contains("2 items of") && !page.contains("/export\""), "{page}");
    let refused = reader.send(&format!("{path}/export"), &[("proof", &*proof(&page))]).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(refused.headers.get("content-disposition").is_none(), "a refusal is no file");
}
