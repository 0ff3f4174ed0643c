//! How runs of remote workers end: as those of every worker.

use std::time::Duration;

use backstop::{Backoff, Cause, Config, Policy, Timestamp};
use backstop_core::failure::{Rule, RuleAction, RuleMatch};
use serde_json::{Value, json};

use super::stage::Stage;

fn quick() -> Config {
    let policy = Policy::default().retries(1).backoff(Backoff::fixed(Duration::from_secs(60)));
    Config::default().kind("mail", policy)
}

fn failed(class: &str) -> Value {
    json!({ "type": "failed", "class": class, "message": "no luck" })
}

#[tokio::test(start_paused = true)]
async fn every_outcome_ends_its_run_by_its_cause() {
    // E7, F2, F16
    let table: [(Value, &str, Cause, u32); 12] = [
        (json!({ "type": "succeeded" }), "succeeded", Cause::Succeeded, 0),
        (failed("error"), "pending", Cause::Error, 1),
        (failed("permanent"), "failed", Cause::Permanent, 1),
        (failed("invalid"), "failed", Cause::Invalid, 1),
        (failed("transient"), "pending", Cause::Rejected, 0),
        (failed("timeout"), "pending", Cause::Timeout, 1),
        (failed("panic"), "pending", Cause::Panic, 1),
        (json!({ "type": "snoozed", "delay_ms": 5_000 }), "pending", Cause::Snoozed, 0),
        (json!({ "type": "canceled", "reason": "no use" }), "canceled", Cause::Canceled, 0),
        (json!({ "type": "reported_failure", "result": { "missing": 3 } }), "failed", Cause::Permanent, 1),
        (json!({ "type": "rate_limited", "retry_in_ms": 5_000 }), "pending", Cause::RateLimited, 0),
        (json!({ "type": "interrupted" }), "pending", Cause::Interrupted, 0),
    ];
    for (mut outcome, status, cause, attempts) in table {
        let stage = Stage::on(super::stage::store(), quick());
        let id = stage.submit("mail", json!({})).await;
        let job = stage.claim_one().await;
        outcome["logs"] = json!(["one", "two"]);
        assert_eq!(
            stage.finish(&job, outcome.clone()).await,
            json!({ "ok": true, "status": status }),
            "{outcome}"
        );
        let run = stage.last_run(&id).await;
        assert_eq!((run.cause, run.number), (cause, 1), "{outcome}");
        assert_eq!(run.output.as_deref(), Some("one\ntwo\n"), "{outcome}");
        assert_eq!(run.code_version.as_deref(), Some("1.0"), "{outcome}");
        assert_eq!(stage.detail(&id).await.view.record.attempt, attempts, "{outcome}");
        // What is over is answered in the same words when it is reported again.
        assert_eq!(
            stage.finish(&job, outcome.clone()).await,
            json!({ "ok": true, "status": status }),
            "{outcome}"
        );
        assert_eq!(stage.runs(&id).await.len(), 1, "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_its_type_its_wait_and_its_dependency_and_is_sanitized() {
    // E7, F9, F11
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let outcome = json!({
        "type": "failed", "class": "transient", "error_type": "SmtpError", "dependency": "smtp",
        "message": "cannot reach smtp://joe:hunter2@mail.example.com", "retry_in_ms": 90_000,
        "logs": ["token=sk_live_4eC39HqLyjWDarjtT1zdp7dc"],
    });
    assert_eq!(stage.finish(&job, outcome).await["status"], "pending");
    let (run, view) = (stage.last_run(&id).await, stage.detail(&id).await.view);
    let failure = run.failure.unwrap();
    assert_eq!(failure.error_type, "SmtpError");
    assert!(
        !failure.message.contains("hunter2") && failure.message.contains("mail.example.com"),
        "{failure:?}"
    );
    assert!(!run.output.unwrap().contains("sk_live"));
    assert_eq!(run.finished_at.until(view.record.run_at), Duration::from_secs(90));
    let trace = run.decision.unwrap().trace;
    assert!(trace.iter().any(|check| check.check == "dependency" && check.answer == "smtp"), "{trace:?}");
    // Whoever gets it next is told why it comes again.
    stage.pass(90).await;
    let again = stage.claim_one().await;
    assert_eq!((&again["error_type"], &again["runs"]), (&json!("SmtpError"), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn an_operators_rule_decides_about_remote_runs_too() {
    // E7, F18
    let stage = Stage::on(super::stage::store(), quick());
    let rule = Rule {
        id: "no-retries".parse().unwrap(),
        note: String::new(),
        matches: RuleMatch { kind: Some("mail".into()), ..RuleMatch::default() },
        action: RuleAction::Permanent,
        enabled: true,
        position: 0,
        created_at: Timestamp::EPOCH,
        created_by: "ann".to_owned(),
    };
    stage.engine().rules().add(&rule).await.unwrap();
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let outcome = json!({ "type": "failed", "class": "error", "message": "no luck" });
    assert_eq!(stage.finish(&job, outcome).await["status"], "failed");
    assert!(stage.last_run(&id).await.decision.unwrap().rule_id().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_what_it_counts_for_the_circuit_of_its_dependency() {
    // H4, E7
    let stage = Stage::on(super::stage::store(), Config::default().kind_dependency("mail", "smtp"));
    let fail = async |class: &str, circuit: &str| {
        stage.submit("mail", json!({})).await;
        let job = stage.claim_one().await;
        let outcome = json!({ "type": "failed", "class": class, "message": "no luck", "circuit": circuit });
        let answer = stage.finish(&job, outcome).await;
        stage.pass(6).await;
        let counts = stage.engine().circuits().get("smtp").await.unwrap().map(|view| view.counts);
        (answer["ok"] == true, counts.map(|counts| (counts.calls, counts.failures)))
    };
    assert_eq!(fail("error", "ignored").await, (true, None));
    assert_eq!(fail("error", "neutral").await, (true, Some((1, 0))));
    assert_eq!(fail("permanent", "counts").await, (true, Some((2, 1))));
    assert_eq!(fail("error", "maybe").await, (false, Some((2, 1))));
}

#[tokio::test(start_paused = true)]
async fn a_bad_item_never_fails_the_others() {
    // E7
    let stage = Stage::new();
    for _ in 0..2 {
        stage.submit("mail", json!({})).await;
    }
    let (one, two) = (stage.claim_one().await, stage.claim_one().await);
    let done = json!({ "type": "succeeded" });
    let token = |job: &Value| job["lease"]["token"].clone();
    let answers = stage
        .finish_all(json!([
            { "lease": token(&one), "outcome": { "type": "exploded" } },
            { "lease": "lt1.AAAA.BBBB", "outcome": done },
            "what",
            { "lease": token(&one), "outcome": { "type": "failed", "class": "error" } },
            { "lease": token(&one), "outcome": done },
            { "lease": token(&two), "outcome": done, "colour": "red" },
            { "lease": token(&two), "outcome": { "type": "snoozed", "delay_ms": 0 } },
            { "lease": token(&one), "outcome": done },
        ]))
        .await;
    let said: Vec<&str> = answers
        .iter()
        .map(|answer| answer["error"]["code"].as_str().or(answer["status"].as_str()).unwrap())
        .collect();
    let expected =
        ["invalid", "stale_lease", "invalid", "invalid", "succeeded", "invalid", "pending", "succeeded"];
    assert_eq!(said, expected);
    assert!(answers.iter().all(|answer| answer["ok"] == answer["error"].is_null()), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_not_this_leases_own_is_stale() {
    // E7, L5
    let stage = Stage::new();
    let done = json!({ "type": "succeeded" });
    let stale = |answer: Value| assert_eq!(answer["error"]["code"], "stale_lease", "{answer}");
    // Called off by a person.
    let id = stage.submit("mail", json!({})).await;
    let canceled = stage.claim_one().await;
    stage.engine().cancel(super::stage::parsed(&id), "not needed").await.unwrap();
    stale(stage.finish(&canceled, done.clone()).await);
    stale(stage.finish(&canceled, json!({ "type": "canceled", "reason": "x" })).await);
    assert_eq!(stage.runs(&id).await.len(), 1);
    // Taken back when the lease ran out.
    let id = stage.submit("mail", json!({})).await;
    let late = stage.claim_one().await;
    tokio::time::advance(Duration::from_secs(31)).await;
    stale(stage.finish(&late, done.clone()).await);
    stage.pass(0).await;
    assert_eq!(stage.last_run(&id).await.cause, Cause::Crash);
    stale(stage.finish(&late, done.clone()).await);
    // And run by another meanwhile.
    stage.pass(600).await;
    let again = stage.claim_one().await;
    stale(stage.finish(&late, done.clone()).await);
    assert_eq!(stage.finish(&again, done).await["status"], "succeeded");
    assert_eq!(stage.runs(&id).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_was_not_applied_is_stale() {
    // L5, E7
    let results = [
        json!({ "type": "succeeded" }),
        json!({ "type": "succeeded", "result": { "sum": 3 } }),
        failed("error"),
        json!({ "type": "failed", "class": "error", "message": "something else" }),
        failed("timeout"),
        json!({ "type": "snoozed", "delay_ms": 600_000 }),
        json!({ "type": "snoozed", "delay_ms": 700_000 }),
        json!({ "type": "canceled", "reason": "no use" }),
        json!({ "type": "rate_limited", "retry_in_ms": 5_000 }),
        json!({ "type": "rate_limited", "retry_in_ms": 7_000 }),
        json!({ "type": "failed", "class": "error", "message": "no luck", "retry_in_ms": 5_000 }),
        json!({ "type": "failed", "class": "error", "message": "no luck", "retry_in_ms": 7_000 }),
        json!({ "type": "reported_failure", "result": 3 }),
        json!({ "type": "interrupted" }),
    ];
    let code = |answer: &Value| answer["error"]["code"].as_str().unwrap_or("ok").to_owned();
    for first in &results {
        for second in &results {
            let expected = ["ok", if first == second { "ok" } else { "stale_lease" }];
            // In two calls, and in one.
            let stage = Stage::new();
            let id = stage.submit("mail", json!({})).await;
            let job = stage.claim_one().await;
            let (one, two) =
                (stage.finish(&job, first.clone()).await, stage.finish(&job, second.clone()).await);
            assert_eq!([code(&one), code(&two)], expected, "{first} then {second}");
            assert!(first != second || one == two, "{first} twice: {one}, {two}");
            assert_eq!(stage.runs(&id).await.len(), 1);
            let stage = Stage::new();
            let id = stage.submit("mail", json!({})).await;
            let lease = stage.claim_one().await["lease"]["token"].clone();
            let both = json!([{ "lease": lease, "outcome": first }, { "lease": lease, "outcome": second }]);
            let answers = stage.finish_all(both).await;
            assert_eq!([code(&answers[0]), code(&answers[1])], expected, "{first} and {second} in one call");
            assert_eq!(stage.runs(&id).await.len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_lease_ends_no_other_run() {
    // L5, E7
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let old = stage.claim_one().await;
    assert_eq!(stage.finish(&old, failed("error")).await["status"], "pending");
    stage.pass(600).await;
    let new = stage.claim_one().await;
    let done = json!({ "type": "succeeded" });
    assert_eq!(stage.finish(&old, done.clone()).await["error"]["code"], "stale_lease");
    assert_eq!(stage.finish(&old, failed("timeout")).await["error"]["code"], "stale_lease");
    // Its own word again is answered as the first time, not with where the job is now.
    assert_eq!(stage.finish(&old, failed("error")).await, json!({ "ok": true, "status": "pending" }));
    assert_eq!(stage.detail(&id).await.view.record.runs, 2);
    assert_eq!(stage.finish(&new, done).await["status"], "succeeded");
    assert_eq!(stage.runs(&id).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_longer_than_it_may_is_ended_by_the_server() {
    // E7, F10
    let stage = Stage::new();
    let policy = Policy::default().retries(1).timeout(Duration::from_secs(10));
    let id = stage.engine().enqueue_raw("mail", "{}").policy(policy).submit().await.unwrap().id.to_string();
    let mut events = stage.engine().events();
    let job = stage.claim_one().await;
    assert_eq!(job["timeout_ms"], 10_000);
    let line = json!({ "lease": job["lease"]["token"], "lines": ["half done"] });
    stage.harness.post("/api/v1/work/log", line).await.ok();
    for seconds in [7, 1, 1] {
        stage.pass(seconds).await;
        assert_eq!(stage.heartbeat(&[&job]).await["lost"], json!([]));
    }
    stage.pass(1).await;
    let run = stage.last_run(&id).await;
    assert_eq!((run.cause, run.output.as_deref()), (Cause::Timeout, Some("half done\n")));
    assert_eq!(run.code_version.as_deref(), Some("1.0"));
    assert_eq!(run.failure.unwrap().message, "the run took longer than 10s");
    let record = stage.detail(&id).await.view.record;
    assert_eq!((record.state.to_string(), record.attempt), ("pending".to_owned(), 1), "the normal pipeline");
    assert_eq!(stage.heartbeat(&[&job]).await["lost"][0]["reason"], "stale_lease");
    for outcome in [json!({ "type": "succeeded" }), json!({ "type": "interrupted" })] {
        assert_eq!(stage.finish(&job, outcome).await["error"]["code"], "stale_lease");
    }
    let mut told = Vec::new();
    while let Some(event) = events.try_next() {
        told.push(event.what.name());
    }
    let of_time: Vec<_> = told.iter().filter(|name| name.contains("time")).collect();
    assert_eq!(of_time, [&"timeout_near", &"timed_out"], "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_hands_its_jobs_back_at_no_cost() {
    // E7, L18
    let stage = Stage::on(super::stage::store(), quick());
    let id = stage.submit("mail", json!({})).await;
    for _ in 0..3 {
        let job = stage.claim_one().await;
        assert_eq!(stage.finish(&job, json!({ "type": "interrupted" })).await["status"], "pending");
    }
    let record = stage.detail(&id).await.view.record;
    assert_eq!((record.attempt, record.crashes, record.runs), (0, 0, 3), "the next worker takes it at once");
}

#[tokio::test(start_paused = true)]
async fn a_reported_failure_is_a_result_and_no_incident() {
    // E7, F16
    let stage = Stage::new();
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let outcome = json!({ "type": "reported_failure", "result": { "missing": 3 } });
    assert_eq!(stage.finish(&job, outcome).await["status"], "failed");
    let view = stage.detail(&id).await.view;
    assert_eq!(view.record.reason.unwrap().as_str(), "reported_failure");
    assert_eq!(view.result.as_deref(), Some(r#"{"missing":3}"#));
    assert!(stage.engine().store().incidents(10).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_bad_result_spoils_no_other() {
    // E7, E11
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let bad = [
        r#"{"lease": LEASE, "outcome": {"type": "succeeded", "result": 1e999}}"#.to_owned(),
        format!(r#"{{"lease": LEASE, "outcome": {{"type": "succeeded", "result": {deep}}}}}"#),
        r#"{"lease": 7, "outcome": {"type": "succeeded"}}"#.to_owned(),
        r#"{"lease": LEASE, "outcome": {"type": "vanished"}}"#.to_owned(),
        r#"[LEASE, {"type": "succeeded"}]"#.to_owned(),
        "null".to_owned(),
    ];
    for bad in bad {
        let stage = Stage::new();
        let (first, second) = (stage.submit("mail", json!({})).await, stage.submit("mail", json!({})).await);
        let (one, two) = (stage.claim_one().await, stage.claim_one().await);
        let bad = bad.replace("LEASE", &one["lease"]["token"].to_string());
        let good = json!({ "lease": two["lease"]["token"], "outcome": { "type": "succeeded" } });
        let body = format!(r#"{{"results": [{bad}, {good}]}}"#);
        let answer = stage.harness.post_text("/api/v1/work/finish", &body).await.ok();
        assert_eq!(answer["results"][0]["ok"], false, "{bad}");
        assert!(answer["results"][0]["error"]["message"].is_string(), "{answer}");
        assert_eq!(answer["results"][1], json!({ "ok": true, "status": "succeeded" }), "{bad}");
        let (held, done) = if one["id"] == first.as_str() { (first, second) } else { (second, first) };
        assert_eq!(
            (stage.status(&held).await, stage.status(&done).await),
            ("running".into(), "succeeded".into())
        );
        // The same in heartbeats: what is no lease is lost, the others are kept.
        let token = &one["lease"]["token"];
        let body = format!(r#"{{"worker": "w1", "leases": [1e999, {deep}, null, {{"a": 1}}, {token}]}}"#);
        let kept = stage.harness.post_text("/api/v1/work/heartbeat", &body).await.ok();
        assert_eq!(
            (&kept["held"], kept["lost"].as_array().map(Vec::len)),
            (&json!([token]), Some(4)),
            "{kept}"
        );
    }
}
