//! Storing a workflow: all of its jobs and what is known of it, in one transaction.

use std::sync::Arc;

use backstop_core::job::Callback;
use backstop_core::workflow::{Graph, PartOf, Workflow, WorkflowBody, WorkflowProgress};
use backstop_core::{JobId, WorkflowId, admit};
use backstop_store::{Amend, Amended, Drawer, Expect};

use super::builder::{StepJob, WorkflowBuilder};
use super::predicate::predicate_kind;
use super::problem::{WorkflowProblem, check_name, owner};
use super::told::WorkflowNews;
use super::{queues, stored};
use crate::parts::EngineParts;
use crate::submit::Enqueue;

/// A workflow that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedWorkflow {
    /// Its identity.
    pub id: WorkflowId,
    /// The jobs of its nodes, in the order in which they were given.
    pub nodes: Vec<(Arc<str>, JobId)>,
    /// True when it had been submitted before, under the same key.
    pub deduplicated: bool,
}

/// Stores a workflow.
pub(super) async fn submit(flow: WorkflowBuilder) -> Result<SubmittedWorkflow, WorkflowProblem> {
    let WorkflowBuilder { parts, name, key, nodes, shape, on_success, on_failure } = flow;
    check_name(&parts, &name)?;
    if let Some(key) = &key {
        admit::name("key", key, &parts.config.limits)?;
    }
    let mut ids = nodes.iter().map(StepJob::id);
    let graph = shape.graph(|| ids.next().flatten().unwrap_or_else(crate::ids::job_id))?;
    let id = WorkflowId::from_uuid(crate::ids::job_id().as_uuid());
    let on = queues::of(nodes.iter().map(|node| &node.job));
    let tenant = queues::first_tenant(&on);
    let jobs = jobs_of(&parts, id, &graph, nodes, &shape).await?;
    let seal = |callback| seal(&parts, id, callback);
    let body = WorkflowBody::Graph(WorkflowProgress::begin(&graph));
    let mut workflow = Workflow {
        tenant: tenant.clone(),
        key: key.clone(),
        on_success: on_success.transpose()?.map(seal).transpose()?,
        on_failure: on_failure.transpose()?.map(seal).transpose()?,
        ..Workflow::new(id, name, body, parts.store.now().await?)
    };
    queues::add(&mut workflow, on)?;
    let mut edits = stored::edits(&workflow, Expect::Absent);
    edits.push(stored::graph_edit(id, &graph));
    edits.extend(key.as_ref().map(|key| stored::key_edit(tenant.as_deref(), key, id)));
    let names: Vec<Arc<str>> = graph.nodes().iter().map(|node| node.name.clone()).collect();
    match parts.store.amend(Amend { edits, jobs, ..Amend::default() }).await? {
        Amended::Done { now, .. } => {
            WorkflowNews::standing(&parts, &workflow).tell(&parts, now);
            let graph = Arc::new(graph);
            parts.workflows.keep(id, &graph);
            Ok(SubmittedWorkflow { id, nodes: shown(&graph), deduplicated: false })
        }
        Amended::Refused { index, refusal } => {
            let job = names.get(index).map(ToString::to_string).unwrap_or_default();
            Err(WorkflowProblem::Job { job, refusal })
        }
        Amended::Conflict { .. } => known(&parts, tenant.as_deref(), &key.unwrap_or_default(), id).await,
    }
}

/// The nodes that were given, with their jobs.
fn shown(graph: &Graph) -> Vec<(Arc<str>, JobId)> {
    let shown = graph.nodes().iter().filter(|node| node.predicate.is_none());
    shown.map(|node| (node.name.clone(), node.job)).collect()
}

/// The workflow that has a key already.
async fn known(
    parts: &EngineParts,
    tenant: Option<&str>,
    key: &str,
    new: WorkflowId,
) -> Result<SubmittedWorkflow, WorkflowProblem> {
    let name = (Drawer::WorkflowKeys, stored::key_name(tenant, key));
    let found = parts.store.named_documents(vec![name]).await?.pop().flatten();
    let id: WorkflowId =
        found.and_then(|found| found.body.parse().ok()).ok_or(WorkflowProblem::Changing(new))?;
    let stored = stored::one(&*parts.store, &parts.workflows, id).await?;
    let nodes = stored.and_then(|stored| stored.graph).map(|graph| shown(&graph)).unwrap_or_default();
    Ok(SubmittedWorkflow { id, nodes, deduplicated: true })
}

/// The jobs of a graph, as they are stored.
async fn jobs_of(
    parts: &Arc<EngineParts>,
    id: WorkflowId,
    graph: &Graph,
    nodes: Vec<StepJob>,
    shape: &backstop_core::workflow::WorkflowShape,
) -> Result<Vec<backstop_core::job::NewJob>, WorkflowProblem> {
    let queues: Vec<Option<Arc<str>>> = nodes.iter().map(StepJob::queue).collect();
    let mut given = nodes.into_iter().zip(&shape.nodes);
    let mut jobs = Vec::with_capacity(graph.nodes().len());
    for (number, node) in (0u32..).zip(graph.nodes()) {
        let (job, payload_from) = match (&node.predicate, given.next()) {
            (None, Some((own, shape))) => (own.job, shape.payload_from.clone()),
            _ => (asking(parts, graph, number, node, &queues), None),
        };
        let (name, follows) = (Some(node.name.clone()), !node.after.is_empty());
        let part = PartOf { id, node: name, number, follows, renewed: false, payload_from };
        check_part(&job, &node.name)?;
        jobs.push(job.part_of(part).prepared().await.map_err(WorkflowProblem::job(&*node.name))?);
    }
    Ok(jobs)
}

/// A job of a workflow has no key that could make it another job, and no place in a line of others.
pub(super) fn check_part(job: &Enqueue, name: &str) -> Result<(), WorkflowProblem> {
    let Some((field, problem)) = job.field_against_parts() else { return Ok(()) };
    let refusal = backstop_core::Refusal::invalid(field, problem);
    Err(WorkflowProblem::Job { job: name.to_owned(), refusal })
}

/// The job that asks a predicate, on the queue of the node that waits for its answer.
fn asking(
    parts: &Arc<EngineParts>,
    graph: &Graph,
    number: u32,
    node: &backstop_core::workflow::GraphNode,
    queues: &[Option<Arc<str>>],
) -> Enqueue {
    let kind = predicate_kind(node.predicate.as_deref().unwrap_or_default());
    let job = Enqueue::raw(parts, &kind, "null").with_id(node.job);
    let asker = graph.following(number).first().and_then(|(to, _)| queues.get(*to as usize)?.clone());
    match asker {
        Some(queue) => job.queue(queue),
        None => job,
    }
}

/// A callback as it is stored: sealed, if its kind is.
pub(super) fn seal(
    parts: &EngineParts,
    id: WorkflowId,
    mut callback: Callback,
) -> Result<Callback, WorkflowProblem> {
    admit::callback(&callback, &parts.config.limits)?;
    crate::sealing::close_callback(&parts.config, owner(id), &mut callback)?;
    Ok(callback)
}
