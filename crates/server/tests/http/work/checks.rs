//! What holds before any job is handed out, as it does before every other run.

use backstop::{Cause, Config, QueueConfig};
use backstop_core::job::{Operation, PlanId};
use serde_json::json;

use super::stage::{Stage, parsed, store};

#[tokio::test(start_paused = true)]
async fn a_kind_that_its_queue_does_not_allow_is_never_handed_out() {
    // E7, E8
    let store = store();
    let id = Stage::on(store.clone(), Config::default()).submit("mail", json!({})).await;
    let strict = Config::default().queue("default", QueueConfig::default().allow(["print"]));
    let stage = Stage::on(store, strict);
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"] });
    assert!(stage.claim(ask).await.is_empty());
    assert_eq!(stage.last_run(&id).await.cause, Cause::NotAllowed);
    assert!(
        stage.engine().workers().await.unwrap().iter().all(|row| !row.queues.is_empty()),
        "no batch is left"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_that_needs_newer_code_waits_for_it() {
    // E7, D7
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let outcome = json!({ "type": "failed", "class": "permanent", "message": "a bug" });
    assert_eq!(stage.finish(&job, outcome).await["status"], "failed");
    let redrive = Operation::Redrive { plan: PlanId::from_number(1), needs: Some("2.0".into()), redrives: 0 };
    stage.engine().store().operate(vec![parsed(&id)], redrive).await.unwrap().remove(0).unwrap();
    let ask = |version: &str| {
        let kinds = ["mail"];
        json!({ "worker": "w1", "queues": ["default"], "kinds": kinds, "code_version": version, "wait_ms": 1_000 })
    };
    assert!(stage.claim(ask("1.9")).await.is_empty());
    let run = stage.last_run(&id).await;
    assert_eq!((run.cause, run.failure.map(|failure| failure.error_type)), (Cause::UnknownKind, None));
    stage.pass(5).await;
    assert_eq!(stage.claim(ask("2.0")).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_unknown_kinds_does_so_for_remote_workers_too() {
    // E7, H10
    let config = Config::default().queue("default", QueueConfig::default().fail_unknown_kind());
    let stage = Stage::on(store(), config);
    let (mail, print) = (stage.submit("mail", json!({})).await, stage.submit("print", json!({})).await);
    let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"], "limit": 5 });
    let jobs = stage.claim(ask).await;
    assert_eq!(jobs.iter().map(|job| job["id"].clone()).collect::<Vec<_>>(), [json!(mail)]);
    assert_eq!(stage.last_run(&print).await.failure.unwrap().error_type, "UnknownKind");
}
