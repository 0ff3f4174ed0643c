//! How runs end: causes, budgets, the decision, and the evidence.
//!
//! [`decide`] is the product: one pure function from what happened to where the job goes, with the trace of
//! every check it made. Stores apply its verdicts and `explain` prints its trace.

mod backoff;
mod call_result;
mod cause;
mod decide;
mod decision;
mod reason;
mod retry_budget;
mod rules;
mod suspicion;

pub mod fingerprint;
pub mod redact;

#[cfg(test)]
mod decide_tests;

pub use backoff::{Backoff, BackoffError, Growth, Jitter};
pub use call_result::CallResult;
pub use cause::{Budget, Cause, Failure, UnknownCause};
pub use decide::{DecisionInput, HookAnswer, decide};
pub use decision::{Check, Decision, Verdict};
pub use fingerprint::Fingerprint;
pub use reason::{TerminalReason, UnknownReason};
pub use retry_budget::{BudgetError, BudgetSettings, RetryBudget};
pub use rules::{InvalidRuleId, Rule, RuleAction, RuleError, RuleId, RuleInput, RuleMatch, RuleSet};
pub use suspicion::Suspicion;
