//! Which dead letters a plan is about.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PlanError;
use crate::failure::{Fingerprint, TerminalReason};
use crate::job::{JobView, State};
use crate::time::Timestamp;

/// Which dead letters to drive again; all conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PlanSelector {
    /// Those that died of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<Fingerprint>,
    /// Those of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Those on this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Those with this tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Those that are dead for this reason. A reason that no drive can fix must be asked for here by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<TerminalReason>,
    /// Those that ended before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_before: Option<Timestamp>,
    /// Those that ended at this moment or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_after: Option<Timestamp>,
    /// All of them: said out loud, because an empty selector is more often a slip.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// Why a job that the conditions fit is not driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// It is dead for a reason that driving the same input again cannot fix.
    NeverRetry,
    /// It was driven again as often as the plan allows.
    Ceiling,
}

impl LeftOut {
    /// The sentence of a report.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NeverRetry => "its input or signature is bad: name the reason to drive it all the same",
            Self::Ceiling => "it was driven again as often as the plan's ceiling allows",
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NeverRetry => "never_retry",
            Self::Ceiling => "ceiling",
        })
    }
}

/// What a plan does with a job it meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CandidateChoice {
    Drive,
    LeaveOut(LeftOut),
    Pass,
}

impl PlanSelector {
    /// All dead letters.
    #[must_use]
    pub fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Those that died of one incident.
    #[must_use]
    pub fn incident(fingerprint: Fingerprint) -> Self {
        Self { incident: Some(fingerprint), ..Self::default() }
    }

    /// Checks that it means something, and not everything by mistake.
    ///
    /// # Errors
    /// [`PlanError`] says what is missing or can never match.
    pub fn validate(&self) -> Result<(), PlanError> {
        let named = [("kind", &self.kind), ("queue", &self.queue), ("tag", &self.tag)];
        for (condition, value) in named {
            if value.as_deref() == Some("") {
                let problem = "it is empty; leave it out to match any";
                return Err(PlanError::ImpossibleCondition { condition, problem });
            }
            if value.as_deref().is_some_and(|value| value.contains('\0')) {
                // No store has to be asked, and not every store could be.
                let problem = "it contains a NUL character, and no name does";
                return Err(PlanError::ImpossibleCondition { condition, problem });
            }
        }
        if let (Some(after), Some(before)) = (self.finished_after, self.finished_before)
            && after >= before
        {
            let problem = "its youngest job would be older than its oldest; swap the two ages";
            return Err(PlanError::ImpossibleCondition { condition: "the age", problem });
        }
        match (self.conditions().first(), self.all) {
            (None, false) => Err(PlanError::SelectsEverything),
            (Some((condition, _)), true) => Err(PlanError::AllAndMore { condition }),
            _ => Ok(()),
        }
    }

    /// True when every condition holds for a dead letter, and nothing speaks against driving it.
    #[must_use]
    pub fn matches(&self, view: &JobView) -> bool {
        self.covers(view) && !self.forbids(view)
    }

    /// True when every condition holds for a dead letter.
    #[must_use]
    pub fn covers(&self, view: &JobView) -> bool {
        let (spec, record) = (&view.job.spec, &view.record);
        let Some(finished_at) = record.finished_at else { return false };
        let died_of = view.last_failure.as_ref().map(|failure| &failure.fingerprint);
        record.state == State::Failed
            && self.incident.as_ref().is_none_or(|incident| died_of == Some(incident))
            && self.kind.as_deref().is_none_or(|kind| *spec.kind == *kind)
            && self.queue.as_deref().is_none_or(|queue| *spec.queue == *queue)
            && self.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
            && self.reason.is_none_or(|reason| record.reason == Some(reason))
            && self.finished_before.is_none_or(|moment| finished_at < moment)
            && self.finished_after.is_none_or(|moment| finished_at >= moment)
    }

    /// True when the job is dead for a never-retry reason that was not asked for by name.
    #[must_use]
    pub fn forbids(&self, view: &JobView) -> bool {
        self.reason.is_none() && view.record.reason.is_some_and(|reason| !reason.is_retryable())
    }

    /// What to do with a job, for a plan or a dry run with this ceiling.
    pub(super) fn judge(&self, view: &JobView, ceiling: u32) -> CandidateChoice {
        if !self.covers(view) {
            CandidateChoice::Pass
        } else if self.forbids(view) {
            CandidateChoice::LeaveOut(LeftOut::NeverRetry)
        } else if view.record.redrives >= ceiling {
            CandidateChoice::LeaveOut(LeftOut::Ceiling)
        } else {
            CandidateChoice::Drive
        }
    }

    /// The conditions that were given, each with its value in words.
    fn conditions(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("incident", self.incident.as_ref().map(ToString::to_string)),
            ("kind", self.kind.as_ref().map(|kind| format!("`{kind}`"))),
            ("queue", self.queue.as_ref().map(|queue| format!("`{queue}`"))),
            ("tag", self.tag.as_ref().map(|tag| format!("`{tag}`"))),
            ("reason", self.reason.map(|reason| reason.to_string())),
            ("ended before", self.finished_before.map(|moment| moment.to_string())),
            ("ended since", self.finished_after.map(|moment| moment.to_string())),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl fmt::Display for PlanSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions = self.conditions();
        if conditions.is_empty() {
            return f.write_str("`--all`");
        }
        for (at, (name, value)) in conditions.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {value}")?;
        }
        Ok(())
    }
}
