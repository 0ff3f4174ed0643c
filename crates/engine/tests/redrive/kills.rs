//! Nodes that die or are overtaken at any call to the store: the plan goes on, and every job is driven once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, worker_id};
use backstop_core::redrive::{Plan, PlanJobOutcome, PlanPhase, PlanSelector};
use backstop_store::Duty;

use crate::frail::{Before, Frail, Trouble};
use crate::scenario::{incident, report};
use crate::stage::{Stage, TERM};

const JOBS: usize = 7;

/// A plan on its way over seven dead letters, whose cause is mended.
async fn on_its_way() -> (Stage, Plan) {
    let stage = Stage::dead(&[("no customer", JOBS), ("disk full", 2)]).await;
    stage.shop.mend("no customer");
    let selector = PlanSelector::incident(incident(&stage.engine, "no customer").await);
    let plan = stage.engine.redrives().plan(selector).batch(3).per_second(10).create().await.expect("made");
    stage.engine.redrives().start(&plan.id, "ann").await.expect("planned");
    (stage, plan)
}

/// Steps the plan by a node on `frail`, with work in between, until the plan is done or the node is dead.
async fn step_on(stage: &Stage, frail: &Arc<Frail>, plan: &Plan) {
    let node = Backstop::on(frail.clone(), Config::default());
    for _ in 0..30 {
        if node.maintain(stage.node, TERM).await.is_err() {
            return;
        }
        stage.work().await;
        stage.pass(Duration::from_millis(700));
        if stage.engine.redrives().get(&plan.id).await.expect("it is there").phase == PlanPhase::Done {
            return;
        }
    }
    panic!("the plan never came to its end");
}

/// Lets another node finish, and checks that every job was driven exactly once.
async fn finish_and_check(mut stage: Stage, plan: &Plan, what: &str) {
    stage.node = worker_id();
    stage.pass(TERM * 2);
    let done = stage.reach(&plan.id, PlanPhase::Done).await;
    assert_eq!(stage.redrives("no customer").await, [1; JOBS], "{what}");
    assert_eq!(stage.redrives("disk full").await, [0; 2], "{what}");
    let jobs = JOBS as u64;
    assert_eq!((done.counts.driven, done.counts.succeeded, done.open), (jobs, jobs, 0), "{what}");
    let items = report(&stage.engine, &plan.id).await;
    assert_eq!(items.len(), JOBS, "{what}: the report is complete");
    assert!(items.iter().all(|item| item.outcome == Some(PlanJobOutcome::Succeeded)), "{what}: {items:?}");
}

async fn die_at_every_call(trouble: fn() -> Trouble, name: &str) -> usize {
    for call in 1..1_000 {
        let (stage, plan) = on_its_way().await;
        let frail = Frail::new(stage.store.clone(), call, trouble());
        step_on(&stage, &frail, &plan).await;
        let struck = frail.has_struck();
        finish_and_check(stage, &plan, &format!("{name} call {call}")).await;
        if !struck {
            return call - 1;
        }
    }
    panic!("the plan makes too many calls")
}

#[tokio::test]
async fn a_node_that_dies_before_any_call_leaves_a_plan_that_another_finishes() {
    // D4
    let deaths = die_at_every_call(|| Trouble::DieBefore, "died before").await;
    assert!(deaths > 30, "only {deaths} deaths");
}

#[tokio::test]
async fn a_node_that_dies_after_any_call_leaves_a_plan_that_another_finishes() {
    // D4: the step was committed and its answer lost.
    let deaths = die_at_every_call(|| Trouble::DieAfter, "died after").await;
    assert!(deaths > 30, "only {deaths} deaths");
}

/// Another node that takes over, with the first one's leadership run out, and does a round of its own.
fn takes_over(stage: &Stage) -> Before {
    let (engine, clock) = (stage.engine.clone(), stage.clock.clone());
    Box::new(move || {
        let (engine, clock) = (engine.clone(), clock.clone());
        Box::pin(async move {
            clock.advance(TERM * 2);
            engine.maintain(worker_id(), TERM).await.expect("the model is there");
            // Its leadership runs out too, so that the first node may lead again.
            clock.advance(TERM * 2);
        })
    })
}

