//! A workflow under construction.

use std::marker::PhantomData;
use std::sync::Arc;

use backstop_core::job::Callback;
use backstop_core::workflow::{Branching, Condition, Join, ResultTest, ShapeNode, WorkflowShape};
use backstop_core::{JobId, Refusal};
use serde::Serialize;

use super::problem::WorkflowProblem;
use super::step_name::NamesStep;
use super::submit::{SubmittedWorkflow, submit};
use crate::job::{Job, ResultOf};
use crate::parts::EngineParts;
use crate::submit::{Enqueue, callback_of};

/// A workflow under construction: see [`Backstop::workflow`](crate::Backstop::workflow).
#[must_use = "nothing is stored before `.submit().await`"]
pub struct WorkflowBuilder {
    pub(super) parts: Arc<EngineParts>,
    pub(super) name: Arc<str>,
    pub(super) key: Option<String>,
    pub(super) nodes: Vec<StepJob>,
    pub(super) shape: WorkflowShape,
    pub(super) on_success: Option<Result<Callback, Refusal>>,
    pub(super) on_failure: Option<Result<Callback, Refusal>>,
}

/// The payload of a job that is given the result of another one.
pub(super) const NOT_YET: &str = "null";

/// The job of a node.
pub(super) struct StepJob {
    pub(super) job: Enqueue,
}

impl StepJob {
    pub(super) fn id(&self) -> Option<JobId> {
        self.job.id()
    }

    pub(super) fn queue(&self) -> Option<Arc<str>> {
        self.job.queue_name()
    }
}

/// A step of a workflow under construction. `T` is what it returns.
pub struct Step<T> {
    name: Arc<str>,
    result: PhantomData<fn() -> T>,
}

impl<T> Step<T> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T> Clone for Step<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), result: PhantomData }
    }
}

impl<T> std::fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Step").field(&self.name).finish()
    }
}

/// A step that is about to be added.
#[must_use = "a step is added by `.add()`"]
pub struct StepBuilder<'w, T> {
    flow: &'w mut WorkflowBuilder,
    node: ShapeNode,
    job: Enqueue<T>,
}

impl WorkflowBuilder {
    pub(super) fn new(parts: &Arc<EngineParts>, name: Arc<str>) -> Self {
        Self {
            parts: parts.clone(),
            name,
            key: None,
            nodes: Vec::new(),
            shape: WorkflowShape::default(),
            on_success: None,
            on_failure: None,
        }
    }

