//! What `finish`, `rescue` and `annotate` take.

use backstop_core::Lease;
use backstop_core::job::{Ending, Progress};

/// The end of one run.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The right to write about it.
    pub lease: Lease,
    /// How it ended.
    pub ending: Ending,
}

/// What a handler says of its progress.
#[derive(Debug, Clone)]
pub struct Note {
    /// The right to write about the run.
    pub lease: Lease,
    /// How far it is.
    pub progress: Progress,
}
