//! Remote workers as they meet the API (E7), in paused time: the store's clock is tokio's own.

mod checks;
mod deaths;
mod dependencies;
mod effects;
mod ending;
mod failures;
mod holding;
mod predicates;
mod rejects;
mod signals;
mod stage;
mod steps;
mod tenants;
mod waiting;
mod workflows;

use serde_json::json;

use stage::Stage;

#[tokio::test(start_paused = true)]
async fn a_job_is_claimed_run_and_finished() {
    // E7
    let stage = Stage::new();
    let id = stage.submit("mail", json!({ "to": "ann" })).await;
    let claimed = stage.claim(json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"] })).await;
    assert_eq!(claimed.len(), 1);
    let job = &claimed[0];
    assert_eq!(job["id"], id);
    assert_eq!(
        (&job["kind"], &job["queue"], &job["status"]),
        (&json!("mail"), &json!("default"), &json!("running"))
    );
    assert_eq!((&job["payload"]["to"], &job["attempt"], &job["runs"]), (&json!("ann"), &json!(0), &json!(1)));
    assert_eq!(job["timeout_ms"], json!(null));
    assert_eq!(job["lease"]["fence"], job["fence"]);
    assert!(job["lease"]["token"].as_str().unwrap().starts_with("lt1."));
    assert_eq!(job["lease"]["expires_at"], "2026-01-01T00:00:30Z", "30 seconds unless told");
    let outcome = json!({ "type": "succeeded", "result": { "sent": 1 }, "logs": "hello\nthere" });
    assert_eq!(stage.finish(job, outcome).await, json!({ "ok": true, "status": "succeeded" }));
    let run = stage.last_run(&id).await;
    assert_eq!(
        (run.output.as_deref(), run.result.as_deref()),
        (Some("hello\nthere\n"), Some(r#"{"sent":1}"#))
    );
    assert!(
        stage.claim(json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"] })).await.is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn queues_are_served_in_order_and_the_limit_is_over_all() {
    // E7
    let stage = Stage::new();
    for queue in ["low", "low", "low", "high", "high"] {
        stage.engine().enqueue_raw("mail", "{}").queue(queue).submit().await.unwrap();
    }
    let ask = json!({ "worker": "w", "queues": ["high", "empty", "low"], "kinds": ["mail"], "limit": 4 });
    let queues = |jobs: &[serde_json::Value]| -> Vec<String> {
        jobs.iter().map(|job| job["queue"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(queues(&stage.claim(ask.clone()).await), ["high", "high", "low", "low"]);
    assert_eq!(queues(&stage.claim(ask).await), ["low"]);
}

#[tokio::test(start_paused = true)]
async fn kinds_and_versions_that_a_worker_does_not_know_are_left_alone() {
    // E7, H10
    let stage = Stage::new();
    stage.submit("print", json!({})).await;
    stage.engine().enqueue_raw("mail", "{}").version(2).submit().await.unwrap();
    let ask = |kinds| json!({ "worker": "w", "queues": ["default"], "kinds": kinds, "limit": 9 });
    assert!(stage.claim(ask(json!(["mail"]))).await.is_empty(), "a name stands for version 1");
    assert_eq!(stage.claim(ask(json!([{ "kind": "mail", "version": 2 }]))).await.len(), 1);
    assert_eq!(stage.claim(ask(json!(["mail", "print"]))).await.len(), 1);
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_with_the_field() {
    let harness = crate::harness::Harness::new().await;
    let good = json!({ "worker": "w", "queues": ["default"], "kinds": ["mail"] });
    let with = |field: &str, value: serde_json::Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    let table = [
        with("limit", json!(0)),
        with("limit", json!(501)),
        with("lease_ms", json!(999)),
        with("lease_ms", json!(3_600_001)),
        with("wait_ms", json!(-1)),
        with("worker", json!("")),
        with("worker", json!("a\u{7}b")),
        with("queues", json!([])),
        with("queues", json!([""])),
        with("kinds", json!([])),
        with("kinds", json!([{ "kind": "mail", "version": 0 }])),
        with("code_version", json!("")),
        with("colour", json!("red")),
    ];
    for body in table {
        let answer = harness.post("/api/v1/work/claim", body.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (422, "invalid"), "{body}");
        let field = answer.json()["error"]["details"]["field"].as_str().unwrap_or_default().to_owned();
        assert!(body.as_object().unwrap().contains_key(&field), "{body}: {field}");
    }
    let tokens = vec!["lt1.x.y"; 1_001];
    let beat = harness.post("/api/v1/work/heartbeat", json!({ "worker": "w", "leases": tokens })).await;
    assert_eq!(beat.code(), "invalid");
    let progress = json!({ "lease": "lt1.x.y", "percent": 101 });
    assert_eq!(harness.post("/api/v1/work/progress", progress).await.code(), "invalid");
    let progress = json!({ "lease": "lt1.x.y", "percent": 50 });
    assert_eq!(harness.post("/api/v1/work/progress", progress).await.code(), "stale_lease");
}
