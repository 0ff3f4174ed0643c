//! Workflows as documents: how far each is, its graph, and the key it was submitted under.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::workflow::{Graph, Workflow, WorkflowBody, WorkflowProgress};
use backstop_core::{Timestamp, WorkflowId};
use backstop_store::{Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, WorkStore};
use serde::Serialize;

use super::memory::WorkflowMemory;

/// A workflow as it was read.
#[derive(Debug, Clone)]
pub(super) struct StoredWorkflow {
    pub(super) revision: i64,
    pub(super) workflow: Workflow,
    /// None for a batch.
    pub(super) graph: Option<Arc<Graph>>,
}

/// What was found under the id of a workflow.
#[derive(Debug)]
pub(super) enum FoundWorkflow {
    /// It is there.
    There(Box<StoredWorkflow>),
    /// Nothing: it never was, or was removed.
    Absent,
    /// Something that this program cannot read; it was told. A later program may have written it.
    Unreadable,
}

impl FoundWorkflow {
    /// The workflow, if it can be read.
    pub(super) fn stored(self) -> Option<StoredWorkflow> {
        match self {
            Self::There(stored) => Some(*stored),
            Self::Absent | Self::Unreadable => None,
        }
    }
}

impl StoredWorkflow {
    /// The changes that write it over what was read.
    pub(super) fn edits(&self) -> Vec<Edit> {
        edits(&self.workflow, Expect::Revision(self.revision))
    }
}

/// The changes that write a workflow. The nodes of a large graph are written beside it: their document rests on that of
/// the workflow, which is always written with it.
pub(super) fn edits(workflow: &Workflow, expect: Expect) -> Vec<Edit> {
    let id = workflow.id;
    match &workflow.body {
        WorkflowBody::Graph(progress) if progress.is_long() => {
            let body = WorkflowBody::Counted(progress.counts());
            let head = Workflow { body, ..workflow.clone() };
            vec![
                edit(Drawer::Workflows, id, expect, &head),
                edit(Drawer::WorkflowNodes, id, Expect::Any, progress),
            ]
        }
        _ => vec![edit(Drawer::Workflows, id, expect, workflow)],
    }
}

/// The change that writes a graph.
pub(super) fn graph_edit(id: WorkflowId, graph: &Graph) -> Edit {
    edit(Drawer::WorkflowGraphs, id, Expect::Absent, graph)
}

fn edit(drawer: Drawer, id: WorkflowId, expect: Expect, document: &impl Serialize) -> Edit {
    let body = serde_json::to_string(document).unwrap_or_default();
    Edit { drawer, key: id.to_string(), expect, body: Some(body.into()) }
}

/// Where the workflow of a key is named. Keys of tenants are apart.
pub(super) fn key_name(tenant: Option<&str>, key: &str) -> String {
    format!("{}\u{1f}{key}", tenant.unwrap_or_default())
}

/// The change that remembers the key of a workflow.
pub(super) fn key_edit(tenant: Option<&str>, key: &str, id: WorkflowId) -> Edit {
    let body = Some(id.to_string().into());
    Edit { drawer: Drawer::WorkflowKeys, key: key_name(tenant, key), expect: Expect::Absent, body }
}

/// The changes that remove a workflow, if it is as it was read, with its graph and its key.
pub(crate) fn removal(workflow: &Workflow, revision: i64) -> Vec<Edit> {
    let key = workflow.id.to_string();
    let gone = |drawer, key, expect| Edit { drawer, key, expect, body: None };
    let mut edits = vec![
        gone(Drawer::Workflows, key.clone(), Expect::Revision(revision)),
        gone(Drawer::WorkflowGraphs, key.clone(), Expect::Any),
    ];
    if !matches!(workflow.body, WorkflowBody::Batch(_)) {
        edits.push(gone(Drawer::WorkflowNodes, key, Expect::Any));
    }
    if let Some(key) = &workflow.key {
        edits.push(gone(Drawer::WorkflowKeys, key_name(workflow.tenant.as_deref(), key), Expect::Any));
    }
    edits
}

