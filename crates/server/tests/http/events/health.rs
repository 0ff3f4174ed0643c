//! Alive, and ready: the store, and the loops of the workers (H2, H11).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop::{Backstop, Config, Health, LoopHealth};
use backstop_server::Settings;
use backstop_testing::{CrashAt, TestEngine};
use serde_json::json;

use crate::harness::Harness;

fn health(ok: bool) -> Health {
    let age_ms = if ok { 10 } else { 90_000 };
    let one = LoopHealth { name: "heartbeat", ok, age_ms, deadline_ms: 60_000, restarts: 3 };
    Health { ready: ok, loops: vec![one] }
}

#[tokio::test]
async fn readiness_shows_the_last_result_of_every_check() {
    // H2
    let harness = Harness::new().await;
    harness.api.watch("worker", || Some(health(true)));
    let ready = harness.get("/health/ready").await.ok();
    assert_eq!(ready["status"], "ready");
    assert_eq!((&ready["checks"][0]["name"], &ready["checks"][0]["ok"]), (&json!("store"), &json!(true)));
    let of_loop = json!({ "name": "worker/heartbeat", "ok": true, "age_ms": 10, "deadline_ms": 60_000,
        "took_ms": null, "restarts": 3, "problem": null });
    assert_eq!(ready["checks"][1], of_loop);
}

#[tokio::test]
async fn a_silent_loop_turns_readiness_red_and_a_worker_that_stopped_does_not() {
    // H2 H11
    let harness = Harness::new().await;
    let (ok, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let (look_ok, look_runs) = (ok.clone(), runs.clone());
    harness.api.watch("worker", move || {
        look_runs.load(Ordering::SeqCst).then(|| health(look_ok.load(Ordering::SeqCst)))
    });
    let red = harness.get("/health/ready").await;
    assert_eq!((red.status.as_u16(), red.code().as_str()), (503, "not_ready"));
    assert_eq!(red.json()["error"]["details"]["checks"][1]["problem"], "silent");
    let message = red.json()["error"]["message"].to_string();
    assert!(message.contains("worker/") && message.contains("(not heard of in time)"), "{message}");
    ok.store(true, Ordering::SeqCst);
    assert_eq!(harness.get("/health/ready").await.status, 200);
    ok.store(false, Ordering::SeqCst);
    runs.store(false, Ordering::SeqCst);
    assert_eq!(harness.get("/health/ready").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_turns_readiness_red_and_life_goes_on() {
    // H2
    let test = TestEngine::new();
    let store = Arc::new(CrashAt::new(test.store(), 3));
    let harness = Harness::of(Backstop::on(store.clone(), Config::default()), Settings::default());
    for _ in 0..100 {
        assert_eq!(harness.get("/health/ready").await.status, 200);
    }
    assert_eq!(store.calls(), 1, "asking often costs no more than asking once");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(harness.get("/health/ready").await.status, 200);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let red = harness.get("/health/ready").await;
    assert_eq!((red.status.as_u16(), red.code().as_str()), (503, "not_ready"));
    let check = &red.json()["error"]["details"]["checks"][0];
    assert_eq!((&check["ok"], &check["problem"]), (&json!(false), &json!("store_unavailable")), "{check}");
    assert!(!red.text.contains("died"), "no word of the driver: {}", red.text);
    let calls = store.calls();
    assert_eq!(harness.get("/health/live").await.ok(), json!({ "status": "live" }));
    assert_eq!(store.calls(), calls, "life asks nobody");
}
