//! Workflows and batches as people see them, and what people do about all of their jobs at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_core::explain::OpenStep;
use backstop_core::job::{Operation, PausedFrom, Record, State};
use backstop_core::workflow::{
    BatchProgress, Condition, Graph, GraphNode, Join, NodeEnd, NodeState, PartOf, Workflow, WorkflowBody,
    WorkflowCounts, WorkflowProgress, WorkflowStatus,
};
use backstop_core::{JobId, Timestamp, WorkflowId};
use backstop_store::{
    Amend, Amended, DocumentRange, Drawer, Error as StoreError, JobFilter, Page, PageRequest,
};

use super::batch::{self, BatchHandle};
use super::problem::WorkflowProblem;
use super::stored::{self, StoredWorkflow};
use super::told::WorkflowNews;
use crate::parts::EngineParts;

/// Jobs that are operated on in one transaction.
const CHUNK: usize = 1_000;

/// A node whose job is a dead letter, or was one when it ended.
const DEAD: NodeState = NodeState::Ended(NodeEnd::Failed);

/// Documents that a list reads at once, and for one page.
const LOOK_STEP: usize = 100;
const MOST_LOOKED: usize = 2_000;

/// The workflows and batches of a store: see [`Backstop::workflows`](crate::Backstop::workflows).
#[derive(Debug, Clone, Copy)]
pub struct Workflows<'a> {
    parts: &'a Arc<EngineParts>,
}

impl<'a> Workflows<'a> {
    pub(super) const fn of(parts: &'a Arc<EngineParts>) -> Self {
        Self { parts }
    }

    pub(super) const fn parts(self) -> &'a Arc<EngineParts> {
        self.parts
    }
}

/// One node as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: Arc<str>,
    /// Its job.
    pub job: JobId,
    /// Where it is in the workflow.
    pub state: NodeState,
    /// Where the job of a node is that has not ended, or was dead and may be driven again; none when it is gone from
    /// the hot tables.
    pub job_state: Option<State>,
    /// The nodes that it follows.
    pub after: Vec<Arc<str>>,
    /// How many of them it waits for.
    pub join: Join,
    /// What their ends must be like.
    pub when: Condition,
    /// The job that asks a predicate whether this node runs.
    pub asked: Option<JobId>,
    /// The predicate that it asks; none for one that was submitted.
    pub predicate: Option<String>,
}

/// A workflow or a batch as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowView {
    /// Its identity.
    pub id: WorkflowId,
    /// What people call it.
    pub name: Arc<str>,
    /// The tenant whose it is.
    pub tenant: Option<Arc<str>>,
    /// The queues of its jobs.
    pub queues: BTreeSet<Arc<str>>,
    /// Where it is.
    pub status: WorkflowStatus,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When all of it had ended.
    pub finished_at: Option<Timestamp>,
    /// Its steps, or its jobs, by where they are.
    pub counts: WorkflowCounts,
    /// The nodes of a workflow; none for a batch.
    pub nodes: Vec<NodeView>,
    /// The progress of a batch.
    pub batch: Option<BatchProgress>,
}

impl WorkflowView {
    pub(super) fn of(workflow: Workflow, graph: Option<&Graph>) -> Self {
        let Workflow { id, name, tenant, queues, status, created_at, finished_at, body, .. } = workflow;
        let (counts, nodes, batch) = match body {
            WorkflowBody::Batch(batch) => (batch.counts(), Vec::new(), Some(batch)),
            WorkflowBody::Counted(counts) => (counts, Vec::new(), None),
            WorkflowBody::Graph(progress) => {
                let nodes = graph.map(|graph| nodes(graph, &progress)).unwrap_or_default();
                (progress.counts(), nodes, None)
            }
        };
        Self { id, name, tenant, queues, status, created_at, finished_at, counts, nodes, batch }
    }
}

fn nodes(graph: &Graph, progress: &WorkflowProgress) -> Vec<NodeView> {
    let name = |number: &u32| graph.node(*number).map(|node| node.name.clone());
    let view = |(number, node): (u32, &GraphNode)| NodeView {
        name: node.name.clone(),
        job: progress.job(graph, number).unwrap_or(node.job),
        state: progress.state(number),
        job_state: None,
        after: node.inputs.iter().filter_map(name).collect(),
        join: graph.asking_for(number).map_or(node.join, |(_, asking)| asking.join),
        when: graph.condition(number),
        asked: graph.asking_for(number).and_then(|(asking, _)| progress.job(graph, asking)),
        predicate: node.predicate.clone(),
    };
    (0u32..).zip(graph.nodes()).map(view).collect()
}

