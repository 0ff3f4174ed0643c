//! `POST /api/v1/jobs` and `/api/v1/jobs/batch`.

use axum::body::Body;
use axum::http::Request;
use backstop::{Backoff, Config, JobId, Policy, QueueConfig};
use backstop_server::{Scope, ServerSettings};
use serde_json::{Value, json};
use std::time::Duration;

use super::holder;
use crate::harness::Harness;

#[tokio::test]
async fn every_field_of_a_submit_arrives() {
    let harness = Harness::new().await;
    let answer = harness
        .post(
            "/api/v1/jobs",
            json!({
                "kind": "mail", "payload": {"to": "ada"}, "queue": "letters", "priority": "high", "version": 3,
                "delay_ms": 3_600_000, "expires_at": "2999-01-01T00:00:00Z", "max_retries": 7, "max_crashes": 2,
                "backoff": {"policy": "linear", "base_ms": 250, "cap_ms": 2000, "jitter": "20%"},
                "timeout_ms": 1500, "max_wait_ms": 60000, "idempotency_key": "k1", "business_key": "b1",
                "on_conflict": "skip", "tags": ["a", "b"], "params": {"n": 3}, "correlation_id": "c1",
                "on_success": {"kind": "done", "queue": "after", "payload": [1], "version": 2},
                "on_failure": {"kind": "undo"},
            }),
        )
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let stored = answer.json();
    assert_eq!((&stored["status"], &stored["deduplicated"]), (&json!("pending"), &json!(false)));
    let id: JobId = stored["id"].as_str().unwrap().parse().unwrap();
    let spec = harness.engine().job(id).await.unwrap().unwrap().view.job.spec;
    assert_eq!((&*spec.kind, &*spec.payload, &*spec.queue), ("mail", r#"{"to":"ada"}"#, "letters"));
    assert_eq!((spec.priority.level(), spec.version, spec.policy.max_crashes), (3, 3, 2));
    let (done, undo) = (spec.on_success.unwrap(), spec.on_failure.unwrap());
    assert_eq!((&*done.kind, done.version, &*done.queue, &*done.payload), ("done", 2, "after", "[1]"));
    assert_eq!((&*undo.kind, undo.version, &*undo.queue, &*undo.payload), ("undo", 1, "default", "{}"));
    let shown = harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    let backoff = json!({ "policy": "linear", "base_ms": 250, "cap_ms": 2000, "jitter": "20%" });
    assert_eq!(shown["policy"]["backoff"], backoff);
    for (field, value) in [
        ("max_retries", json!(7)),
        ("idempotency_key", json!("k1")),
        ("business_key", json!("b1")),
        ("tags", json!(["a", "b"])),
        ("params", json!({"n": 3})),
        ("correlation_id", json!("c1")),
        ("payload", json!({"to": "ada"})),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
}

#[tokio::test]
async fn a_payload_is_kept_as_it_was_written() {
    let harness = Harness::new().await;
    for payload in ["null", "1e400", "{\"b\": 1,\"a\" :12345678901234567890123}", "\"\\u00e9\"", "[ ]"] {
        let body = format!(r#"{{"kind":"mail","payload":{payload}}}"#);
        let request = Request::post("/api/v1/jobs").header("content-type", "application/json");
        let stored = harness.send(request.body(Body::from(body)).unwrap()).await.ok();
        let id: JobId = stored["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(&*harness.engine().job(id).await.unwrap().unwrap().view.job.spec.payload, payload);
    }
    let stored = harness.post("/api/v1/jobs", json!({ "kind": "mail" })).await.ok();
    let id: JobId = stored["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(&*harness.engine().job(id).await.unwrap().unwrap().view.job.spec.payload, "{}");
}

#[tokio::test]
async fn a_key_answers_with_the_first_job_also_by_its_header() {
    // L10
    let harness = Harness::new().await;
    let send = async |header: &str, body: Value| {
        let request = Request::post("/api/v1/jobs").header("content-type", "application/json");
        let request = request.header("idempotency-key", header).body(Body::from(body.to_string()));
        harness.send(request.unwrap()).await
    };
    let first = send("k", json!({ "kind": "mail" })).await;
    let again = send("k", json!({ "kind": "mail" })).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
    assert_eq!((&again.json()["id"], &again.json()["deduplicated"]), (&first.json()["id"], &json!(true)));
    // The body's own key goes before the header's.
    let other = send("k", json!({ "kind": "mail", "idempotency_key": "other" })).await;
    assert_eq!(other.status, 201);
}

#[tokio::test]
async fn refusals_name_the_field_and_the_holder() {
    // L11, L12, L22, E11
    let harness = Harness::new().await;
    let submit = async |body: Value| harness.post("/api/v1/jobs", body).await;
    let holder = submit(json!({ "kind": "mail", "business_key": "b" })).await.ok()["id"].clone();
    let conflict = submit(json!({ "kind": "mail", "business_key": "b" })).await;
    assert_eq!((conflict.status.as_u16(), conflict.code()), (409, "business_key_conflict".to_owned()));
    assert_eq!(conflict.headers["content-type"], "application/json");
    let details = &conflict.json()["error"]["details"];
    assert_eq!(*details, json!({ "business_key": "b", "holder": holder, "status": "pending" }));
    let skipped = submit(json!({ "kind": "mail", "business_key": "b", "on_conflict": "skip" })).await;
    assert_eq!((skipped.status.as_u16(), &skipped.json()["id"]), (200, &holder));
    let replaced = submit(json!({ "kind": "mail", "replaces": holder })).await;
    assert_eq!(replaced.status, 201);
    assert_eq!(submit(json!({ "kind": "mail", "supersedes": holder })).await.code(), "not_replaceable");
    for (body, field) in [
        (json!({}), "kind"),
        (json!({ "kind": "" }), "kind"),
        (json!({ "kind": "mail", "payload": "x".repeat(1_100_000) }), "payload"),
        (json!({ "kind": "mail", "params": [] }), "params"),
        (json!({ "kind": "mail", "priority": 9 }), "priority"),
        (json!({ "kind": "mail", "backoff": [] }), "backoff"),
        (json!({ "kind": "mail", "backoff": {"base": 1} }), "backoff.base"),
        (json!({ "kind": "mail", "run_at": "soon" }), "run_at"),
        (json!({ "kind": "mail", "run_at": "2999-01-01T00:00:00Z", "delay_ms": 1 }), "delay_ms"),
        (json!({ "kind": "mail", "timeout_ms": 0 }), "timeout_ms"),
        (json!({ "kind": "mail", "ordering_key": "" }), "ordering_key"),
        (json!({ "kind": "mail", "ordering_key": "a\nb" }), "ordering_key"),
        (json!({ "kind": "mail", "dependency": "" }), "dependency"),
        (json!({ "kind": "mail", "dependency": "x".repeat(129) }), "dependency"),
        (json!({ "kind": "mail", "colour": "red" }), "colour"),
        (json!({ "kind": "mail", "on_success": {"queue": "x"} }), "on_success.kind"),
    ] {
        let refused = submit(body).await;
        assert_eq!(refused.status, 422, "{field}: {}", refused.text);
        assert_eq!(refused.json()["error"]["details"]["field"], field, "{}", refused.text);
    }
}

#[tokio::test]
async fn a_part_of_a_backoff_starts_from_the_configuration() {
    // F8
    let backoff = Backoff::exponential(Duration::from_secs(5), Duration::from_secs(50));
    let config = Config::default().kind("mail", Policy::default().backoff(backoff));
    let harness = Harness::with(config, ServerSettings::default()).await;
    let body = json!({ "kind": "mail", "backoff": {"base_ms": 70_000} });
    let id = harness.post("/api/v1/jobs", body).await.ok()["id"].as_str().unwrap().to_owned();
    let shown = harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    let expected = json!({ "policy": "exponential", "base_ms": 70_000, "cap_ms": 70_000, "jitter": "full" });
    assert_eq!(shown["policy"]["backoff"], expected);
}

#[tokio::test]
async fn a_batch_is_stored_as_a_whole_or_not_at_all() {
    let harness = Harness::new().await;
    let count = async || harness.get("/api/v1/jobs").await.ok()["items"].as_array().unwrap().len();
    let batch = async |body: Value| harness.post("/api/v1/jobs/batch", body).await;
    let stored = batch(json!({ "jobs": [{"kind": "a", "idempotency_key": "k"}, {"kind": "b"}] })).await;
    assert_eq!(stored.status, 201);
    assert_eq!(stored.json()["items"].as_array().unwrap().len(), 2);
    let again = batch(json!({ "jobs": [{"kind": "a", "idempotency_key": "k"}] })).await;
    assert_eq!((again.status.as_u16(), &again.json()["items"][0]["deduplicated"]), (200, &json!(true)));
    let refused = batch(json!({ "jobs": [{"kind": "c"}, {"kind": ""}, {"kind": "d"}] })).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid".to_owned()));
    assert_eq!(refused.json()["error"]["details"]["index"], 1);
    assert_eq!(count().await, 2, "nothing of it was stored");
    let partial = batch(json!({
        "jobs": [{"kind": "c"}, {"kind": ""}, {"kind": "d", "ordering_key": ""}, {"kind": "e"}], "partial": true
    }))
    .await;
    assert_eq!(partial.status, 207);
    let items = &partial.json()["items"];
    assert_eq!((&items[0]["status"], &items[3]["status"]), (&json!("pending"), &json!("pending")));
    assert_eq!(
        (&items[1]["error"]["code"], &items[2]["error"]["code"]),
        (&json!("invalid"), &json!("invalid"))
    );
    assert_eq!(count().await, 4);
    let broken = batch(json!({ "jobs": [{"kind": "c"}, {"kind": 7}] })).await;
    assert_eq!(broken.json()["error"]["details"]["field"], "jobs[1].kind");
    let many: Vec<Value> = (0..1_001).map(|_| json!({ "kind": "x" })).collect();
    assert_eq!(batch(json!({ "jobs": many })).await.code(), "invalid");
    assert_eq!(batch(json!({ "jobs": [] })).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_large_body_is_refused_and_a_large_batch_is_not() {
    // E10, L20
    let harness = Harness::new().await;
    let jobs = vec![json!({ "kind": "mail", "payload": "x".repeat(900_000) }); 5];
    let large = harness.post("/api/v1/jobs", json!({ "kind": "mail", "payload": jobs })).await;
    assert_eq!((large.status.as_u16(), large.code()), (413, "too_large".to_owned()));
    assert_eq!(harness.post("/api/v1/jobs/batch", json!({ "jobs": jobs })).await.status, 201);
}

#[tokio::test]
async fn one_bad_job_spoils_no_other_of_a_partial_batch() {
    // E11, L22
    let harness = Harness::new().await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let body = format!(
        r#"{{"partial": true, "jobs": [{{"kind": "a"}}, {{"kind": 7}}, {{"kind": "b", "params": {{"n": 1e999}}}}, {deep}, 3,
            {{"kind": "c", "max_retries": 1e999}}, {{"kind": "d"}}]}}"#
    );
    let answer = harness.post_text("/api/v1/jobs/batch", &body).await;
    assert_eq!(answer.status, 207);
    let items = answer.json()["items"].as_array().cloned().unwrap_or_default();
    let stored: Vec<bool> = items.iter().map(|item| item["id"].is_string()).collect();
    assert_eq!(stored, [true, false, false, false, false, false, true], "{items:?}");
    assert_eq!(items[1]["error"]["details"]["field"], "jobs[1].kind");
}

#[tokio::test]
async fn names_of_the_engine_are_nobody_elses() {
    // E13
    let harness = Harness::new().await;
    for job in [
        json!({ "kind": "backstop.webhook" }),
        json!({ "kind": "mail", "queue": "backstop.webhooks" }),
        json!({ "kind": "mail", "on_success": { "kind": "backstop.webhook" } }),
        json!({ "kind": "mail", "on_failure": { "kind": "mail", "queue": "backstop.webhooks" } }),
    ] {
        let answer = harness.post("/api/v1/jobs", job.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (422, "reserved_name".to_owned()), "{job}");
        let batch = harness.post("/api/v1/jobs/batch", json!({ "jobs": [job] })).await;
        assert_eq!((batch.status.as_u16(), batch.code()), (422, "reserved_name".to_owned()), "in a batch");
    }
    for (queue, kind) in [("backstop.webhooks", "mail"), ("default", "backstop.webhook")] {
        let claim = json!({ "worker": "w", "queues": [queue], "kinds": [kind] });
        let answer = harness.post("/api/v1/work/claim", claim).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (422, "reserved_name".to_owned()),
            "{queue} {kind}"
        );
    }
}

#[tokio::test]
async fn a_full_queue_answers_429_and_says_when_to_come_again() {
    // H12
    let mut config = Config::default().queue("mail", QueueConfig::default().max_depth(1));
    config.limits.max_depth_per_tenant = Some(2);
    let harness = Harness::with(config, ServerSettings::default()).await;
    let job = json!({ "kind": "send", "queue": "mail" });
    harness.post("/api/v1/jobs", job.clone()).await.ok();
    let refused = harness.post("/api/v1/jobs", job.clone()).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "queue_full".to_owned()));
    assert_eq!(refused.headers["retry-after"], "1");
    let error = &refused.json()["error"];
    assert_eq!(error["message"], "queue `mail` is full (1 waiting, the limit is 1)");
    assert_eq!(error["details"], json!({ "queue": "mail", "depth": 1, "limit": 1, "retry_after_ms": 1_000 }));
    let partial = json!({ "jobs": [job.clone(), {"kind": "send"}], "partial": true });
    let batch = harness.post("/api/v1/jobs/batch", partial).await;
    assert_eq!(
        (batch.status.as_u16(), &batch.json()["items"][0]["error"]["code"]),
        (207, &json!("queue_full"))
    );
    let acme = holder(&Scope::ALL, Some("acme"), None);
    for queue in ["a", "b"] {
        harness.post_as(&acme, "/api/v1/jobs", json!({ "kind": "send", "queue": queue })).await.ok();
    }
    let refused = harness.post_as(&acme, "/api/v1/jobs", json!({ "kind": "send", "queue": "c" })).await;
    assert_eq!(
        (refused.code(), &refused.json()["error"]["details"]["tenant"]),
        ("queue_full".to_owned(), &json!("acme"))
    );
}