/// Workflows that ended by `cutoff`, as far as one page of the oldest goes, and where the next page begins.
pub(crate) async fn outworn(
    store: &dyn WorkStore,
    cutoff: Timestamp,
    after: Option<String>,
    limit: usize,
) -> Result<(Vec<(i64, Workflow)>, Option<String>), StoreError> {
    let range = DocumentRange { after, ..DocumentRange::first(Drawer::Workflows, limit) };
    let page = store.documents(range).await?;
    let next = page.items.last().filter(|_| page.more).map(|last| last.key.clone());
    let read: Vec<(i64, Workflow)> =
        page.items.iter().filter_map(|document| Some((document.revision, parsed(document)?))).collect();
    // Ids are in the order of the submits: what follows one that is too young is too young.
    let next = next.filter(|_| read.last().is_none_or(|(_, last)| last.created_at <= cutoff));
    let ended = |workflow: &Workflow| workflow.finished_at.is_some_and(|end| end <= cutoff);
    Ok((read.into_iter().filter(|(_, workflow)| ended(workflow)).collect(), next))
}

/// Reads workflows by id, with their graphs: one answer for each, in order.
pub(super) async fn read(
    store: &dyn WorkStore,
    memory: &WorkflowMemory,
    ids: &[WorkflowId],
) -> Result<Vec<FoundWorkflow>, StoreError> {
    let mut names: Vec<(Drawer, String)> = ids.iter().map(|id| (Drawer::Workflows, id.to_string())).collect();
    // Held here while they are read: what is remembered may not be enough for all of them.
    let known = ids.iter().filter_map(|id| Some((*id, memory.graph(*id)?)));
    let mut graphs: HashMap<WorkflowId, Arc<Graph>> = known.collect();
    let beside = ids.iter().flat_map(|id| {
        let graph = graphs.get(id);
        let unknown = graph.is_none().then_some(Drawer::WorkflowGraphs);
        // That of a graph which is not known here may be long too.
        let long = graph.is_none_or(|graph| graph.is_large()).then_some(Drawer::WorkflowNodes);
        [unknown, long].into_iter().flatten().map(|drawer| (drawer, id.to_string()))
    });
    names.extend(beside);
    let mut found = store.named_documents(names.clone()).await?.into_iter();
    let heads: Vec<Option<Document>> = found.by_ref().take(ids.len()).collect();
    let mut nodes: HashMap<WorkflowId, WorkflowProgress> = HashMap::new();
    for ((drawer, key), document) in names.drain(ids.len()..).zip(found) {
        let (Ok(id), Some(document)) = (key.parse(), document) else { continue };
        if drawer == Drawer::WorkflowNodes {
            nodes.extend(parsed(&document).map(|read| (id, read)));
        } else if let Some(graph) = parsed::<Graph>(&document) {
            let graph = Arc::new(graph);
            memory.keep(id, &graph);
            graphs.insert(id, graph);
        }
    }
    let mut one = |(id, document): (&WorkflowId, Option<Document>)| {
        let Some(document) = document else { return FoundWorkflow::Absent };
        let Some(mut workflow) = parsed::<Workflow>(&document) else { return FoundWorkflow::Unreadable };
        let (revision, graph) = (document.revision, graphs.get(id).cloned());
        if matches!(workflow.body, WorkflowBody::Counted(_)) {
            let Some(progress) = nodes.remove(id) else { return FoundWorkflow::Unreadable };
            workflow.body = WorkflowBody::Graph(progress);
        }
        // Without its graph nobody knows what follows.
        if graph.is_none() && matches!(workflow.body, WorkflowBody::Graph(_)) {
            return FoundWorkflow::Unreadable;
        }
        FoundWorkflow::There(Box::new(StoredWorkflow { revision, workflow, graph }))
    };
    Ok(ids.iter().zip(heads).map(&mut one).collect())
}

/// Reads how far a workflow is, without its nodes: that costs the same however many there are. None when it is not
/// there, or cannot be read.
pub(super) async fn head(store: &dyn WorkStore, id: WorkflowId) -> Result<Option<Workflow>, StoreError> {
    let found = store.named_documents(vec![(Drawer::Workflows, id.to_string())]).await?;
    Ok(found.into_iter().next().flatten().and_then(|document| parsed(&document)))
}

/// Reads one workflow; none when it is not there, or cannot be read.
pub(super) async fn one(
    store: &dyn WorkStore,
    memory: &WorkflowMemory,
    id: WorkflowId,
) -> Result<Option<StoredWorkflow>, StoreError> {
    Ok(read(store, memory, &[id]).await?.pop().and_then(FoundWorkflow::stored))
}

pub(super) fn parsed<T: serde::de::DeserializeOwned>(document: &Document) -> Option<T> {
    match serde_json::from_str(&document.body) {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::error!(workflow = document.key, %error, "cannot read a workflow; it does not go on");
            None
        }
    }
}
