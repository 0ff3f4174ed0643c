//! Plans and incidents that are over: thousands of them cost a round nothing, and they go by age.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, Retirement};
use backstop_core::job::PlanId;
use backstop_core::redrive::{Plan, PlanPhase, PlanSelector};
use backstop_store::{Amend, DocumentRange, Documents, Drawer, Edit, Expect, Store};

use crate::frail::{Frail, Trouble};
use crate::scenario::{incident, jobs};
use crate::stage::{Stage, TERM};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn by_kind() -> PlanSelector {
    PlanSelector { kind: Some("invoice.render".into()), ..PlanSelector::default() }
}

/// A plan that is done.
async fn done(stage: &Stage) -> Plan {
    stage.shop.mend("no customer");
    let plan = stage.engine.redrives().plan(by_kind()).by("ann").create().await.expect("there are some");
    stage.engine.redrives().start(&plan.id, "ann").await.expect("it is new");
    stage.reach(&plan.id, PlanPhase::Done).await
}

/// Files copies of a plan as programs of earlier versions have filed theirs: without marks.
async fn copies(store: &dyn Store, plan: &Plan, count: u64) {
    let copy = |number| {
        let copy = Plan { id: PlanId::from_number(number), ..plan.clone() };
        let body = serde_json::to_string(&copy).expect("plain data").into();
        Edit { drawer: Drawer::Plans, key: copy.id.to_string(), expect: Expect::Absent, body: Some(body) }
    };
    let edits = (1..=count).map(copy).collect();
    store.amend(Amend { edits, ..Amend::default() }).await.expect("the model is there");
}

async fn drawer(store: &dyn Store, drawer: Drawer) -> Documents {
    store.documents(DocumentRange::first(drawer, 1_000)).await.expect("the model is there")
}

#[tokio::test]
async fn five_thousand_plans_at_rest_are_not_read() {
    // D4
    let stage = Stage::dead(&[("no customer", 3)]).await;
    let plan = done(&stage).await;
    copies(&*stage.store, &plan, 5_000).await;
    let counting = Frail::new(stage.store.clone(), usize::MAX, Trouble::DieBefore);
    let engine = Backstop::on(counting.clone() as Arc<dyn Store>, Config::default());
    let round = async || engine.maintain(stage.node, TERM).await.expect("the model is there");
    round().await;
    assert!(counting.plans() >= 5_001, "a node that begins to lead looks at all of them, once");
    let before = counting.plans();
    for _ in 0..10 {
        round().await;
        stage.pass(Duration::from_secs(3));
    }
    assert_eq!(counting.plans(), before, "and then at none of those that are at rest");
    let further = engine.redrives().plan(by_kind()).create().await;
    assert_eq!(further.expect_err("all are driven").code(), "matches_nothing");
}

#[tokio::test]
async fn a_plan_of_an_earlier_program_is_found_within_minutes() {
    // D4
    let stage = Stage::dead(&[("no customer", 3)]).await;
    stage.maintain().await;
    let plan = stage.engine.redrives().plan(by_kind()).create().await.expect("there are some");
    let mut started = plan.clone();
    started.start("ann", stage.clock_now().await).expect("it is new");
    let body = serde_json::to_string(&started).expect("plain data").into();
    let (drawer, key) = (Drawer::Plans, plan.id.to_string());
    let edits = vec![Edit { drawer, key, expect: Expect::Revision(1), body: Some(body) }];
    stage.store.amend(Amend { edits, ..Amend::default() }).await.expect("the model is there");
    stage.shop.mend("no customer");
    // Its node goes on leading, so nothing but time makes it look.
    for _ in 0..61 {
        stage.pass(Duration::from_secs(10));
        stage.maintain().await;
        stage.work().await;
    }
    stage.reach(&plan.id, PlanPhase::Done).await;
}

#[tokio::test]
async fn plans_go_by_age_with_a_line_in_the_audit_log() {
    // D4
    let stage = Stage::dead(&[("no customer", 3)]).await;
    let plan = done(&stage).await;
    copies(&*stage.store, &plan, 120).await;
    let rests = stage.engine.redrives().plan(by_kind()).create().await;
    assert!(rests.is_err(), "nothing is left to drive");
    assert!(!drawer(&*stage.store, Drawer::PlanJobs).await.items.is_empty());
    stage.pass(DAY * 89);
    stage.maintain().await;
    assert_eq!(stage.engine.redrives().list().await.expect("the model is there").len(), 121);
    assert!(drawer(&*stage.store, Drawer::Audit).await.items.is_empty());
    stage.pass(DAY * 2);
    stage.maintain().await;
    assert_eq!(stage.engine.redrives().list().await.expect("the model is there"), []);
    for gone in [Drawer::Plans, Drawer::PlanJobs, Drawer::PlanMarks] {
        assert_eq!(drawer(&*stage.store, gone).await.items, [], "{gone}");
    }
    let mut lines = drawer(&*stage.store, Drawer::Audit).await.items;
    lines.retain(|line| line.body.contains("/api/v1/redrives/"));
    assert_eq!(lines.len(), 121);
    let about = lines.iter().find(|line| line.body.contains(plan.id.as_str())).expect("each has a line");
    assert!(about.body.contains("\"who\":\"maintenance\"") && about.body.contains("done"), "{}", about.body);
}

#[tokio::test]
async fn what_is_not_over_stays_and_so_does_everything_that_is_kept_for_ever() {
    // D2, D4
    let stage = Stage::dead(&[("no customer", 3)]).await;
    let waiting = stage.engine.redrives().plan(by_kind()).create().await.expect("there are some");
    let forever = Retirement::default().plans(None).incidents(None).queues(None);
    let keeps = Backstop::on(stage.store.clone(), Config::default().retirement(forever));
    let plan = done(&stage).await;
    stage.pass(DAY * 1_000);
    keeps.maintain(stage.node, TERM).await.expect("the model is there");
    assert_eq!(stage.engine.redrives().list().await.expect("the model is there").len(), 2);
    stage.maintain().await;
    let left = stage.engine.redrives().list().await.expect("the model is there");
    assert_eq!(left.iter().map(|plan| &plan.id).collect::<Vec<_>>(), [&waiting.id], "and not {}", plan.id);
}

#[tokio::test]
async fn incidents_go_by_age_once_their_dead_letters_are_gone() {
    // D2
    let stage = Stage::dead(&[("no customer", 3), ("no paper", 1)]).await;
    let (over, open) =
        (incident(&stage.engine, "no customer").await, incident(&stage.engine, "no paper").await);
    stage.pass(DAY * 80);
    let dead = jobs(&stage.engine, "no customer").await.iter().map(|view| view.job.spec.id).collect();
    stage.engine.archive().purge(dead).await.expect("the model is there");
    stage.pass(DAY * 9);
    stage.maintain().await;
    assert!(
        stage.engine.incidents().get(&over).await.expect("the model is there").is_some(),
        "not before its time"
    );
    stage.pass(DAY * 2);
    // Dead letters are archived after as long, and then nothing is open any more.
    stage.maintain().await;
    stage.maintain().await;
    for gone in [&over, &open] {
        assert!(stage.engine.incidents().get(gone).await.expect("the model is there").is_none(), "{gone}");
    }
    let lines = drawer(&*stage.store, Drawer::Audit).await.items;
    let text: String = lines.iter().map(|line| line.body.to_string()).collect();
    assert!(text.contains("no customer") && text.contains("3 dead letters"), "{text}");
}