/// A workflow or a batch by its id.
pub(super) async fn one(parts: &EngineParts, id: WorkflowId) -> Result<Option<WorkflowView>, StoreError> {
    let Some(StoredWorkflow { workflow, graph, .. }) =
        stored::one(&*parts.store, &parts.workflows, id).await?
    else {
        return Ok(None);
    };
    let mut view = WorkflowView::of(workflow, graph.as_deref());
    // A step that waits may be held back meanwhile, and a dead one that is driven again stays dead for its workflow
    // until it has ended anew.
    let looked_at = [NodeState::Waiting, NodeState::Released, DEAD];
    let mut open: Vec<&mut NodeView> =
        view.nodes.iter_mut().filter(|node| looked_at.contains(&node.state)).collect();
    for nodes in open.chunks_mut(CHUNK) {
        let jobs = parts.store.jobs(nodes.iter().map(|node| node.job).collect()).await?;
        for (node, detail) in nodes.iter_mut().zip(jobs) {
            node.job_state = detail.map(|detail| detail.view.state());
        }
    }
    Ok(Some(view))
}

/// What a step still waits for.
pub(crate) async fn steps_before(parts: &EngineParts, part: &PartOf) -> Result<Vec<OpenStep>, StoreError> {
    let found = stored::one(&*parts.store, &parts.workflows, part.id).await?;
    let Some(StoredWorkflow { workflow, graph: Some(graph), .. }) = found else { return Ok(Vec::new()) };
    let WorkflowBody::Graph(progress) = &workflow.body else { return Ok(Vec::new()) };
    let open = progress.open_before(&graph, part.number).into_iter().filter_map(|number| graph.node(number));
    let named = |node: &GraphNode| match &node.predicate {
        Some(predicate) => OpenStep::Predicate(predicate.clone()),
        None => OpenStep::Step(node.name.clone()),
    };
    Ok(open.map(named).collect())
}

/// Which workflows and batches to list; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkflowFilter {
    /// Batches only, or workflows only.
    pub batches: Option<bool>,
    /// In this status.
    pub status: Option<WorkflowStatus>,
    /// Of this name.
    pub name: Option<String>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Whose ids begin like this.
    pub id_prefix: String,
}

impl WorkflowFilter {
    fn lets(&self, view: &WorkflowView) -> bool {
        self.batches.is_none_or(|batches| batches == view.batch.is_some())
            && self.status.is_none_or(|status| status == view.status)
            && self.name.as_deref().is_none_or(|name| name == &*view.name)
            && self.tenant.as_deref().is_none_or(|tenant| Some(tenant) == view.tenant.as_deref())
    }
}

