//! Which events a subscriber is sent: those that are for its eyes, and of those the ones it asked for.

use backstop::{JobId, LoggedEvent};

use crate::access::Caller;

/// What a subscriber asked for. What is none lets everything through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct EventFilter {
    /// Queues, by the names of the store.
    pub(crate) queues: Option<Vec<String>>,
    /// Kinds.
    pub(crate) kinds: Option<Vec<String>>,
    /// Names of events.
    pub(crate) events: Option<Vec<String>>,
    /// One job.
    pub(crate) job: Option<JobId>,
}

impl EventFilter {
    /// True when the event was asked for.
    pub(crate) fn wants(&self, event: &LoggedEvent) -> bool {
        let listed = |list: &Option<Vec<String>>, name: Option<&str>| {
            list.as_ref().is_none_or(|list| name.is_some_and(|name| list.iter().any(|one| one == name)))
        };
        listed(&self.events, Some(&event.name))
            && self.queues.as_ref().is_none_or(|queues| is_on(event, queues))
            && listed(&self.kinds, event.kind.as_deref())
            && self.job.is_none_or(|job| event.job == Some(job))
    }
}

/// True when an event is about one of these queues; one of a workflow is about all that its jobs are on.
fn is_on(event: &LoggedEvent, queues: &[String]) -> bool {
    let listed = |queue: &str| queues.iter().any(|one| one == queue);
    match &event.workflow {
        Some(workflow) => workflow.queues.iter().any(|queue| listed(queue)),
        None => event.queue.as_deref().is_some_and(listed),
    }
}

/// True when the event is for this caller's eyes: on a queue it sees, or it sees everything.
pub(crate) fn visible(caller: &Caller, event: &LoggedEvent) -> bool {
    if let Some(workflow) = &event.workflow {
        return caller.sees_workflow(workflow.tenant.as_deref(), &workflow.queues);
    }
    match event.queue.as_deref() {
        Some(queue) => caller.sees(queue).is_some(),
        None => caller.sees_all(),
    }
}
