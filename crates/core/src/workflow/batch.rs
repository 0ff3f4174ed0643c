//! Any number of jobs that belong together (W3).

use serde::{Deserialize, Serialize};

use super::{NodeEnd, WorkflowCounts};

/// What a batch must come to for it to have succeeded; without any, no job of it may fail.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct BatchRule {
    /// At least this share of its jobs succeeded, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_rate_at_least: Option<f64>,
    /// At most so many of its jobs failed or were called off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures_at_most: Option<u64>,
}

/// A rule that no batch can be judged by.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("a share of successes is from 0 to 1, not {0}")]
pub struct InvalidBatchRule(pub f64);

impl BatchRule {
    /// Checks what was given.
    ///
    /// # Errors
    /// [`InvalidBatchRule`] for a share that is none.
    pub fn check(&self) -> Result<(), InvalidBatchRule> {
        match self.success_rate_at_least {
            Some(share) if !(0.0..=1.0).contains(&share) => Err(InvalidBatchRule(share)),
            _ => Ok(()),
        }
    }
}

/// How far a batch is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BatchProgress {
    /// Jobs that belong to it.
    pub total: u64,
    /// Of these, those that succeeded.
    pub succeeded: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those that were called off; they count as failed (W5).
    pub canceled: u64,
    /// True when no more are added.
    pub sealed: bool,
    /// True when it was called off before it was sealed: it never got all of its jobs, and has not succeeded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub called_off: bool,
    /// True while its jobs come from one stream, in order: whoever repeats its submit goes on behind the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streamed: bool,
    /// What it must come to.
    #[serde(default)]
    pub rule: BatchRule,
}

impl BatchProgress {
    /// Its jobs by where they are.
    #[must_use]
    pub const fn counts(&self) -> WorkflowCounts {
        let Self { total, succeeded, failed, canceled, .. } = *self;
        let released = total.saturating_sub(succeeded + failed + canceled);
        WorkflowCounts { total, succeeded, failed, canceled, released, waiting: 0 }
    }

    /// Counts the end of a job; one that had failed before is not counted as failed any more.
    pub fn count(&mut self, end: NodeEnd, again: bool) {
        if again {
            self.failed = self.failed.saturating_sub(1);
        }
        match end {
            NodeEnd::Succeeded => self.succeeded += 1,
            NodeEnd::Failed => self.failed += 1,
            NodeEnd::Canceled | NodeEnd::NotTaken | NodeEnd::DependencyFailed => self.canceled += 1,
        }
    }

    /// True when no more are added and all have ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.sealed && self.succeeded + self.failed + self.canceled >= self.total
    }

    /// True when it came to what it must.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share of counts")]
    pub fn has_succeeded(&self) -> bool {
        if self.called_off {
            return false;
        }
        let failures = self.failed + self.canceled;
        let BatchRule { success_rate_at_least, failures_at_most } = self.rule;
        if success_rate_at_least.is_none() && failures_at_most.is_none() {
            return failures == 0;
        }
        let enough = success_rate_at_least
            .is_none_or(|share| self.total == 0 || self.succeeded as f64 / self.total as f64 >= share);
        enough && failures_at_most.is_none_or(|most| failures <= most)
    }
}
