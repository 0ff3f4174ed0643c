//! The rules in force, ready to judge.

use regex::bytes::Regex;

use super::{Rule, RuleError, RuleId, is_governable};
use crate::failure::Cause;

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub struct RuleInput<'a> {
    /// The job's kind.
    pub kind: &'a str,
    /// The job's queue.
    pub queue: &'a str,
    /// The cause of the run's end.
    pub cause: Cause,
    /// The error's type, sanitized.
    pub error_type: &'a str,
    /// The error's text, sanitized: patterns must not depend on secrets, and people write them by what they
    /// see.
    pub message: &'a str,
}

/// The enabled rules in their order.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    rules: Vec<(Rule, Option<Regex>)>,
}

impl RuleSet {
    /// Sorts the enabled rules and makes them ready. A rule that cannot be used is left out and reported, so
    /// that one bad document never stops the others.
    #[must_use]
    pub fn compile(rules: Vec<Rule>) -> (Self, Vec<(RuleId, RuleError)>) {
        let mut left_out = Vec::new();
        let mut ready = Vec::new();
        for rule in rules.into_iter().filter(|rule| rule.enabled) {
            match rule.validate().and_then(|()| rule.matches.compile()) {
                Ok(pattern) => ready.push((rule, pattern)),
                Err(error) => left_out.push((rule.id, error)),
            }
        }
        ready.sort_by(|(a, _), (b, _)| (a.position, &a.id).cmp(&(b.position, &b.id)));
        (Self { rules: ready }, left_out)
    }

    /// The first rule that matches. Causes that are no failures, and signatures, match none.
    #[must_use]
    pub fn judge(&self, facts: &RuleInput<'_>) -> Option<&Rule> {
        if self.rules.is_empty() || !is_governable(facts.cause) {
            return None;
        }
        let found = self.rules.iter().find(|(rule, pattern)| {
            rule.matches.fits(facts)
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(facts.message.as_bytes()))
        });
        found.map(|(rule, _)| rule)
    }

    /// The rules in the order they are asked.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|(rule, _)| rule)
    }

    /// True when no rule is in force; then there is no need to gather [`RuleInput`].
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}
