//! Why a rule is refused, one sentence each, with the way out.

use super::RuleId;
use crate::failure::Cause;

/// A text that is no rule id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rule id: use 1 to 64 lowercase letters, digits, `_` and `-`, such as stripe-down")]
pub struct InvalidRuleId(pub(super) String);

/// Why a rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// Its id would be masked wherever it is shown.
    #[error(
        "rule id `{id}` looks like a secret and would be masked in the ledger: choose a name made of words"
    )]
    SecretId {
        /// The id.
        id: RuleId,
    },
    /// It has no condition.
    #[error(
        "the rule has no condition and would decide about every failure: give at least one of kind, queue, \
         error_type, cause and text"
    )]
    EmptyMatch,
    /// A condition is there but empty.
    #[error("{field} is empty and matches nothing: leave it out to match everything")]
    EmptyField {
        /// The condition.
        field: &'static str,
    },
    /// A text is longer than it may be.
    #[error("{field} has {actual} characters and the limit is {limit}: shorten it")]
    TooLong {
        /// The field.
        field: &'static str,
        /// What was given.
        actual: usize,
        /// What is allowed.
        limit: usize,
    },
    /// A glob asks for what no name can have.
    #[error("{field} can never match: {problem}")]
    CannotMatch {
        /// The condition.
        field: &'static str,
        /// What no name can have, and what to do.
        problem: String,
    },
    /// The cause is none that a run fails by.
    #[error(
        "cause `{cause}` is not a failure, so there is nothing to decide: use error, permanent, invalid, timeout, \
         panic, crash or not_allowed"
    )]
    NoFailure {
        /// The cause.
        cause: Cause,
    },
    /// Signatures are not an operator's to wave through.
    #[error("no rule decides about a wrong signature, because such a job never runs: leave the cause out")]
    Signature,
    /// The pattern is no regular expression.
    #[error("text is not a regular expression: {problem}{}; put `\\` before a character to mean itself", place(*at))]
    InvalidText {
        /// What is wrong with it.
        problem: String,
        /// The character where it goes wrong, from 1, when the parser can tell.
        at: Option<usize>,
    },
    /// The pattern is too costly.
    #[error("text is too costly once compiled: use smaller repetition counts")]
    CostlyText,
    /// Two fields that exclude each other.
    #[error("retry has both delay_ms and backoff, and only one can set the wait: leave one of them out")]
    TwoWaits,
    /// Attempts do not count crashes.
    #[error(
        "max_retries does not count crashes: leave it out, and set max_crashes when the job is submitted"
    )]
    CrashRetries,
    /// A crash is never uncharged.
    #[error("a crash is always charged to the crash budget: use pause_queue, retry or permanent for it")]
    TransientCrash,
    /// More retries than a job may have.
    #[error("max_retries is over the limit of {limit}: use a smaller number")]
    TooManyRetries {
        /// What is allowed.
        limit: u32,
    },
    /// A wait longer than a job may wait.
    #[error("{field} is longer than {days} days: use a shorter wait")]
    TooLongSpan {
        /// The field.
        field: &'static str,
        /// What is allowed.
        days: u64,
    },
}

fn place(at: Option<usize>) -> String {
    at.map(|at| format!(" at character {at}")).unwrap_or_default()
}
