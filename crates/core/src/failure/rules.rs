//! Failure rules at run time (F18): an operator says what becomes of a failure, without a deploy.
//!
//! Owns what a rule is, which rules are refused, and which rule decides about a failure. It must not decide
//! where the job goes: [`super::decide`] does, with the rule as one of its inputs. A rule is a JSON document.

mod book;
mod error;
mod matching;

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::redact::{Redactor, StandardRedactor};
use super::{Backoff, Cause, Failure};
use crate::limits::Limits;
use crate::time::{Timestamp, millis};

pub use book::{RuleInput, RuleSet};
pub use error::{InvalidRuleId, RuleError};
pub use matching::RuleMatch;

/// Characters that a pattern or a note may have.
const TEXT_CHARS: usize = 1_000;

/// The name of a rule, as commands and the ledger show it: 1 to 64 of `a-z`, `0-9`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RuleId(String);

impl RuleId {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RuleId {
    type Err = InvalidRuleId;

    fn from_str(text: &str) -> Result<Self, InvalidRuleId> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if (1..=64).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidRuleId(text.chars().take(80).collect()))
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for RuleId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What an operator wants to become of some failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, which the ledger shows where it decided.
    pub id: RuleId,
    /// Why it exists, for the next person.
    #[serde(default)]
    pub note: String,
    /// Which failures it is about.
    pub matches: RuleMatch,
    /// What becomes of them.
    pub action: RuleAction,
    /// False while it is kept but not used.
    pub enabled: bool,
    /// Its place: the lowest is asked first, and among equals the lower id.
    pub position: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// Who added it.
    pub created_by: String,
}

/// What becomes of a failure that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RuleAction))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RuleAction {
    /// The job is a dead letter at once, with the reason `non_retryable`.
    Permanent,
    /// The job is retried, whatever its code or its retry policy says; only used-up attempts end it. What is
    /// not given here is the job's own.
    Retry {
        /// Charged runs after the first, instead of the job's own number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_retries: Option<u32>,
        /// The backoff to use; a wait that the failure itself asks for still wins over it (F9).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backoff: Option<Backoff>,
        /// The wait to use, whoever else asks for another.
        #[serde(
            default,
            rename = "delay_ms",
            with = "millis::option",
            skip_serializing_if = "Option::is_none"
        )]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
        delay: Option<Duration>,
    },
    /// The job goes back uncharged, as if a dependency had been away.
    Transient {
        /// The wait to use, whoever else asks for another.
        #[serde(
            default,
            rename = "delay_ms",
            with = "millis::option",
            skip_serializing_if = "Option::is_none"
        )]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
        delay: Option<Duration>,
    },
    /// The job goes back uncharged and the engine pauses its queue.
    PauseQueue,
}

impl RuleAction {
    /// The word used in every interface and in every trace.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Retry { .. } => "retry",
            Self::Transient { .. } => "transient",
            Self::PauseQueue => "pause_queue",
        }
    }

    const fn is_uncharged(&self) -> bool {
        matches!(self, Self::Transient { .. } | Self::PauseQueue)
    }
}

impl Rule {
    /// Checks that the rule can match something and can do what it says.
    ///
    /// # Errors
    /// The first [`RuleError`], which names the field and the way out.
    pub fn validate(&self) -> Result<(), RuleError> {
        // The ledger is sanitized: an id that looks like a token would be masked in the very place it is for.
        if StandardRedactor::default().redact(&named(&self.id)) != named(&self.id) {
            return Err(RuleError::SecretId { id: self.id.clone() });
        }
        at_most("note", &self.note, TEXT_CHARS)?;
        at_most("created_by", &self.created_by, Limits::default().key_chars)?;
        self.matches.compile()?;
        self.check_action()
    }

    /// The cause that the ending of `failure` carries when this rule decides about it.
    ///
    /// An uncharged action makes it [`Cause::Rejected`]; everything else keeps the failure's own cause. A crash
    /// stays a crash even then: its budget is what stops a job that takes down one process after the other
    /// (C1). Give [`super::decide`] the failure as it happened, and the ending this cause.
    #[must_use]
    pub fn cause(&self, failure: &Failure) -> Cause {
        if self.governs(failure) && failure.cause != Cause::Crash && self.action.is_uncharged() {
            Cause::Rejected
        } else {
            failure.cause
        }
    }

    /// True when a rule may decide about `failure` at all: not about a wrong signature, which is never run, nor
    /// about a failure that a handler returned as its result (F16).
    pub(super) fn governs(&self, failure: &Failure) -> bool {
        is_governable(failure.cause) && !failure.reported
    }

    fn check_action(&self) -> Result<(), RuleError> {
        let limits = Limits::default();
        let span = |field, span: Option<Duration>| match span {
            Some(span) if span > limits.delay => {
                Err(RuleError::TooLongSpan { field, days: limits.delay.as_secs() / 86_400 })
            }
            _ => Ok(()),
        };
        match &self.action {
            RuleAction::Permanent | RuleAction::PauseQueue => Ok(()),
            RuleAction::Transient { .. } if self.matches.cause == Some(Cause::Crash) => {
                Err(RuleError::TransientCrash)
            }
            RuleAction::Transient { delay } => span("delay_ms", *delay),
            RuleAction::Retry { max_retries, backoff, delay } => {
                if backoff.is_some() && delay.is_some() {
                    return Err(RuleError::TwoWaits);
                }
                if max_retries.is_some() && self.matches.cause == Some(Cause::Crash) {
                    return Err(RuleError::CrashRetries);
                }
                if max_retries.is_some_and(|retries| retries > limits.retries) {
                    return Err(RuleError::TooManyRetries { limit: limits.retries });
                }
                span("delay_ms", *delay)?;
                span("backoff.base_ms", backoff.map(|backoff| backoff.base))?;
                span("backoff.cap_ms", backoff.map(|backoff| backoff.cap))
            }
        }
    }
}

/// The id as traces show it.
pub(super) fn named(id: &RuleId) -> String {
    format!("`{id}`")
}

const fn is_governable(cause: Cause) -> bool {
    cause.is_failure() && !matches!(cause, Cause::Signature)
}

fn at_most(field: &'static str, text: &str, limit: usize) -> Result<(), RuleError> {
    let actual = text.chars().count();
    if actual > limit { Err(RuleError::TooLong { field, actual, limit }) } else { Ok(()) }
}
