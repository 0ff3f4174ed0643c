//! The causes a run can end by, the budget each one draws on (F2, F3), and a failure with its one cause.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::CallResult;

macro_rules! causes {
    ($($variant:ident $word:literal $budget:ident $doc:literal,)*) => {
        /// Why a run ended. Every run has exactly one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum Cause {
            $(#[doc = $doc] $variant,)*
        }

        impl Cause {
            /// Every cause, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word used in every interface and in every store.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The budget that a run ending so draws on.
            #[must_use]
            pub const fn budget(self) -> Budget {
                match self { $(Self::$variant => Budget::$budget,)* }
            }
        }
    };
}

causes! {
    Succeeded   "succeeded"    None     "The handler succeeded.",
    Error       "error"        Attempts "The handler returned an error.",
    Permanent   "permanent"    Attempts "The handler returned an error that no retry can fix.",
    Invalid     "invalid"      Attempts "The input can never be handled.",
    Timeout     "timeout"      Attempts "The run took longer than it may.",
    Panic       "panic"        Attempts "The handler panicked.",
    Crash       "crash"        Crashes  "The process died while the handler ran.",
    Interrupted "interrupted"  None     "The worker was told to stop.",
    Rejected    "rejected"     None     "A dependency was unavailable.",
    CircuitOpen "circuit_open" None     "The circuit of a dependency was open.",
    RateLimited "rate_limited" None     "A rate limit was reached.",
    NoPermit    "no_permit"    None     "No permit of a pool was free.",
    LockHeld    "lock_held"    None     "Another run held the single-instance lock.",
    Snoozed     "snoozed"      None     "The handler asked to run again later.",
    Waiting     "waiting"      None     "The handler waits for a signal.",
    Canceled    "canceled"     None     "A person or the handler itself canceled it.",
    LeaseLost   "lease_lost"   None     "The lease passed on while the worker was alive.",
    Signature   "signature"    None     "The signature was missing or wrong.",
    NotAllowed  "not_allowed"  Attempts "The queue's allow list does not include the kind.",
    UnknownKind "unknown_kind" None     "The worker does not know the kind.",
    EngineFault "engine_fault" None     "Backstop itself failed around the handler.",
}

/// What a run's end is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// One of the job's attempts: `max_retries` and the first run.
    Attempts,
    /// One of the job's crashes: `max_crashes`.
    Crashes,
    /// Nothing: no one is to blame.
    None,
}

impl Cause {
    /// True when the run counts as an attempt.
    #[must_use]
    pub const fn charges_attempt(self) -> bool {
        matches!(self.budget(), Budget::Attempts)
    }

    /// True when something went wrong, whoever is to blame.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self.budget(), Budget::Attempts | Budget::Crashes) || matches!(self, Self::Signature)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cause of a run's end")]
pub struct UnknownCause(String);

impl FromStr for Cause {
    type Err = UnknownCause;

    fn from_str(text: &str) -> Result<Self, UnknownCause> {
        Self::ALL
            .iter()
            .copied()
            .find(|cause| cause.as_str() == text)
            .ok_or_else(|| UnknownCause(text.chars().take(40).collect()))
    }
}

/// What a run reported when it did not simply succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The one cause.
    pub cause: Cause,
    /// The error's type.
    pub error_type: String,
    /// The error's text, not yet sanitized.
    pub message: String,
    /// Why a permanent or invalid mark was set, as its author wrote it (F6).
    pub why: Option<String>,
    /// When to run again, asked for by the handler or by a server's Retry-After (F9).
    pub retry_in: Option<Duration>,
    /// The dependency that was unavailable (H1).
    pub dependency: Option<String>,
    /// What it says of the dependency that was called (H4); none leaves that to the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_result: Option<CallResult>,
    /// True when the handler reported a failure as its result (F16).
    pub reported: bool,
}

impl Failure {
    /// A failure with a type and a text.
    pub fn new(cause: Cause, error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            cause,
            error_type: error_type.into(),
            message: message.into(),
            why: None,
            retry_in: None,
            dependency: None,
            call_result: None,
            reported: false,
        }
    }

    /// The same with the delay that was asked for.
    #[must_use]
    pub const fn retry_in(mut self, delay: Duration) -> Self {
        self.retry_in = Some(delay);
        self
    }

    /// The same with the reason its author gave for a mark.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_draws_on_its_own_budget() {
        // F2, F3
        let charged: Vec<_> = Cause::ALL.iter().filter(|c| c.charges_attempt()).map(|c| c.as_str()).collect();
        assert_eq!(charged, ["error", "permanent", "invalid", "timeout", "panic", "not_allowed"]);
        let crash: Vec<_> = Cause::ALL.iter().filter(|c| c.budget() == Budget::Crashes).collect();
        assert_eq!(crash, [&Cause::Crash]);
        assert_eq!(Cause::ALL.len(), 21);
    }

    #[test]
    fn words_go_round() {
        for cause in Cause::ALL {
            assert_eq!(cause.as_str().parse(), Ok(*cause));
            assert_eq!(serde_json::to_string(cause).expect("plain"), format!("\"{cause}\""));
        }
    }
}
