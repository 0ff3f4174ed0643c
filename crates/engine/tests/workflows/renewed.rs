//! Steps that were called off behind a dead one, and run after all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::prelude::*;
use backstop::workflows::{NodeEnd, NodeState, WorkflowStatus};
use backstop::{Config, Encryption, Retention};
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use backstop_store::Store;

use super::{Add, AddTo, Badly, Frail, Stage, Well, ends, job_of};

/// Fails for good as long as its input is below ten.
#[job(max_retries = 0)]
async fn picky(cx: JobContext<super::Site>, step: String) -> JobResult<u32> {
    let given = cx.input::<u32>(&step)?;
    if given < 10 { Err("too little".into()) } else { Ok(given) }
}

/// What is called off is archived at once.
fn hasty() -> Config {
    Config::default().retention(Retention::default().canceled(Some(Duration::ZERO)))
}

/// W4: a step that was called off runs after all and dies: then its failure branch runs, which had not been taken.
pub(super) async fn a_step_decided_behind_a_dead_one_is_decided_anew(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("twice dead");
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    let picky = flow.step("picky", engine.enqueue(Picky { step: "frail".into() })).after(&frail).add();
    flow.step("notify", engine.enqueue(Badly {})).after(&picky).on_failure().add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 1);
    let view = stage.view(&submitted).await;
    assert_eq!(ends(&view)[2], ("notify", NodeState::Ended(NodeEnd::NotTaken)));
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 3, "frail, picky, and its failure branch");
    assert_eq!(stage.site.ended_badly.load(Ordering::SeqCst), 1);
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Failed, "picky is dead");
}

/// W4, L16, E12: dead letters stay longer than what was called off behind them: it is made again of what the archive
/// has, with its callbacks and what is sealed.
pub(super) async fn a_dead_step_goes_on_from_the_archive(store: Arc<dyn Store>) {
    let key = SecretKey::new("k", vec![7; 32]).expect("a key");
    let keys = SealingKeys::new(vec![key]).expect("keys");
    let stage = Stage::with(&store, hasty().encryption(Encryption::new(keys).kind("well").kind("add_to")));
    let engine = &stage.engine;
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("archived");
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    let next = engine.enqueue(AddTo { step: "frail".into(), more: 1 }).on_success(Well {});
    let next = flow.step("next", next).after(&frail).add();
    flow.step("last", engine.enqueue(super::Double(0))).payload_from(&next).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 1);
    assert_eq!(stage.drain().await, 0);
    for node in ["next", "last"] {
        let job = job_of(&submitted, node);
        assert!(engine.job(job).await.expect("the store is there").is_none(), "{node} is archived");
        assert!(engine.archive().get(job).await.expect("the store is there").is_some(), "{node}");
    }
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 4, "frail, next, its callback, last");
    let view = stage.view(&submitted).await;
    assert_eq!((view.status, stage.site.ended_well.load(Ordering::SeqCst)), (WorkflowStatus::Succeeded, 1));
    let last = engine.job(view.nodes[2].job).await.expect("the store is there").expect("it is stored");
    assert_eq!(last.view.result.as_deref(), Some("4"), "its payload is the result before it");
}

/// W4: a step whose job was purged cannot run: it has failed, for all to see, and its failure branch runs.
pub(super) async fn a_step_of_which_nothing_is_left_fails(store: Arc<dyn Store>) {
    let stage = Stage::with(&store, hasty());
    let engine = &stage.engine;
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("purged");
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    let next = flow.step("next", engine.enqueue(Add { a: 1, b: 1 })).after(&frail).add();
    flow.step("notify", engine.enqueue(Badly {})).after(&next).on_failure().add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 1);
    let purged = engine.archive().purge(vec![job_of(&submitted, "next")]).await.expect("the store is there");
    assert!(purged[0].is_ok(), "{purged:?}");
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 2, "frail, and the failure branch of what is gone");
    let view = stage.view(&submitted).await;
    let states: Vec<NodeState> = view.nodes.iter().map(|node| node.state).collect();
    let wanted = [NodeEnd::Succeeded, NodeEnd::Failed, NodeEnd::Succeeded].map(NodeState::Ended);
    assert_eq!((view.status, states), (WorkflowStatus::Failed, wanted.to_vec()));
    assert_eq!(stage.site.ended_badly.load(Ordering::SeqCst), 1);
}

/// W4, L11: a step whose business key another job has by then fails, for all to see, and holds up no others.
pub(super) async fn a_step_whose_key_is_held_fails(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("key held");
    let frail = flow.step("frail", engine.enqueue(Frail {})).add();
    let next = engine.enqueue(Add { a: 1, b: 1 }).business_key("held by another");
    let next = flow.step("next", next).after(&frail).add();
    flow.step("other", engine.enqueue(Add { a: 2, b: 2 })).after(&frail).add();
    flow.step("notify", engine.enqueue(Badly {})).after(&next).on_failure().add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 1);
    let holder = engine.enqueue(Add { a: 3, b: 3 }).business_key("held by another");
    let holder = holder.delay(Duration::from_secs(60 * 60)).submit().await.expect("the key is free");
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 3, "frail, other, and the failure branch of what cannot run");
    let view = stage.view(&submitted).await;
    let states: Vec<NodeState> = view.nodes.iter().map(|node| node.state).collect();
    let wanted = [NodeEnd::Succeeded, NodeEnd::Failed, NodeEnd::Succeeded, NodeEnd::Succeeded];
    assert_eq!((view.status, states), (WorkflowStatus::Failed, wanted.map(NodeState::Ended).to_vec()));
    assert_eq!(stage.site.ended_badly.load(Ordering::SeqCst), 1);
    engine.cancel(holder.id, "enough").await.expect("it waits");
}
