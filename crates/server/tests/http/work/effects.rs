//! The order of steps and the effects of remote workers over HTTP (W7, W8).

use std::time::Duration;

use backstop::{Backoff, Config, Encryption, Policy};
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use backstop_server::{Caller, Scope};
use serde_json::{Value, json};

use super::stage::{Stage, store};
use crate::harness::Answer;

fn quick() -> Config {
    let policy = Policy::default().retries(5).backoff(Backoff::fixed(Duration::from_secs(1)));
    Config::default().kind("mail", policy)
}

async fn staged() -> (Stage, String, Value) {
    let stage = Stage::on(store(), quick());
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    (stage, id, job)
}

/// Posts what a run says of a step or an effect.
async fn tell(stage: &Stage, verb: &str, job: &Value, mut body: Value) -> Answer {
    body["lease"] = job["lease"]["token"].clone();
    stage.harness.post(&format!("/api/v1/work/{verb}"), body).await
}

async fn charge(stage: &Stage, job: &Value, policy: &str) -> Answer {
    tell(stage, "effect", job, json!({ "name": "charge", "key": "order-7", "policy": policy, "index": 0 }))
        .await
}

fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (status, code), "{}", answer.text);
    answer.json()["error"].clone()
}

/// Ends a run by an error and claims the job again.
async fn again(stage: &Stage, job: &Value) -> Value {
    let failed = json!({ "type": "failed", "class": "error", "message": "no luck" });
    assert_eq!(stage.finish(job, failed).await["ok"], true);
    tokio::time::advance(Duration::from_secs(2)).await;
    stage.claim_one().await
}

#[tokio::test(start_paused = true)]
async fn a_step_in_another_place_is_refused_with_both_names() {
    // W7, E7
    let (stage, id, job) = staged().await;
    assert_eq!(job["step_history"], json!([]));
    for (index, name) in [(0, "fetch"), (1, "render")] {
        tell(&stage, "step", &job, json!({ "name": name, "result": index, "index": index })).await.ok();
    }
    let next = again(&stage, &job).await;
    let history = json!([{ "index": 0, "name": "fetch", "run": 1, "state": "done" },
        { "index": 1, "name": "render", "run": 1, "state": "done" }]);
    assert_eq!(next["step_history"], history);
    tell(&stage, "step", &next, json!({ "name": "fetch", "result": 9, "index": 0 })).await.ok();
    for (index, name, stored) in [(1, "scale", 1), (0, "render", 1), (2, "fetch", 0)] {
        let answer = tell(&stage, "step", &next, json!({ "name": name, "result": 9, "index": index })).await;
        let error = refused(&answer, 409, "steps_changed");
        let expected = json!({ "stored": { "index": stored, "name": history[stored]["name"] },
            "called": { "index": index, "name": name } });
        assert_eq!(error["details"], expected);
        assert!(error["message"].as_str().unwrap().contains("the steps of this job have changed"), "{error}");
    }
    let effect = json!({ "name": "pay", "key": "k", "policy": "ask", "index": 1 });
    let error = refused(&tell(&stage, "effect", &next, effect).await, 409, "steps_changed");
    assert_eq!(error["details"]["called"], json!({ "index": 1, "name": "pay", "key": "k" }));
    let shown = stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    assert_eq!(shown["steps"], history, "nothing of that is stored");
    let last = again(&stage, &next).await;
    assert_eq!(last["steps"], json!({ "fetch": 0, "render": 1 }), "the first results stay");
}

