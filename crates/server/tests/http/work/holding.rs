//! Leases, heartbeats, and the rows of workers that hold or only wait.

use backstop::Cause;
use backstop_core::job::Progress;
use serde_json::{Value, json};

use super::stage::{Stage, parsed};

#[tokio::test(start_paused = true)]
async fn a_heartbeat_keeps_what_it_names_and_nothing_else() {
    // E7, L15
    let stage = Stage::new();
    let kept = stage.submit("mail", json!({})).await;
    let first = stage.claim_one().await;
    let lost = stage.submit("mail", json!({})).await;
    let forgotten = stage.claim_one().await;
    for _ in 0..6 {
        stage.pass(10).await;
        // The worker died and came back under its name: it does not know of the second job.
        let beat = stage.heartbeat(&[&first]).await;
        assert_eq!(beat["held"], json!([first["lease"]["token"]]));
        assert_eq!(beat["lost"], json!([]));
        assert!(beat["expires_at"].is_string());
    }
    assert_eq!(stage.status(&kept).await, "running");
    assert_eq!(stage.last_run(&lost).await.cause, Cause::Crash, "its predecessor's job came back");
    let beat = stage.heartbeat(&[&forgotten, &first]).await;
    assert_eq!(beat["lost"], json!([{ "lease": forgotten["lease"]["token"], "reason": "stale_lease" }]));
    assert_eq!(beat["held"], json!([first["lease"]["token"]]));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_tells_which_jobs_were_called_off() {
    // E7, L7
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    assert_eq!(stage.heartbeat(&[&job]).await["lost"], json!([]));
    stage.engine().cancel(parsed(&id), "not needed").await.unwrap();
    let beat = stage.heartbeat(&[&job]).await;
    assert_eq!(beat["lost"], json!([{ "lease": job["lease"]["token"], "reason": "canceled" }]));
    assert_eq!((&beat["held"], &beat["expires_at"]), (&json!([]), &json!(null)));
    let nonsense = json!({ "lease": { "token": "lt1.nonsense" } });
    let beat = stage.heartbeat(&[&nonsense]).await;
    assert_eq!(beat["lost"], json!([{ "lease": "lt1.nonsense", "reason": "stale_lease" }]));
}

#[tokio::test(start_paused = true)]
async fn a_lease_lasts_as_long_as_its_claim_asked_for() {
    // E7
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"], "lease_ms": 600_000 });
    let job = stage.claim(ask).await.remove(0);
    assert_eq!(job["lease"]["expires_at"], "2026-01-01T00:10:00Z");
    stage.pass(500).await;
    assert_eq!(stage.heartbeat(&[&job]).await["expires_at"], "2026-01-01T00:18:20Z");
    stage.pass(599).await;
    assert_eq!(stage.status(&id).await, "running");
    stage.pass(1).await;
    assert_eq!(stage.last_run(&id).await.cause, Cause::Crash);
}

#[tokio::test(start_paused = true)]
async fn rows_of_batches_go_with_their_last_job() {
    // E7
    let stage = Stage::new();
    for _ in 0..5 {
        stage.submit("mail", json!({})).await;
    }
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"], "limit": 3 });
    let batch = stage.claim(ask).await;
    let single = stage.claim_one().await;
    let dying = stage.claim_one().await;
    let rows = async || stage.engine().workers().await.unwrap().len();
    assert_eq!(rows().await, 4, "one for the name and one for each batch");
    let served = stage.engine().queues().list().await.unwrap();
    assert_eq!(served[0].workers, 1, "a worker counts once, however many batches it has");
    let done = json!({ "type": "succeeded" });
    stage.finish(&single, done.clone()).await;
    assert_eq!(rows().await, 3);
    stage.finish(&batch[0], done.clone()).await;
    stage.engine().cancel(parsed(batch[1]["id"].as_str().unwrap()), "x").await.unwrap();
    stage.heartbeat(&[&batch[1], &batch[2]]).await;
    assert_eq!(rows().await, 3, "one of three is still held");
    stage.finish(&batch[2], done).await;
    assert_eq!(rows().await, 2);
    // What is not finished by anybody is taken back, and its row is forgotten too.
    stage.pass(40).await;
    stage.pass(1).await;
    assert_eq!(stage.last_run(dying["id"].as_str().unwrap()).await.cause, Cause::Crash);
    let left = stage.engine().workers().await.unwrap();
    assert_eq!(
        left.iter().map(|row| row.queues.len()).collect::<Vec<_>>(),
        [1],
        "the name's row is shown for a while"
    );
    stage.pass(3_700).await;
    assert_eq!(rows().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_can_be_finished_through_another_node() {
    // E7
    let store = super::stage::store();
    let (here, there) = (Stage::on(store.clone(), Default::default()), Stage::on(store, Default::default()));
    here.submit("mail", json!({})).await;
    let job = here.claim_one().await;
    assert_eq!(there.heartbeat(&[&job]).await["held"], json!([job["lease"]["token"]]));
    assert_eq!(there.finish(&job, json!({ "type": "succeeded" })).await["status"], "succeeded");
    assert_eq!(here.engine().workers().await.unwrap().len(), 1, "only the name's row is left");
}

#[tokio::test(start_paused = true)]
async fn a_remote_worker_counts_as_somebody_who_knows_the_code() {
    // E7, H10
    let stage = Stage::new();
    let ask =
        |kind: &str| json!({ "worker": kind, "queues": ["default"], "kinds": [kind], "wait_ms": 20_000 });
    assert!(stage.claim(ask("print")).await.is_empty());
    let id = stage.submit("mail", json!({})).await;
    assert_eq!(stage.status(&id).await, "waiting", "the queue is served, and nobody knows this kind");
    let job = stage.claim(ask("mail")).await.remove(0);
    let more = stage.submit("mail", json!({})).await;
    for _ in 0..30 {
        stage.pass(10).await;
        stage.heartbeat(&[&job]).await;
        let beat = json!({ "worker": "mail", "leases": [job["lease"]["token"]] });
        stage.harness.post("/api/v1/work/heartbeat", beat).await.ok();
        assert_eq!(stage.status(&more).await, "pending", "a busy worker is still there");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_kept_while_the_lease_is_held() {
    // E7
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let said = json!({ "lease": job["lease"]["token"], "percent": 40, "note": "password=hunter2 and on" });
    stage.harness.post("/api/v1/work/progress", said.clone()).await.ok();
    let Progress { percent, note } = stage.detail(&id).await.view.record.progress.unwrap();
    assert_eq!(percent, 40);
    assert!(!note.contains("hunter2"), "{note}");
    stage.finish(&job, json!({ "type": "succeeded" })).await;
    assert_eq!(stage.harness.post("/api/v1/work/progress", said).await.code(), "stale_lease");
}

#[tokio::test(start_paused = true)]
async fn lines_are_kept_while_the_lease_is_held() {
    // E7, F11, F15
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let log = async |lines: Value| {
        let said = json!({ "lease": job["lease"]["token"], "lines": lines });
        stage.harness.post("/api/v1/work/log", said).await
    };
    log(json!(["one", "password=hunter2 and on"])).await.ok();
    log(json!([])).await.ok();
    assert_eq!(log(json!(vec!["x"; 1_001])).await.code(), "invalid");
    stage.finish(&job, json!({ "type": "interrupted", "logs": ["last"] })).await;
    assert_eq!(log(json!(["late"])).await.code(), "stale_lease");
    let output = stage.last_run(&id).await.output.unwrap();
    assert!(output.starts_with("one\n") && output.ends_with("\nlast\n"), "{output}");
    assert!(!output.contains("hunter2"), "{output}");
}
