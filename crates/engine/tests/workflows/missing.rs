//! Steps after one whose result is gone, or was never kept.

use std::sync::Arc;

use backstop::prelude::*;
use backstop::workflows::{NodeEnd, NodeState, SubmittedWorkflow, WorkflowStatus};
use backstop::{Config, State};
use backstop_store::Store;

use super::{Add, AddTo, Stage, SumUp, Well, ends, job_of};

/// Returns more than is kept here.
#[job]
async fn verbose() -> JobResult<String> {
    Ok("x".repeat(100))
}

/// Why a step is dead.
async fn dead_because(stage: &Stage, submitted: &SubmittedWorkflow, node: &str) -> String {
    let job = stage.engine.job(job_of(submitted, node)).await.expect("the store is there");
    let view = job.expect("it is stored").view;
    assert_eq!(view.record.state, State::Failed, "{node}");
    view.last_failure.expect("it has failed").message
}

/// W1, D5: a step fails for good when the job before it was purged, and says so.
pub(super) async fn a_step_after_a_purged_one_fails(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let chain = engine.chain("purged before", engine.enqueue(Add { a: 1, b: 2 }));
    let chain = chain.then(engine.enqueue(AddTo { step: "add".into(), more: 10 }));
    let submitted = chain.submit().await.expect("a chain that can be");
    let next = job_of(&submitted, "add_to");
    engine.pause(next).await.expect("it waits");
    assert_eq!(stage.drain().await, 1);
    let purged = engine.archive().purge(vec![job_of(&submitted, "add")]).await.expect("the store is there");
    assert!(purged[0].is_ok(), "{purged:?}");
    engine.resume(next).await.expect("paused");
    assert_eq!(stage.drain().await, 1);
    let because = dead_because(&stage, &submitted, "add_to").await;
    assert_eq!(because, "the result of step `add` is missing: its job was removed");
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Failed);
}

/// W1, W2, L6: a result that was not kept is no result, for no step and no condition; nothing is one.
pub(super) async fn a_step_after_a_result_that_was_not_kept_fails(store: Arc<dyn Store>) {
    let mut config = Config::default();
    config.limits.result_bytes = 50;
    let stage = Stage::with(&store, config);
    let engine = &stage.engine;
    let mut flow = engine.workflow("not kept");
    let large = flow.step("large", engine.enqueue(Verbose {})).add();
    let nothing = flow.step("nothing", engine.enqueue(Well {})).add();
    flow.step("behind", engine.enqueue(SumUp {})).after(&large).add();
    flow.step("branch", engine.enqueue(Well {})).after(&large).when_result("", ()).add();
    flow.step("sum", engine.enqueue(SumUp {})).after(&nothing).add();
    flow.step("null", engine.enqueue(Well {})).after(&nothing).when_result("", ()).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 5, "all but the branch");
    let because = dead_because(&stage, &submitted, "behind").await;
    let why =
        "the result of step `large` is missing: the result was not kept: it has 102 bytes, the limit is 50";
    assert_eq!(because, why);
    let view = stage.view(&submitted).await;
    let named: Vec<_> = ends(&view).into_iter().skip(2).collect();
    let wanted = [
        ("behind", NodeEnd::Failed),
        ("branch", NodeEnd::NotTaken),
        ("sum", NodeEnd::Succeeded),
        ("null", NodeEnd::Succeeded),
    ];
    assert_eq!(named, wanted.map(|(name, end)| (name, NodeState::Ended(end))));
    assert_eq!(stage.result(&submitted, "sum").await, 0);
}
