//! What is kept of the jobs of a plan, and how often they are looked at: counted, so that it says the same everywhere.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, JobId};
use backstop_core::job::PlanId;
use backstop_core::redrive::{Plan, PlanJob, PlanJobOutcome, PlanPhase, PlanSelector};
use backstop_store::{Amend, Amended, Document, DocumentRange, Drawer, Edit, Expect, PageRequest, Store};

use crate::frail::{Frail, Trouble};
use crate::scenario::{Shop, report, submit, worker};
use crate::stage::{Stage, in_tokio_time};

fn by_kind() -> PlanSelector {
    PlanSelector { kind: Some("invoice.render".into()), ..PlanSelector::default() }
}

/// A plan over everything that goes as fast as it can, on its way.
async fn started(engine: &Backstop, batch: u32) -> Plan {
    let plan = engine.redrives().plan(by_kind()).batch(batch).in_flight(batch * 10).per_second(u32::MAX);
    let plan = plan.create().await.expect("made");
    engine.redrives().start(&plan.id, "ann").await.expect("planned")
}

/// What is kept of the jobs of a plan.
async fn kept(store: &dyn Store, plan: &PlanId) -> Vec<Document> {
    let range = DocumentRange::first(Drawer::PlanJobs, 1_000).under(format!("{plan}/"));
    store.documents(range).await.expect("the model is there").items
}

fn jobs_of(items: &[PlanJob]) -> BTreeSet<JobId> {
    items.iter().map(|item| item.job).collect()
}

#[tokio::test]
async fn a_batch_is_kept_on_a_few_sheets_and_read_in_pages_of_any_size() {
    // D4
    const JOBS: usize = 601;
    let stage = Stage::dead(&[("no customer", JOBS)]).await;
    stage.shop.mend("no customer");
    let plan = started(&stage.engine, 600).await;
    stage.reach(&plan.id, PlanPhase::Done).await;
    let keys: Vec<String> = kept(&*stage.store, &plan.id).await.into_iter().map(|kept| kept.key).collect();
    assert_eq!(keys.len(), 1 + 3, "the canary, and 250, 250 and 100 of the batch: {keys:?}");
    assert!(keys.iter().all(|key| key.starts_with(&format!("{}/end/", plan.id))), "{keys:?}");
    let whole = report(&stage.engine, &plan.id).await;
    assert_eq!((whole.len(), jobs_of(&whole).len()), (JOBS, JOBS), "one line for each job");
    for limit in [50, 250, 251, 601, 1_000] {
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let page = stage.engine.redrives().items(&plan.id, PageRequest { limit, after }).await;
            let page = page.expect("the model is there");
            assert!(page.items.len() == limit || page.next.is_none(), "pages of {limit} are full");
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(items == whole, "pages of {limit} are parts of the whole");
    }
    let too_large = stage.engine.redrives().items(&plan.id, PageRequest::first(1_001)).await;
    assert_eq!(too_large.expect_err("too large").code(), "too_large");
    let none = stage.engine.redrives().items(&plan.id, PageRequest::first(0)).await.expect("nothing");
    assert_eq!((none.items.len(), none.next), (0, None));
}

/// Writes what is kept of a plan as earlier versions did: a document for each job.
async fn as_before(store: &dyn Store, plan: &PlanId) -> usize {
    let mut edits = Vec::new();
    for document in kept(store, plan).await {
        let part = if document.key.contains("/open/") { "open" } else { "end" };
        let items: Vec<PlanJob> = serde_json::from_str(&document.body).expect("a job list");
        let edit = |key, body| Edit { drawer: Drawer::PlanJobs, key, expect: Expect::Any, body };
        edits.push(edit(document.key, None));
        edits.extend(items.iter().map(|item| {
            let body = serde_json::to_string(item).expect("plain JSON");
            edit(format!("{plan}/{part}/{}", item.job), Some(body.into()))
        }));
    }
    let amended = store.amend(Amend { edits, ..Amend::default() }).await.expect("the model is there");
    assert!(matches!(amended, Amended::Done { .. }));
    kept(store, plan).await.len()
}

