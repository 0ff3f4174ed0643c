//! The failures of a worker against those of the rest of the fleet (H8).
//!
//! A worker compares itself kind by kind, because a kind that fails everywhere says nothing of a worker. It is far
//! above the fleet when, over the kinds that others ran too, at least half of its runs failed, and four times as many
//! as would have failed elsewhere. Then it stops claiming for a while, tries again with a few runs, and is judged by
//! those. Alone in its fleet it has nobody to compare with, and never stops.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How far back runs count.
pub(super) const WINDOW: Duration = Duration::from_secs(300);

/// The window is forgotten in steps of this.
const STEP: Duration = Duration::from_secs(10);

/// Kinds that are counted at most; a report stays small however many there are.
const KINDS: usize = 100;

/// A worker is judged by no fewer runs.
const JUDGED_RUNS: u64 = 20;

/// Runs of a kind that the rest must have had to be compared with.
const REST_RUNS: u64 = 10;

/// Runs that a worker has after a pause, to be judged by.
const TRIAL_RUNS: u64 = 5;

/// So many times as often as the rest is far above it.
const FAR_ABOVE: f64 = 4.0;

const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Runs that ended, and how many of them failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunCounts {
    /// Runs that succeeded or failed; what was snoozed, rejected or interrupted is neither.
    pub runs: u64,
    /// Of these, those that failed.
    pub failures: u64,
}

impl RunCounts {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs.saturating_add(other.runs),
            failures: self.failures.saturating_add(other.failures),
        }
    }

    /// True when at least half of them failed, and there are enough to tell.
    const fn is_bad(self, at_least: u64) -> bool {
        self.runs >= at_least && self.failures.saturating_mul(2) >= self.runs
    }
}

/// Counts by kind.
pub type CountsByKind = BTreeMap<String, RunCounts>;

/// Adds the counts of some to those of others.
pub fn add_counts(sum: &mut CountsByKind, more: &CountsByKind) {
    for (kind, counts) in more {
        let counted = sum.entry(kind.clone()).or_default();
        *counted = counted.and(*counts);
    }
}

/// The sum over all kinds.
fn total<'a>(counts: impl IntoIterator<Item = &'a RunCounts>) -> RunCounts {
    counts.into_iter().fold(RunCounts::default(), |sum, one| sum.and(*one))
}

/// The runs of the last minutes, by kind.
#[derive(Debug, Clone, Default)]
pub struct RunWindow(VecDeque<(Timestamp, CountsByKind)>);

impl RunWindow {
    /// Counts a run that ended now.
    pub fn note(&mut self, kind: &str, failed: bool, now: Timestamp) {
        self.forget(now);
        if self.0.back().is_none_or(|(began, _)| now.since(*began) >= STEP) {
            self.0.push_back((now, CountsByKind::new()));
        }
        let Some((_, counts)) = self.0.back_mut() else { return };
        let one = RunCounts { runs: 1, failures: u64::from(failed) };
        if let Some(counted) = counts.get_mut(kind) {
            *counted = counted.and(one);
        } else if counts.len() < KINDS {
            counts.insert(kind.to_owned(), one);
        }
    }

    /// What counts now.
    pub fn counts(&mut self, now: Timestamp) -> CountsByKind {
        self.forget(now);
        let mut sum = CountsByKind::new();
        for (kind, counts) in self.0.iter().flat_map(|(_, counts)| counts) {
            if let Some(counted) = sum.get_mut(kind) {
                *counted = counted.and(*counts);
            } else if sum.len() < KINDS {
                sum.insert(kind.clone(), *counts);
            }
        }
        sum
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn forget(&mut self, now: Timestamp) {
        while self.0.front().is_some_and(|(began, _)| now.since(*began) >= WINDOW) {
            self.0.pop_front();
        }
    }
}

/// Why a worker stopped claiming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailureComparison {
    /// Its runs that were compared.
    pub runs: u64,
    /// Of these, those that failed.
    pub failures: u64,
    /// How many of a hundred such runs fail elsewhere.
    pub percent_elsewhere: u8,
}

impl std::fmt::Display for FailureComparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { runs, failures, percent_elsewhere } = self;
        write!(f, "{failures} of {runs} runs failed here, {percent_elsewhere} % of such runs elsewhere")
    }
}

