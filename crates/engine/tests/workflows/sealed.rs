//! Processes without the encryption keys beside one that has them.

use std::sync::Arc;

use backstop::prelude::*;
use backstop::workflows::WorkflowStatus;
use backstop::{Config, Encryption, State};
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use backstop_store::{Answer, Document, Drawer, Layer, Store};

use super::{Add, AddTo, NODE, Stage, TERM, Well, job_of};

/// What `Add` returns is sealed.
fn keyed() -> Config {
    let key = SecretKey::new("k", vec![7; 32]).expect("a key");
    let keys = SealingKeys::new(vec![key]).expect("keys");
    Config::default().encryption(Encryption::new(keys).kind("add"))
}

/// A store in which a node without keys looks at all notes just before another one does what follows from them.
struct KeylessFirst {
    below: Arc<dyn Store>,
    keyless: Backstop,
}

impl Layer for KeylessFirst {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn named_documents(&self, names: Vec<(Drawer, String)>) -> Answer<'_, Vec<Option<Document>>> {
        Box::pin(async move {
            if names.iter().any(|(drawer, _)| *drawer == Drawer::Workflows) {
                self.keyless.maintain(NODE, TERM).await.expect("maintained");
            }
            self.below.named_documents(names).await
        })
    }
}

/// W2, E12: what follows from a sealed result is decided where the key is, whoever looks first.
pub(super) async fn a_sealed_result_decides_where_the_key_is(store: Arc<dyn Store>) {
    let keyless = Backstop::on(store.clone(), Config::default());
    let layer: Arc<dyn Store> = Arc::new(KeylessFirst { below: store, keyless });
    let stage = Stage::with(&layer, keyed());
    let engine = &stage.engine;
    let mut flow = engine.workflow("sealed branch");
    let first = flow.step("add", engine.enqueue(Add { a: 1, b: 2 })).add();
    flow.first_match(&first);
    flow.step("three", engine.enqueue(Well {})).after(&first).when_result("", 3).add();
    flow.step("rest", engine.enqueue(Well {})).after(&first).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    let ran = stage.worker.drain(50).await.expect("the store is there");
    assert_eq!(ran.len(), 2, "add, and one branch");
    assert_eq!(stage.state(&submitted, "three").await.0, State::Succeeded);
    assert_eq!(stage.state(&submitted, "rest").await, (State::Canceled, Some("not_taken".into())));
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Succeeded);
}

/// W1, E12: a step is not given what stands for a sealed result: it fails, says why, and goes on where the key is.
pub(super) async fn a_step_is_not_given_what_stays_sealed(store: Arc<dyn Store>) {
    let stage = Stage::with(&store, keyed());
    let engine = &stage.engine;
    let chain = engine.chain("sealed input", engine.enqueue(Add { a: 1, b: 2 }));
    let chain = chain.then(engine.enqueue(AddTo { step: "add".into(), more: 10 }));
    let submitted = chain.submit().await.expect("a chain that can be");
    let next = job_of(&submitted, "add_to");
    engine.pause(next).await.expect("it waits");
    assert_eq!(stage.drain().await, 1);
    engine.resume(next).await.expect("paused");
    assert_eq!(Stage::on(&store).drain().await, 1, "without keys");
    let job = engine.job(next).await.expect("the store is there").expect("it is stored").view;
    let message = job.last_failure.expect("it has failed").message;
    assert_eq!(job.record.state, State::Failed, "{message}");
    assert!(message.starts_with("the result of step `add` cannot be opened"), "{message}");
    engine.retry(next).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 1);
    assert_eq!(stage.result(&submitted, "add_to").await, 13);
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Succeeded);
}
