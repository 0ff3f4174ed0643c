//! The queues of a workflow: all are one tenant's, and who may not see one of them does not see the workflow (E13).

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_core::workflow::Workflow;
use backstop_core::{Refusal, tenant};

use crate::submit::Enqueue;

/// Queues that the jobs of one workflow or batch may be on.
const MOST_QUEUES: usize = 100;

/// The queues of these jobs. Jobs that are refused anyway have none.
pub(super) fn of<'j>(jobs: impl IntoIterator<Item = &'j Enqueue>) -> BTreeSet<Arc<str>> {
    jobs.into_iter().filter_map(Enqueue::queue_name).collect()
}

/// The tenant of the first queue.
pub(super) fn first_tenant(queues: &BTreeSet<Arc<str>>) -> Option<Arc<str>> {
    queues.first().and_then(|queue| tenant::of_queue(queue).map(Arc::from))
}

/// Adds queues to those that a workflow has.
///
/// # Errors
/// When one is another tenant's, or there are too many.
pub(super) fn add(workflow: &mut Workflow, queues: BTreeSet<Arc<str>>) -> Result<(), Refusal> {
    let is_own = |queue: &Arc<str>| tenant::of_queue(queue) == workflow.tenant.as_deref();
    if !queues.iter().all(is_own) {
        return Err(Refusal::invalid("queue", "all jobs of a workflow are on queues of one tenant"));
    }
    workflow.queues.extend(queues);
    if workflow.queues.len() > MOST_QUEUES {
        let problem = format!("the jobs of a workflow are on {MOST_QUEUES} queues at most");
        return Err(Refusal::invalid("queue", problem));
    }
    Ok(())
}
