//! `/api/v1/schedules`.

use std::time::Duration;

use axum::http::Method;
use backstop::schedules::{ScheduleOwner, ScheduleSettings};
use backstop_server::Scope;
use serde_json::json;

use super::{holder, played, refused, send_as};

const SCHEDULES: &str = "/api/v1/schedules";

#[tokio::test]
async fn a_schedule_is_set_listed_paused_run_and_deleted() {
    // W11
    let harness = played(&[]).await;
    let path = format!("{SCHEDULES}/nightly");
    refused(&harness.get(&path).await, 404, "no_such_schedule", None);
    let body = json!({ "cron": "30 2 * * MON-FRI", "time_zone": "Europe/Berlin", "kind": "play",
        "payload": { "ends": "well" }, "queue": "lab", "priority": "high", "misfire": { "catch_up": 3 },
        "overlap": "queue", "tags": ["night"], "expires_in_ms": 3_600_000 });
    let set = harness.json(Method::PUT, &path, body.clone()).await.ok();
    for field in ["cron", "time_zone", "kind", "queue", "misfire", "overlap"] {
        assert_eq!(set[field], body[field], "{field}");
    }
    assert_eq!(
        (&set["name"], &set["owner"], &set["paused"]),
        (&json!("nightly"), &json!("api"), &json!(false))
    );
    assert_eq!(set["next"].as_array().map(Vec::len), Some(5), "{set}");
    assert!(set.get("payload").is_none(), "what is to be done is not shown");
    assert_eq!(harness.get(&path).await.ok(), set);
    harness
        .json(Method::PUT, &format!("{SCHEDULES}/often"), json!({ "every_ms": 1000, "kind": "play" }))
        .await
        .ok();
    let listed = harness.get(&format!("{SCHEDULES}?limit=1")).await.ok();
    assert_eq!((&listed["items"], &listed["next_cursor"]), (&json!([set]), &json!("nightly")));
    let paused = harness.post(&format!("{path}/pause"), json!({ "by": "ann" })).await.ok();
    assert_eq!(paused["paused"], true);
    assert!(paused["paused_by"].as_str().unwrap().contains("ann"), "{paused}");
    assert_eq!(harness.post(&format!("{path}/resume"), json!({})).await.ok()["paused"], false);
    let ran = harness.post(&format!("{path}/run"), json!({})).await.ok();
    let job = harness.get(&format!("/api/v1/jobs/{}", ran["id"].as_str().unwrap())).await.ok();
    assert_eq!((&job["schedule"]["name"], &job["queue"]), (&json!("nightly"), &json!("lab")));
    assert!(job["schedule"]["fire_time"].is_string() && job["expires_at"].is_string(), "{job}");
    let claim = json!({ "worker": "w", "queues": ["lab"], "kinds": ["play"], "lease_ms": 30_000 });
    let claimed = harness.post("/api/v1/work/claim", claim).await.ok();
    assert_eq!(claimed["jobs"][0]["schedule"], job["schedule"], "remote workers know it too: {claimed}");
    let range = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-07T00:00:00Z" });
    let filled = harness.post(&format!("{path}/backfill"), range.clone()).await.ok();
    assert_eq!(filled, json!({ "submitted": 4, "known": 0, "skipped": 0 }), "two days of it are a weekend");
    let again = harness.post(&format!("{path}/backfill"), range).await.ok();
    assert_eq!(again, json!({ "submitted": 0, "known": 4, "skipped": 0 }));
    assert_eq!(harness.json(Method::DELETE, &path, json!({})).await.ok()["name"], "nightly");
    refused(&harness.json(Method::DELETE, &path, json!({})).await, 404, "no_such_schedule", None);
    for verb in ["pause", "resume", "run"] {
        refused(&harness.post(&format!("{path}/{verb}"), json!({})).await, 404, "no_such_schedule", None);
    }
}

#[tokio::test]
async fn what_a_job_may_say_a_schedule_may_say_of_its_jobs() {
    // W11, H3, H5, H6, H7
    let harness = played(&[]).await;
    let path = format!("{SCHEDULES}/nightly");
    let body = json!({ "every_ms": 60_000, "kind": "play", "limit_key": "l", "single_instance": "s",
        "permits": { "licences": 2 }, "max_deferral_ms": 5_000, "dependency": "d", "business_key": "b",
        "max_wait_ms": 9_000 });
    harness.json(Method::PUT, &path, body).await.ok();
    let ran = harness.post(&format!("{path}/run"), json!({})).await.ok();
    let id = ran["id"].as_str().unwrap().parse().unwrap();
    let job = harness.engine().job(id).await.unwrap().unwrap().view.job;
    let (spec, needs) = (&job.spec, job.spec.needs.clone().unwrap());
    assert_eq!((needs.limit_key.as_deref(), needs.single_instance.as_deref()), (Some("l"), Some("s")));
    assert_eq!(needs.permits.iter().map(|(pool, count)| (&**pool, *count)).next(), Some(("licences", 2)));
    assert_eq!((spec.dependency.as_deref(), spec.business_key.as_deref()), (Some("d"), Some("b")));
    let spans = (spec.policy.max_deferral, spec.policy.max_wait);
    assert_eq!(spans, (Some(Duration::from_secs(5)), Some(Duration::from_secs(9))));
}

