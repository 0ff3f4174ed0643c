//! Whatever is stored is text on the page: nothing of it becomes markup, on any view.

use axum::http::header::CONTENT_SECURITY_POLICY;
use serde_json::json;

use super::{Visitor, dead_letter, stage, whole_token};
use crate::access::stage::Stage;

/// What would run, were it not escaped; each says in which place it would.
pub(super) const HOSTILE: [&str; 8] = [
    "<script>run()</script>",
    "\"><img src=x onerror=run()>",
    "' onmouseover='run()",
    "\" autofocus onfocus=\"run()",
    "</title><svg onload=run()>",
    "</textarea><script>run()</script>",
    "<!--<script>run()//-->",
    "javascript:run()",
];

/// What a page must not have but for its own one script.
pub(super) fn is_clean(page: &str) -> Result<(), String> {
    let lower = page.to_lowercase();
    let own = lower.matches("<script src=\"/page/").count();
    let found = |what: &str| lower.matches(what).count();
    if found("<script") != own || own != 1 {
        return Err("a script that is not ours".to_owned());
    }
    for marker in ["<img", "<svg onload", "<!--<", " style=\"", "href=\"javascript:", "<iframe"] {
        if found(marker) > 0 {
            return Err(format!("{marker} is markup"));
        }
    }
    // An attribute that runs would stand within a tag, outside of the quotes of another.
    for tag in lower.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let unquoted: String = tag.split('"').step_by(2).collect();
        if unquoted.contains(" on") && unquoted.contains('=') {
            return Err(format!("a handler in <{tag}>"));
        }
    }
    Ok(())
}

#[test]
fn the_check_finds_what_is_not_escaped() {
    for hostile in HOSTILE {
        let page = format!(
            "<script src=\"/page/x.js\" defer></script><a title='{hostile}' href=\"{hostile}\">{hostile}</a>"
        );
        assert!(is_clean(&page).is_err(), "{hostile}");
    }
    assert_eq!(is_clean("<script src=\"/page/x.js\" defer></script>&lt;script&gt;run()"), Ok(()));
}

/// Stores every hostile text wherever a text can be stored.
async fn fill(stage: &Stage, all: &str) {
    for (at, hostile) in HOSTILE.iter().enumerate() {
        let job = json!({
            "kind": format!("kind_{at}"), "max_retries": 0, "tags": [hostile],
            "business_key": format!("{at} {hostile}"), "correlation_id": hostile,
            "payload": { (*hostile): hostile, "list": [hostile] },
        });
        dead_letter(stage, all, job, hostile, hostile).await;
        let rule = json!({ "id": format!("r{at}"), "note": hostile, "matches": { "error_type": hostile },
            "action": "permanent" });
        let calls = [
            ("PUT", format!("/api/v1/schedules/s{at}"), json!({ "every_ms": 3_600_000, "kind": "k" })),
            ("POST", "/api/v1/rules".to_owned(), rule),
            ("POST", "/api/v1/queues/default/pause".to_owned(), json!({ "note": hostile })),
            ("POST", "/api/v1/queues/default/resume".to_owned(), json!({})),
            ("POST", "/api/v1/signals".to_owned(), json!({ "key": format!("s/{at}"), "payload": hostile })),
        ];
        for (method, path, body) in calls {
            let answer = stage.call_with(method, &path, Some(all), &body.to_string()).await;
            assert!(answer.status.is_success(), "{method} {path}: {}", answer.text);
        }
    }
    let pause = json!({ "note": HOSTILE[0] }).to_string();
    stage.call_with("POST", "/api/v1/queues/other/pause", Some(all), &pause).await;
}

/// Every view, of every job and incident, and with hostile texts in the address.
async fn views(stage: &Stage, all: &str) -> Vec<String> {
    let mut paths: Vec<String> = VIEWS.map(str::to_owned).to_vec();
    let jobs = stage.call("GET", "/api/v1/jobs", Some(all)).await.json();
    let jobs = jobs["items"].as_array().unwrap().iter();
    paths.extend(jobs.map(|job| format!("/jobs/{}", job["id"].as_str().unwrap())));
    let note = json!({ "note": HOSTILE[0], "by": HOSTILE[1] }).to_string();
    let incidents = stage.call("GET", "/api/v1/incidents", Some(all)).await.json();
    for incident in incidents["items"].as_array().unwrap() {
        let fingerprint = incident["fingerprint"].as_str().unwrap();
        stage.call_with("POST", &format!("/api/v1/incidents/{fingerprint}/ack"), Some(all), &note).await;
        paths.push(format!("/incidents/{fingerprint}"));
        paths.push(format!("/redrives/new?incident={fingerprint}"));
    }
    for hostile in HOSTILE {
        let said: String = form_urlencoded::byte_serialize(hostile.as_bytes()).collect();
        let asked = [
            "/find?q",
            "/jobs?tag",
            "/jobs?status",
            "/jobs?cursor",
            "/incidents?state",
            "/?done",
            "/login?next",
        ];
        paths.extend(asked.map(|asked| format!("{asked}={said}")));
    }
    paths
}

/// The views without parameters.
pub(super) const VIEWS: [&str; 23] = [
    "/",
    "/incidents",
    "/redrives",
    "/redrives/new",
    "/rejects",
    "/parked",
    "/jobs",
    "/jobs/new",
    "/queues",
    "/workflows",
    "/signals",
    "/schedules",
    "/workers",
    "/bridges",
    "/circuits",
    "/limits",
    "/rules",
    "/archive",
    "/alerts",
    "/webhooks",
    "/tokens",
    "/audit",
    "/login",
];

#[tokio::test(start_paused = true)]
async fn nothing_stored_becomes_markup_on_any_view() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    fill(&stage, &all).await;
    let visitor = Visitor::with(&stage, &all).await;
    let mut shown = 0;
    for path in views(&stage, &all).await {
        let page = visitor.get(&path).await;
        if page.status == 303 {
            continue;
        }
        assert_eq!(is_clean(&page.text), Ok(()), "{path}\n{}", page.text);
        shown += page.text.matches("run()").count();
        let policy = page.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
    }
    assert!(shown > 200, "what is hostile was there to be seen: {shown}");
}
