//! Whatever is stored is text on the page: nothing of it becomes markup, on any view.

use axum::http::header::CONTENT_SECURITY_POLICY;
use serde_json::json;

use super::{Visitor, dead_letter, stage, whole_token};
use crate::access::stage::Stage;

/// What would run, were it not escaped; each says in which place it would.
const HOSTILE: [&str; 8] = [
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
fn is_clean(page: &str) -> Result<(), String> {
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
    let mut refused = Vec::new();
    for (at, hostile) in HOSTILE.iter().enumerate() {
        refused.extend(fill_names(stage, all, at, hostile).await);
    }
    assert!(refused.len() <= 20, "most of 80 names are taken as they are: {refused:#?}");
    let pause = json!({ "note": HOSTILE[0] }).to_string();
    stage.call_with("POST", "/api/v1/queues/other/pause", Some(all), &pause).await;
}

/// Gives a hostile name to everything that has one, and lets a run say hostile things about itself.
async fn fill_names(stage: &Stage, all: &str, at: usize, hostile: &str) -> Vec<String> {
    let enc = form_urlencoded::byte_serialize(hostile.as_bytes()).collect::<String>().replace('+', "%20");
    let job = json!({ "kind": hostile, "queue": format!("q{at}"), "idempotency_key": format!("i{at}{hostile}"),
        "ordering_key": hostile, "limit_key": hostile, "single_instance": hostile });
    let node = json!({ "name": hostile, "kind": hostile, "queue": format!("n{at}") });
    let next = json!({ "name": format!("{hostile}2"), "kind": hostile, "queue": format!("n{at}"), "after": [hostile] });
    let calls = [
        ("POST", "/api/v1/jobs".to_owned(), job),
        (
            "POST",
            "/api/v1/workflows".to_owned(),
            json!({ "name": hostile, "key": hostile, "nodes": [node, next] }),
        ),
        (
            "POST",
            "/api/v1/batches".to_owned(),
            json!({ "name": hostile, "jobs": [{ "kind": hostile, "queue": "b" }] }),
        ),
        ("PUT", format!("/api/v1/limits/{enc}"), json!({ "kind": hostile, "concurrency": 1 })),
        (
            "PUT",
            format!("/api/v1/schedules/{enc}"),
            json!({ "every_ms": 3_600_000, "kind": hostile, "queue": hostile }),
        ),
        ("POST", format!("/api/v1/circuits/{enc}/open"), json!({ "for_ms": 600_000 })),
        ("POST", format!("/api/v1/queues/{enc}/pause"), json!({ "note": hostile })),
        ("POST", "/api/v1/signals".to_owned(), json!({ "key": hostile, "payload": hostile, "id": hostile })),
        ("POST", "/api/v1/tokens".to_owned(), json!({ "name": hostile, "scopes": ["read"] })),
        ("POST", "/api/v1/webhooks".to_owned(), json!({ "url": format!("https://example.com/?q={enc}") })),
    ];
    let mut refused = Vec::new();
    for (method, path, body) in calls {
        let answer = stage.call_with(method, &path, Some(all), &body.to_string()).await;
        assert!(!answer.status.is_server_error(), "{method} {path}: {}", answer.text);
        if !answer.status.is_success() {
            refused.push(format!("{path}: {}", answer.text));
        }
    }
    let post = async |path: &str, body: serde_json::Value| {
        stage.call_with("POST", path, Some(all), &body.to_string()).await
    };
    let claim = json!({ "worker": hostile, "queues": [format!("q{at}")], "kinds": [hostile], "limit": 1,
        "code_version": hostile });
    let claimed = post("/api/v1/work/claim", claim).await.json();
    let lease = &claimed["jobs"][0]["lease"]["token"];
    let said = [
        ("progress", json!({ "lease": lease, "percent": 5, "note": hostile })),
        ("log", json!({ "lease": lease, "lines": [hostile] })),
        ("step", json!({ "lease": lease, "name": hostile, "result": hostile })),
        ("effect", json!({ "lease": lease, "name": format!("{hostile}3"), "key": hostile, "policy": "ask" })),
        (
            "reject",
            json!({ "lease": lease, "seen": 9, "items": [{ "error": hostile, "error_type": hostile,
            "item": { (hostile): hostile }, "fingerprint": hostile, "step": hostile, "keep": true }] }),
        ),
    ];
    for (verb, body) in said {
        let answer = post(&format!("/api/v1/work/{verb}"), body).await;
        assert!(answer.status.is_success(), "{verb}: {}", answer.text);
    }
    let outcome = match at % 3 {
        0 => json!({ "type": "waiting", "signal": format!("{hostile}4"), "timeout_ms": 60_000 }),
        1 => json!({ "type": "succeeded", "result": { (hostile): hostile } }),
        _ => json!({ "type": "canceled", "reason": hostile }),
    };
    let ended =
        post("/api/v1/work/finish", json!({ "results": [{ "lease": lease, "outcome": outcome }] })).await;
    assert_eq!(ended.json()["results"][0]["ok"], true, "{}", ended.text);
    refused
}

/// Every view, of every job and incident, and with hostile texts in the address.
async fn views(stage: &Stage, all: &str) -> Vec<String> {
    let mut paths: Vec<String> = VIEWS.map(str::to_owned).to_vec();
    let jobs = stage.call("GET", "/api/v1/jobs", Some(all)).await.json();
    let jobs = jobs["items"].as_array().unwrap().iter();
    paths.extend(jobs.map(|job| format!("/jobs/{}", job["id"].as_str().unwrap())));
    for (list, view, id) in [
        ("/api/v1/workflows", "/workflows", "id"),
        ("/api/v1/batches", "/batches", "id"),
        ("/api/v1/reject-groups", "/rejects", "fingerprint"),
    ] {
        let found = stage.call("GET", list, Some(all)).await.json();
        let items = found["items"].as_array().unwrap_or_else(|| panic!("{list}: {found}"));
        assert!(!items.is_empty(), "{list}");
        paths.extend(items.iter().map(|one| format!("{view}/{}", one[id].as_str().unwrap())));
    }
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
            "/jobs/change?status=pending&change=pause&kind",
            "/jobs/change?status=pending&change",
            "/incidents?state",
            "/?done",
            "/login?next",
        ];
        paths.extend(asked.map(|asked| format!("{asked}={said}")));
    }
    paths
}

/// The views without parameters.
const VIEWS: [&str; 25] = [
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
    "/batches",
    "/handoffs",
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
