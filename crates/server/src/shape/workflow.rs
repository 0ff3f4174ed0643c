//! Workflows and batches (W1-W6).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use backstop::workflows::{
    BatchProgress, Branching, Condition, Join, NodeEnd, NodeState, NodeView, WorkflowId, WorkflowStatus,
    WorkflowView,
};
use backstop::{JobId, State, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{AdditionalProperties, Schema};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, Ref, RefOr, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::{CallbackJob, SubmitJob};
use crate::body::{PageLimit, object};

/// Steps that wait for each other, all stored at once.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWorkflow<'a> {
    /// What people call it.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Submitting the same key again answers with the first workflow.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub key: Option<String>,
    /// Its steps: each is a job with a name of its own.
    #[serde(borrow)]
    #[schema(value_type = Vec<WorkflowNode>, min_items = 1, max_items = 20_000)]
    pub nodes: Vec<&'a RawValue>,
    /// How many of the steps behind a step run, by its name: all whose condition holds, or the first.
    #[serde(default)]
    pub branches: BTreeMap<String, Branching>,
    /// The job to store when all of it has succeeded.
    #[serde(borrow, default, deserialize_with = "object")]
    pub on_success: Option<CallbackJob<'a>>,
    /// The job to store when it has failed or was canceled.
    #[serde(borrow, default, deserialize_with = "object")]
    pub on_failure: Option<CallbackJob<'a>>,
}

/// What a step says beside its job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodePart {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) after: Vec<String>,
    #[serde(default)]
    pub(crate) join: Join,
    #[serde(default)]
    pub(crate) when: Condition,
    #[serde(default)]
    pub(crate) payload_from: Option<String>,
}

impl NodePart {
    /// Its fields; all others of a step are those of its job.
    pub(crate) const FIELDS: [&'static str; 5] = ["name", "after", "join", "when", "payload_from"];
}

/// A step as it is sent: a job with a name, and what it follows. It is read in two parts.
#[derive(Debug)]
pub enum WorkflowNode {}

impl ToSchema for WorkflowNode {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("WorkflowNode")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        <SubmitJob<'_> as ToSchema>::schemas(schemas);
        schemas.push((Condition::name().into_owned(), Condition::schema()));
        schemas.push((Join::name().into_owned(), Join::schema()));
        Condition::schemas(schemas);
    }
}

impl PartialSchema for WorkflowNode {
    fn schema() -> RefOr<Schema> {
        let text =
            || ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(128));
        let of_job = <SubmitJob<'_>>::schema();
        let RefOr::T(Schema::Object(mut node)) = of_job else { return of_job };
        let of = |name: &str| RefOr::Ref(Ref::from_schema_name(name));
        let names = ArrayBuilder::new().items(text()).max_items(Some(20_000));
        let fields: [(&str, RefOr<Schema>); 5] = [
            ("name", text().description(Some("What the step is called in its workflow.")).into()),
            ("after", names.description(Some("The steps that it follows.")).into()),
            ("join", of(&Join::name())),
            ("when", of(&Condition::name())),
            ("payload_from", text().description(Some("The step whose result is its payload.")).into()),
        ];
        node.properties.extend(fields.map(|(field, schema)| (field.to_owned(), schema)));
        node.required.push("name".to_owned());
        node.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        node.description = Some("A step: a job, its name, and what it follows.".to_owned());
        RefOr::T(Schema::Object(node))
    }
}

/// A workflow as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Workflow)]
pub struct WorkflowJson {
    /// Its identity.
    pub id: WorkflowId,
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub status: WorkflowStatus,
    /// When it was submitted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When all of it had ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// Its steps by where they are.
    pub progress: StepCounts,
    /// Its steps; only where one workflow is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<WorkflowNodeJson>,
}

/// Steps by where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkflowProgress)]
pub struct StepCounts {
    /// All.
    pub total: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those that were canceled, by people or because they can not run.
    pub canceled: u64,
    /// Those that run; only where one workflow is shown, and among `pending` in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// Those that may run.
    pub pending: u64,
    /// Those that wait for others.
    pub waiting: u64,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkflowStep)]
pub struct WorkflowNodeJson {
    /// Its name.
    pub name: String,
    /// Its job.
    pub job: JobId,
    /// Where it is.
    pub status: State,
    /// Why it was canceled, where the workflow did: `not_taken` or `dependency_failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The steps that it follows.
    #[serde(default)]
    pub after: Vec<String>,
    /// How many of them it waits for.
    #[serde(default)]
    pub join: Join,
    /// What their ends must be like.
    #[serde(default)]
    pub when: Condition,
    /// Who answers the predicate that it asks, once that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<PredicateJson>,
}

/// The job that answers a predicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AskedPredicate)]
pub struct PredicateJson {
    /// The job.
    pub job: JobId,
    /// Where it is.
    pub status: State,
}

/// A workflow that is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SubmittedWorkflow)]
pub struct WorkflowStored {
    /// The workflow.
    #[serde(flatten)]
    pub workflow: WorkflowJson,
    /// True when it had been submitted before, under the same key.
    pub deduplicated: bool,
}