#[tokio::test]
async fn a_set_that_keeps_changes_what_it_names_and_nothing_else() {
    // W11
    let harness = played(&[]).await;
    let (path, keep) = (format!("{SCHEDULES}/nightly"), format!("{SCHEDULES}/nightly?keep=true"));
    let stands = async || harness.engine().schedules().get("nightly").await.unwrap().unwrap().schedule;
    let nothing = harness.json(Method::PUT, &keep, json!({ "cron": "@daily" })).await;
    assert_eq!(nothing.status.as_u16(), 422, "there is nothing to keep: {}", nothing.text);
    assert!(nothing.text.contains("kind"), "{}", nothing.text);
    let whole = json!({ "cron": "30 2 * * MON-FRI", "time_zone": "Europe/Berlin", "misfire": { "catch_up": 3 },
        "overlap": "queue", "kind": "play", "payload": { "ends": "well", "cents": 1 }, "queue": "lab",
        "priority": "low", "version": 2, "delay_ms": 5_000, "expires_in_ms": 3_600_000, "max_retries": 7,
        "max_crashes": 3, "timeout_ms": 60_000, "max_wait_ms": 9_000, "business_key": "b",
        "backoff": { "policy": "linear", "base_ms": 40, "cap_ms": 4_000, "jitter": "20%" }, "limit_key": "l",
        "single_instance": "s", "permits": { "licences": 2 }, "max_deferral_ms": 5_000, "dependency": "d",
        "on_conflict": "skip", "tags": ["night", "dark"], "params": { "region": "eu" }, "correlation_id": "c",
        "on_success": { "kind": "play", "payload": [1], "queue": "lab", "version": 3 },
        "on_failure": { "kind": "play" } });
    harness.json(Method::PUT, &keep, whole).await.ok();
    let before = stands().await;
    harness.json(Method::PUT, &keep, json!({})).await.ok();
    assert_eq!(stands().await, before, "nothing was named");

    let more = json!({ "priority": "high", "backoff": { "base_ms": 70 }, "payload": { "ends": "badly" } });
    harness.json(Method::PUT, &keep, more).await.ok();
    let mut expected = before;
    expected.job.spec.priority = backstop::Priority::High;
    expected.job.spec.policy.backoff.base = Duration::from_millis(70);
    expected.job.spec.payload = r#"{"ends":"badly"}"#.into();
    assert_eq!(stands().await, expected, "of an object no part is kept, but of the backoff");

    let less = json!({ "every_ms": 60_000, "limit_key": null, "on_failure": null, "tags": [] });
    let set = harness.json(Method::PUT, &keep, less).await.ok();
    assert_eq!((&set["every_ms"], &set["cron"]), (&json!(60_000), &json!(null)), "{set}");
    expected.timing = backstop::schedules::Timing::every(Duration::from_secs(60));
    expected.job.spec.needs.as_mut().unwrap().limit_key = None;
    (expected.job.spec.on_failure, expected.job.spec.tags) = (None, Vec::new());
    assert_eq!(stands().await, expected);

    for wrong in [json!({ "nmae": null }), json!({ "kind": null }), json!({ "priority": "odd" }), json!([1])]
    {
        let answer = harness.json(Method::PUT, &keep, wrong.clone()).await;
        assert_eq!(answer.status.as_u16(), 422, "{wrong}: {}", answer.text);
    }
    assert_eq!(stands().await, expected);
    harness.json(Method::PUT, &path, json!({ "cron": "@daily", "kind": "play" })).await.ok();
    let replaced = stands().await.job.spec;
    assert_eq!((replaced.business_key, replaced.needs, &*replaced.queue), (None, None, "default"));
}

