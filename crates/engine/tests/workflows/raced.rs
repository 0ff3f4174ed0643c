//! Ends that two come to at once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop::Config;
use backstop::prelude::*;
use backstop::workflows::WorkflowStatus;
use backstop_store::{Answer, Document, Drawer, JobFilter, Layer, PageRequest, Store};

use super::{Add, NODE, TERM};

/// A store in which another node does what follows just when this one has read the notes of ends.
struct OtherNode {
    below: Arc<dyn Store>,
    other: Backstop,
    comes: AtomicBool,
}

impl Layer for OtherNode {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn named_documents(&self, names: Vec<(Drawer, String)>) -> Answer<'_, Vec<Option<Document>>> {
        Box::pin(async move {
            if self.comes.swap(false, Ordering::SeqCst) {
                self.other.maintain(NODE, TERM).await.expect("maintained");
            }
            self.below.named_documents(names).await
        })
    }
}

/// W3: two nodes take the same ends, and each counts once.
pub(super) async fn ends_count_once(store: Arc<dyn Store>) {
    let other = Backstop::on(store.clone(), Config::default());
    let layer = Arc::new(OtherNode { below: store, other, comes: AtomicBool::new(false) });
    let engine = Backstop::on(layer.clone(), Config::default());
    let batch = engine.batch("raced").for_each(0..3, |n| engine.enqueue(Add { a: n, b: n })).await;
    let batch = batch.expect("stored");
    let filter = JobFilter { tag: Some(format!("batch:{}", batch.id)), ..JobFilter::default() };
    let jobs = engine.jobs(filter, PageRequest::first(10)).await.expect("readable").items;
    for view in jobs.iter().skip(1) {
        engine.cancel(view.job.spec.id, "not wanted").await.expect("canceled");
    }
    layer.comes.store(true, Ordering::SeqCst);
    engine.maintain(NODE, TERM).await.expect("maintained");
    assert!(!layer.comes.load(Ordering::SeqCst), "the other node was there in between");
    let seen = batch.view().await.expect("readable");
    assert_eq!((seen.counts.canceled, seen.status), (2, WorkflowStatus::Running), "one job has not ended");
    engine.cancel(jobs[0].job.spec.id, "not wanted").await.expect("canceled");
    engine.maintain(NODE, TERM).await.expect("maintained");
    let seen = batch.view().await.expect("readable");
    assert_eq!((seen.counts.canceled, seen.status.is_over()), (3, true));
}

/// Calls itself off while it runs, and stops when it is told.
#[derive(Serialize, Deserialize)]
struct Quitter {}

impl Job for Quitter {
    const KIND: &'static str = "quitter";
    type Context = OnceLock<Backstop>;
    type Output = JobResult;

    async fn run(self, cx: JobContext<OnceLock<Backstop>>) -> JobResult {
        let engine = cx.app().get().expect("it is set");
        engine.cancel(cx.id(), "not wanted any more").await?;
        cx.canceled().await;
        Ok(())
    }
}

/// W5: a child that is called off while it runs counts as failed for its batch.
pub(super) async fn a_child_that_is_called_off_while_it_runs_has_failed(store: Arc<dyn Store>) {
    let engine = Backstop::on(store, Config::default());
    let context = OnceLock::from(engine.clone());
    let worker =
        engine.worker(context).register::<Quitter>().queue("default", 1).inline().expect("it has a kind");
    let batch =
        engine.batch("quitters").for_each(0..1, |_| engine.enqueue(Quitter {})).await.expect("stored");
    assert_eq!(worker.drain(10).await.expect("the store is there").len(), 1, "it has run");
    engine.maintain(NODE, TERM).await.expect("maintained");
    let view = batch.view().await.expect("it is there");
    let ended = (view.status, view.counts.canceled, view.counts.succeeded);
    assert_eq!(ended, (WorkflowStatus::Failed, 1, 0));
}
