//! What `explain` says of a job, in the words people read (F20), through the engine.

use std::time::Duration;

use backstop::JobId;
use backstop::prelude::*;
use backstop_core::explain::Explanation;
use backstop_core::incident::IncidentVerb;
use backstop_core::job::State;
use backstop_core::redrive::PlanSelector;

use crate::fixture::*;

async fn explained(engine: &Backstop, job: JobId) -> Explanation {
    engine.explain(job).await.expect("the model is there").expect("the job is there").1
}

fn check<'e>(explanation: &'e Explanation, name: &str) -> &'e str {
    let found = explanation.checks.iter().find(|check| check.check == name);
    &found.unwrap_or_else(|| panic!("no check `{name}` in {:?}", explanation.checks)).answer
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_says_what_for() {
    // F20: its time, a paused queue, no worker, no code.
    let engine = engine();
    let later = engine.enqueue(act(&["ok"])).delay(Duration::from_secs(60)).submit().await.expect("ok").id;
    let told = explained(&engine, later).await;
    assert!(told.because.starts_with("its time has not come"), "{}", told.because);
    assert!(told.next_at.is_some());
    let due = engine.enqueue(act(&["ok"])).submit().await.expect("ok").id;
    assert!(explained(&engine, due).await.because.contains("no live worker serves its queue"));
    engine.queues().pause_because("default", "ann, for the move").await.expect("a name");
    assert!(explained(&engine, due).await.because.ends_with("is paused by ann, for the move"));
    engine.queues().resume("default").await.expect("a name");
    let unknown = engine.enqueue_raw("unheard", "null").submit().await.expect("ok").id;
    let running = worker(&engine).start().await.expect("the model is there");
    assert!(explained(&engine, unknown).await.because.contains("none knows kind `unheard` version 1"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_job_says_who_holds_it_and_until_when() {
    // F20
    let engine = engine();
    let id = engine.enqueue(act(&["until_canceled"])).submit().await.expect("ok").id;
    let running = worker(&engine).name("host-7").start().await.expect("the model is there");
    reach(&engine, id, State::Running).await;
    let told = explained(&engine, id).await;
    assert!(told.because.contains("worker host-7"), "{}", told.because);
    assert!(check(&told, "lease").starts_with("held by host-7 until "));
    engine.cancel(id, "enough").await.expect("running");
    reach(&engine, id, State::Canceled).await;
    assert!(explained(&engine, id).await.because.contains("canceled: enough"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_names_its_incident_its_alert_and_who_has_its_key() {
    // F20, D2, D3, L11
    let engine = engine();
    let policy = quick().retries(0);
    let keyed = |script: &[&str]| engine.enqueue(act(script)).policy(policy.clone()).business_key("order");
    let id = keyed(&["error"]).submit().await.expect("ok").id;
    let running = worker(&engine).start().await.expect("the model is there");
    reach(&engine, id, State::Failed).await;
    let told = explained(&engine, id).await;
    assert!(check(&told, "incident").ends_with("(new), 1 dead letter"), "{}", check(&told, "incident"));
    assert!(check(&told, "alert").starts_with("raised at "));
    assert!(told.next.contains("backstop job retry"));
    engine.retry(id).await.expect("failed");
    reach(&engine, id, State::Failed).await;
    assert!(
        check(&explained(&engine, id).await, "alert")
            .contains("1 repeats were counted and suppressed, until")
    );
    let fingerprint = engine.incidents().list(1).await.expect("listed").remove(0).fingerprint;
    engine.incidents().say(&fingerprint, IncidentVerb::Mute, "ann", None).await.expect("known");
    assert_eq!(check(&explained(&engine, id).await, "alert"), "suppressed: its incident is muted");
    engine.queues().pause("default").await.expect("a name");
    let holder = keyed(&["ok"]).submit().await.expect("free").id;
    let told = explained(&engine, id).await;
    assert!(told.next.contains(&format!("is held by job {holder} (pending)")), "{}", told.next);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_on_a_plans_list_says_which_and_at_what_step() {
    // F20, D4
    let engine = engine();
    let id = play(&engine, &["error"], quick().retries(0), State::Failed).await;
    pass(1).await;
    let fingerprint = engine.incidents().list(1).await.expect("listed").remove(0).fingerprint;
    let plan = engine
        .redrives()
        .plan(PlanSelector::incident(fingerprint))
        .by("ann")
        .create()
        .await
        .expect("one job");
    let told = explained(&engine, id).await;
    assert!(
        told.next.contains(&format!("re-drive plan {} has it on its list: planned", plan.id)),
        "{}",
        told.next
    );
    assert!(check(&told, "redrive").contains("has it on its list"));
    engine.redrives().start(&plan.id, "ann").await.expect("planned");
    // The stopped worker's leadership runs out first.
    pass(60).await;
    engine.maintain(backstop::worker_id(), Duration::from_secs(60)).await.expect("maintain");
    assert_eq!(state(&engine, id).await, State::Pending);
    let told = explained(&engine, id).await;
    let step = check(&told, "redrive");
    assert!(step.contains(&format!("plan {} drove it: ", plan.id)), "{step}");
}

#[tokio::test(start_paused = true)]
async fn a_job_driven_for_a_fix_waits_for_code_that_has_it() {
    // D7, F20: old workers hand it back uncharged; the first with the fix runs it.
    let engine = engine();
    let id = play(&engine, &["error", "ok"], quick().retries(0), State::Failed).await;
    pass(1).await;
    let fingerprint = engine.incidents().list(1).await.expect("listed").remove(0).fingerprint;
    let fixed = IncidentVerb::Fix { version: Some("1.4".into()) };
    engine.incidents().say(&fingerprint, fixed, "ann", None).await.expect("known");
    let needs = backstop_core::job::Operation::Redrive {
        plan: "rd-00000001".parse().expect("an id"),
        needs: Some("1.4".into()),
        redrives: 0,
    };
    engine.store().operate(vec![id], needs).await.expect("operate").remove(0).expect("failed");
    let old = worker(&engine).code_version("1.3").start().await.expect("the model is there");
    pass(30).await;
    let told = explained(&engine, id).await;
    assert!(ledger(&engine, id).await.iter().skip(1).all(|row| row.cause == backstop::Cause::UnknownKind));
    assert_eq!(detail(&engine, id).await.view.record.attempt, 0, "uncharged");
    assert!(check(&told, "code_version").starts_with("0 have version 1.4"), "{:?}", told.checks);
    old.stop().await;
    let new = worker(&engine).code_version("1.4.1").start().await.expect("the model is there");
    reach(&engine, id, State::Succeeded).await;
    new.stop().await;
}
