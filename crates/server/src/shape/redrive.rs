//! Re-drive plans as they are asked for and shown.

use backstop::Timestamp;
use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::redrive::{Plan, PlanSelector, PlanSettings, PlanSurvey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A plan to be made, or only to be counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "incident": "9f86d081884c7d65", "settings": { "canary": 2 }, "note": "1.4.0 is out" }))]
pub struct NewPlan {
    /// Those that died of this incident.
    pub incident: Option<Fingerprint>,
    /// Those of this kind.
    pub kind: Option<String>,
    /// Those on this queue.
    pub queue: Option<String>,
    /// Those with this tag.
    pub tag: Option<String>,
    /// Those that are dead for this reason. `invalid` and `signature` are driven only when named here.
    pub reason: Option<TerminalReason>,
    /// Those that died before this moment.
    pub finished_before: Option<Timestamp>,
    /// Those that died at this moment or later.
    pub finished_after: Option<Timestamp>,
    /// Every dead letter; it excludes the conditions above.
    pub all: bool,
    /// How carefully it goes.
    #[serde(deserialize_with = "crate::body::object")]
    pub settings: Option<NewPlanSettings>,
    /// Only code of this version or a later one may run them; by default what the incident is fixed in.
    pub needs: Option<String>,
    /// Why, for whoever reads the plan later.
    pub note: String,
    /// Who makes it, when the caller speaks for somebody else. A token's own name stays in front of it.
    pub by: Option<String>,
    /// Count only; make no plan.
    pub dry_run: bool,
}

impl NewPlan {
    /// Which dead letters it is about.
    #[must_use]
    pub fn selector(&self) -> PlanSelector {
        PlanSelector {
            incident: self.incident.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            tag: self.tag.clone(),
            reason: self.reason,
            finished_before: self.finished_before,
            finished_after: self.finished_after,
            all: self.all,
        }
    }
}

/// How carefully a plan goes. What is left out has its default.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewPlanSettings {
    /// Jobs that go first; the rest follow only when they have succeeded.
    #[schema(minimum = 1, maximum = 10_000)]
    pub canary: u32,
    /// Jobs driven in one step at most.
    #[schema(minimum = 1, maximum = 1_000)]
    pub batch: u32,
    /// Jobs driven each second, on average.
    #[schema(minimum = 1)]
    pub per_second: u32,
    /// Jobs that are driven and have not ended, at most.
    #[schema(minimum = 1, maximum = 10_000)]
    pub in_flight: u32,
    /// A job that was already driven again this often is left out.
    #[schema(minimum = 1)]
    pub ceiling: u32,
    /// Failures of another kind that are tolerated before the plan halts.
    pub max_failures: u32,
}

impl Default for NewPlanSettings {
    fn default() -> Self {
        let PlanSettings { canary, batch, per_second, in_flight, ceiling, max_failures } =
            PlanSettings::default();
        Self { canary, batch, per_second, in_flight, ceiling, max_failures }
    }
}

impl From<NewPlanSettings> for PlanSettings {
    fn from(care: NewPlanSettings) -> Self {
        let NewPlanSettings { canary, batch, per_second, in_flight, ceiling, max_failures } = care;
        Self { canary, batch, per_second, in_flight, ceiling, max_failures }
    }
}

/// A plan, and where it is in one sentence.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlanShown {
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// Where it is and what comes next.
    pub description: String,
}

impl From<Plan> for PlanShown {
    fn from(plan: Plan) -> Self {
        Self { description: plan.describe(), plan }
    }
}

/// What asking for a plan came to: what a dry run counted, or the plan that was made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlanMade {
    /// What the dry run counted; none when a plan was made, whose `expected` tells its number.
    pub survey: Option<PlanSurvey>,
    /// The plan; none after a dry run.
    pub plan: Option<PlanShown>,
}

/// Who does something to a plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "by": "ann" }))]
#[schema(as = Asking)]
pub struct PlanActor {
    /// Who asks, when the caller speaks for somebody else. A token's own name stays in front of it.
    pub by: Option<String>,
}
