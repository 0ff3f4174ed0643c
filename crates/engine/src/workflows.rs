//! Workflows and batches (W1-W6): steps that follow each other, and jobs that belong together. A step is a job.
//!
//! What follows from the end of a step is decided in `backstop_core::workflow`; who does it, and when, in `advance`.
//! Here is what programs do with them: [`Backstop::workflow`], [`Backstop::chain`], [`Backstop::batch`] and
//! [`Backstop::workflows`].

pub use backstop_core::WorkflowId;
pub use backstop_core::workflow::{
    BatchProgress, BatchRule, Branching, Condition, DeadPart, EndCounts, InvalidBatchRule, InvalidWorkflow,
    Join, NodeEnd, NodeState, PartOf, ResultTest, WorkflowCounts, WorkflowEnd, WorkflowStatus,
};

pub(crate) mod advance;
mod batch;
mod batch_stream;
mod builder;
mod callback;
mod chain;
pub(crate) mod inputs;
pub(crate) mod memory;
mod predicate;
mod problem;
mod queues;
mod renew;
mod step_name;
pub(crate) mod stored;
mod submit;
mod told;
mod view;
mod wait;

use std::sync::Arc;

pub use self::batch::{BatchBuilder, BatchHandle};
pub use self::builder::{Step, StepBuilder, WorkflowBuilder};
pub use self::chain::Chain;
pub use self::predicate::predicate_kind;
pub(crate) use self::predicate::{PredicateHandler, with_an_answer};
pub use self::problem::WorkflowProblem;
pub use self::step_name::{NamesStep, StepName};
pub use self::submit::SubmittedWorkflow;
pub(crate) use self::view::steps_before;
pub use self::view::{NodeView, WorkflowFilter, WorkflowView, Workflows};
use crate::engine::Backstop;

impl Backstop {
    /// A workflow: steps that wait for each other, all stored at once.
    ///
    /// ```
    /// use backstop::prelude::*;
    /// use backstop::workflows::{SubmittedWorkflow, WorkflowStatus};
    ///
    /// #[job]
    /// async fn reserve(order: u32) -> JobResult<String> {
    ///     Ok(format!("room for order {order}"))
    /// }
    ///
    /// #[job]
    /// async fn charge(cx: JobContext<()>, cents: u32) -> JobResult<String> {
    ///     let reserved: String = cx.input("reserve")?;
    ///     Ok(format!("{cents} cents for {reserved}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let mut order = engine.workflow("order");
    /// let reserve = order.step("reserve", engine.enqueue(Reserve { order: 7 })).add();
    /// order.step("charge", engine.enqueue(Charge { cents: 990 })).after(&reserve).add();
    /// let submitted: SubmittedWorkflow = order.submit().await?;
    /// let worker = engine.worker(()).register::<Reserve>().register::<Charge>();
    /// worker.queue("default", 4).inline()?.drain(10).await?;
    /// let seen = engine.workflows().get(submitted.id).await?.expect("it is stored");
    /// assert_eq!(seen.status, WorkflowStatus::Succeeded);
    /// # Ok(()) }
    /// ```
    pub fn workflow(&self, name: impl Into<Arc<str>>) -> WorkflowBuilder {
        WorkflowBuilder::new(&self.parts, name.into())
    }

    /// Steps one after another: a workflow without branches.
    ///
    /// ```
    /// use backstop::prelude::*;
    ///
    /// # #[job]
    /// # async fn fetch() -> JobResult<u32> { Ok(7) }
    /// # #[job]
    /// # async fn report(cx: JobContext<()>) -> JobResult<u32> { cx.input("fetch").map_err(Into::into) }
    /// # #[job]
    /// # async fn complain() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let chain = engine.chain("nightly", engine.enqueue(Fetch {})).then(engine.enqueue(Report {}));
    /// let submitted = chain.then_on_failure(engine.enqueue(Complain {})).submit().await?;
    /// assert_eq!(submitted.nodes.len(), 3);
    /// # Ok(()) }
    /// ```
    pub fn chain<T>(&self, name: impl Into<Arc<str>>, first: crate::submit::Enqueue<T>) -> Chain<T> {
        Chain::new(self.workflow(name), first)
    }

    /// A batch: any number of jobs that belong together, and what follows when all of them have ended.
    ///
    /// ```
    /// use backstop::prelude::*;
    /// use backstop::workflows::{BatchHandle, WorkflowStatus};
    ///
    /// # #[job]
    /// # async fn resize(picture: u32) {}
    /// # #[job]
    /// # async fn publish() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let batch: BatchHandle = engine
    ///     .batch("pictures")
    ///     .then_on_success(Publish {})
    ///     .for_each(1..=3, |picture| engine.enqueue(Resize { picture }))
    ///     .await?;
    /// let worker = engine.worker(()).register::<Resize>().register::<Publish>();
    /// worker.queue("default", 4).inline()?.drain(10).await?;
    /// assert_eq!(batch.view().await?.status, WorkflowStatus::Succeeded);
    /// # Ok(()) }
    /// ```
    pub fn batch(&self, name: impl Into<Arc<str>>) -> BatchBuilder {
        BatchBuilder::new(&self.parts, name.into())
    }

    /// The workflows and batches of the store.
    #[must_use]
    pub const fn workflows(&self) -> Workflows<'_> {
        Workflows::of(&self.parts)
    }
}
