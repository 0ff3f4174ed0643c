//! Which events a subscriber is sent: those that are for its eyes, and of those the ones it asked for.

use backstop::{Event, EventKind, JobId};

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
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let listed = |list: &Option<Vec<String>>, name: Option<&str>| {
            list.as_ref().is_none_or(|list| name.is_some_and(|name| list.iter().any(|one| one == name)))
        };
        let (_, kind) = about(event);
        listed(&self.events, Some(event.what.name()))
            && self.queues.as_ref().is_none_or(|queues| is_on(event, queues))
            && listed(&self.kinds, kind)
            && self.job.is_none_or(|job| event.job.as_ref().is_some_and(|header| header.id == job))
    }
}

/// True when an event is about one of these queues; one of a workflow is about all that its jobs are on.
pub(crate) fn is_on(event: &Event, queues: &[String]) -> bool {
    let listed = |queue: &str| queues.iter().any(|one| one == queue);
    match event.workflow() {
        Some(workflow) => workflow.queues.iter().any(|queue| listed(queue)),
        None => about(event).0.is_some_and(listed),
    }
}

/// The queue and the kind that an event is about.
pub(crate) fn about(event: &Event) -> (Option<&str>, Option<&str>) {
    match (&event.job, &event.what) {
        (Some(job), _) => (Some(&job.queue), Some(&job.kind)),
        (None, EventKind::WaitDetailCode { kind, queue, .. }) => (Some(queue), Some(kind)),
        _ => (None, None),
    }
}

/// True when the event is for this caller's eyes: on a queue it sees, or it sees everything.
pub(crate) fn visible(caller: &Caller, event: &Event) -> bool {
    if let Some(workflow) = event.workflow() {
        return caller.sees_workflow(workflow.tenant.as_deref(), &workflow.queues);
    }
    match about(event).0 {
        Some(queue) => caller.sees(queue).is_some(),
        None => caller.sees_all(),
    }
}
