//! Why a dead letter is dead (F13).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($variant:ident $word:literal $retryable:literal $doc:literal,)*) => {
        /// The terminal reason of a failed job.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum TerminalReason {
            $(#[doc = $doc] $variant,)*
        }

        impl TerminalReason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word used in every interface and in every store.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// True when driving the same job again could end differently without changing the job itself.
            #[must_use]
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)* }
            }

            /// True when a failure that is retried by itself was retried until its budget was used up; false when it is
            /// one that no retry follows, or there was none (D1).
            #[must_use]
            pub const fn ends_retries(self) -> bool {
                matches!(self, Self::RetryExhausted | Self::Poisoned | Self::DeferralExhausted)
            }

            /// What it means, in one sentence for a person.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

reasons! {
    RetryExhausted    "retry_exhausted"    true  "All its attempts were used.",
    NonRetryable      "non_retryable"      true  "Its error is marked as one that no retry can fix.",
    PolicyRejected    "policy_rejected"    true  "Its retry policy said no.",
    Invalid           "invalid"            false "Its input can never be handled.",
    Poisoned          "poisoned"           true  "It crashed its process too many times.",
    Signature         "signature"          false "Its signature was missing or wrong.",
    Expired           "expired"            true  "It could not start in time.",
    DependencyFailed  "dependency_failed"  true  "A job it depends on failed.",
    DeferralExhausted "deferral_exhausted" true  "It was kept from running for too long.",
    ReportedFailure   "reported_failure"   true  "Its handler reported a failure as its result.",
}

impl fmt::Display for TerminalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no terminal reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a terminal reason")]
pub struct UnknownReason(String);

impl FromStr for TerminalReason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| UnknownReason(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_reasons_go_round() {
        // F13
        assert_eq!(TerminalReason::ALL.len(), 10);
        for reason in TerminalReason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(*reason));
        }
    }
}
