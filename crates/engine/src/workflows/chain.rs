//! Steps one after another (W1).

use std::sync::Arc;

use backstop_core::workflow::{Condition, ShapeNode};

use super::builder::WorkflowBuilder;
use super::problem::WorkflowProblem;
use super::submit::SubmittedWorkflow;
use crate::submit::Enqueue;

/// Steps one after another: see [`Backstop::chain`](crate::Backstop::chain). A step is named after the kind of its job;
/// the second one of a kind has its place added, such as `charge 3`.
#[must_use = "nothing is stored before `.submit().await`"]
pub struct Chain {
    flow: WorkflowBuilder,
    last: Option<Arc<str>>,
    count: usize,
}

impl Chain {
    pub(super) fn new<T>(flow: WorkflowBuilder, first: Enqueue<T>) -> Self {
        Self { flow, last: None, count: 0 }.add(first, Condition::Success, true)
    }

    /// The next step; it runs when the one before it has succeeded.
    pub fn then<T>(self, job: Enqueue<T>) -> Self {
        self.add(job, Condition::Success, true)
    }

    /// The same as [`Chain::then`].
    pub fn then_on_success<T>(self, job: Enqueue<T>) -> Self {
        self.then(job)
    }

    /// A step that runs when the one before it has failed for good. What is added after it goes on behind the step
    /// before, as if this one were not there.
    pub fn then_on_failure<T>(self, job: Enqueue<T>) -> Self {
        self.add(job, Condition::Failure, false)
    }

    /// The next step; it runs when the one before it has ended, however.
    pub fn then_always<T>(self, job: Enqueue<T>) -> Self {
        self.add(job, Condition::Always, true)
    }

    /// The next step, whose payload is what the one before it returns.
    pub fn then_with_result<T>(mut self, job: Enqueue<T>) -> Self {
        let from = self.last.clone();
        self = self.add(job, Condition::Success, true);
        if let Some(node) = self.flow.shape.nodes.last_mut() {
            node.payload_from = from;
        }
        self
    }

    /// Submitting the same key again answers with the first chain.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.flow = self.flow.key(key);
        self
    }

    fn add<T>(mut self, job: Enqueue<T>, when: Condition, goes_on: bool) -> Self {
        self.count += 1;
        let job = job.untyped();
        let kind = job.kind_name().unwrap_or_else(|| "step".into());
        let taken = self.flow.shape.nodes.iter().any(|node| node.name == kind);
        let name: Arc<str> = if taken { format!("{kind} {}", self.count).into() } else { kind };
        let after: Vec<Arc<str>> = self.last.iter().cloned().collect();
        // The first step waits for nothing, so it has no condition.
        let when = if after.is_empty() { Condition::Success } else { when };
        if goes_on {
            self.last = Some(name.clone());
        }
        self.flow.add(ShapeNode { name, after, when, ..ShapeNode::default() }, job);
        self
    }

    /// Stores all of it; an `Ok` means that it is durable.
    ///
    /// # Errors
    /// As [`WorkflowBuilder::submit`].
    pub async fn submit(self) -> Result<SubmittedWorkflow, WorkflowProblem> {
        self.flow.submit().await
    }
}
