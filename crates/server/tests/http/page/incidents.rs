//! Incidents on the page: what the dead have in common, however large they are.

use serde_json::json;

use super::{Visitor, dead_letter, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn payloads_over_a_kilobyte_are_compared_and_shown_and_larger_ones_are_told_of() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    for (order, bytes) in [(1, 2_000), (2, 2_000), (3, 20_000)] {
        let payload = json!({ "region": "eu-south", "order": order, "note": "x".repeat(bytes) });
        let job = json!({ "kind": "charge", "max_retries": 0, "payload": payload });
        dead_letter(&stage, &all, job, "the card was declined", "Declined").await;
    }
    let incidents = stage.call("GET", "/api/v1/incidents", Some(&all)).await.json();
    let path = format!("/incidents/{}", incidents["items"][0]["fingerprint"].as_str().unwrap());
    let page = visitor.get(&path).await.text;
    assert!(page.contains("What the failed payloads share") && page.contains("eu-south"), "{page}");
    assert!(page.contains("1 payload over 8192 bytes"), "{page}");
    assert!(page.contains("The beginning of 20,0") && !page.contains("<pre>null</pre>"), "{page}");
}
