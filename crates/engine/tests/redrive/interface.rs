//! Plans as an application makes, watches and changes them: what is refused, and what is told.

use std::time::Duration;

use backstop::Config;
use backstop::prelude::*;
use backstop::redrive::RedriveError;
use backstop_core::incident::{IncidentUpdate, IncidentVerb};
use backstop_core::job::PlanId;
use backstop_core::redrive::{LeftOut, PlanJobOutcome, PlanPhase, PlanSelector};
use backstop_store::PageRequest;

use crate::scenario::{incident, jobs, report, submit, worker};
use crate::stage::{Stage, in_tokio_time};

fn by_kind() -> PlanSelector {
    PlanSelector { kind: Some("invoice.render".into()), ..PlanSelector::default() }
}

fn sentence(refused: &RedriveError) -> String {
    assert!(matches!(refused, RedriveError::Refused(_)), "{refused}");
    refused.to_string()
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_before_anything_changes() {
    // D4
    let stage = Stage::dead(&[("no customer", 3)]).await;
    let engine = &stage.engine;
    let unknown = PlanSelector::incident("0123456789abcdef".parse().expect("a fingerprint"));
    let nothing = PlanSelector { kind: Some("mail.send".into()), ..PlanSelector::default() };
    let table = [
        (engine.redrives().plan(PlanSelector::default()), "selects_everything"),
        (engine.redrives().plan(nothing), "matches_nothing"),
        (engine.redrives().plan(unknown), "no_such_incident"),
        (engine.redrives().plan(by_kind()).per_second(0), "invalid"),
        (engine.redrives().plan(by_kind()).batch(0), "invalid"),
    ];
    for (redrive, code) in table {
        assert_eq!(redrive.dry_run().await.expect_err(code).code(), code);
        let refused = redrive.create().await.expect_err(code);
        assert_eq!((refused.code(), sentence(&refused).lines().count()), (code, 1));
    }
    assert_eq!(engine.redrives().list().await.expect("the model is there"), []);
    let id = PlanId::from_number(1);
    for refused in [
        engine.redrives().get(&id).await.expect_err("unknown"),
        engine.redrives().start(&id, "ann").await.expect_err("unknown"),
    ] {
        assert_eq!(refused.code(), "no_such_plan");
    }
}

#[tokio::test]
async fn an_incident_whose_jobs_were_purged_has_nothing_to_drive() {
    // D4, D5
    let stage = Stage::dead(&[("no customer", 3)]).await;
    let selector = PlanSelector::incident(incident(&stage.engine, "no customer").await);
    let ids = jobs(&stage.engine, "no customer").await.iter().map(|view| view.job.spec.id).collect();
    assert!(stage.store.purge(ids, None).await.expect("the model is there").iter().all(Result::is_ok));
    let refused = stage.engine.redrives().plan(selector).create().await.expect_err("purged");
    assert!(sentence(&refused).starts_with("no dead letter matches incident "), "{refused}");
}

#[tokio::test]
async fn a_dry_run_counts_and_touches_nothing() {
    // D4
    let stage = Stage::dead(&[("no customer", 5), ("disk full", 2)]).await;
    let survey = stage.engine.redrives().plan(by_kind()).dry_run().await.expect("seven match");
    assert_eq!((survey.jobs, survey.complete), (7, true));
    let groups: Vec<_> = survey.groups.iter().map(|group| (group.sample.as_deref(), group.jobs)).collect();
    assert_eq!(groups, [(Some("no customer"), 5), (Some("disk full"), 2)]);
    let worn = stage.engine.redrives().plan(by_kind()).ceiling(1);
    for view in jobs(&stage.engine, "disk full").await {
        stage.engine.retry(view.job.spec.id).await.expect("a dead letter");
    }
    stage.work().await;
    stage.pass(Duration::from_secs(1));
    let survey = worn.dry_run().await.expect("five match");
    assert_eq!((survey.jobs, survey.left_out.get(&LeftOut::Ceiling)), (5, Some(&2)));
    assert_eq!(stage.redrives("no customer").await, [0; 5]);
}

#[tokio::test]
async fn a_plan_can_be_paused_resumed_and_canceled() {
    // D4
    let stage = Stage::dead(&[("no customer", 5)]).await;
    stage.shop.mend("no customer");
    let engine = &stage.engine;
    let plan =
        engine.redrives().plan(by_kind()).note("after the fix").by("ann").create().await.expect("made");
    stage.maintain().await;
    assert_eq!(stage.redrives("no customer").await, [0; 5], "nothing before the start");
    engine.redrives().start(&plan.id, "ann").await.expect("planned");
    assert_eq!(engine.redrives().start(&plan.id, "ann").await.expect_err("twice").code(), "wrong_phase");
    stage.maintain().await;
    engine.redrives().pause(&plan.id, "bob").await.expect("moving");
    for _ in 0..3 {
        stage.work().await;
        stage.pass(Duration::from_secs(5));
        stage.maintain().await;
    }
    let paused = engine.redrives().get(&plan.id).await.expect("it is there");
    assert_eq!((paused.phase, paused.counts.driven, paused.counts.succeeded), (PlanPhase::Paused, 1, 1));
    engine.redrives().resume(&plan.id, "bob").await.expect("paused");
    stage.maintain().await;
    let canceled = engine.redrives().cancel(&plan.id, "cid").await.expect("moving");
    assert_eq!(canceled.counts.driven, 5, "all in one batch");
    let people: Vec<_> = canceled.history.iter().filter_map(|entry| entry.by.as_deref()).collect();
    assert_eq!(people, ["ann", "ann", "bob", "bob", "cid"], "audited");
    stage.reach(&plan.id, PlanPhase::Canceled).await;
    assert_eq!(report(engine, &plan.id).await.len(), 5, "what was in flight is reported");
    assert_eq!(engine.redrives().list().await.expect("the model is there").len(), 1);
}

#[tokio::test]
async fn what_another_live_job_stands_in_the_way_of_is_reported() {
    // D4, L11
    let stage = Stage::dead(&[("no customer", 0)]).await;
    let engine = &stage.engine;
    let job = |fault: &str| engine.enqueue(crate::scenario::Render { fault: fault.into() }).max_retries(0);
    let held = job("no customer").business_key("order-1").submit().await.expect("admitted").id;
    job("no customer").submit().await.expect("admitted");
    stage.work().await;
    stage.shop.mend("no customer");
    job("fine")
        .business_key("order-1")
        .delay(Duration::from_secs(9_999))
        .submit()
        .await
        .expect("the key is free");
    stage.pass(Duration::from_secs(1));
    let plan = engine.redrives().plan(by_kind()).create().await.expect("made");
    engine.redrives().start(&plan.id, "ann").await.expect("planned");
    let done = stage.reach(&plan.id, PlanPhase::Done).await;
    assert_eq!((done.counts.driven, done.counts.succeeded, done.counts.skipped), (1, 1, 1));
    let items = report(engine, &plan.id).await;
    let item = items.iter().find(|item| item.job == held).expect("it is in the report");
    let why = "another live job holds its business key".to_owned();
    assert_eq!(item.outcome, Some(PlanJobOutcome::NotDriven { why }));
}

#[tokio::test]
async fn an_incident_that_is_fixed_in_a_version_waits_for_a_worker_with_it() {
    // D7
    let stage = Stage::dead(&[("no customer", 3)]).await;
    let engine = &stage.engine;
    let fingerprint = incident(engine, "no customer").await;
    let verb = IncidentVerb::Fix { version: Some("1.4".into()) };
    let statement = IncidentUpdate { verb, by: "ann".into(), note: None };
    stage.store.say(vec![fingerprint.clone()], statement).await.expect("the model is there");
    stage.shop.mend("no customer");
    let plan = engine.redrives().plan(PlanSelector::incident(fingerprint)).create().await.expect("made");
    assert_eq!(plan.needs.as_deref(), Some("1.4"));
    engine.redrives().start(&plan.id, "ann").await.expect("planned");
    let old = worker(engine, &stage.shop).code_version("1.3").start().await.expect("started");
    for _ in 0..5 {
        stage.maintain().await;
        stage.pass(Duration::from_secs(1));
    }
    let waiting = engine.redrives().get(&plan.id).await.expect("it is there");
    assert_eq!(waiting.counts.driven, 0);
    assert!(waiting.describe().contains("code version 1.4"), "{}", waiting.describe());
    old.stop().await;
    let new = worker(engine, &stage.shop).code_version("1.10").start().await.expect("started");
    stage.maintain().await;
    assert_eq!(engine.redrives().get(&plan.id).await.expect("it is there").counts.driven, 1);
    new.stop().await;
}

#[tokio::test]
async fn a_report_is_read_page_by_page() {
    // D4
    let stage = Stage::dead(&[("no customer", 5)]).await;
    stage.shop.mend("no customer");
    let plan = stage.engine.redrives().plan(by_kind()).create().await.expect("made");
    stage.engine.redrives().start(&plan.id, "ann").await.expect("planned");
    stage.reach(&plan.id, PlanPhase::Done).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = stage.engine.redrives().items(&plan.id, PageRequest { limit: 2, after }).await;
        let page = page.expect("the model is there");
        assert!(page.items.len() <= 2);
        seen.extend(page.items.into_iter().map(|item| item.job));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn what_dies_after_a_plan_was_made_waits_for_another_plan() {
    // D4
    let stage = Stage::dead(&[("no customer", 3)]).await;
    let plan = stage.engine.redrives().plan(by_kind()).create().await.expect("made");
    submit(&stage.engine, "no customer", 2).await;
    stage.work().await;
    stage.shop.mend("no customer");
    stage.engine.redrives().start(&plan.id, "ann").await.expect("planned");
    let done = stage.reach(&plan.id, PlanPhase::Done).await;
    assert_eq!(done.counts.driven, 3);
    let mut redrives = stage.redrives("no customer").await;
    redrives.sort_unstable();
    assert_eq!(redrives, [0, 0, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_started_beside_a_worker_begins_at_once() {
    // D4: nobody waits for the next look at the plans, nor for the lease of a worker that has stopped.
    let (engine, shop) =
        (Backstop::on(in_tokio_time(), Config::default()), crate::scenario::Shop::with(&["no customer"]));
    submit(&engine, "no customer", 5).await;
    let second = Duration::from_secs(1);
    let first = worker(&engine, &shop).start().await.expect("started");
    tokio::time::sleep(second).await;
    first.stop().await;
    shop.mend("no customer");
    let plan = engine.redrives().plan(by_kind()).per_second(1_000).create().await.expect("five are dead");
    let second_worker = worker(&engine, &shop).start().await.expect("started");
    tokio::time::sleep(second).await;
    engine.redrives().start(&plan.id, "ann").await.expect("planned");
    tokio::time::sleep(second).await;
    let plan = engine.redrives().get(&plan.id).await.expect("it is there");
    assert_eq!((plan.phase, plan.counts.succeeded), (PlanPhase::Done, 5), "{}", plan.describe());
    second_worker.stop().await;
}
