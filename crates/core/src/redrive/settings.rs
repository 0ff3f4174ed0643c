//! How carefully a plan goes: each number with its bounds.

use serde::{Deserialize, Serialize};

use super::PlanError;

/// Jobs that one step drives at most: one transaction writes them all, and one page of a listing reads them.
const MAX_BATCH: u32 = 1_000;

/// Jobs in flight at most: every step looks at all of them.
const MAX_IN_FLIGHT: u32 = 10_000;

/// How carefully a plan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PlanSettings {
    /// Jobs that go first; the rest follow only when they have succeeded.
    pub canary: u32,
    /// Jobs driven in one step at most.
    pub batch: u32,
    /// Jobs driven each second, on average: after a batch the plan waits as long as this rate needs for it.
    pub per_second: u32,
    /// Jobs that are driven and have not ended, at most.
    pub in_flight: u32,
    /// A job that was already driven again this often is left out.
    pub ceiling: u32,
    /// Failures of another kind that are tolerated before the plan halts.
    pub max_failures: u32,
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self { canary: 1, batch: 100, per_second: 50, in_flight: 1_000, ceiling: 3, max_failures: 10 }
    }
}

impl PlanSettings {
    /// Checks every bound.
    ///
    /// # Errors
    /// [`PlanError::BadSetting`] names the first setting that is out of its bounds.
    pub fn validate(&self) -> Result<(), PlanError> {
        let bad = |setting, given, bounds| Err(PlanError::BadSetting { setting, given, bounds });
        if self.per_second == 0 {
            return bad("the rate", 0, "at least 1 job a second; to hold a plan back, pause it");
        }
        if self.batch == 0 || self.batch > MAX_BATCH {
            return bad("the batch", self.batch, "from 1 to 1000 jobs");
        }
        if self.in_flight == 0 || self.in_flight > MAX_IN_FLIGHT {
            return bad("the number in flight", self.in_flight, "from 1 to 10000 jobs");
        }
        if self.canary == 0 {
            return bad("the canary", 0, "at least 1 job, which shows whether the rest may follow");
        }
        if self.canary > self.in_flight {
            return bad("the canary", self.canary, "no more than may be in flight");
        }
        if self.ceiling == 0 {
            return bad("the ceiling", 0, "at least 1, or no job could ever be driven");
        }
        Ok(())
    }
}
