//! The settings of all built-in kinds.

use crate::command::CommandSettings;
use crate::event::EventSettings;
use crate::http::HttpSettings;
use crate::publish::PublishSettings;

/// What the built-in kinds of a worker may do.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    /// Programs, their directories, environment and limits; none is allowed by default.
    pub command: CommandSettings,
    /// Addresses, ports, times and secrets; public addresses only by default.
    pub http: HttpSettings,
    /// Names of events; none is allowed by default.
    pub event: EventSettings,
    /// Bridges and queues that messages may be published to; none is allowed by default.
    pub publish: PublishSettings,
}

impl AsRef<Self> for Kinds {
    fn as_ref(&self) -> &Self {
        self
    }
}