impl Workflows<'_> {
    /// The workflow or batch of this id.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(self, id: WorkflowId) -> Result<Option<WorkflowView>, StoreError> {
        one(self.parts, id).await
    }

    /// A batch by its id, to add jobs to it or to seal it.
    ///
    /// # Errors
    /// When there is none of this id, or the store is away.
    pub async fn batch(self, id: WorkflowId) -> Result<BatchHandle, WorkflowProblem> {
        match one(self.parts, id).await? {
            Some(view) if view.batch.is_some() => Ok(BatchHandle::of(self.parts.clone(), id)),
            Some(_) => Err(WorkflowProblem::NotABatch(id)),
            None => Err(WorkflowProblem::Unknown(id)),
        }
    }

    /// Workflows and batches, newest first, without their nodes. A page may hold fewer than asked for, and none, while
    /// more follow: what does not match is looked through for so long only.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(
        self,
        filter: &WorkflowFilter,
        page: PageRequest<WorkflowId>,
    ) -> Result<Page<WorkflowView, WorkflowId>, StoreError> {
        let step = page.limit.min(LOOK_STEP);
        let mut range = DocumentRange::last(Drawer::Workflows, step).under(filter.id_prefix.as_str());
        range.after = page.after.map(|id| id.to_string());
        let (mut items, mut looked) = (Vec::new(), 0);
        loop {
            let found = self.parts.store.documents(range.clone()).await?;
            let Some(last) = found.items.last() else { return Ok(Page { items, next: None }) };
            let (last, more) = (last.key.clone(), found.more);
            looked += found.items.len();
            for document in &found.items {
                let Some(workflow) = stored::parsed::<Workflow>(document) else { continue };
                let view = WorkflowView::of(workflow, None);
                if filter.lets(&view) {
                    let id = view.id;
                    items.push(view);
                    if items.len() == page.limit {
                        return Ok(Page { items, next: Some(id).filter(|_| more || document.key != last) });
                    }
                }
            }
            if !more || looked >= MOST_LOOKED {
                return Ok(Page { items, next: last.parse().ok().filter(|_| more) });
            }
            range.after = Some(last);
        }
    }

    /// Calls off everything that has not ended (W4); answers how many jobs that was. A batch that is open is sealed by
    /// that, and has failed.
    ///
    /// # Errors
    /// When there is none of this id, or the store is away.
    pub async fn cancel(self, id: WorkflowId, reason: &str) -> Result<u64, WorkflowProblem> {
        let reason = self.parts.config.sanitized(reason);
        operate(self.parts, id, &Operation::Cancel { reason }).await
    }

    /// Holds back everything that has not started (W4); answers how many jobs that was. Jobs that are added to a batch
    /// meanwhile are held back too.
    ///
    /// # Errors
    /// When there is none of this id, or the store is away.
    pub async fn pause(self, id: WorkflowId) -> Result<u64, WorkflowProblem> {
        operate(self.parts, id, &Operation::Pause).await
    }

    /// Lets everything go on that was held back (W4); answers how many jobs that was.
    ///
    /// # Errors
    /// When there is none of this id, or the store is away.
    pub async fn resume(self, id: WorkflowId) -> Result<u64, WorkflowProblem> {
        operate(self.parts, id, &Operation::Resume).await
    }

    /// Forgets a workflow or batch whose jobs have all ended. Its jobs stay.
    ///
    /// # Errors
    /// When there is none of this id, it has not ended, a dead step of it is driven again, or the store is away.
    pub async fn forget(self, id: WorkflowId) -> Result<(), WorkflowProblem> {
        let found = stored::one(&*self.parts.store, &self.parts.workflows, id).await?;
        let stored = found.ok_or(WorkflowProblem::Unknown(id))?;
        if !stored.workflow.status.is_over() {
            let problem = "it has not ended: cancel it first";
            return Err(backstop_core::Refusal::invalid("workflow", problem).into());
        }
        if !driven_again(self.parts, &stored).await?.is_empty() {
            let problem = "a step of it was retried and has not ended: wait for it, or cancel it first";
            return Err(backstop_core::Refusal::invalid("workflow", problem).into());
        }
        let edits = stored::removal(&stored.workflow, stored.revision);
        let amend = Amend { edits, ..Amend::default() };
        match self.parts.store.amend(amend).await? {
            Amended::Done { .. } => Ok(()),
            _ => Err(WorkflowProblem::Changing(id)),
        }
    }
}

/// Does something about every job of a workflow or batch for which it can be done; answers for how many it was. A pause
/// is said of the whole first, so that it holds for jobs that are added, or submitted again, from then on.
pub(super) async fn operate(
    parts: &Arc<EngineParts>,
    id: WorkflowId,
    operation: &Operation,
) -> Result<u64, WorkflowProblem> {
    show_pause(parts, id, operation).await?;
    let found = stored::one(&*parts.store, &parts.workflows, id).await?;
    let stored = found.ok_or(WorkflowProblem::Unknown(id))?;
    let changed = match (&stored.workflow.body, &stored.graph) {
        (WorkflowBody::Graph(progress), Some(graph)) => {
            let mut jobs = jobs_in(progress, graph, |state| may_apply(state, operation));
            if *operation != Operation::Resume {
                jobs.extend(driven_again(parts, &stored).await?);
            }
            let mut changed = 0;
            for chunk in jobs.chunks(CHUNK) {
                changed += apply(parts, chunk.to_vec(), operation).await?;
            }
            changed
        }
        (WorkflowBody::Batch(_), _) => operate_batch(parts, id, operation).await?,
        (WorkflowBody::Graph(_) | WorkflowBody::Counted(_), _) => 0,
    };
    parts.workflows.touch(id);
    parts.workflows.ended.notify_one();
    Ok(changed)
}