/// Another node that only takes the leadership over, and remembers how the plan was then.
fn deposes(stage: &Stage, plan: &Plan, then: &Arc<Mutex<Option<Plan>>>) -> Before {
    let (engine, clock, id) = (stage.engine.clone(), stage.clock.clone(), plan.id.clone());
    let then = then.clone();
    Box::new(move || {
        let (engine, clock, id, then) = (engine.clone(), clock.clone(), id.clone(), then.clone());
        Box::pin(async move {
            clock.advance(TERM * 2);
            let terms = engine.store().lead(worker_id(), vec![Duty::Redrive], TERM).await;
            assert!(terms.expect("the model is there").iter().all(Option::is_some), "its leadership ran out");
            *then.lock().expect("plain") = Some(engine.redrives().get(&id).await.expect("it is there"));
        })
    })
}

/// A person who pauses the plan and lets it go on at once; `done` says that it was not too late for that.
fn is_touched(stage: &Stage, plan: &Plan, done: &Arc<AtomicBool>) -> Before {
    let (engine, id, done) = (stage.engine.clone(), plan.id.clone(), done.clone());
    Box::new(move || {
        let (engine, id, done) = (engine.clone(), id.clone(), done.clone());
        Box::pin(async move {
            if engine.redrives().pause(&id, "bob").await.is_ok() {
                engine.redrives().resume(&id, "bob").await.expect("just paused");
                done.store(true, Ordering::SeqCst);
            }
        })
    })
}

#[tokio::test]
async fn two_nodes_on_one_plan_drive_each_job_once() {
    // D4, L17: the second is faster at each call that the first makes.
    for call in 1..1_000 {
        let (stage, plan) = on_its_way().await;
        let frail = Frail::new(stage.store.clone(), call, Trouble::Overtaken(takes_over(&stage)));
        step_on(&stage, &frail, &plan).await;
        let struck = frail.has_struck();
        finish_and_check(stage, &plan, &format!("overtaken at call {call}")).await;
        if !struck {
            assert!(call > 30, "only {call} calls");
            return;
        }
    }
    panic!("the plan makes too many calls")
}

#[tokio::test]
async fn a_node_that_was_deposed_in_the_middle_of_a_step_writes_nothing() {
    // L17, D4
    for call in 1..1_000 {
        let (stage, plan) = on_its_way().await;
        let then = Arc::default();
        let frail = Frail::new(stage.store.clone(), call, Trouble::Overtaken(deposes(&stage, &plan, &then)));
        let node = Backstop::on(frail.clone(), Config::default());
        while !frail.has_struck()
            && stage.engine.redrives().get(&plan.id).await.expect("there").phase != PlanPhase::Done
        {
            node.maintain(stage.node, TERM).await.expect("the model is there");
            let seen = then.lock().expect("plain").clone();
            if let Some(then) = seen {
                let now = stage.engine.redrives().get(&plan.id).await.expect("it is there");
                assert_eq!(now, then, "deposed at call {call}");
            }
            stage.work().await;
            stage.pass(Duration::from_millis(700));
        }
        let struck = frail.has_struck();
        finish_and_check(stage, &plan, &format!("deposed at call {call}")).await;
        if !struck {
            assert!(call > 30, "only {call} calls");
            return;
        }
    }
    panic!("the plan makes too many calls")
}

#[tokio::test]
async fn a_person_who_changes_the_plan_in_the_middle_of_a_step_wins() {
    // D4: the step is as if it had never been, and what the person said stays.
    for call in 1..1_000 {
        let (stage, plan) = on_its_way().await;
        let done = Arc::default();
        let frail =
            Frail::new(stage.store.clone(), call, Trouble::Overtaken(is_touched(&stage, &plan, &done)));
        step_on(&stage, &frail, &plan).await;
        let history = stage.engine.redrives().get(&plan.id).await.expect("it is there").history;
        let by_bob = history.iter().filter(|entry| entry.by.as_deref() == Some("bob")).count();
        let expected = if done.load(Ordering::SeqCst) { 2 } else { 0 };
        assert_eq!(by_bob, expected, "touched at call {call}: {history:?}");
        let struck = frail.has_struck();
        finish_and_check(stage, &plan, &format!("touched at call {call}")).await;
        if !struck {
            assert!(call > 30, "only {call} calls");
            return;
        }
    }
    panic!("the plan makes too many calls")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_step_at_the_same_time_drive_each_job_once() {
    // D4, L17
    for _ in 0..20 {
        let (stage, plan) = on_its_way().await;
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (engine, clock) = (stage.engine.clone(), stage.clock.clone());
                tokio::spawn(async move {
                    let node = worker_id();
                    for _ in 0..10 {
                        // Leadership runs out all the time, so it goes from node to node in the middle of steps.
                        engine.maintain(node, Duration::from_millis(100)).await.expect("the model is there");
                        clock.advance(Duration::from_millis(60));
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no node panics");
        }
        finish_and_check(stage, &plan, "four nodes").await;
    }
}
