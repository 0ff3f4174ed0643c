//! The plan as it is stored, and the judgement which jobs it may drive.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::selector::CandidateChoice;
use super::{PlanError, PlanSelector, PlanSettings};
use crate::id::JobId;
use crate::job::{JobView, PlanId};
use crate::text::truncate_chars;
use crate::time::Timestamp;

/// Entries of the audit that are kept: the first, which says who made the plan, and the latest.
const MAX_HISTORY: usize = 100;

/// Characters of a note or of a name in the audit.
const MAX_WORDS_CHARS: usize = 500;

/// A stored plan to drive dead letters again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    /// Its identity.
    pub id: PlanId,
    /// When it was made. What dies later is not part of this plan, which keeps it bounded.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: String,
    /// Why, in the words of whoever made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Which dead letters it is about.
    pub selector: PlanSelector,
    /// How carefully it goes.
    #[serde(default)]
    pub settings: PlanSettings,
    /// Only code of this version or a later one may run what it drives (D7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// What the incident is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// How many jobs the dry run counted.
    pub expected: u64,
    /// Where it is.
    pub phase: PlanPhase,
    /// Where a resume goes back to, while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_from: Option<PlanPhase>,
    /// The last job that it has looked at; the next are behind it, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<JobId>,
    /// How far earlier rounds have looked: what was left out up to there is in the report already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<JobId>,
    /// What happened so far.
    #[serde(default)]
    pub counts: PlanCounts,
    /// Jobs that are driven and have not ended.
    #[serde(default)]
    pub open: u32,
    /// The round it is in.
    pub round: PlanRound,
    /// Batches driven so far.
    #[serde(default)]
    pub batches: u32,
    /// It drives nothing before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_batch_at: Option<Timestamp>,
    /// True while no live worker has the code that it needs (D7).
    #[serde(default)]
    pub waits_for_code: bool,
    /// Why it halted, the last time it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<PlanHalt>,
    /// Who did what, and what it did by itself; bounded.
    #[serde(default)]
    pub history: Vec<PlanEntry>,
}

/// Where a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanPhase {
    /// Made, and nothing driven yet.
    Planned,
    /// The first few jobs are driven.
    Canary,
    /// Nothing more is driven until the canaries have succeeded.
    Gate,
    /// The rest is driven, in batches.
    Driving,
    /// Everything was driven, and some of it has not ended.
    Draining,
    /// Everything was driven and has ended. Final.
    Done,
    /// A person holds it back.
    Paused,
    /// It stopped by itself, because jobs failed again.
    Halted,
    /// A person canceled it. Final.
    Canceled,
}

impl PlanPhase {
    /// Every phase, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Planned,
        Self::Canary,
        Self::Gate,
        Self::Driving,
        Self::Draining,
        Self::Done,
        Self::Paused,
        Self::Halted,
        Self::Canceled,
    ];

    /// True while the plan goes on by itself.
    #[must_use]
    pub const fn is_moving(self) -> bool {
        matches!(self, Self::Canary | Self::Gate | Self::Driving | Self::Draining)
    }

    /// True when nothing leads out of it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Canceled)
    }

    /// The word used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Canary => "canary",
            Self::Gate => "gate",
            Self::Driving => "driving",
            Self::Draining => "draining",
            Self::Done => "done",
            Self::Paused => "paused",
            Self::Halted => "halted",
            Self::Canceled => "canceled",
        }
    }
}

impl fmt::Display for PlanPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What happened to the jobs of a plan. Every drive is counted; a job is driven once in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PlanCounts {
    /// Driven.
    pub driven: u64,
    /// Of these, succeeded.
    pub succeeded: u64,
    /// Failed of the same as before.
    pub failed_same: u64,
    /// Died of something else.
    pub failed_other: u64,
    /// Called off by somebody.
    pub canceled: u64,
    /// No longer there.
    pub gone: u64,
    /// Driven by somebody else before their end was seen.
    pub by_hand: u64,
    /// Met and not driven.
    pub skipped: u64,
}

/// One way through the canary and the gate. A plan that halted and goes on begins another round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanRound {
    /// Counted from 1; zero before the plan is started.
    pub number: u32,
    /// When it began. What this plan drove and what died before may be driven once more.
    pub began_at: Timestamp,
    /// Canaries of this round that have not ended.
    pub canaries_open: u32,
    /// Canaries of this round that succeeded.
    pub canaries_passed: u32,
    /// Failures of this round that were tolerated.
    pub failures: u32,
    /// True when no candidate is left.
    pub exhausted: bool,
}

