//! Alive, and ready: the store, and the loops of the workers (H2, H11).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop::{Backstop, Config, DependencyHealth, Health, LoopHealth, PausedHealth};
use backstop_server::ServerSettings;
use backstop_testing::{CrashAt, TestEngine};
use serde_json::{Value, json};

use crate::harness::Harness;

fn health(ok: bool) -> Health {
    let age_ms = if ok { 10 } else { 90_000 };
    let one = LoopHealth { name: "heartbeat", ok, age_ms, deadline_ms: 60_000, restarts: 3 };
    Health { ready: ok, loops: vec![one], dependencies: Vec::new(), paused: None }
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
        "took_ms": null, "restarts": 3, "since_ms": null, "required": true, "problem": null });
    assert_eq!(named(&ready, "worker/heartbeat"), of_loop);
    assert_eq!(named(&ready, "server/audit")["ok"], true, "its own tasks too");
}

#[tokio::test]
async fn readiness_shows_each_dependency_with_its_last_result_and_since_when() {
    // H1, H2, H8
    let harness = Harness::new().await;
    let red = Arc::new(AtomicBool::new(false));
    let is_red = red.clone();
    harness.api.watch("worker", move || {
        let is_red = is_red.load(Ordering::SeqCst);
        let smtp = DependencyHealth {
            name: "smtp".into(),
            ok: !is_red,
            age_ms: 20,
            since_ms: 7_000,
            problem: is_red.then_some("run_failed"),
        };
        let paused = PausedHealth { since_ms: 900, why: "20 of 20 runs failed here".into() };
        let paused = is_red.then_some(paused);
        Some(Health { ready: !is_red, loops: Vec::new(), dependencies: vec![smtp], paused })
    });
    let ready = harness.get("/health/ready").await.ok();
    let green = named(&ready, "worker/dependency/smtp");
    assert_eq!(
        (&green["ok"], &green["age_ms"], &green["since_ms"]),
        (&json!(true), &json!(20), &json!(7_000))
    );
    red.store(true, Ordering::SeqCst);
    let answer = harness.get("/health/ready").await;
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "not_ready"));
    let body = answer.json();
    let smtp = named(&body["error"]["details"], "worker/dependency/smtp");
    assert_eq!((&smtp["ok"], &smtp["problem"]), (&json!(false), &json!("run_failed")));
    let failures = named(&body["error"]["details"], "worker/failures");
    assert_eq!((&failures["problem"], &failures["since_ms"]), (&json!("far_above_others"), &json!(900)));
    let message = body["error"]["message"].as_str().expect("a message");
    assert!(message.contains("worker/dependency/smtp (a run found it unavailable)"), "{message}");
    assert!(!answer.text.contains("20 of 20"), "how often jobs fail is for those who may look");
    assert_eq!(harness.get("/health/live").await.ok(), json!({ "status": "live" }), "alive all the same");
}

/// The check of this name.
fn named(ready: &Value, name: &str) -> Value {
    let checks = ready["checks"].as_array().expect("checks");
    checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {ready}"))
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_nobody_leads_for_long_turns_readiness_red() {
    // H2, L17
    let test = TestEngine::new();
    let harness = Harness::of(test.engine().clone(), ServerSettings::default());
    let ready = harness.get("/health/ready").await.ok();
    assert_eq!(named(&ready, "duty/rescue")["ok"], true, "a store that is new has a moment");
    harness.engine().maintain(backstop::worker_id(), Duration::from_secs(15)).await.unwrap();
    for (seconds, ok) in [(14, true), (30, true), (10, false)] {
        test.advance(Duration::from_secs(seconds));
        tokio::time::advance(Duration::from_secs(6)).await;
        let answer = harness.get("/health/ready").await;
        let body = answer.json();
        let checks = if ok { &body } else { &body["error"]["details"] };
        let rescue = named(checks, "duty/rescue");
        assert_eq!(
            (&rescue["ok"], answer.status.as_u16()),
            (&json!(ok), if ok { 200 } else { 503 }),
            "{rescue}"
        );
        assert_eq!(rescue["problem"], if ok { Value::Null } else { json!("nobody_leads") });
        assert_eq!(named(checks, "duty/archive")["ok"], true, "what is done seldom is led seldom");
    }
    harness.engine().maintain(backstop::worker_id(), Duration::from_secs(15)).await.unwrap();
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(harness.get("/health/ready").await.status.as_u16(), 200, "somebody took it up");
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
    assert_eq!(named(&red.json()["error"]["details"], "worker/heartbeat")["problem"], "silent");
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
    let store = Arc::new(CrashAt::new(test.store(), 6));
    let harness = Harness::of(Backstop::on(store.clone(), Config::default()), ServerSettings::default());
    for _ in 0..100 {
        assert_eq!(harness.get("/health/ready").await.status, 200);
    }
    assert_eq!(
        store.calls(),
        4,
        "asking often costs no more than asking once: the store, who leads what, the bridges and the hand-offs"
    );
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
