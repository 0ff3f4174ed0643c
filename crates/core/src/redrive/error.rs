//! Why a plan is not made, or does not do what was asked of it. Nothing was changed.

use super::{PlanPhase, PlanSelector};
use crate::job::PlanId;

/// A refusal, in one sentence with the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No condition was given, and not `all` either.
    #[error(
        "this would drive every dead letter again: narrow it down by incident, kind, queue, tag, reason or age, or \
         say `--all` if you mean all of them"
    )]
    SelectsEverything,
    /// `all` was given together with conditions.
    #[error("`--all` and {condition} exclude each other: leave one of them out")]
    AllAndMore {
        /// The first condition beside it.
        condition: &'static str,
    },
    /// A condition can never be met.
    #[error("{condition} can match nothing: {problem}")]
    ImpossibleCondition {
        /// Which condition.
        condition: &'static str,
        /// Why.
        problem: &'static str,
    },
    /// No dead letter is left to drive.
    #[error("no dead letter matches {selector}{left_out}: nothing to drive again")]
    MatchesNothing {
        /// What was asked for.
        selector: Box<PlanSelector>,
        /// What would have matched but for its reason or the ceiling, in words; empty when nothing would.
        left_out: String,
    },
    /// The incident is not known, or no longer.
    #[error(
        "there is no incident {incident}: it was never seen here, or it was purged; `backstop incident list` shows \
         those that can be driven again"
    )]
    NoSuchIncident {
        /// Its fingerprint.
        incident: String,
    },
    /// A setting is out of its bounds.
    #[error("{setting} is {given}, it must be {bounds}")]
    BadSetting {
        /// Which one.
        setting: &'static str,
        /// What was given.
        given: u32,
        /// What it may be.
        bounds: &'static str,
    },
    /// There is no such plan.
    #[error("there is no plan {plan}: `backstop redrive list` shows those there are")]
    NoSuchPlan {
        /// The id that was asked for.
        plan: PlanId,
    },
    /// The plan is in a phase that has no such move.
    #[error("plan {plan} is {phase} and cannot be {verb}: {way_out}")]
    WrongPhase {
        /// The plan.
        plan: PlanId,
        /// Where it is.
        phase: PlanPhase,
        /// What was asked for, as a past participle.
        verb: &'static str,
        /// What can be done instead.
        way_out: &'static str,
    },
}

impl PlanError {
    /// The stable code that machines switch on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::SelectsEverything => "selects_everything",
            Self::AllAndMore { .. } | Self::ImpossibleCondition { .. } | Self::BadSetting { .. } => "invalid",
            Self::MatchesNothing { .. } => "matches_nothing",
            Self::NoSuchIncident { .. } => "no_such_incident",
            Self::NoSuchPlan { .. } => "no_such_plan",
            Self::WrongPhase { .. } => "wrong_phase",
        }
    }
}