/// Jobs without an order, and what follows when all of them have ended.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBatch<'a> {
    /// What people call it.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Submitting the same key again answers with the first batch, and adds nothing to it.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub key: Option<String>,
    /// Its jobs, or the first of them.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<SubmitJob>, max_items = 1000)]
    pub jobs: Vec<&'a RawValue>,
    /// True when more jobs will be added: it ends only after it was sealed.
    #[serde(default)]
    pub open: bool,
    /// The job to store when all its jobs have ended and it has succeeded.
    #[serde(borrow, default, deserialize_with = "object")]
    pub then_on_success: Option<CallbackJob<'a>>,
    /// The job to store when all its jobs have ended and it has failed.
    #[serde(borrow, default, deserialize_with = "object")]
    pub then_on_failure: Option<CallbackJob<'a>>,
    /// It has succeeded when at least this share of its jobs has. Without a rule no job may fail.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub success_rate_at_least: Option<f64>,
    /// It has succeeded when at most so many of its jobs failed or were canceled.
    #[serde(default)]
    pub failures_at_most: Option<u64>,
}

/// Jobs for a batch that is open: all are added, or none.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchJobs<'a> {
    /// The jobs.
    #[serde(borrow)]
    #[schema(value_type = Vec<SubmitJob>, max_items = 1000)]
    pub jobs: Vec<&'a RawValue>,
}

/// A batch as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Batch)]
pub struct BatchJson {
    /// Its identity.
    pub id: WorkflowId,
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub status: WorkflowStatus,
    /// When it was submitted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When all of it had ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// Jobs that it has.
    pub total: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those that were canceled.
    pub canceled: u64,
    /// True when no more jobs are added.
    pub sealed: bool,
}

/// A batch that is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SubmittedBatch)]
pub struct BatchStored {
    /// The batch.
    #[serde(flatten)]
    pub batch: BatchJson,
    /// True when it had been submitted before, under the same key.
    pub deduplicated: bool,
}

/// What was done about the jobs of a workflow or a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChangedWorkflow)]
pub struct WorkflowChanged {
    /// Jobs for which it made a difference.
    pub changed: u64,
    /// Where the workflow is now.
    pub status: WorkflowStatus,
}

/// Which workflows or batches to list, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkflowQuery {
    /// In this status.
    pub status: Option<WorkflowStatus>,
    /// Of this name.
    pub name: Option<String>,
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this row: `next_cursor` of the page before.
    #[param(max_length = 300)]
    #[serde(deserialize_with = "super::cursor")]
    pub cursor: Option<String>,
}

impl From<WorkflowView> for WorkflowJson {
    fn from(view: WorkflowView) -> Self {
        let counts = view.counts;
        let (asking, steps): (Vec<NodeView>, Vec<NodeView>) =
            view.nodes.into_iter().partition(|node| node.predicate.is_some());
        // Before its turn has come there is nothing to look at.
        let asking = asking.iter().filter(|node| node.state != NodeState::Waiting);
        let asking: HashMap<JobId, State> =
            asking.map(|node| (node.job, WorkflowNodeJson::status(node).0)).collect();
        let nodes: Vec<_> = steps.into_iter().map(|node| WorkflowNodeJson::of(&node, &asking)).collect();
        let running = nodes.iter().filter(|node| node.status == State::Running).count() as u64;
        let running = (!nodes.is_empty()).then_some(running);
        Self {
            id: view.id,
            name: view.name.to_string(),
            status: view.status,
            created_at: view.created_at,
            finished_at: view.finished_at,
            progress: StepCounts {
                total: counts.total,
                succeeded: counts.succeeded,
                failed: counts.failed,
                canceled: counts.canceled,
                running,
                pending: counts.released.saturating_sub(running.unwrap_or_default()),
                waiting: counts.waiting,
            },
            nodes,
        }
    }
}

impl WorkflowNodeJson {
    /// A step that was submitted; `asking` are those that ask predicates.
    fn of(node: &NodeView, asking: &HashMap<JobId, State>) -> Self {
        let (status, reason) = Self::status(node);
        let asked = node.asked.and_then(|job| Some(PredicateJson { job, status: *asking.get(&job)? }));
        Self {
            name: node.name.to_string(),
            job: node.job,
            status,
            reason: reason.map(str::to_owned),
            after: node.after.iter().map(ToString::to_string).collect(),
            join: node.join,
            when: node.when.clone(),
            asked,
        }
    }

    fn status(node: &NodeView) -> (State, Option<&'static str>) {
        match node.state {
            NodeState::Waiting => (node.job_state.unwrap_or(State::Waiting), None),
            NodeState::Released => (node.job_state.unwrap_or(State::Pending), None),
            NodeState::Ended(NodeEnd::Succeeded) => (State::Succeeded, None),
            // It may be driven again, and its workflow hears of that when it has ended anew.
            NodeState::Ended(NodeEnd::Failed) => (node.job_state.unwrap_or(State::Failed), None),
            NodeState::Ended(NodeEnd::Canceled) => (State::Canceled, None),
            NodeState::Ended(NodeEnd::NotTaken) => (State::Canceled, Some("not_taken")),
            NodeState::Ended(NodeEnd::DependencyFailed) => (State::Canceled, Some("dependency_failed")),
        }
    }
}

impl From<WorkflowView> for BatchJson {
    fn from(view: WorkflowView) -> Self {
        let BatchProgress { total, succeeded, failed, canceled, sealed, .. } = view.batch.unwrap_or_default();
        Self {
            id: view.id,
            name: view.name.to_string(),
            status: view.status,
            created_at: view.created_at,
            finished_at: view.finished_at,
            total,
            succeeded,
            failed,
            canceled,
            sealed,
        }
    }
}