    /// Submitting the same key again answers with the first workflow.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// A step: a job with a name of its own. Say what it follows, then [`StepBuilder::add`] it.
    pub fn step<T>(&mut self, name: impl NamesStep<T>, job: Enqueue<T>) -> StepBuilder<'_, T> {
        let node = ShapeNode { name: name.into_name(), ..ShapeNode::default() };
        StepBuilder { flow: self, node, job }
    }

    /// A step that runs the job which an earlier step returns.
    ///
    /// ```
    /// use backstop::prelude::*;
    ///
    /// #[job]
    /// async fn charge(cents: u32) -> JobResult<String> {
    ///     Ok(format!("{cents} cents"))
    /// }
    ///
    /// #[job]
    /// async fn price(pieces: u32) -> JobResult<Charge> {
    ///     Ok(Charge { cents: pieces * 330 })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let mut order = engine.workflow("order");
    /// let priced = order.step("price", engine.enqueue(Price { pieces: 3 })).add();
    /// order.step_of("charge", &priced).add();
    /// let submitted = order.submit().await?;
    /// # let worker = engine.worker(()).register::<Charge>().register::<Price>();
    /// # worker.queue("default", 4).inline()?.drain(10).await?;
    /// # let charged = engine.job(submitted.nodes[1].1).await?.expect("it is stored");
    /// # assert_eq!(charged.view.result.as_deref(), Some("\"990 cents\""));
    /// # Ok(()) }
    /// ```
    pub fn step_of<J: Job>(
        &mut self,
        name: impl NamesStep<ResultOf<J>>,
        earlier: &Step<J>,
    ) -> StepBuilder<'_, ResultOf<J>> {
        let job = Enqueue::of_kind::<J>(&self.parts, Ok(NOT_YET.into()));
        self.step(name, job).payload_from(earlier)
    }

    /// Of the steps that follow this one, only the first runs whose condition holds, in the order in which they were
    /// added; without this all of them do (W2).
    pub fn first_match<T>(&mut self, step: &Step<T>) -> &mut Self {
        self.shape.branches.insert(step.name.clone(), Branching::FirstMatch);
        self
    }

    /// Submits `callback` when all of it has succeeded.
    pub fn on_success<J: Job>(mut self, callback: &J) -> Self {
        self.on_success = Some(callback_of(callback));
        self
    }

    /// Submits `callback` when it has failed or was called off.
    pub fn on_failure<J: Job>(mut self, callback: &J) -> Self {
        self.on_failure = Some(callback_of(callback));
        self
    }

    /// The same with jobs by their names.
    pub fn callbacks_raw(mut self, on_success: Option<Callback>, on_failure: Option<Callback>) -> Self {
        self.on_success = on_success.map(Ok).or(self.on_success);
        self.on_failure = on_failure.map(Ok).or(self.on_failure);
        self
    }

    /// Adds a node as it is.
    pub(super) fn add(&mut self, node: ShapeNode, job: Enqueue) {
        self.shape.nodes.push(node);
        self.nodes.push(StepJob { job });
    }

    /// Adds a node by the names of those that it follows, for programs that read workflows from elsewhere.
    pub fn node(&mut self, node: ShapeNode, job: Enqueue) -> &mut Self {
        self.add(node, job);
        self
    }

    /// How many of the nodes behind a node run, by its name.
    pub fn branches(&mut self, node: impl Into<Arc<str>>, branching: Branching) -> &mut Self {
        self.shape.branches.insert(node.into(), branching);
        self
    }

    /// Stores all of it; an `Ok` means that it is durable.
    ///
    /// # Errors
    /// When its shape cannot be or one of its jobs is refused: then nothing is stored. When the store is away.
    pub async fn submit(self) -> Result<SubmittedWorkflow, WorkflowProblem> {
        submit(self).await
    }
}

impl<T> StepBuilder<'_, T> {
    /// Runs after this step, and after every other that is named.
    pub fn after<P>(mut self, step: &Step<P>) -> Self {
        self.node.after.push(step.name.clone());
        self
    }

    /// Runs after all of these steps.
    pub fn after_all<'s, P: 's>(mut self, steps: impl IntoIterator<Item = &'s Step<P>>) -> Self {
        self.node.after.extend(steps.into_iter().map(|step| step.name.clone()));
        self
    }

    /// Runs after the first of the steps that are named, and does not wait for the others.
    pub fn join_any(mut self) -> Self {
        self.node.join = Join::Any;
        self
    }

    /// Runs when what it follows has failed for good.
    pub fn on_failure(self) -> Self {
        self.when(Condition::Failure)
    }

    /// Runs when what it follows has ended, however.
    pub fn always(self) -> Self {
        self.when(Condition::Always)
    }

    /// Runs when the result of what it follows has this value at a JSON pointer.
    pub fn when_result(self, pointer: impl Into<String>, equals: impl Serialize) -> Self {
        let equals = serde_json::to_value(equals).unwrap_or_default();
        self.when(Condition::Result(ResultTest { pointer: pointer.into(), equals }))
    }

    /// Runs when a predicate says so: see [`WorkerBuilder::predicate`](crate::WorkerBuilder::predicate).
    pub fn when_predicate(self, name: impl Into<String>) -> Self {
        self.when(Condition::Predicate(name.into()))
    }

    /// Runs when this is met.
    pub fn when(mut self, condition: Condition) -> Self {
        self.node.when = condition;
        self
    }

    /// Its payload is what that step returns, which it follows; the payload that its job has is not looked at.
    pub fn payload_from<P>(mut self, step: &Step<P>) -> Self {
        if !self.node.after.contains(&step.name) {
            self.node.after.push(step.name.clone());
        }
        self.node.payload_from = Some(step.name.clone());
        self
    }

    /// Adds the step.
    pub fn add(self) -> Step<T> {
        let name = self.node.name.clone();
        self.flow.add(self.node, self.job.untyped());
        Step { name, result: PhantomData }
    }
}
