//! Lines: the jobs of one ordering key, in the order of their submits (L21).

use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::job::State;

/// Jobs of one line that are counted at most: whoever looks at a line of millions is told that it is long.
pub const MOST_COUNTED: u64 = 10_000;

/// Which lines to list, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineRange {
    /// True for those alone whose head failed or is paused.
    pub blocked: bool,
    /// Those behind this key.
    pub after: Option<String>,
    /// So many at most.
    pub limit: usize,
}

/// A line as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineView {
    /// The ordering key.
    pub key: Arc<str>,
    /// The job whose turn it is.
    pub head: JobId,
    /// Where that job is.
    pub state: State,
    /// How many jobs wait behind it, counted up to [`MOST_COUNTED`].
    pub waiting: u64,
}

impl LineView {
    /// True when nothing goes on until a person does something about the head.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        matches!(self.state, State::Failed | State::Paused)
    }
}
