//! What can go wrong in a store, with what to do about it.

use backstop_core::WorkerId;

use crate::Duty;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a verb did nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store is unavailable, busy or full at the moment.
    #[error("the store {location} is unavailable: {problem}")]
    Unavailable {
        /// Which store.
        location: String,
        /// What happened, and what to do when it lasts.
        problem: String,
        /// The driver's own error.
        source: Option<Source>,
    },
    /// Another transaction holds what this call needs, and went on holding it for as long as locks are waited for.
    #[error("the store {location} is busy: {waits_for}; nothing was stored, try again when it has ended")]
    Busy {
        /// Which store.
        location: String,
        /// Who holds what.
        waits_for: String,
    },
    /// The disk that holds the store is full.
    #[error("the disk of {location} is full: nothing was stored; free some space and go on")]
    DiskFull {
        /// Which store.
        location: String,
        /// The driver's own error.
        source: Option<Source>,
    },
    /// The connection was lost after the commit was sent: the batch is stored, or it is not.
    #[error("the outcome of a write to {location} is unknown: repeat the same call")]
    Unknown {
        /// Which store.
        location: String,
        /// The driver's own error.
        source: Option<Source>,
    },
    /// The store cannot be opened as it is.
    #[error("cannot open {location}: {problem}; {hint}")]
    Unusable {
        /// Which store.
        location: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// The worker is unknown here, or its lease has run out: it holds nothing any more.
    #[error("worker {worker} is not enlisted: its lease ran out or it was never made known; enlist again")]
    NotEnlisted {
        /// Who asked.
        worker: WorkerId,
    },
    /// Another node leads this duty now.
    #[error("the term for {duty} has passed on to another node: nothing was written")]
    Deposed {
        /// Which duty.
        duty: Duty,
    },
    /// A batch or a page is larger than the store takes.
    #[error("{what} has {actual} items, the limit is {limit}")]
    TooMany {
        /// What was too large.
        what: &'static str,
        /// What was given.
        actual: usize,
        /// What is allowed.
        limit: usize,
    },
    /// What was read cannot have been written by this program.
    #[error("the store {location} holds something unreadable: {problem}")]
    Corrupt {
        /// Which store.
        location: String,
        /// What it is.
        problem: String,
    },
    /// The driver failed in a way that has no meaning of its own here.
    #[error("the store {location} failed: {problem}")]
    Backend {
        /// Which store.
        location: String,
        /// What the driver says.
        problem: String,
        /// The driver's own error.
        source: Option<Source>,
    },
}

impl Error {
    /// True when the same call may well succeed later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Busy { .. } | Self::DiskFull { .. } | Self::Unknown { .. }
        )
    }

    /// True when the write may have happened: repeat the same call to learn it.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    /// The stable code that machines switch on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "store_unavailable",
            Self::Busy { .. } => "busy",
            Self::DiskFull { .. } => "disk_full",
            Self::Unknown { .. } => "outcome_unknown",
            Self::Unusable { .. } => "store_unusable",
            Self::NotEnlisted { .. } => "worker_not_enlisted",
            Self::Deposed { .. } => "deposed",
            Self::TooMany { .. } => "too_large",
            Self::Corrupt { .. } => "store_corrupt",
            Self::Backend { .. } => "store_failed",
        }
    }
}
