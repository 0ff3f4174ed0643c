//! `/api/v1/limits`.

use axum::http::Method;
use backstop_server::Scope;
use serde_json::json;

use super::{holder, played, refused, send_as};

const LIMITS: &str = "/api/v1/limits";

#[tokio::test]
async fn a_limit_is_set_listed_changed_and_deleted() {
    // H5
    let harness = played(&["well"]).await;
    let path = format!("{LIMITS}/partner");
    let body = json!({ "kind": "call", "concurrency": 5, "rate": { "count": 100, "per_ms": 60_000 } });
    let set = harness.json(Method::PUT, &path, body.clone()).await.ok();
    assert_eq!((&set["name"], &set["by"], &set["in_use"]), (&json!("partner"), &json!("all"), &json!(0)));
    assert_eq!((&set["rate"], &set["concurrency"]), (&body["rate"], &json!(5)));
    assert!(set["next_start"].is_string(), "it lets jobs start: {set}");
    harness.json(Method::PUT, &path, json!({ "by": "all", "queue": "mail", "concurrency": 1 })).await.ok();
    harness.json(Method::PUT, &format!("{LIMITS}/all"), json!({ "concurrency": 9 })).await.ok();
    let listed = harness.get(LIMITS).await.ok();
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["all", "partner"]);
    assert_eq!((&listed["items"][1]["queue"], listed["items"][1].get("rate")), (&json!("mail"), None));
    let page = harness.get(&format!("{LIMITS}?limit=1")).await.ok();
    assert_eq!((&page["items"][0]["name"], &page["next_cursor"]), (&json!("all"), &json!("all")));
    let gone = harness.json(Method::DELETE, &path, json!({})).await.ok();
    assert_eq!(gone["name"], "partner");
    refused(&harness.json(Method::DELETE, &path, json!({})).await, 404, "no_such_limit", None);
}

