//! Work with more than one step (W1-W6): a step is a job, and these are the rules of what follows from its end.
//!
//! A workflow is a graph of nodes, each of which is one job. A batch is any number of jobs without an order. All jobs
//! are stored when they are submitted; those that have to wait for others are `waiting`. Whenever some of them have
//! ended, [`Workflow::advance`] says what to do about the others. It knows no store: it is given what has ended, and
//! answers which jobs to release, to call off or to submit.

mod advance;
mod batch;
mod condition;
mod end_note;
mod ended;
mod graph;
mod progress;
mod shape;
#[cfg(test)]
mod tests;

pub use crate::job::{PartOf, WorkflowMark};
pub use advance::{Advance, JobEnd, Workflow, WorkflowBody, WorkflowStatus};
pub use batch::{BatchProgress, BatchRule, InvalidBatchRule};
pub use condition::{Condition, NodeEnd, ResultTest};
pub use end_note::{EndDocument, EndNote};
pub use ended::{DeadPart, EndCounts, WorkflowEnd};
pub use graph::{Edge, Graph, GraphNode, Join};
pub use progress::{CancelCause, NodeMove, NodeState, WorkflowCounts, WorkflowProgress};
pub use shape::{Branching, InvalidWorkflow, MOST_EDGES, MOST_NODES, ShapeNode, WorkflowShape};
