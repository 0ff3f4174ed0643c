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
        let (queue, kind) = about(event);
        listed(&self.events, Some(event.what.name()))
            && listed(&self.queues, queue)
            && listed(&self.kinds, kind)
            && self.job.is_none_or(|job| event.job.as_ref().is_some_and(|header| header.id == job))
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
    match about(event).0 {
        Some(queue) => caller.sees(queue).is_some(),
        None => caller.sees_all(),
    }
}
