//! Jobs that wait: their number is the whole one, and what is only the least says so.

use std::time::Duration;

use serde_json::json;

use super::{Visitor, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn a_number_of_parked_jobs_is_the_whole_one_or_says_that_it_is_the_least() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let jobs: Vec<_> = (0..151).map(|_| json!({ "kind": "charge", "ordering_key": "k" })).collect();
    let jobs = json!({ "jobs": jobs }).to_string();
    assert!(stage.call_with("POST", "/api/v1/jobs/batch", Some(&all), &jobs).await.status.is_success());
    let page = visitor.get("/parked").await.text;
    assert!(page.contains("150 jobs. What is ready"), "{page}");
    assert!(page.contains("at least 100") && page.contains("Of the newest 100 alone"), "{page}");
    assert!(page.contains("href=\"/jobs?status=waiting\""), "{page}");
    tokio::time::advance(Duration::from_secs(3)).await;
    let limit = json!({ "kind": "mail", "concurrency": 1 }).to_string();
    assert!(stage.call_with("PUT", "/api/v1/limits/mail", Some(&all), &limit).await.status.is_success());
    for _ in 0..3 {
        let job = json!({ "kind": "mail" }).to_string();
        assert_eq!(stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.status, 201);
    }
    let claim = json!({ "worker": "w", "queues": ["default"], "kinds": ["mail"], "limit": 1 }).to_string();
    stage.call_with("POST", "/api/v1/work/claim", Some(&all), &claim).await;
    let page = visitor.get("/parked").await.text;
    assert!(page.contains("Held back by") && page.contains("<td class=\"n\">2</td>"), "{page}");
}