#[tokio::test]
async fn what_an_earlier_version_kept_is_read_and_comes_to_its_end() {
    // D4
    let stage = Stage::dead(&[("disk full", 5), ("no customer", 36)]).await;
    stage.shop.mend("no customer");
    let plan = started(&stage.engine, 40).await;
    for _ in 0..2 {
        stage.maintain().await;
        stage.work().await;
        stage.pass(Duration::from_millis(700));
    }
    // The canary has ended and was seen; the rest has been driven, and nobody has looked at it since.
    assert_eq!(as_before(&*stage.store, &plan.id).await, 41);
    let before = report(&stage.engine, &plan.id).await;
    assert_eq!((before.len(), jobs_of(&before).len()), (41, 41));
    let halted = stage.reach(&plan.id, PlanPhase::Halted).await;
    assert_eq!((halted.counts.succeeded, halted.counts.failed_same), (36, 5), "{}", halted.describe());
    // What is kept of those that are driven once more is taken back, wherever it is.
    stage.shop.mend("disk full");
    stage.engine.redrives().resume(&plan.id, "ann").await.expect("halted");
    stage.reach(&plan.id, PlanPhase::Done).await;
    let after = report(&stage.engine, &plan.id).await;
    assert_eq!((after.len(), jobs_of(&after)), (41, jobs_of(&before)));
    assert!(after.iter().all(|item| item.outcome == Some(PlanJobOutcome::Succeeded)), "{after:?}");
}

#[tokio::test]
async fn a_job_that_is_driven_in_two_rounds_has_one_line() {
    // D4: the newest go first, so those that fail again are on one list with others that do not.
    let stage = Stage::dead(&[("disk full", 20), ("no customer", 301)]).await;
    stage.shop.mend("no customer");
    let plan = started(&stage.engine, 500).await;
    let halted = stage.reach(&plan.id, PlanPhase::Halted).await;
    assert_eq!((halted.counts.succeeded, halted.counts.failed_same), (301, 20), "{}", halted.describe());
    stage.shop.mend("disk full");
    stage.engine.redrives().resume(&plan.id, "ann").await.expect("halted");
    let done = stage.reach(&plan.id, PlanPhase::Done).await;
    assert_eq!((done.counts.driven, done.counts.succeeded), (341, 321), "each drive is counted");
    let items = report(&stage.engine, &plan.id).await;
    assert_eq!((items.len(), jobs_of(&items).len()), (321, 321), "each job has one line");
    assert!(items.iter().all(|item| item.outcome == Some(PlanJobOutcome::Succeeded)));
    assert_eq!(items.iter().filter(|item| item.round == 2).count(), 20);
}

#[tokio::test]
async fn a_sheet_with_one_job_in_flight_stays_open_and_is_counted_once() {
    // D4: the job that waits is paused, the others of its list end around it.
    let stage = Stage::dead(&[("no customer", 31)]).await;
    stage.shop.mend("no customer");
    let plan = started(&stage.engine, 30).await;
    stage.maintain().await;
    stage.work().await;
    stage.pass(Duration::from_millis(700));
    stage.maintain().await;
    let open = format!("{}/open/", plan.id);
    let in_flight = kept(&*stage.store, &plan.id).await.into_iter().find(|kept| kept.key.starts_with(&open));
    let items: Vec<PlanJob> =
        serde_json::from_str(&in_flight.expect("one is open").body).expect("a job list");
    let slow = vec![items[7].job];
    let paused = stage.store.operate(slow.clone(), backstop_core::job::Operation::Pause).await;
    assert!(paused.expect("the model is there")[0].is_ok());
    for _ in 0..3 {
        stage.work().await;
        stage.pass(Duration::from_millis(700));
        stage.maintain().await;
        let seen = stage.engine.redrives().get(&plan.id).await.expect("it is there");
        assert_eq!((seen.counts.succeeded, seen.open), (30, 1), "{}", seen.describe());
    }
    let resumed = stage.store.operate(slow, backstop_core::job::Operation::Resume).await;
    assert!(resumed.expect("the model is there")[0].is_ok());
    let done = stage.reach(&plan.id, PlanPhase::Done).await;
    assert_eq!(done.counts.succeeded, 31);
    assert!(kept(&*stage.store, &plan.id).await.iter().all(|kept| !kept.key.starts_with(&open)));
}

#[tokio::test(start_paused = true)]
async fn jobs_in_flight_are_not_looked_at_again_and_again() {
    // D4: 1,500 are in flight, and the worker needs a second for them.
    const JOBS: usize = 2_000;
    let store = Frail::new(in_tokio_time(), usize::MAX, Trouble::Forgotten);
    let engine = Backstop::on(store.clone(), Config::default());
    let shop = Shop::with(&["no customer"]);
    submit(&engine, "no customer", JOBS).await;
    let running = worker(&engine, &shop).poll(Duration::from_millis(10)).start().await.expect("started");
    let dead =
        async || engine.queues().list().await.expect("there").iter().map(|queue| queue.failed).sum::<u64>();
    while dead().await < JOBS as u64 {
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    shop.mend("no customer");
    tokio::time::advance(Duration::from_secs(1)).await;
    let plan = started(&engine, 150).await;
    while engine.redrives().get(&plan.id).await.expect("it is there").phase != PlanPhase::Done {
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    running.stop().await;
    let looks = store.looks();
    assert!((JOBS..=5 * JOBS).contains(&looks), "{looks} looks at {JOBS} jobs");
}
