//! Steps one after another (W1).

use std::marker::PhantomData;
use std::sync::Arc;

use backstop_core::workflow::{Condition, ShapeNode};

use serde_json::Value;

use super::builder::{NOT_YET, WorkflowBuilder};
use super::problem::WorkflowProblem;
use super::submit::SubmittedWorkflow;
use crate::job::{Job, ResultOf};
use crate::submit::Enqueue;

/// Steps one after another: see [`Backstop::chain`](crate::Backstop::chain). A step is named after the kind of its job;
/// the second one of a kind has its place added, such as `charge 3`. `T` is what its last step returns.
#[must_use = "nothing is stored before `.submit().await`"]
pub struct Chain<T = Value> {
    flow: WorkflowBuilder,
    last: Option<Arc<str>>,
    count: usize,
    result: PhantomData<fn() -> T>,
}

impl<T> Chain<T> {
    pub(super) fn new(flow: WorkflowBuilder, first: Enqueue<T>) -> Self {
        Self { flow, last: None, count: 0, result: PhantomData }.add(first, Condition::Success, true)
    }

    /// The next step; it runs when the one before it has succeeded.
    pub fn then<N>(self, job: Enqueue<N>) -> Chain<N> {
        self.add(job, Condition::Success, true).returning()
    }

    /// The same as [`Chain::then`].
    pub fn then_on_success<N>(self, job: Enqueue<N>) -> Chain<N> {
        self.then(job)
    }

    /// A step that runs when the one before it has failed for good. What is added after it goes on behind the step
    /// before, as if this one were not there.
    pub fn then_on_failure<N>(self, job: Enqueue<N>) -> Self {
        self.add(job, Condition::Failure, false)
    }

    /// The next step; it runs when the one before it has ended, however.
    pub fn then_always<N>(self, job: Enqueue<N>) -> Chain<N> {
        self.add(job, Condition::Always, true).returning()
    }

    /// The next step, whose payload is what the one before it returns; the payload that `job` has is not looked at.
    pub fn then_with_result<N>(mut self, job: Enqueue<N>) -> Chain<N> {
        let from = self.last.clone();
        self = self.add(job, Condition::Success, true);
        if let Some(node) = self.flow.shape.nodes.last_mut() {
            node.payload_from = from;
        }
        self.returning()
    }

    /// Submitting the same key again answers with the first chain.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.flow = self.flow.key(key);
        self
    }

    /// Submits `callback` when all of it has succeeded.
    pub fn on_success<N: Job>(mut self, callback: &N) -> Self {
        self.flow = self.flow.on_success(callback);
        self
    }

    /// Submits `callback` when it has failed or was called off.
    pub fn on_failure<N: Job>(mut self, callback: &N) -> Self {
        self.flow = self.flow.on_failure(callback);
        self
    }

    /// The same chain, whose last step returns something else now.
    fn returning<N>(self) -> Chain<N> {
        let Self { flow, last, count, .. } = self;
        Chain { flow, last, count, result: PhantomData }
    }

    fn add<N>(mut self, job: Enqueue<N>, when: Condition, goes_on: bool) -> Self {
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

impl<J: Job> Chain<J> {
    /// The next step runs the job that the one before it returns.
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
    /// # let engine = Backstop::open("memory:").await?;
    /// engine.chain("order", engine.enqueue(Price { pieces: 3 })).then_returned().submit().await?;
    /// # let worker = engine.worker(()).register::<Charge>().register::<Price>();
    /// # assert_eq!(worker.queue("default", 4).inline()?.drain(10).await?.len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn then_returned(self) -> Chain<ResultOf<J>> {
        let job = Enqueue::of_kind::<J>(&self.flow.parts, Ok(NOT_YET.into()));
        self.then_with_result(job)
    }
}
