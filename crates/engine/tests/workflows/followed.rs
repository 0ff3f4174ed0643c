//! What follows a workflow or a batch is told how that ended, and given what it came to (W1, W3, F14).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backstop_store::{JobFilter, PageRequest, Store};
use serde_json::json;

use super::{Add, AddTo, Badly, Double, Frail, Stage, SumUp, Well};

/// W1, F14: what follows a workflow is given the results of its last steps, also when it failed.
pub(super) async fn what_follows_is_given_what_it_came_to(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let chain = engine.chain("priced", engine.enqueue(Add { a: 1, b: 2 }));
    let chain = chain.then_with_result(engine.enqueue(Double(0))).then_on_failure(engine.enqueue(Badly {}));
    let then = AddTo { step: "double".into(), more: 100 };
    chain.on_success(&then).on_failure(&Badly {}).submit().await.expect("a chain that can be");
    assert_eq!(stage.drain().await, 3);
    assert_eq!(newest(&stage, "add_to").await.1.as_deref(), Some("106"));

    for (broken, sum) in [(false, "11"), (true, "10")] {
        stage.site.broken.store(broken, Ordering::SeqCst);
        let mut flow = engine.workflow("two ends").on_success(&SumUp {}).on_failure(&SumUp {});
        let first = flow.step("first", engine.enqueue(Add { a: 1, b: 1 })).add();
        flow.step("left", engine.enqueue(Add { a: 10, b: 0 })).after(&first).add();
        flow.step("right", engine.enqueue(Frail {})).after(&first).add();
        flow.submit().await.expect("a shape that can be");
        assert_eq!(stage.drain().await, 4, "three steps, and what follows");
        assert_eq!(newest(&stage, "sum_up").await.1.as_deref(), Some(sum), "broken: {broken}");
    }
}

/// The params and the result of the newest job of a kind.
async fn newest(stage: &Stage, kind: &str) -> (Option<Arc<str>>, Option<Arc<str>>) {
    let filter = JobFilter { kind: Some(kind.into()), ..JobFilter::default() };
    let found = stage.engine.jobs(filter, PageRequest::first(1)).await.expect("the store is there").items;
    (found[0].job.spec.params.clone(), found[0].result.clone())
}

/// What the newest job of a kind is told.
async fn told(stage: &Stage, kind: &str) -> serde_json::Value {
    let params = newest(stage, kind).await.0.expect("it is told something");
    serde_json::from_str::<serde_json::Value>(&params).expect("JSON")["workflow"].take()
}

/// W3, F14: what follows a workflow or a batch is told how it ended and what failed.
pub(super) async fn what_follows_is_told_what_failed(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("told").key("told").on_failure(&Badly {});
    let add = flow.step("add", engine.enqueue(Add { a: 1, b: 1 })).add();
    let frail = flow.step("weak", engine.enqueue(Frail {}).params(json!({ "shop": "a" }))).after(&add).add();
    flow.step("behind", engine.enqueue(Add { a: 1, b: 1 })).after(&frail).add();
    let flow = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 3);
    let seen = told(&stage, "badly").await;
    assert_eq!(
        (&seen["id"], &seen["key"], &seen["status"]),
        (&json!(flow.id), &json!("told"), &json!("failed"))
    );
    assert_eq!(seen["counts"], json!({ "total": 3, "succeeded": 1, "failed": 1, "canceled": 1 }));
    let failed = json!({
        "step": "weak",
        "job": super::job_of(&flow, "weak"),
        "kind": "frail",
        "attempts": 1,
        "reason": "retry_exhausted",
        "error": { "type": seen["failed"]["error"]["type"], "message": "broken" },
        "params": { "shop": "a" },
    });
    assert_eq!(seen["failed"], failed);

    let batch = engine.batch("told").then_on_failure(Badly {}).then_on_success(Well {});
    batch.for_each(0..3, |_| engine.enqueue(Frail {})).await.expect("stored");
    stage.drain().await;
    let seen = told(&stage, "badly").await;
    assert_eq!(
        (&seen["counts"]["failed"], &seen["failed"]["error"]["message"]),
        (&json!(3), &json!("broken"))
    );
    assert_eq!(seen["failed"]["step"], json!(null));
    stage.site.broken.store(false, Ordering::SeqCst);
    let well = engine.batch("well").then_on_success(Well {});
    well.for_each(0..1, |a| engine.enqueue(Add { a, b: 1 })).await.expect("stored");
    stage.drain().await;
    let seen = told(&stage, "well").await;
    assert_eq!((&seen["counts"]["succeeded"], &seen["failed"]), (&json!(1), &json!(null)));
}
