//! Lines: the jobs of one ordering key, in the order of their submits (L21).

use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::job::State;

use crate::NameRange;

/// Jobs of one line that are counted at most: whoever looks at a line of millions is told that it is long.
pub const MOST_COUNTED: u64 = 10_000;

/// Which lines to list, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineRange {
    /// True for those alone whose head failed or is paused.
    pub blocked: bool,
    /// Those whose keys begin with this.
    pub prefix: String,
    /// Those behind this key.
    pub after: Option<String>,
    /// So many at most.
    pub limit: usize,
}

impl LineRange {
    /// The keys it lists.
    #[must_use]
    pub fn span(&self) -> NameRange {
        NameRange::under(&self.prefix).behind(self.after.as_deref())
    }
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
    /// Its queue.
    pub queue: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// How many jobs wait behind it, counted up to [`MOST_COUNTED`].
    pub waiting: u64,
}

impl LineView {
    /// True when nothing goes on until a person does something about the head.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.state.blocks_line()
    }
}
