//! What a job was promised when it was submitted: retries, crashes, backoff, time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Backoff;
use crate::time::millis;

/// The budgets and times of one job, resolved at submit and never changed by a later default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Policy {
    /// Charged runs after the first; 0 means one run (F5).
    #[serde(skip_serializing_if = "is_default_retries")]
    pub max_retries: u32,
    /// Crashes that are forgiven before the job counts as poisoned (C1).
    #[serde(skip_serializing_if = "is_default_crashes")]
    pub max_crashes: u32,
    /// How long to wait between charged runs (F8).
    #[serde(skip_serializing_if = "is_default_backoff")]
    pub backoff: Backoff,
    /// How long one run may take; none means no limit (F10).
    #[serde(rename = "timeout_ms", with = "millis::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub timeout: Option<Duration>,
    /// How long it may wait to start, counted from each time it becomes due (L19).
    #[serde(rename = "max_wait_ms", with = "millis::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub max_wait: Option<Duration>,
    /// How long it may be kept from running: by limits, by an open circuit, or by endings that charge nothing (H7).
    #[serde(rename = "max_deferral_ms", with = "millis::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub max_deferral: Option<Duration>,
}

const RETRIES: u32 = 5;
const CRASHES: u32 = 10;

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_retries: RETRIES,
            max_crashes: CRASHES,
            backoff: Backoff::default(),
            timeout: None,
            max_wait: None,
            max_deferral: None,
        }
    }
}

impl Policy {
    /// Charged runs after the first.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Crashes that are forgiven.
    #[must_use]
    pub const fn crashes(mut self, crashes: u32) -> Self {
        self.max_crashes = crashes;
        self
    }

    /// How long to wait between charged runs.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How long one run may take.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it may wait to start.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self
    }

    /// How long it may be kept from running.
    #[must_use]
    pub const fn max_deferral(mut self, most: Duration) -> Self {
        self.max_deferral = Some(most);
        self
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_default_retries(retries: &u32) -> bool {
    *retries == RETRIES
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_default_crashes(crashes: &u32) -> bool {
    *crashes == CRASHES
}

fn is_default_backoff(backoff: &Backoff) -> bool {
    *backoff == Backoff::default()
}
