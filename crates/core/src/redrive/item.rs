//! One job of a plan, and what became of it: a line of the report.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::LeftOut;
use crate::failure::{Fingerprint, TerminalReason};
use crate::id::JobId;
use crate::text::truncate_chars;
use crate::time::Timestamp;

/// One job that a plan drove, or met and left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanJob {
    /// The job.
    pub job: JobId,
    /// In which part of the plan.
    pub part: PlanPart,
    /// In which round: a plan that halted and goes on begins another one.
    pub round: u32,
    /// How often it has been driven again, this time included.
    pub redrives: u32,
    /// What it had died of, if a run left that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Why it was dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<TerminalReason>,
    /// When the plan drove it, or met it.
    pub driven_at: Timestamp,
    /// What became of it; none while it is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<PlanJobOutcome>,
    /// When the plan saw that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The part of a plan in which a job was driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PlanPart {
    /// It went first.
    Canary,
    /// It went with this batch, counted from 1.
    Batch(u32),
}

impl fmt::Display for PlanPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Canary => f.write_str("canary"),
            Self::Batch(number) => write!(f, "batch {number}"),
        }
    }
}

impl From<PlanPart> for String {
    fn from(part: PlanPart) -> Self {
        part.to_string()
    }
}

impl TryFrom<String> for PlanPart {
    type Error = UnknownPlanPart;

    fn try_from(text: String) -> Result<Self, UnknownPlanPart> {
        if text == "canary" {
            return Ok(Self::Canary);
        }
        let number = text.strip_prefix("batch ").and_then(|number| number.parse().ok());
        number.map(Self::Batch).ok_or_else(|| UnknownPlanPart(truncate_chars(&text, 40).into_owned()))
    }
}

/// A text that names no part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a part of a plan: expected `canary` or `batch` and its number")]
pub struct UnknownPlanPart(String);

/// What became of a job that a plan drove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PlanJobOutcome {
    /// It succeeded.
    Succeeded,
    /// It failed of the same as before, though it may still be retried by its own policy.
    FailedAgain,
    /// It died of something else.
    FailedOtherwise {
        /// What, if a run left that.
        fingerprint: Option<Fingerprint>,
    },
    /// Somebody canceled it.
    Canceled,
    /// It is no longer there, and nothing tells how it ended.
    Gone,
    /// It was not driven.
    NotDriven {
        /// Why.
        why: String,
    },
    /// Somebody else drove it, so what became of this drive cannot be told.
    DrivenByHand,
}

impl PlanJobOutcome {
    /// The word of a report.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::FailedAgain => "failed again",
            Self::FailedOtherwise { .. } => "failed otherwise",
            Self::Canceled => "canceled",
            Self::Gone => "gone",
            Self::NotDriven { .. } => "not driven",
            Self::DrivenByHand => "driven by hand",
        }
    }
}

impl From<LeftOut> for PlanJobOutcome {
    fn from(why: LeftOut) -> Self {
        Self::NotDriven { why: why.meaning().to_owned() }
    }
}