#[tokio::test]
async fn a_job_that_a_limit_keeps_back_says_so() {
    // H5, F20
    let harness = played(&[]).await;
    let day = json!({ "count": 1, "per_ms": 86_400_000 });
    harness
        .json(Method::PUT, &format!("{LIMITS}/slow"), json!({ "queue": "default", "rate": day }))
        .await
        .ok();
    let engine = harness.engine();
    let job = async || engine.enqueue_raw("play", r#"{"ends":"well"}"#).submit().await.unwrap().id;
    let (_, second) = (job().await, job().await);
    let worker = engine.worker(()).register::<super::Play>().queue("default", 1).inline().unwrap();
    assert!(worker.run_next().await.unwrap().is_some());
    let seen = harness.get(&format!("/api/v1/jobs/{second}")).await.ok();
    assert_eq!((&seen["status"], &seen["waiting_for"]["reason"]), (&json!("waiting"), &json!("rate")));
    assert_eq!(seen["waiting_for"]["key"], "slow");
    assert!(seen["waiting_for"]["until"].is_string());
    let listed = harness.get("/api/v1/jobs").await.ok();
    assert_eq!(listed["items"][0]["status"], "waiting", "newest first");
    let limit = &harness.get(LIMITS).await.ok()["items"][0];
    assert_eq!((&limit["parked"], &limit["next_start"]), (&json!(1), &seen["waiting_for"]["until"]));
}

#[tokio::test]
async fn a_limit_that_cannot_be_meant_is_refused() {
    // H5
    let harness = played(&[]).await;
    let table = [
        (json!({}), "limit"),
        (json!({ "concurrency": 0 }), "concurrency"),
        (json!({ "concurrency": 1_000_001 }), "concurrency"),
        (json!({ "rate": { "count": 1_000_001, "per_ms": 1000 } }), "rate"),
        (json!({ "rate": { "count": 0, "per_ms": 1000 } }), "rate"),
        (json!({ "rate": { "count": 1, "per_ms": 0 } }), "rate"),
        (json!({ "queue": "", "concurrency": 1 }), "queue"),
        (json!({ "kind": "k".repeat(129), "concurrency": 1 }), "kind"),
    ];
    for (body, field) in table {
        let answer = harness.json(Method::PUT, &format!("{LIMITS}/x"), body.clone()).await;
        assert_eq!(answer.status.as_u16(), 422, "{body}: {}", answer.text);
        assert_eq!(answer.json()["error"]["details"]["field"], field, "{body}: {}", answer.text);
    }
    for body in [json!({ "by": "colour", "concurrency": 1 }), json!({ "concurency": 1 }), json!([1])] {
        let answer = harness.json(Method::PUT, &format!("{LIMITS}/x"), body.clone()).await;
        assert_eq!(answer.status.as_u16(), 422, "{body}: {}", answer.text);
    }
    assert_eq!(harness.get(LIMITS).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_limit_is_about_everybodys_jobs() {
    // E13, H5: who sees some queues only neither sees nor sets it.
    let harness = played(&[]).await;
    let body = || Some(json!({ "concurrency": 1 }));
    let all = [Scope::Read, Scope::Operate, Scope::Submit, Scope::Work];
    for caller in [holder(&all, Some("acme"), None), holder(&all, None, Some(&["mail"]))] {
        refused(&send_as(&harness, &caller, "GET", LIMITS, None).await, 403, "forbidden", None);
        let path = format!("{LIMITS}/x");
        refused(&send_as(&harness, &caller, "PUT", &path, body()).await, 403, "forbidden", None);
        refused(&send_as(&harness, &caller, "DELETE", &path, None).await, 403, "forbidden", None);
    }
    let reader = holder(&[Scope::Read], None, None);
    refused(&send_as(&harness, &reader, "PUT", &format!("{LIMITS}/x"), body()).await, 403, "forbidden", None);
    assert_eq!(send_as(&harness, &reader, "GET", LIMITS, None).await.status.as_u16(), 200);
}

#[tokio::test]
async fn keys_names_and_pools_are_said_over_http() {
    // H5, H6, H7
    let harness = played(&[]).await;
    let by_key = json!({ "by": "key", "concurrency": 1, "weights": { "acme": 3 } });
    let set = harness.json(Method::PUT, &format!("{LIMITS}/customer"), by_key).await.ok();
    assert_eq!((&set["by"], &set["weights"]["acme"], set.get("parked")), (&json!("key"), &json!(3), None));
    let pool = harness.json(Method::PUT, &format!("{LIMITS}/cards"), json!({ "permits": 2 })).await.ok();
    assert_eq!((&pool["permits"], &pool["in_use"]), (&json!(2), &json!(0)));
    let job = json!({
        "kind": "play",
        "payload": { "ends": "well" },
        "limit_key": "acme",
        "single_instance": "nightly",
        "permits": { "cards": 2 },
        "max_deferral_ms": 60_000,
    });
    let submitted = harness.json(Method::POST, "/api/v1/jobs", job).await.ok();
    let seen = harness.get(&format!("/api/v1/jobs/{}", submitted["id"].as_str().unwrap())).await.ok();
    assert_eq!((&seen["limit_key"], &seen["single_instance"]), (&json!("acme"), &json!("nightly")));
    assert_eq!(
        (&seen["permits"], &seen["policy"]["max_deferral_ms"]),
        (&json!({ "cards": 2 }), &json!(60_000))
    );
    assert!(seen["expires_at"].is_string(), "it may not be deferred for ever");
    let lost = json!({ "kind": "play", "payload": { "ends": "well" }, "permits": { "typo": 1 } });
    let lost = harness.json(Method::POST, "/api/v1/jobs", lost).await.ok();
    let seen = harness.get(&format!("/api/v1/jobs/{}", lost["id"].as_str().unwrap())).await.ok();
    assert_eq!((&seen["status"], &seen["waiting_for"]["reason"]), (&json!("waiting"), &json!("permits")));
    let zero = json!({ "kind": "play", "payload": {}, "permits": { "cards": 0 } });
    refused(&harness.json(Method::POST, "/api/v1/jobs", zero).await, 422, "invalid", None);
    let both = json!({ "kind": "play", "payload": {}, "limit_key": "a", "ordering_key": "b" });
    refused(&harness.json(Method::POST, "/api/v1/jobs", both).await, 422, "invalid", None);
}