#[tokio::test]
async fn what_a_program_declares_is_not_changed_over_http() {
    // W11
    let harness = played(&[]).await;
    let engine = harness.engine();
    let entry = (ScheduleSettings::cron("@daily"), engine.enqueue_raw("play", "{}"));
    engine.schedules().declare(ScheduleOwner::Code("billing".into()), [("bills", entry)]).await.unwrap();
    let path = format!("{SCHEDULES}/bills");
    let seen = harness.get(&path).await.ok();
    assert_eq!((&seen["owner"], &seen["program"]), (&json!("code"), &json!("billing")));
    let put = harness.json(Method::PUT, &path, json!({ "cron": "@hourly", "kind": "play" })).await;
    refused(&put, 409, "schedule_declared", None);
    let over = harness.json(Method::PUT, &format!("{path}?keep=true"), json!({ "priority": "high" })).await;
    refused(&over, 409, "schedule_declared", None);
    refused(&harness.json(Method::DELETE, &path, json!({})).await, 409, "schedule_declared", None);
    assert_eq!(harness.post(&format!("{path}/pause"), json!({})).await.ok()["paused"], true, "anybody may");
    harness.json(Method::DELETE, &format!("{path}?force=true"), json!({})).await.ok();
    assert_eq!(harness.get(SCHEDULES).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_schedule_that_cannot_be_meant_is_refused() {
    // W11
    let harness = played(&[]).await;
    let path = format!("{SCHEDULES}/odd");
    for (body, field) in [
        (json!({ "cron": "@daily" }), "kind"),
        (json!({ "kind": "play" }), "cron"),
        (json!({ "kind": "play", "cron": "99 * * * *" }), "cron"),
        (json!({ "kind": "play", "cron": "0 0 30 2 *" }), "cron"),
        (json!({ "kind": "play", "cron": "@daily", "time_zone": "Nowhere" }), "time_zone"),
        (json!({ "kind": "play", "every_ms": 999 }), "every_ms"),
        (json!({ "kind": "play", "every_ms": 5000, "cron": "@daily" }), "every_ms"),
        (json!({ "kind": "play", "cron": "@daily", "misfire": { "catch_up": 0 } }), "misfire"),
        (json!({ "kind": "play", "cron": "@daily", "overlap": "maybe" }), "overlap"),
        (json!({ "kind": "play", "cron": "@daily", "run_at": "2026-01-01T00:00:00Z" }), "run_at"),
        (json!({ "kind": "play", "cron": "@daily", "idempotency_key": "k" }), "idempotency_key"),
    ] {
        let answer = harness.json(Method::PUT, &path, body.clone()).await;
        assert_eq!(answer.status.as_u16(), 422, "{body}: {}", answer.text);
        assert!(answer.text.contains(field), "{body}: {}", answer.text);
    }
    let body = json!({ "kind": "play", "cron": "@daily" });
    let slash = harness.json(Method::PUT, &format!("{SCHEDULES}/a%2Fb"), body.clone()).await;
    assert_eq!(slash.status.as_u16(), 422, "{}", slash.text);
    harness.json(Method::PUT, &path, body).await.ok();
    for range in [
        json!({ "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z" }),
        json!({ "from": "2026-01-02T00:00:00Z", "to": "2999-01-01T00:00:00Z" }),
        json!({ "from": "1926-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z" }),
        json!({ "from": "yesterday", "to": "2026-01-01T00:00:00Z" }),
    ] {
        let answer = harness.post(&format!("{path}/backfill"), range.clone()).await;
        assert_eq!(answer.status.as_u16(), 422, "{range}: {}", answer.text);
    }
}

#[tokio::test]
async fn nobody_takes_the_key_of_a_coming_fire() {
    // W11, L10
    let harness = played(&[]).await;
    let key = "backstop.schedule/night/2026-01-01T00:00:00Z";
    let job = json!({ "kind": "play", "payload": {}, "idempotency_key": key });
    refused(&harness.json(Method::POST, "/api/v1/jobs", job).await, 422, "reserved_name", None);
}

#[tokio::test]
async fn a_schedule_is_about_everybodys_jobs() {
    // E13, W11
    let harness = played(&[]).await;
    let all = [Scope::Read, Scope::Operate, Scope::Submit, Scope::Work];
    let body = json!({ "kind": "play", "cron": "@daily" });
    let path = format!("{SCHEDULES}/night");
    for caller in [holder(&all, Some("acme"), None), holder(&all, None, Some(&["mail"]))] {
        refused(&send_as(&harness, &caller, "GET", SCHEDULES, None).await, 403, "forbidden", None);
        refused(&send_as(&harness, &caller, "PUT", &path, Some(body.clone())).await, 403, "forbidden", None);
    }
    let reader = holder(&[Scope::Read, Scope::Submit], None, None);
    assert_eq!(send_as(&harness, &reader, "GET", SCHEDULES, None).await.status.as_u16(), 200);
    refused(&send_as(&harness, &reader, "PUT", &path, Some(body)).await, 403, "forbidden", None);
}
