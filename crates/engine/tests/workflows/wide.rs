//! Graphs with many steps (W3, W6): their sets, and what is stored of how far they are.

use std::sync::Arc;

use backstop::workflows::{Condition, SubmittedWorkflow, WorkflowFilter, WorkflowStatus};
use backstop_store::{Amend, Drawer, Edit, Expect, PageRequest, Store};
use serde_json::{Value, json};

use super::{Add, Stage, SumUp};

/// Steps between the first and the last one: more than a workflow tells of in its own document.
const MANY: u64 = 100;

/// What the document of a workflow may have, in bytes.
const SHORT: usize = 600;

/// Many steps that follow one, and one that follows all of them.
async fn wide(stage: &Stage) -> SubmittedWorkflow {
    let engine = &stage.engine;
    let mut flow = engine.workflow("wide");
    let first = flow.step("first", engine.enqueue(Add { a: 1, b: 1 })).add();
    let one_of = |number: u64| format!("middle {number}");
    let middle: Vec<_> = (0..MANY)
        .map(|number| flow.step(one_of(number), engine.enqueue(Add { a: 1, b: 0 })).after(&first).add())
        .collect();
    flow.step("last", engine.enqueue(SumUp {})).after_all(&middle).when(Condition::Success).add();
    flow.submit().await.expect("a shape that can be")
}

async fn document(store: &Arc<dyn Store>, drawer: Drawer, of: &SubmittedWorkflow) -> Option<Value> {
    let found = store.named_documents(vec![(drawer, of.id.to_string())]).await.expect("documents");
    found.into_iter().next().flatten().map(|found| serde_json::from_str(&found.body).expect("JSON"))
}

async fn drain_all(stage: &Stage) {
    let steps = usize::try_from(MANY).expect("a few") + 2;
    assert_eq!(stage.drain().await, steps);
}

/// W3, W6: many to one, and one to many, in sets.
pub(super) async fn many_to_one_and_one_to_many(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let submitted = wide(&stage).await;
    drain_all(&stage).await;
    assert_eq!(stage.result(&submitted, "last").await, MANY);
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Succeeded);
}

/// W3, W6: how far a graph is stands in a document that does not grow with it, which is all that a list and a wait
/// read; its nodes stand beside it, and go with it.
pub(super) async fn how_far_a_large_graph_is_is_read_without_its_nodes(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let submitted = wide(&stage).await;
    let workflows = stage.engine.workflows();
    let filter = WorkflowFilter { id_prefix: submitted.id.to_string(), ..WorkflowFilter::default() };
    let listed = async || {
        let page = workflows.list(&filter, PageRequest::first(1)).await.expect("the store is there");
        page.items.into_iter().next().expect("it is listed").counts
    };
    let before = listed().await;
    assert_eq!((before.total, before.released, before.waiting), (MANY + 2, 1, MANY + 1));
    drain_all(&stage).await;
    let counts = listed().await;
    assert_eq!((counts.total, counts.succeeded), (MANY + 2, MANY + 2));
    let ended = workflows.wait(submitted.id, |_| {}).await.expect("it has ended");
    assert_eq!((ended.status, ended.counts), (WorkflowStatus::Succeeded, counts));
    assert_eq!(stage.view(&submitted).await.counts, counts, "as its nodes tell");

    let head = document(&store, Drawer::Workflows, &submitted).await.expect("it is stored");
    assert!(head.to_string().len() < SHORT, "{head}");
    assert!(document(&store, Drawer::WorkflowNodes, &submitted).await.is_some());
    workflows.forget(submitted.id).await.expect("it has ended");
    for drawer in [Drawer::Workflows, Drawer::WorkflowGraphs, Drawer::WorkflowNodes] {
        assert_eq!(document(&store, drawer, &submitted).await, None, "{drawer:?}");
    }
}

/// W6: a large graph whose nodes stand in its own document, as they did at first, goes on.
pub(super) async fn one_stored_by_an_earlier_version_goes_on(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let submitted = wide(&stage).await;
    let mut head = document(&store, Drawer::Workflows, &submitted).await.expect("it is stored");
    let nodes = document(&store, Drawer::WorkflowNodes, &submitted).await.expect("it is stored");
    head["body"] = json!({ "graph": nodes });
    let write = |drawer, body: Option<Arc<str>>| {
        let (key, expect) = (submitted.id.to_string(), Expect::Any);
        Edit { drawer, key, expect, body }
    };
    let edits =
        vec![write(Drawer::Workflows, Some(head.to_string().into())), write(Drawer::WorkflowNodes, None)];
    store.amend(Amend { edits, ..Amend::default() }).await.expect("written");
    drain_all(&stage).await;
    assert_eq!(stage.view(&submitted).await.status, WorkflowStatus::Succeeded);
}
