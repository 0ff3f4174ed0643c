//! Verdicts and the trace of checks that led to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cause, TerminalReason};
use crate::job::Trigger;
use crate::time::millis;

/// Where a job goes when its run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It is done.
    Succeed,
    /// It runs again after a failure that was charged.
    Retry {
        /// How long to wait.
        #[serde(rename = "delay_ms", with = "millis")]
        delay: Duration,
    },
    /// It goes back without blame.
    Defer {
        /// How long to wait.
        #[serde(rename = "delay_ms", with = "millis")]
        delay: Duration,
    },
    /// It is a dead letter.
    Dead {
        /// Why.
        reason: TerminalReason,
    },
    /// It was called off.
    Cancel {
        /// Why, in the handler's or the person's words.
        reason: String,
    },
}

impl Verdict {
    /// The move of the state table that this verdict asks for.
    #[must_use]
    pub const fn trigger(&self) -> Trigger {
        match self {
            Self::Succeed => Trigger::Succeed,
            Self::Retry { .. } => Trigger::Retry,
            Self::Defer { .. } => Trigger::Return,
            Self::Dead { .. } => Trigger::Die,
            Self::Cancel { .. } => Trigger::Cancel,
        }
    }

    /// True when no run will follow by itself.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Retry { .. } | Self::Defer { .. })
    }
}

/// One check of the pipeline and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The check's name, stable.
    pub check: String,
    /// What it found, in words.
    pub answer: String,
}

/// A verdict with the checks that led to it, in the order they were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Where the job goes.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Why.
    pub trace: Vec<Check>,
}

impl Decision {
    /// The run went well; nothing had to be checked.
    #[must_use]
    pub const fn succeeded() -> Self {
        Self { verdict: Verdict::Succeed, trace: Vec::new() }
    }

    /// A person called the run off.
    #[must_use]
    pub fn canceled(reason: &str) -> Self {
        let mut decision = Self { verdict: Verdict::Cancel { reason: reason.to_owned() }, trace: Vec::new() };
        decision.note("canceled", reason);
        decision
    }

    /// The job was claimed but never started: it goes back at once (C2).
    #[must_use]
    pub fn handed_back() -> Self {
        let mut decision = Self { verdict: Verdict::Defer { delay: Duration::ZERO }, trace: Vec::new() };
        decision.note("started", "no: claimed, never started, goes back without blame");
        decision
    }

    pub(super) fn note(&mut self, check: &str, answer: impl Into<String>) {
        self.trace.push(Check { check: check.to_owned(), answer: answer.into() });
    }

    pub(super) fn started_for(cause: Cause) -> Self {
        let mut decision = Self { verdict: Verdict::Defer { delay: Duration::ZERO }, trace: Vec::new() };
        decision.note("cause", cause.as_str());
        decision
    }
}
