//! What happened is told where one looks for it: events of a job, results of a schedule, messages to webhooks.

use std::time::Duration;

use serde_json::json;

use super::escaping::is_clean;
use super::{Visitor, failed, stage, whole_token};

const HOSTILE: &str = "<script>run()</script>";

#[tokio::test(start_paused = true)]
async fn the_events_of_a_job_are_read_from_its_ledger() {
    // F20
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let job = json!({ "kind": "charge", "max_retries": 3 });
    failed(&stage, &all, job, ("no", "No", "error")).await;
    let jobs = stage.call("GET", "/api/v1/jobs", Some(&all)).await.json();
    let path = format!("/jobs/{}", jobs["items"][0]["id"].as_str().unwrap());
    let page = visitor.get(&path).await.text;
    assert!(page.contains("3 events"), "submitted, started, ended: {page}");
    let (_, events) = page.split_once("data-live=\"job-events\"").unwrap();
    let places = ["run 1 ended: <b>error</b>", "charged; tried again after", "run 1 started", "submitted"];
    let places = places.map(|text| events.find(text).unwrap_or_else(|| panic!("{text}: {events}")));
    assert!(places.is_sorted(), "the latest is first: {events}");
    let cancel = stage.call_with("POST", &format!("/api/v1{path}/cancel"), Some(&all), "{}").await;
    assert_eq!(cancel.status, 200, "{}", cancel.text);
    tokio::time::advance(Duration::from_secs(3)).await;
    let page = visitor.get(&path).await.text;
    assert!(
        page.contains("4 events") && page.contains("canceled"),
        "an end without a run is told too: {page}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_results_of_a_schedule_stand_on_its_page() {
    // W11
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let hourly = json!({ "every_ms": 3_600_000, "kind": HOSTILE, "max_retries": 0 }).to_string();
    let made = stage.call_with("PUT", "/api/v1/schedules/hourly", Some(&all), &hourly).await;
    assert!(made.status.is_success(), "{}", made.text);
    assert!(visitor.get("/schedules").await.text.contains("href=\"/schedules/hourly\""));
    let page = visitor.get("/schedules/hourly").await.text;
    assert!(page.contains("No job of it is among") && page.contains("schedule.run"), "{page}");
    assert_eq!(stage.call("POST", "/api/v1/schedules/hourly/run", Some(&all)).await.status, 200);
    // It takes the oldest one, which is that of the schedule; the other is of its kind and not of it.
    failed(&stage, &all, json!({ "kind": HOSTILE }), (HOSTILE, "No", "permanent")).await;
    tokio::time::advance(Duration::from_secs(3)).await;
    let page = visitor.get("/schedules/hourly").await.text;
    assert!(page.contains("Of the last 1 job, 0 succeeded and 1 failed"), "{page}");
    assert_eq!(page.matches("<rect class=\"bad\"").count(), 1, "{page}");
    assert_eq!(is_clean(&page), Ok(()), "{page}");
    assert_eq!(visitor.get("/schedules/nobody").await.status, 404);
    let gone = visitor.act("schedule.delete", &[("at.name", "hourly")]).await;
    assert_eq!(gone.headers["location"], "/schedules?done=schedule.delete", "its page is gone too");
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_to_webhooks_is_listed_with_its_outcome() {
    // V2
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    assert!(visitor.get("/webhooks").await.text.contains("No message was sent yet."));
    let message = json!({ "type": "backstop.event.failed", "data": { "note": HOSTILE } });
    let sent = json!({ "webhook": HOSTILE, "id": "msg_1", "message": message }).to_string();
    stage.api.engine().enqueue_raw("backstop.webhook", sent).queue("hooks").submit().await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;
    let page = visitor.get("/webhooks").await.text;
    let (_, row) = page.split_once("data-rows=\"deliveries\"").unwrap_or_else(|| panic!("{page}"));
    assert!(row.contains("<td>failed</td>") && row.contains("pending"), "{row}");
    assert!(row.contains("&lt;script&gt;run()"), "whom it was for, when that is gone: {row}");
    assert_eq!(is_clean(&page), Ok(()), "{page}");
}