/// How a worker's failures are far above the rest's; none when they are not, or too little is known.
fn compare(own: &CountsByKind, rest: &CountsByKind, at_least: u64) -> Option<FailureComparison> {
    let (mut compared, mut expected) = (RunCounts::default(), 0.0);
    for (kind, mine) in own {
        let Some(theirs) = rest.get(kind).filter(|theirs| theirs.runs >= REST_RUNS) else { continue };
        compared = compared.and(*mine);
        expected += figure(mine.runs) * figure(theirs.failures) / figure(theirs.runs);
    }
    let RunCounts { runs, failures } = compared;
    if !compared.is_bad(at_least) || figure(failures) < FAR_ABOVE * expected {
        return None;
    }
    // Far above means that it is a quarter at most.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 25")]
    let percent_elsewhere = (100.0 * expected / figure(runs)).round() as u8;
    Some(FailureComparison { runs, failures, percent_elsewhere })
}

#[expect(clippy::cast_precision_loss, reason = "counts of five minutes are far below 2^52")]
const fn figure(count: u64) -> f64 {
    count as f64
}

/// Whether a worker claims, as far as its failures go. That of a remote worker is kept by the store, because it may ask
/// any of several servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailurePause {
    /// Pauses since it was last found well.
    pauses: u32,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    #[default]
    Well,
    Paused {
        since: Timestamp,
        until: Timestamp,
        why: FailureComparison,
    },
    Trial {
        since: Timestamp,
    },
}

impl FailurePause {
    /// True when nothing is held against it.
    #[must_use]
    pub fn is_well(&self) -> bool {
        *self == Self::default()
    }

    /// Since when it claims nothing, until when, and why; none while it claims.
    #[must_use]
    pub const fn paused(&self) -> Option<(Timestamp, Timestamp, FailureComparison)> {
        match self.phase {
            Phase::Paused { since, until, why } => Some((since, until, why)),
            Phase::Well | Phase::Trial { .. } => None,
        }
    }

    /// Since when its figures count: those from before a pause, and from during one, say nothing of the trial. None
    /// while it is well: then all of the window counts.
    #[must_use]
    pub const fn counts_since(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Well => None,
            Phase::Paused { since, .. } | Phase::Trial { since } => Some(since),
        }
    }

    /// Runs that it may take with `counted` runs counted since the pause and `held` under way; none for any number.
    #[must_use]
    pub fn room(&self, counted: &CountsByKind, held: u64) -> Option<u64> {
        match self.phase {
            Phase::Well => None,
            Phase::Paused { .. } => Some(0),
            Phase::Trial { .. } => {
                Some(TRIAL_RUNS.saturating_sub(total(counted.values()).runs.saturating_add(held)))
            }
        }
    }

    /// True when its own figures are a reason to look at those of the others.
    #[must_use]
    pub fn needs_judging(&self, own: &CountsByKind) -> bool {
        match self.phase {
            Phase::Well => total(own.values()).is_bad(JUDGED_RUNS),
            Phase::Paused { .. } => false,
            Phase::Trial { .. } => total(own.values()).runs >= TRIAL_RUNS,
        }
    }

    /// Judges it by its figures and the rest's; answers whether it stopped. It has to forget its figures then.
    pub fn judge(&mut self, own: &CountsByKind, rest: &CountsByKind, now: Timestamp) -> bool {
        if !self.needs_judging(own) {
            return false;
        }
        let at_least = if matches!(self.phase, Phase::Trial { .. }) { TRIAL_RUNS } else { JUDGED_RUNS };
        let Some(why) = compare(own, rest, at_least) else {
            *self = Self::default();
            return false;
        };
        let span = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(8)).min(LONGEST_PAUSE);
        self.pauses = self.pauses.saturating_add(1);
        self.phase = Phase::Paused { since: now, until: now.after(span), why };
        true
    }

    /// Lets it try again when its pause is over; answers whether it was. It has to forget its figures then.
    pub fn tick(&mut self, now: Timestamp) -> bool {
        let over = self.paused().filter(|(_, until, _)| *until <= now);
        if let Some((_, until, _)) = over {
            self.phase = Phase::Trial { since: until };
        }
        over.is_some()
    }
}

#[cfg(test)]
mod tests;