#[tokio::test(start_paused = true)]
async fn what_the_other_side_has_not_seen_is_stored_as_begun_again() {
    // W8, E7
    let (stage, id, job) = staged().await;
    charge(&stage, &job, "verify").await.ok();
    let next = again(&stage, &job).await;
    assert_eq!(charge(&stage, &next, "verify").await.ok(), json!({ "state": "verify" }));
    let told = async |policy: &str| {
        let body =
            json!({ "name": "charge", "key": "order-7", "policy": policy, "index": 0, "not_seen": true });
        tell(&stage, "effect", &next, body).await
    };
    let error = refused(&told("ask").await, 422, "invalid");
    assert_eq!(error["details"]["field"], "not_seen", "{error}");
    for _ in 0..2 {
        assert_eq!(told("verify").await.ok(), json!({ "state": "run" }), "it can be repeated");
    }
    let shown = stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    let begun = json!({ "index": 0, "name": "charge", "run": 2, "state": "unknown", "key": "order-7" });
    assert_eq!(shown["steps"], json!([begun]));
}

#[tokio::test(start_paused = true)]
async fn an_effect_is_stored_before_its_call_and_its_outcome_after_it() {
    // W8, E7
    let (stage, id, job) = staged().await;
    for _ in 0..2 {
        assert_eq!(charge(&stage, &job, "ask").await.ok(), json!({ "state": "run" }), "it can be repeated");
    }
    let shown = stage.harness.get(&format!("/api/v1/jobs/{id}")).await.ok();
    let intent = json!({ "index": 0, "name": "charge", "run": 1, "state": "unknown", "key": "order-7" });
    assert_eq!(shown["steps"], json!([intent]));
    let next = again(&stage, &job).await;
    assert_eq!((&next["steps"], &next["step_history"]), (&json!({}), &json!([intent])));
    assert_eq!(charge(&stage, &next, "retry_safe").await.ok(), json!({ "state": "run" }));
    assert_eq!(charge(&stage, &next, "verify").await.ok(), json!({ "state": "verify" }));
    let error = refused(&charge(&stage, &next, "ask").await, 409, "effect_unknown");
    assert_eq!(error["details"], json!({ "name": "charge", "key": "order-7", "run": 1 }));
    assert!(error["message"].as_str().unwrap().contains("run 1 began it"), "{error}");
    let other = json!({ "name": "charge", "key": "order-8", "policy": "retry_safe" });
    let error = refused(&tell(&stage, "effect", &next, other).await, 409, "steps_changed");
    assert_eq!(error["details"]["stored"]["key"], "order-7");
    tell(&stage, "step", &next, json!({ "name": "charge", "not_done": true, "index": 0 })).await.ok();
    let error = refused(&charge(&stage, &next, "retry_safe").await, 422, "invalid");
    assert!(
        error["message"].as_str().unwrap().contains("has said that the effect did not happen"),
        "{error}"
    );
    let next = again(&stage, &next).await;
    assert_eq!(next["step_history"][0]["state"], "not_done");
    assert_eq!(charge(&stage, &next, "ask").await.ok(), json!({ "state": "run" }));
    tell(&stage, "step", &next, json!({ "name": "charge", "result": null, "index": 0 })).await.ok();
    let next = again(&stage, &next).await;
    assert_eq!(next["steps"], json!({ "charge": null }));
    assert_eq!(charge(&stage, &next, "ask").await.ok(), json!({ "state": "done", "result": null }));
    refused(&charge(&stage, &job, "retry_safe").await, 409, "stale_lease");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_effect_of_a_remote_run_is_shown_and_waits_for_a_person() {
    // W8, F20, D4
    let (stage, id, job) = staged().await;
    charge(&stage, &job, "ask").await.ok();
    let next = again(&stage, &job).await;
    let error = refused(&charge(&stage, &next, "ask").await, 409, "effect_unknown");
    let ended = json!({ "type": "failed", "class": "permanent", "message": error["message"],
        "error_type": "EffectUnknown" });
    assert_eq!(stage.finish(&next, ended).await["status"], "failed");
    let explained = stage.harness.get(&format!("/api/v1/jobs/{id}/explain")).await.ok().to_string();
    assert!(explained.contains("effect `charge` with key `order-7` at index 0 is unknown"), "{explained}");
    assert!(explained.contains("whether effect `charge` with key `order-7` happened"), "{explained}");
    tokio::time::advance(Duration::from_secs(2)).await;
    let plan = stage.harness.post("/api/v1/redrives", json!({ "all": true, "dry_run": true })).await.ok();
    let unknown = &plan["survey"]["unknown_effects"][0];
    assert_eq!(
        (&unknown["job"], &unknown["key"], &unknown["run"]),
        (&json!(id), &json!("order-7"), &json!(1))
    );
    stage.harness.post(&format!("/api/v1/jobs/{id}/retry"), json!({})).await.ok();
    let driven = stage.claim_one().await;
    assert_eq!(driven["step_history"][0]["state"], "confirmed");
    assert_eq!(charge(&stage, &driven, "ask").await.ok(), json!({ "state": "run" }), "somebody has looked");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_effect_is_refused() {
    // W8, L20
    let (stage, _, job) = staged().await;
    let call = |name: &str, key: &str| json!({ "name": name, "key": key, "policy": "ask" });
    for (body, code) in [
        (call("", "k"), "invalid"),
        (call(&"x".repeat(129), "k"), "too_large"),
        (call("signal:paid", "k"), "invalid"),
        (call("charge", ""), "invalid"),
        (call("charge", &"k".repeat(10_000)), "too_large"),
        (json!({ "name": "charge", "key": "k", "policy": "hope" }), "invalid"),
        (json!({ "name": "charge", "key": "k" }), "invalid"),
    ] {
        refused(&tell(&stage, "effect", &job, body).await, 422, code);
    }
    for body in [
        json!({ "name": "charge", "not_done": true }),
        json!({ "name": "charge", "not_done": true, "result": 1 }),
        json!({ "name": "charge" }),
        json!({ "name": "charge", "result": 1, "index": -1 }),
    ] {
        refused(&tell(&stage, "step", &job, body).await, 422, "invalid");
    }
    let reader = Caller::holder("tester", [Scope::Read].into(), None, None);
    let body = json!({ "lease": job["lease"]["token"], "name": "charge", "key": "k", "policy": "ask" });
    refused(&stage.post_as(&reader, "/api/v1/work/effect", body).await, 403, "forbidden");
    assert_eq!(again(&stage, &job).await["step_history"], json!([]), "nothing is stored");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_an_effect_of_a_sealed_kind_is_opened_for_its_worker() {
    // W8, E12
    let keys = SealingKeys::new(vec![SecretKey::new("s1", vec![1; 32]).unwrap()]).unwrap();
    let stage = Stage::on(store(), quick().encryption(Encryption::new(keys).kind("mail")));
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    charge(&stage, &job, "ask").await.ok();
    tell(&stage, "step", &job, json!({ "name": "charge", "result": "needle", "index": 0 })).await.ok();
    let answer = charge(&stage, &job, "ask").await.ok();
    assert_eq!(answer, json!({ "state": "done", "result": "needle" }));
}

#[tokio::test(start_paused = true)]
async fn a_wait_takes_its_place_among_the_steps() {
    // W7, W10
    let (stage, _, job) = staged().await;
    let waits = json!({ "type": "waiting", "signal": "paid", "index": 1 });
    assert_eq!(stage.finish(&job, waits).await["status"], "waiting");
    stage.harness.post("/api/v1/signals", json!({ "key": "paid" })).await.ok();
    let next = stage.claim_one().await;
    let expected = json!([{ "index": 1, "name": "signal:paid", "run": 1, "state": "done" }]);
    assert_eq!((&next["step_history"], &next["steps"]), (&expected, &json!({})));
    tell(&stage, "step", &next, json!({ "name": "fetch", "result": 1, "index": 0 })).await.ok();
    let elsewhere = json!({ "name": "render", "result": 1, "index": 1 });
    refused(&tell(&stage, "step", &next, elsewhere).await, 409, "steps_changed");
}
