//! A plan to drive again is about what somebody saw when they began it, and nothing else.

use serde_json::json;

use super::{Visitor, dead_letter, proof, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn counting_keeps_every_condition_and_every_setting() {
    // D4
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    dead_letter(&stage, &all, json!({ "kind": "charge", "max_retries": 0 }), "no", "No").await;
    // A plan is about what died before it was asked for.
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    let list = visitor.get("/jobs?status=failed&queue=default&reason=poisoned").await.text;
    let to = "/redrives/new?queue=default&amp;reason=poisoned";
    assert!(list.contains(to), "{list}");
    let page = visitor
        .get("/redrives/new?queue=default&reason=non_retryable&finished_after=2026-01-01T00:00:00Z")
        .await
        .text;
    assert!(page.contains("value=\"non_retryable\" selected"), "{page}");
    for name in ["reason", "finished_after", "finished_before", "settings.in_flight", "settings.ceiling"] {
        assert!(page.contains(&format!("name=\"{name}\"")), "{name}: {page}");
    }
    let form = [
        ("proof", &*proof(&page)),
        ("queue", "default"),
        ("reason", "poisoned"),
        ("finished_before", "2100-01-01T00:00:00Z"),
        ("settings.in_flight", "7"),
    ];
    let none = visitor.send("/redrives/new", &form).await.text;
    assert!(none.contains("No dead letter matches queue `default`, reason poisoned"), "{none}");
    let mut form = form.to_vec();
    let dead = stage.call("GET", "/api/v1/dead-letters", Some(&all)).await.json();
    let reason = dead["items"][0]["terminal_reason"].as_str().unwrap();
    form[2].1 = reason;
    let counted = visitor.send("/redrives/new", &form).await.text;
    let (_, make) = counted.split_once("redrive.make").unwrap_or_else(|| panic!("no plan: {counted}"));
    for kept in [
        &format!("name=\"reason\" value=\"{reason}\""),
        "name=\"finished_before\" value=\"2100",
        "value=\"7\"",
    ] {
        assert!(make.contains(kept), "{kept}: {make}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_narrower_than_a_plan_can_be_begins_none() {
    // D4
    let stage = stage().await;
    let visitor = Visitor::with(&stage, &whole_token(&stage).await).await;
    for condition in
        ["business_key=a", "created_after=2026-01-01T00:00:00Z", "created_before=2026-01-01T00:00:00Z"]
    {
        let list = visitor.get(&format!("/jobs?status=failed&queue=mail&{condition}")).await;
        assert_eq!(list.status, 200, "{}", list.text);
        assert!(!list.text.contains("href=\"/redrives/new?"), "{condition}: {}", list.text);
        assert!(list.text.contains("cannot be narrowed by"), "{condition}: {}", list.text);
    }
}
