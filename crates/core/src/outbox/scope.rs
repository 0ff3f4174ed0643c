//! Which events a sink takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::tenant;

/// Which events a sink takes (V2): what it does not want is never written for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventScope {
    /// Names of events; all when there are none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<Arc<str>>,
    /// Queues, by the names of the store; all when there are none. An event of a workflow is on every queue that its
    /// jobs are on.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub queues: BTreeSet<Arc<str>>,
    /// Queues of which nothing is taken.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub except: BTreeSet<Arc<str>>,
    /// The one tenant whose queues and workflows it is about (E13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
}

impl EventScope {
    /// True when it takes events of this name, of some queue.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }

    /// True when it takes this event.
    #[must_use]
    pub fn takes(&self, event: &Event) -> bool {
        self.names(event.what.name()) && self.is_on(event) && self.is_of_tenant(event)
    }

    fn is_on(&self, event: &Event) -> bool {
        if event.queue().is_some_and(|queue| self.except.contains(queue)) {
            return false;
        }
        let listed = |queue: &str| self.queues.contains(queue);
        self.queues.is_empty()
            || match event.workflow() {
                Some(workflow) => workflow.queues.iter().any(|queue| listed(queue)),
                None => event.queue().is_some_and(listed),
            }
    }

    fn is_of_tenant(&self, event: &Event) -> bool {
        let Some(wanted) = self.tenant.as_deref() else { return true };
        match event.workflow() {
            Some(workflow) => workflow.tenant.as_deref() == Some(wanted),
            None => event.queue().and_then(tenant::of_queue) == Some(wanted),
        }
    }
}
