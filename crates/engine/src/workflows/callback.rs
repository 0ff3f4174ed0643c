//! The job that follows when all of a workflow or batch has ended, and what it is told (F14).

use backstop_core::job::{JobDetail, NewJob, Spec, State};
use backstop_core::workflow::{
    Advance, DeadPart, Graph, NodeEnd, NodeState, Workflow, WorkflowBody, WorkflowEnd,
};
use backstop_store::{Error as StoreError, JobFilter, PageRequest};

use super::batch;
use super::problem::owner;
use crate::parts::EngineParts;
use crate::signing;

/// The job to submit because all of a workflow has ended.
pub(super) async fn callback_job(
    parts: &EngineParts,
    workflow: &Workflow,
    graph: Option<&Graph>,
    follows: &Advance,
) -> Result<Option<NewJob>, StoreError> {
    let Some((id, callback)) = follows.callback.as_ref() else { return Ok(None) };
    let mut spec = Spec::new(*id, callback.kind.clone(), callback.payload.clone());
    (spec.version, spec.queue) = (callback.version, callback.queue.clone());
    // Its payload was sealed under this id, when its own was not known.
    spec.callback_of = Some(owner(workflow.id));
    let failed = failed(parts, workflow, graph).await?;
    let failed = failed.map(|(step, detail)| DeadPart::of(step, &detail));
    spec.params = Some(WorkflowEnd::of(workflow, failed).params(parts.config.limits.params_bytes).into());
    spec.policy = parts.config.policy_of(&spec);
    signing::vouch(&parts.config, &mut spec);
    Ok(Some(NewJob::new(spec)))
}

/// The first dead step, or one of the dead jobs of a batch.
async fn failed<'g>(
    parts: &EngineParts,
    workflow: &Workflow,
    graph: Option<&'g Graph>,
) -> Result<Option<(Option<&'g str>, JobDetail)>, StoreError> {
    let (step, job) = match (&workflow.body, graph) {
        (WorkflowBody::Graph(progress), Some(graph)) => {
            let dead = |number: &u32| progress.state(*number) == NodeState::Ended(NodeEnd::Failed);
            let number = (0u32..).zip(graph.nodes()).map(|(number, _)| number).find(dead);
            let named = |number| Some((graph.node(number)?.name.as_ref(), progress.job(graph, number)?));
            let Some((step, job)) = number.and_then(named) else { return Ok(None) };
            (Some(step), job)
        }
        (WorkflowBody::Batch(progress), _) if progress.failed > 0 => {
            let (tag, state) = (Some(batch::tag(workflow.id)), Some(State::Failed));
            let filter = JobFilter { tag, state, ..JobFilter::default() };
            let found = parts.store.list(filter, PageRequest::first(1)).await?.items.pop();
            let Some(view) = found else { return Ok(None) };
            (None, view.job.spec.id)
        }
        _ => return Ok(None),
    };
    Ok(parts.store.jobs(vec![job]).await?.pop().flatten().map(|detail| (step, detail)))
}
