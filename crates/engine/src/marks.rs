//! Marks that `#[derive(JobError)]` puts on error types, and how they are found in a source chain (F6).

use std::error::Error;
use std::time::Duration;

/// What an error says of its own chances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The variant that carries it; empty for a struct.
    pub variant: &'static str,
    /// What it says.
    pub kind: MarkKind,
}

/// The kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// No mark: an ordinary error of a type that derives `JobError`.
    Plain,
    /// No retry can mend it.
    Permanent {
        /// Why, as its author wrote it.
        reason: &'static str,
    },
    /// The input can never be handled.
    Invalid {
        /// Why, as its author wrote it.
        reason: &'static str,
    },
    /// A dependency is away for the moment.
    Transient {
        /// Which one.
        dependency: &'static str,
    },
    /// Try again after this long.
    RetryIn {
        /// How long.
        delay: Duration,
    },
}

/// Implemented by `#[derive(JobError)]`: tells Backstop what an error means for its job.
pub trait JobError: Error + 'static {
    /// The mark of this value; none lets the search go on through its source.
    fn mark(&self) -> Option<Mark>;
}

/// One error type that derives `JobError`, collected at link time so that it is found behind any wrapper.
#[derive(Debug)]
pub struct Probe {
    type_name: &'static str,
    look: fn(&(dyn Error + 'static)) -> Option<Mark>,
}

impl Probe {
    /// A probe for one type; the derive writes this.
    #[must_use]
    pub const fn new(type_name: &'static str, look: fn(&(dyn Error + 'static)) -> Option<Mark>) -> Self {
        Self { type_name, look }
    }
}

inventory::collect!(Probe);

/// The mark of one link of a source chain, with the name of its type.
pub(crate) fn find(error: &(dyn Error + 'static)) -> Option<(&'static str, Mark)> {
    inventory::iter::<Probe>.into_iter().find_map(|probe| Some((probe.type_name, (probe.look)(error)?)))
}
