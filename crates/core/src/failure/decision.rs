//! Verdicts and the trace of checks that led to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cause, TerminalReason};
use crate::job::{SignalWait, Trigger};
use crate::time::{Timestamp, millis};

/// Where a job goes when its run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Verdict {
    /// It is done.
    Succeed,
    /// It runs again after a failure that was charged.
    Retry {
        /// How long to wait.
        #[serde(rename = "delay_ms", with = "millis")]
        #[cfg_attr(feature = "openapi", schema(value_type = u64))]
        delay: Duration,
    },
    /// It goes back uncharged.
    Defer {
        /// How long to wait.
        #[serde(rename = "delay_ms", with = "millis")]
        #[cfg_attr(feature = "openapi", schema(value_type = u64))]
        delay: Duration,
    },
    /// It waits for a signal, uncharged (W10).
    Wait {
        /// The key of the signal.
        signal: String,
        /// The name of the step that keeps what comes.
        step: String,
        /// When it goes on without one.
        until: Timestamp,
    },
    /// It is a dead letter.
    Dead {
        /// Why.
        reason: TerminalReason,
    },
    /// It was canceled.
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
            Self::Wait { .. } => Trigger::Hold,
            Self::Dead { .. } => Trigger::Die,
            Self::Cancel { .. } => Trigger::Cancel,
        }
    }

    /// The word used in every interface.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Succeed => "succeed",
            Self::Retry { .. } => "retry",
            Self::Defer { .. } => "defer",
            Self::Wait { .. } => "wait",
            Self::Dead { .. } => "dead",
            Self::Cancel { .. } => "cancel",
        }
    }

    /// True when no run will follow by itself.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Retry { .. } | Self::Defer { .. } | Self::Wait { .. })
    }
}

/// One check of the pipeline and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    /// The check's name, stable.
    pub check: String,
    /// What it found, in words.
    pub answer: String,
}

/// A verdict with the checks that led to it, in the order they were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decision {
    /// Where the job goes.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long the run itself asked to wait (F9), within the longest wait, whatever was made of that.
    #[serde(default, rename = "asked_ms", with = "millis::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub asked: Option<Duration>,
    /// Why.
    pub trace: Vec<Check>,
}

impl Decision {
    /// The name of the check that tells which rule matched.
    pub(super) const RULE: &'static str = "rule";

    /// The run went well; nothing had to be checked.
    #[must_use]
    pub const fn succeeded() -> Self {
        Self::plain(Verdict::Succeed)
    }

    /// A verdict for which nothing was checked.
    #[must_use]
    pub const fn plain(verdict: Verdict) -> Self {
        Self { verdict, asked: None, trace: Vec::new() }
    }

    /// A person called the run off.
    #[must_use]
    pub fn canceled(reason: &str) -> Self {
        let mut decision = Self::plain(Verdict::Cancel { reason: reason.to_owned() });
        decision.note("canceled", reason);
        decision
    }

    /// The run ends and its job waits for a signal (W10).
    #[must_use]
    pub fn waiting(wait: &SignalWait) -> Self {
        let SignalWait { signal, step, until } = wait.clone();
        let mut decision = Self::started_for(Cause::Waiting);
        decision.note("signal", format!("waits for `{signal}` until {until}; not charged"));
        decision.verdict = Verdict::Wait { signal, step, until };
        decision
    }

    /// The job was claimed but never started: it goes back at once (C2).
    #[must_use]
    pub fn handed_back() -> Self {
        let mut decision = Self::plain(Verdict::Defer { delay: Duration::ZERO });
        decision.note("started", "no: claimed, never started; requeued, not charged");
        decision
    }

    /// The store refused the end of the run: it goes back, uncharged, after a while (C7).
    #[must_use]
    pub fn engine_fault(why: &str) -> Self {
        let mut decision = Self::started_for(Cause::EngineFault);
        decision.note("store", format!("refused to write how the run ended: {why}"));
        decision.verdict = Verdict::Defer { delay: Duration::from_secs(60) };
        decision
    }

    /// The id of the operator's rule that took part in the decision, if one did (F18).
    #[must_use]
    pub fn rule_id(&self) -> Option<&str> {
        let check = self.trace.iter().find(|check| check.check == Self::RULE)?;
        check.answer.strip_prefix('`')?.split_once('`').map(|(id, _)| id)
    }

    /// Why the failure counts as one that no retry can fix, in the words of whoever marked it (F6).
    #[must_use]
    pub fn permanent_because(&self) -> Option<&str> {
        let check = self.trace.iter().find(|check| check.check == "permanent")?;
        check.answer.strip_prefix("yes: ")
    }

    /// Lets a retry wait `delay` instead, and says `why` in the trace (F19).
    ///
    /// Only a retry is moved, and only to later: whatever else was decided stays as it is.
    pub fn smear(&mut self, delay: Duration, why: &str) {
        let Verdict::Retry { delay: planned } = &mut self.verdict else { return };
        if delay <= *planned {
            return;
        }
        let was = std::mem::replace(planned, delay);
        self.note("retry_budget", format!("moved from {} to {}: {why}", human(was), human(delay)));
    }

    pub(super) fn note(&mut self, check: &str, answer: impl Into<String>) {
        self.trace.push(Check { check: check.to_owned(), answer: answer.into() });
    }

    pub(crate) fn started_for(cause: Cause) -> Self {
        let mut decision = Self::plain(Verdict::Defer { delay: Duration::ZERO });
        decision.note("cause", cause.as_str());
        decision
    }
}

/// A duration as a person reads it, to the millisecond below a minute.
pub(super) fn human(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3_600 => format!("{} min {} s", secs / 60, secs % 60),
        3_600..172_800 => format!("{} h {} min", secs / 3_600, secs / 60 % 60),
        _ => format!("{} days", secs / 86_400),
    }
}
