//! Workflows as documents: how far each is, its graph, and the key it was submitted under.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::workflow::{Graph, Workflow, WorkflowBody};
use backstop_core::{Timestamp, WorkflowId};
use backstop_store::{Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, WorkStore};

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
    /// The change that writes it over what was read.
    pub(super) fn edit(&self) -> Edit {
        edit(&self.workflow, Expect::Revision(self.revision))
    }
}

/// The change that writes a workflow.
pub(super) fn edit(workflow: &Workflow, expect: Expect) -> Edit {
    let body = serde_json::to_string(workflow).unwrap_or_default();
    Edit { drawer: Drawer::Workflows, key: workflow.id.to_string(), expect, body: Some(body.into()) }
}

/// The change that writes a graph.
pub(super) fn graph_edit(id: WorkflowId, graph: &Graph) -> Edit {
    let body = serde_json::to_string(graph).unwrap_or_default();
    Edit {
        drawer: Drawer::WorkflowGraphs,
        key: id.to_string(),
        expect: Expect::Absent,
        body: Some(body.into()),
    }
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
        gone(Drawer::WorkflowGraphs, key, Expect::Any),
    ];
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
    let unknown = ids.iter().filter(|id| !graphs.contains_key(id));
    names.extend(unknown.map(|id| (Drawer::WorkflowGraphs, id.to_string())));
    let mut found = store.named_documents(names).await?.into_iter();
    let heads: Vec<Option<Document>> = found.by_ref().take(ids.len()).collect();
    for document in found.flatten() {
        if let (Ok(id), Some(graph)) = (document.key.parse(), parsed::<Graph>(&document)) {
            let graph = Arc::new(graph);
            memory.keep(id, &graph);
            graphs.insert(id, graph);
        }
    }
    let one = |(id, document): (&WorkflowId, Option<Document>)| {
        let Some(document) = document else { return FoundWorkflow::Absent };
        let Some(workflow) = parsed::<Workflow>(&document) else { return FoundWorkflow::Unreadable };
        let (revision, graph) = (document.revision, graphs.get(id).cloned());
        // Without its graph nobody knows what follows.
        if graph.is_none() && matches!(workflow.body, WorkflowBody::Graph(_)) {
            return FoundWorkflow::Unreadable;
        }
        FoundWorkflow::There(Box::new(StoredWorkflow { revision, workflow, graph }))
    };
    Ok(ids.iter().zip(heads).map(one).collect())
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
