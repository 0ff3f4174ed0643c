//! What a worker tells the others of itself, through the store: a small document of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::dependency::CheckResult;
use super::failures::{CountsByKind, FailureComparison, FailurePause, WINDOW, add_counts};
use super::waits::WaitsByQueue;
use crate::time::Timestamp;

/// How one dependency is for one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DependencyReport {
    /// Its name.
    pub dependency: String,
    /// The kinds of the worker that need it; while it is red the worker claims none of them.
    pub kinds: Vec<String>,
    /// True when it is green.
    pub ok: bool,
    /// Since when it is as it is.
    pub since: Timestamp,
    /// What was last seen of it; none before the first check.
    pub last: Option<CheckResult>,
    /// When it is checked next, or tried again.
    pub next_at: Option<Timestamp>,
    /// How often it turned red because a run found it away, since a run last went well.
    pub failed_tries: u32,
}

/// A worker that claims nothing because of its failures (H8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailurePauseReport {
    /// Since when.
    pub since: Timestamp,
    /// When it tries again with a few runs.
    pub until: Timestamp,
    /// Why.
    pub why: FailureComparison,
}

/// What the runs of a remote worker came to that one server has heard of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunShare {
    /// When the server told it last.
    pub told: Timestamp,
    /// The runs of the minutes before that.
    pub runs: CountsByKind,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Every dependency that its kinds need.
    #[serde(default)]
    pub dependencies: Vec<DependencyReport>,
    /// What its runs of the last minutes came to.
    #[serde(default)]
    pub runs: CountsByKind,
    /// Set while it claims nothing because of its failures.
    #[serde(default)]
    pub paused: Option<FailurePauseReport>,
    /// How many jobs it runs at once at most, by queue; remote workers do not say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<String, u64>,
    /// How long the jobs that it took in the last minute had been due, by queue; those of remote workers are known to
    /// the server that handed them out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: WaitsByQueue,
    /// Of a remote worker, which any of several servers hears of: how it stands as far as its failures go …
    #[serde(default, skip_serializing_if = "FailurePause::is_well")]
    pub pause: FailurePause,
    /// … and what each server has heard of the runs that count for it; `runs` is their sum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heard: BTreeMap<String, RunShare>,
}

impl WorkerReport {
    /// Says what `server` has heard of the runs of a remote worker.
    pub fn hear(&mut self, server: &str, runs: CountsByKind, now: Timestamp) {
        self.heard.insert(server.to_owned(), RunShare { told: now, runs });
        self.forget(now);
        self.runs = self.heard_but_by("", now);
    }

    /// What the servers but one have heard of the runs that count now.
    #[must_use]
    pub fn heard_but_by(&self, server: &str, now: Timestamp) -> CountsByKind {
        let mut sum = CountsByKind::new();
        let counts = |share: &RunShare| counts_now(share, &self.pause, now);
        let others = self.heard.iter().filter(|(name, share)| *name != server && counts(share));
        others.for_each(|(_, share)| add_counts(&mut sum, &share.runs));
        sum
    }

    /// Judges a remote worker by its runs and those of the rest; answers whether it stopped.
    pub fn judge(&mut self, own: &CountsByKind, rest: &CountsByKind, now: Timestamp) -> bool {
        let stopped = self.pause.judge(own, rest, now);
        if stopped {
            // What was heard until now has been judged.
            (self.heard, self.runs) = Default::default();
        }
        self.tell_pause();
        stopped
    }

    /// Lets a remote worker try again whose pause is over: nobody writes that time has passed.
    pub fn tick(&mut self, now: Timestamp) {
        self.pause.tick(now);
        self.tell_pause();
    }

    fn tell_pause(&mut self) {
        let paused = self.pause.paused();
        self.paused = paused.map(|(since, until, why)| FailurePauseReport { since, until, why });
    }

    fn forget(&mut self, now: Timestamp) {
        let pause = &self.pause;
        self.heard.retain(|_, share| counts_now(share, pause, now));
    }

    /// The red dependency for which it does not claim a kind.
    #[must_use]
    pub fn red_for(&self, kind: &str) -> Option<&DependencyReport> {
        let needs = |one: &&DependencyReport| !one.ok && one.kinds.iter().any(|needing| needing == kind);
        self.dependencies.iter().find(needs)
    }
}

/// A server that is gone tells nothing any more, and what was told before a pause says nothing of the trial after it.
fn counts_now(share: &RunShare, pause: &FailurePause, now: Timestamp) -> bool {
    now.since(share.told) < WINDOW && pause.counts_since().is_none_or(|since| share.told >= since)
}
