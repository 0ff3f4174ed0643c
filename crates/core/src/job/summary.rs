//! The summary of a job: enough to see what became of it, and nothing that takes long to read.

use super::{JobView, PausedFrom, PlanId, Record, State};
use crate::failure::{Fingerprint, TerminalReason};
use crate::time::Timestamp;

/// What became of a job, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSummary {
    /// Where it rests. None while it is pending or running: to tell these two apart takes a longer look.
    pub rests: Option<State>,
    /// What it was paused in.
    pub paused_from: Option<PausedFrom>,
    /// How often it was driven again (L9).
    pub redrives: u32,
    /// The plan that drove it again last (D4).
    pub plan: Option<PlanId>,
    /// Why it is a dead letter (F13).
    pub reason: Option<TerminalReason>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The fingerprint of its last failure, if a run left one.
    pub died_of: Option<Fingerprint>,
}

impl JobSummary {
    /// What a record tells, beside the fingerprint of its last failure.
    #[must_use]
    pub fn new(record: &Record, died_of: Option<Fingerprint>) -> Self {
        Self {
            rests: Self::rest(record.state),
            paused_from: record.paused_from,
            redrives: record.redrives,
            plan: record.plan().cloned(),
            reason: record.reason,
            finished_at: record.finished_at,
            died_of,
        }
    }

    /// The state that a summary tells.
    #[must_use]
    pub const fn rest(state: State) -> Option<State> {
        match state {
            State::Pending | State::Running => None,
            state => Some(state),
        }
    }
}

impl From<&JobView> for JobSummary {
    fn from(view: &JobView) -> Self {
        let died_of = view.last_failure.as_ref().map(|failure| failure.fingerprint.clone());
        Self::new(&view.record, died_of)
    }
}