impl PlanRound {
    pub(super) const fn beginning(number: u32, began_at: Timestamp) -> Self {
        Self { number, began_at, canaries_open: 0, canaries_passed: 0, failures: 0, exhausted: false }
    }
}

/// Why a plan stopped by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanHalt {
    /// When.
    pub at: Timestamp,
    /// Why, in one sentence.
    pub why: String,
    /// The job that gave the reason.
    pub job: JobId,
}

/// One entry of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanEntry {
    /// When.
    pub at: Timestamp,
    /// Who; none when the plan did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What.
    pub what: String,
}

/// All that a person decides about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDraft {
    /// Its identity, made outside.
    pub id: PlanId,
    /// Which dead letters.
    pub selector: PlanSelector,
    /// How carefully.
    pub settings: PlanSettings,
    /// Only code of this version or a later one may run them (D7).
    pub needs: Option<String>,
    /// What the incident is, for people.
    pub about: Option<String>,
    /// Who makes it.
    pub by: String,
    /// Why.
    pub note: String,
}

impl Plan {
    /// Makes a plan of which nothing has happened yet. `expected` is the count of the dry run.
    ///
    /// # Errors
    /// [`PlanError`] when the selector or a setting is refused.
    pub fn new(draft: PlanDraft, expected: u64, now: Timestamp) -> Result<Self, PlanError> {
        draft.selector.validate()?;
        draft.settings.validate()?;
        if expected == 0 {
            let left_out = String::new();
            return Err(PlanError::MatchesNothing { selector: Box::new(draft.selector), left_out });
        }
        let by = words(&draft.by);
        let mut plan = Self {
            id: draft.id,
            created_at: now,
            created_by: by.clone(),
            note: words(&draft.note),
            selector: draft.selector,
            settings: draft.settings,
            needs: draft.needs,
            about: draft.about.as_deref().map(words),
            expected,
            phase: PlanPhase::Planned,
            paused_from: None,
            cursor: None,
            reached: None,
            counts: PlanCounts::default(),
            open: 0,
            round: PlanRound::beginning(0, now),
            batches: 0,
            next_batch_at: None,
            waits_for_code: false,
            halted: None,
            history: Vec::new(),
        };
        plan.enter(now, Some(&by), format!("made: {expected} jobs match"));
        Ok(plan)
    }

    /// True when a step could find something to do: to drive, or to see how what was driven ended.
    #[must_use]
    pub const fn wants_steps(&self) -> bool {
        self.phase.is_moving() || self.open > 0
    }

    /// When it came to its end, once nothing of it is in flight any more; none for a plan that may still go on.
    #[must_use]
    pub fn ended_at(&self) -> Option<Timestamp> {
        let is_over = self.phase.is_final() && self.open == 0;
        is_over.then(|| self.history.last().map_or(self.created_at, |entry| entry.at))
    }

    /// What to do with a job that the plan meets in this round.
    pub(super) fn judge(&self, view: &JobView) -> CandidateChoice {
        let record = &view.record;
        let ended_before = |moment| record.finished_at.is_some_and(|end| end < moment);
        // What this plan drove in an earlier round and what died again is its own business still.
        let own = record.plan() == Some(&self.id) && ended_before(self.round.began_at);
        if own || ended_before(self.created_at) {
            self.selector.judge(view, self.settings.ceiling)
        } else {
            CandidateChoice::Pass
        }
    }

    /// Writes an entry of the audit. The first entry always stays.
    pub(super) fn enter(&mut self, at: Timestamp, by: Option<&str>, what: String) {
        if self.history.len() >= MAX_HISTORY {
            self.history.remove(1);
        }
        self.history.push(PlanEntry { at, by: by.map(words), what });
    }

    pub(super) fn halt(&mut self, job: JobId, why: String, now: Timestamp) {
        self.phase = PlanPhase::Halted;
        self.paused_from = None;
        self.enter(now, None, format!("halted: {why}"));
        self.halted = Some(PlanHalt { at: now, why, job });
    }
}

fn words(text: &str) -> String {
    truncate_chars(text.trim(), MAX_WORDS_CHARS).into_owned()
}
