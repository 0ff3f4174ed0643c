//! What steps are given is read for many of them at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstop::prelude::*;
use backstop::workflows::WorkflowStatus;
use backstop::{Config, JobId};
use backstop_core::job::JobDetail;
use backstop_store::{Answer, Layer, Store};

use super::{Add, AddTo, Site};

/// Steps that follow one.
const MANY: u32 = 400;
/// Runs at once.
const SLOTS: usize = 100;

/// A store that takes a moment to answer, as one across a network does, and counts what it is asked.
struct Distant {
    below: Arc<dyn Store>,
    asked: AtomicUsize,
}

impl Layer for Distant {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            // Everybody else has a turn meanwhile.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            self.below.jobs(ids).await
        })
    }
}

/// W1: steps that start together read what they are given together, and each is given its own.
pub(super) async fn steps_that_start_together_read_together(store: Arc<dyn Store>) {
    let store = Arc::new(Distant { below: store, asked: AtomicUsize::new(0) });
    let engine = Backstop::on(store.clone(), Config::default());
    let mut flow = engine.workflow("gathered");
    let first = flow.step("first", engine.enqueue(Add { a: 20, b: 1 })).add();
    let steps: Vec<_> = (0..MANY)
        .map(|more| {
            let step = engine.enqueue(AddTo { step: "first".into(), more });
            flow.step(format!("s{more}"), step).after(&first).add()
        })
        .collect();
    assert_eq!(steps.len(), MANY as usize);
    let submitted = flow.submit().await.expect("a shape that can be");
    let site = Arc::new(Site::default());
    let worker = engine.worker_sharing(site).register_all().queue("default", SLOTS).start().await;
    let worker = worker.expect("started");
    let ended = engine.workflows().wait(submitted.id, |_| {}).await;
    assert_eq!(ended.expect("it ends").status, WorkflowStatus::Succeeded);
    worker.stop().await;
    // Nobody else asks for jobs by id here: a step each would be as many as there are steps.
    let asked = store.asked.load(Ordering::SeqCst);
    assert!(asked <= MANY as usize / 8, "{asked} reads for {MANY} steps in {SLOTS} slots");
    for more in [0, 7, MANY - 1] {
        let job = super::job_of(&submitted, &format!("s{more}"));
        let view = engine.job(job).await.expect("the store is there").expect("it is stored").view;
        assert_eq!(view.result.as_deref(), Some(&*(21 + more).to_string()));
    }
}
