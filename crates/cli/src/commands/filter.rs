//! Which jobs a command is about: the options that `job list` and the commands about dead letters share.

use backstop::{JobId, State, TerminalReason, Timestamp};
use backstop_server::shape::Purge;
use clap::Args;

use crate::client::query;

/// What jobs must have in common.
#[derive(Debug, Args)]
pub(crate) struct JobConditions {
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

impl JobConditions {
    /// As parts of a query.
    fn parts(&self) -> [(&'static str, Option<String>); 8] {
        [
            ("queue", self.queue.clone()),
            ("kind", self.kind.clone()),
            ("tag", self.tag.clone()),
            ("business_key", self.business_key.clone()),
            ("reason", self.reason.map(|reason| reason.to_string())),
            ("fingerprint", self.fingerprint.clone()),
            ("created_after", self.created_after.map(|moment| moment.to_string())),
            ("created_before", self.created_before.map(|moment| moment.to_string())),
        ]
    }

    /// True when something narrows the jobs down.
    pub(crate) fn narrow(&self) -> bool {
        self.parts().iter().any(|(_, value)| value.is_some())
    }

    /// The query for one page of the jobs, and of those that ended before a moment.
    pub(crate) fn page(
        &self,
        limit: usize,
        cursor: Option<&str>,
        finished_before: Option<Timestamp>,
    ) -> String {
        let page = [
            ("finished_before", finished_before.map(|moment| moment.to_string())),
            ("limit", Some(limit.to_string())),
            ("cursor", cursor.map(str::to_owned)),
        ];
        query(self.parts().into_iter().chain(page))
    }

    /// A purge of the dead letters that fit, and of those that ended before a moment.
    pub(crate) fn purge(&self, finished_before: Option<Timestamp>) -> Purge {
        Purge {
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            tag: self.tag.clone(),
            business_key: self.business_key.clone(),
            reason: self.reason,
            fingerprint: self.fingerprint.clone(),
            created_after: self.created_after,
            created_before: self.created_before,
            finished_before,
            ..Purge::default()
        }
    }
}

/// Conditions and the page to show.
#[derive(Debug, Args)]
pub(crate) struct FilterOptions {
    #[command(flatten)]
    conditions: JobConditions,
    /// At most this many, up to 1000.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Continue after this job: `next_cursor` of the previous page.
    #[arg(long, value_name = "ID")]
    cursor: Option<JobId>,
}

impl FilterOptions {
    /// The query for this page.
    pub(crate) fn query(&self, status: Option<State>) -> String {
        let cursor = self.cursor.map(|cursor| cursor.to_string());
        let page = self.conditions.page(self.limit, cursor.as_deref(), None);
        status.map_or_else(|| page.clone(), |status| format!("{page}&status={status}"))
    }

    /// True when something narrows the list down.
    pub(crate) fn narrows(&self) -> bool {
        self.conditions.narrow() || self.cursor.is_some()
    }
}
