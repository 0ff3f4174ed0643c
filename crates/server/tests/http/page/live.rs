//! What an open page can renew: every list has a place while it is empty, and what changes has a name.

use serde_json::json;

use super::{Visitor, dead_letter, stage, whole_token};

/// Lists that are empty at first, by the name of their rows.
const LISTS: [(&str, &str); 14] = [
    ("/incidents", "incidents"),
    ("/redrives", "plans"),
    ("/rejects", "rejects"),
    ("/jobs", "jobs"),
    ("/parked", "jobs"),
    ("/workflows", "workflows"),
    ("/batches", "batches"),
    ("/signals", "awaited"),
    ("/schedules", "schedules"),
    ("/workers", "workers"),
    ("/bridges", "bridges"),
    ("/handoffs", "handoffs"),
    ("/limits", "limits"),
    ("/alerts", "alerts"),
];

#[tokio::test(start_paused = true)]
async fn a_list_without_rows_says_whose_place_it_holds() {
    let stage = stage().await;
    let visitor = Visitor::with(&stage, &whole_token(&stage).await).await;
    for (path, rows) in LISTS {
        let page = visitor.get(path).await.text;
        assert!(page.contains(&format!("data-empty=\"{rows}\"")), "{path}: {page}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_on_a_job_and_an_incident_has_a_name() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let job = json!({ "kind": "charge" }).to_string();
    let fresh = stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.json();
    let page = visitor.get(&format!("/jobs/{}", fresh["id"].as_str().unwrap())).await.text;
    assert!(page.contains("data-empty=\"runs\""), "{page}");
    for name in ["job-data", "job-steps", "job-checks", "job-raw", "job-actions", "job-facts", "job-links"] {
        assert!(page.contains(&format!("data-live=\"{name}\"")), "{name}: {page}");
    }
    dead_letter(&stage, &all, json!({ "kind": "refund", "max_retries": 0 }), "no", "No").await;
    let incidents = stage.call("GET", "/api/v1/incidents", Some(&all)).await.json();
    let path = format!("/incidents/{}", incidents["items"][0]["fingerprint"].as_str().unwrap());
    let page = visitor.get(&path).await.text;
    for name in ["incident", "incident-actions", "facts", "common", "samples", "related"] {
        assert!(page.contains(&format!("data-live=\"{name}\"")), "{name}: {page}");
    }
    let dead = stage.call("GET", "/api/v1/dead-letters", Some(&all)).await.json();
    let page = visitor.get(&format!("/jobs/{}", dead["items"][0]["id"].as_str().unwrap())).await.text;
    assert!(
        page.contains("data-rows=\"runs\"") && page.contains("article class=\"run\" data-key=\"1\""),
        "{page}"
    );
    visitor.act("queue.pause", &[("at.name", "default")]).await;
    let page = visitor.get("/audit").await.text;
    assert!(page.contains("data-rows=\"audit\""), "{page}");
}
