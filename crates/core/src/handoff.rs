//! Hand-off to another Backstop (B7): under which key a finished job is published there, and what its answers mean.
//!
//! A hand-off that is refused is neither a dead letter nor a reject: what was to be published waits in the outbox, and
//! shows as backlog and lag. Nothing here knows HTTP: an answer comes in as a status and a code.

mod answer;
mod key;

#[cfg(test)]
mod tests;

pub use answer::{HandOffRefusal, ItemAnswer, RequestAnswer};
pub use key::{HandOffKey, KeyField, KeyFieldError, KeyOrigin, KeySource, publication_of};

use serde::{Deserialize, Serialize};

use crate::tenant;

/// Characters of the name of a hand-off: it stands in keys at both ends.
pub const NAME_CHARS: usize = 64;

/// What the names of the sinks of hand-offs begin with. No other sink can be called like this.
const SINK_PREFIX: &str = "handoff:";

/// Whose jobs a hand-off takes, and what of them it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOffScope {
    /// The tenant as it is shown; [`tenant::NO_TENANT`] for the jobs of none (E13).
    pub tenant: String,
    /// The fields that the key is made of; none for the incoming id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<KeyField>,
}

impl HandOffScope {
    /// True when it takes the jobs of this queue.
    #[must_use]
    pub fn is_for(&self, queue: &str) -> bool {
        tenant::shown(queue) == self.tenant
    }
}

/// The sink in which the outbox keeps what waits for a hand-off.
#[must_use]
pub fn sink_name(handoff: &str) -> String {
    format!("{SINK_PREFIX}{handoff}")
}

/// The hand-off whose sink this is; none when it is another's.
#[must_use]
pub fn of_sink(sink: &str) -> Option<&str> {
    sink.strip_prefix(SINK_PREFIX)
}

/// True for what a hand-off may be called.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    !name.is_empty() && name.len() <= NAME_CHARS && name.chars().all(fits)
}
