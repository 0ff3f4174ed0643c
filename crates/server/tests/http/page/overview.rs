//! The overview: its first sentence says whether anything is wrong, above all when something is.

use std::time::Duration;

use backstop::{Health, LoopHealth};
use backstop_server::{Scope, TokenRequest};
use serde_json::json;

use super::{Visitor, dead_letter, failed, stage, whole_token};
use crate::access::stage::wish;

/// The view as it is now: one that was made a moment ago is shown again.
async fn overview(visitor: &Visitor<'_>) -> String {
    tokio::time::advance(Duration::from_secs(3)).await;
    visitor.get("/").await.text
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_ready_says_so_first_and_with_its_checks() {
    // H2, H11
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    assert!(overview(&visitor).await.contains("All is well"));
    stage.api.watch("mailer", || {
        let heartbeat =
            LoopHealth { name: "heartbeat", ok: false, age_ms: 90_000, deadline_ms: 60_000, restarts: 3 };
        Some(Health { ready: false, loops: vec![heartbeat], dependencies: Vec::new(), paused: None })
    });
    let red = overview(&visitor).await;
    assert!(red.contains("1 thing needs you") && !red.contains("All is well"), "{red}");
    assert!(red.contains("The loop heartbeat of mailer has stopped"), "{red}");
    assert!(red.contains("This server") && red.contains("1 not well"), "its checks are there: {red}");
}

#[tokio::test(start_paused = true)]
async fn duties_that_nobody_leads_need_somebody() {
    // L17
    let stage = stage().await;
    let visitor = Visitor::with(&stage, &whole_token(&stage).await).await;
    assert!(overview(&visitor).await.contains("All is well"), "a store that is new has a moment");
    tokio::time::advance(Duration::from_secs(3_600)).await;
    overview(&visitor).await;
    let red = overview(&visitor).await;
    assert!(red.contains("Nobody does the maintenance") && red.contains("rescue"), "{red}");
}

#[tokio::test(start_paused = true)]
async fn jobs_that_fail_and_are_tried_again_are_told_of() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let job = json!({ "kind": "charge", "max_retries": 5 });
    failed(&stage, &all, job, ("the bank is down", "Down", "error")).await;
    let page = overview(&visitor).await;
    assert!(page.contains("1 thing to know of") && !page.contains("All is well"), "{page}");
    assert!(page.contains("the bank is down") && page.contains("none of its jobs is dead"), "{page}");
    tokio::time::advance(Duration::from_secs(301)).await;
    let later = overview(&visitor).await;
    assert!(!later.contains("none of its jobs is dead"), "it failed long ago: {later}");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_without_an_incident_are_told_of_too() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let engine = stage.api.engine();
    let soon = engine.store().now().await.unwrap().after(Duration::from_secs(1));
    let job = json!({ "kind": "late", "expires_at": soon }).to_string();
    assert_eq!(stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.status, 201);
    tokio::time::advance(Duration::from_secs(5)).await;
    engine.maintain(backstop::worker_id(), Duration::from_secs(15)).await.unwrap();
    let dead = stage.call("GET", "/api/v1/dead-letters", Some(&all)).await.json();
    assert_eq!(dead["items"][0]["terminal_reason"], "expired", "{dead}");
    let page = overview(&visitor).await;
    assert!(page.contains("1 dead letter without an incident"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_see_incidents_is_told_of_dead_letters_all_the_same() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    dead_letter(&stage, &all, json!({ "kind": "charge", "queue": "pay", "max_retries": 0 }), "no", "No")
        .await;
    let queues = Some(vec!["pay".to_owned()]);
    let bound = stage.make(TokenRequest { queues, ..wish("bound", &[Scope::Read]) }).await;
    let page = overview(&Visitor::with(&stage, &bound).await).await;
    assert!(!page.contains("All is well") && page.contains("1 dead letter<"), "{page}");
}
