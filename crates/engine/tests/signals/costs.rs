//! What waiting costs: nothing, however many wait and however long.

use std::sync::Arc;

use backstop_store::{Amend, DocumentRange, Drawer, Edit, Expect, Store};

use super::counted::CountedStore;
use super::{HOUR, Publish, Stage};

/// Jobs that wait for one signal: 10,000 under `cargo xtask torture`.
fn many() -> u64 {
    if std::env::var_os("BACKSTOP_TORTURE").is_some() { 10_000 } else { 1_000 }
}

/// W10: jobs that wait cost nothing while they wait, and one signal lets all of them go in a few transactions.
pub(super) async fn waiting_costs_nothing(store: Arc<dyn Store>) {
    let many = many();
    let counted = CountedStore::over(store);
    let store: Arc<dyn Store> = counted.clone();
    let stage = Stage::on(&store);
    // Only what stays the same is counted: what there is to tidy up is done before.
    let idle = async || {
        for _ in 0..3 {
            stage.maintain().await;
        }
        let before = counted.calls();
        stage.maintain().await;
        assert_eq!(stage.drain().await, 0);
        counted.calls() - before
    };
    let without = idle().await;
    for _ in 0..many / 1_000 {
        let job = || stage.engine.enqueue(Publish { key: "many".into(), wait_ms: HOUR }).untyped();
        let stored = stage.engine.submit_all((0..1_000).map(|_| job()).collect(), true).await;
        assert!(stored.expect("the store is there").iter().all(Result::is_ok));
    }
    stage.work_until(|queue| queue.waiting == many).await;
    assert_eq!(idle().await, without, "claims and maintenance do not look at those that wait");
    let before = counted.calls();
    assert_eq!(stage.send("many", "ann").await.delivered, many);
    let sending = counted.calls() - before;
    assert!(sending < many / 100, "one signal for {many} jobs asked the store {sending} times");
    stage.work_until(|queue| queue.succeeded >= many).await;
}

/// W10: whoever waits for years is looked at now and then: of a job that was canceled nothing stays.
pub(super) async fn a_long_wait_is_looked_at(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let one = Publish { key: "post/9".into(), wait_ms: 400 * 24 * HOUR };
        ids.push(stage.engine.enqueue(one).submit().await.expect("stored").id);
    }
    stage.drain().await;
    stage.engine.cancel(ids[0], "not needed").await.expect("it waits");
    for _ in 0..2 {
        make_due(&*store).await;
        stage.maintain().await;
        assert_eq!(stage.count(Drawer::SignalWaits).await, 1, "one of them waits still");
    }
    assert_eq!(stage.send("post/9", "ann").await.delivered, 1);
    let looks = store.documents(DocumentRange::first(Drawer::SignalTimes, 1_000)).await.expect("documents");
    assert!(!looks.items.iter().any(|look| look.body.contains("post/9")), "nobody looks at it any more");
    assert_eq!(stage.drain().await, 1);
}

/// Has the moment come of everything that somebody is to look at.
async fn make_due(store: &dyn Store) {
    let looks = store.documents(DocumentRange::first(Drawer::SignalTimes, 100)).await.expect("documents");
    let now = looks.now;
    let edits = looks.items.into_iter().flat_map(|look| {
        let (_, rest) = look.key.split_once('/').expect("a place");
        let due = format!("{:019}/{rest}", now.as_micros() - 1);
        let edit = |key, body| Edit { drawer: Drawer::SignalTimes, key, expect: Expect::Any, body };
        [edit(look.key.clone(), None), edit(due, Some(look.body))]
    });
    store.amend(Amend { edits: edits.collect(), ..Amend::default() }).await.expect("written");
}
