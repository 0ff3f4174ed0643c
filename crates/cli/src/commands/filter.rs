//! Which jobs a command is about: the options that `job list` and the commands about dead letters share.

use backstop::store::{JobFilter, PageRequest};
use backstop::{JobId, State, TerminalReason, Timestamp};
use clap::Args;

/// What jobs must have in common.
#[derive(Debug, Args)]
pub(crate) struct Conditions {
    /// On this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// With this tag.
    #[arg(long)]
    tag: Option<String>,
    /// With this business key.
    #[arg(long, value_name = "KEY")]
    business_key: Option<String>,
    /// Dead for this reason, such as retry_exhausted or invalid.
    #[arg(long)]
    reason: Option<TerminalReason>,
    /// Last failed with this fingerprint.
    #[arg(long)]
    fingerprint: Option<String>,
    /// Stored at or after this moment, such as 2026-11-15T09:30:00Z.
    #[arg(long, value_name = "MOMENT")]
    created_after: Option<Timestamp>,
    /// Stored before this moment.
    #[arg(long, value_name = "MOMENT")]
    created_before: Option<Timestamp>,
}

impl Conditions {
    /// The filter for jobs in `state`.
    pub(crate) fn jobs(&self, state: Option<State>) -> JobFilter {
        JobFilter {
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            state,
            tag: self.tag.clone(),
            business_key: self.business_key.clone(),
            reason: self.reason,
            fingerprint: self.fingerprint.clone(),
            created_after: self.created_after,
            created_before: self.created_before,
            ..JobFilter::default()
        }
    }

    /// True when something narrows the jobs down.
    pub(crate) fn narrow(&self) -> bool {
        self.jobs(None) != JobFilter::default()
    }
}

/// Conditions and the page to show.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    #[command(flatten)]
    conditions: Conditions,
    /// At most this many.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Go on after this job, as `next_cursor` of the page before says.
    #[arg(long, value_name = "ID")]
    cursor: Option<JobId>,
}

impl Filter {
    /// The filter for jobs in `state`.
    pub(crate) fn jobs(&self, state: Option<State>) -> JobFilter {
        self.conditions.jobs(state)
    }

    /// The page to read.
    pub(crate) const fn page(&self) -> PageRequest<JobId> {
        PageRequest { limit: self.limit, after: self.cursor }
    }

    /// True when something narrows the list down.
    pub(crate) fn narrows(&self) -> bool {
        self.conditions.narrow() || self.cursor.is_some()
    }
}