async fn operate_batch(
    parts: &Arc<EngineParts>,
    id: WorkflowId,
    operation: &Operation,
) -> Result<u64, WorkflowProblem> {
    if matches!(operation, Operation::Cancel { .. }) {
        BatchHandle::of(parts.clone(), id).call_off().await?;
    }
    let filter = JobFilter { tag: Some(batch::tag(id)), ..JobFilter::default() };
    // A dead letter that was put aside is no part of what goes on, and is taken back with the rest.
    let resumes = *operation == Operation::Resume;
    let applies = |record: &Record| !record.state.is_terminal() && (resumes || !is_dead_letter(record));
    let (mut changed, mut page) = (0, PageRequest::first(CHUNK));
    loop {
        let found = parts.store.list(filter.clone(), page).await?;
        let open = found.items.iter().filter(|view| applies(&view.record));
        let jobs: Vec<JobId> = open.map(|view| view.job.spec.id).collect();
        changed += apply(parts, jobs, operation).await?;
        match found.next {
            Some(next) => page.after = Some(next),
            None => return Ok(changed),
        }
    }
}

/// The jobs of the nodes that are in a state that is wanted.
fn jobs_in(progress: &WorkflowProgress, graph: &Graph, wanted: impl Fn(NodeState) -> bool) -> Vec<JobId> {
    let numbers = (0u32..).zip(graph.nodes()).map(|(number, _)| number);
    let numbers = numbers.filter(|number| wanted(progress.state(*number)));
    numbers.filter_map(|number| progress.job(graph, number)).collect()
}

/// The jobs of dead steps that somebody drives again, or drove again so that nobody has looked at their ends yet: as
/// long as there are some, the workflow goes on, whatever it had come to.
pub(super) async fn driven_again(
    parts: &EngineParts,
    stored: &StoredWorkflow,
) -> Result<Vec<JobId>, StoreError> {
    let (WorkflowBody::Graph(progress), Some(graph)) = (&stored.workflow.body, &stored.graph) else {
        return Ok(Vec::new());
    };
    let mut driven = Vec::new();
    for chunk in jobs_in(progress, graph, |state| state == DEAD).chunks(CHUNK) {
        let found = parts.store.jobs(chunk.to_vec()).await?.into_iter().flatten();
        let found = found.filter(|detail| !is_dead_letter(&detail.view.record));
        driven.extend(found.map(|detail| detail.view.job.spec.id));
    }
    Ok(driven)
}

/// True for a dead letter, also for one that a person has put aside.
fn is_dead_letter(record: &Record) -> bool {
    record.state == State::Failed || record.paused_from == Some(PausedFrom::Failed)
}

fn may_apply(state: NodeState, operation: &Operation) -> bool {
    !matches!(state, NodeState::Ended(_)) || *operation == Operation::Resume
}

async fn apply(parts: &EngineParts, jobs: Vec<JobId>, operation: &Operation) -> Result<u64, StoreError> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let answers = parts.store.operate(jobs.clone(), operation.clone()).await?;
    if matches!(operation, Operation::Cancel { .. }) {
        jobs.iter().for_each(|job| parts.runs.cancel(*job));
    }
    Ok(answers.into_iter().flatten().filter(|operated| operated.changed).count() as u64)
}

/// Shows a workflow as paused, or as running again. One that had ended is paused while a dead step of it is driven
/// again, so that what follows from that is held back too.
async fn show_pause(
    parts: &EngineParts,
    id: WorkflowId,
    operation: &Operation,
) -> Result<(), WorkflowProblem> {
    let to = match operation {
        Operation::Pause => WorkflowStatus::Paused,
        Operation::Resume => WorkflowStatus::Running,
        _ => return Ok(()),
    };
    for _ in 0..20 {
        let found = stored::one(&*parts.store, &parts.workflows, id).await?;
        let mut stored = found.ok_or(WorkflowProblem::Unknown(id))?;
        let changes = match stored.workflow.status {
            WorkflowStatus::Running => to == WorkflowStatus::Paused,
            WorkflowStatus::Paused => to == WorkflowStatus::Running,
            _ => to == WorkflowStatus::Paused && !driven_again(parts, &stored).await?.is_empty(),
        };
        if !changes {
            return Ok(());
        }
        // It is removed by its age when it has an end.
        (stored.workflow.status, stored.workflow.finished_at) = (to, None);
        let amend = Amend { edits: stored.edits(), ..Amend::default() };
        if let Amended::Done { now, .. } = parts.store.amend(amend).await? {
            WorkflowNews::standing(parts, &stored.workflow).tell(parts, now);
            return Ok(());
        }
    }
    Err(WorkflowProblem::Changing(id))
}
