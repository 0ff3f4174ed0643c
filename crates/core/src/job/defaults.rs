//! What a job gets that says nothing itself (L19): field by field, the kind's word over the queue's over the engine's.

use std::time::Duration;

use super::Policy;
use crate::failure::{Backoff, Growth, Jitter};

/// What a kind or a queue says of its jobs. What it leaves open is said by whoever comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobDefaults {
    /// Charged runs after the first (F5).
    pub max_retries: Option<u32>,
    /// Crashes that are forgiven (C1).
    pub max_crashes: Option<u32>,
    /// How the wait between charged runs grows (F8).
    pub growth: Option<Growth>,
    /// The wait after the first failure.
    pub base: Option<Duration>,
    /// The longest wait.
    pub cap: Option<Duration>,
    /// How the waits of many jobs are spread.
    pub jitter: Option<Jitter>,
    /// How long one run may take (F10).
    pub timeout: Option<Duration>,
    /// How long a job may wait to start, counted from each time it becomes due.
    pub max_wait: Option<Duration>,
    /// How long a job may be kept from running (H7).
    pub max_deferral: Option<Duration>,
    /// How long after its submit it becomes due.
    pub delay: Option<Duration>,
    /// How long after the moment at which it may first run it may start at the latest.
    pub expires_in: Option<Duration>,
}

impl JobDefaults {
    /// These, and those of `below` where these say nothing.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            max_retries: self.max_retries.or(below.max_retries),
            max_crashes: self.max_crashes.or(below.max_crashes),
            growth: self.growth.or(below.growth),
            base: self.base.or(below.base),
            cap: self.cap.or(below.cap),
            jitter: self.jitter.or(below.jitter),
            timeout: self.timeout.or(below.timeout),
            max_wait: self.max_wait.or(below.max_wait),
            max_deferral: self.max_deferral.or(below.max_deferral),
            delay: self.delay.or(below.delay),
            expires_in: self.expires_in.or(below.expires_in),
        }
    }

    /// A policy with what these say in place of its own.
    #[must_use]
    pub fn applied_to(&self, policy: Policy) -> Policy {
        let Backoff { growth, base, cap, jitter } = policy.backoff;
        Policy {
            max_retries: self.max_retries.unwrap_or(policy.max_retries),
            max_crashes: self.max_crashes.unwrap_or(policy.max_crashes),
            backoff: Backoff {
                growth: self.growth.unwrap_or(growth),
                base: self.base.unwrap_or(base),
                cap: self.cap.unwrap_or(cap),
                jitter: self.jitter.unwrap_or(jitter),
            },
            timeout: self.timeout.or(policy.timeout),
            max_wait: self.max_wait.or(policy.max_wait),
            max_deferral: self.max_deferral.or(policy.max_deferral),
        }
    }

    /// Charged runs after the first.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Crashes that are forgiven.
    #[must_use]
    pub const fn crashes(mut self, crashes: u32) -> Self {
        self.max_crashes = Some(crashes);
        self
    }

    /// How long to wait between charged runs.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.growth = Some(backoff.growth);
        self.base = Some(backoff.base);
        self.cap = Some(backoff.cap);
        self.jitter = Some(backoff.jitter);
        self
    }

    /// How long one run may take.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a job may wait to start, counted from each time it becomes due.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Some(wait);
        self
    }

    /// How long a job may be kept from running.
    #[must_use]
    pub const fn max_deferral(mut self, most: Duration) -> Self {
        self.max_deferral = Some(most);
        self
    }

    /// How long after its submit a job becomes due.
    #[must_use]
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// How long after the moment at which it may first run a job may start at the latest.
    #[must_use]
    pub const fn expires_in(mut self, time: Duration) -> Self {
        self.expires_in = Some(time);
        self
    }
}

/// A policy says what differs from the engine's own; the rest is left open.
impl From<Policy> for JobDefaults {
    fn from(policy: Policy) -> Self {
        let usual = Policy::default();
        let Backoff { growth, base, cap, jitter } = policy.backoff;
        Self {
            max_retries: differs(policy.max_retries, usual.max_retries),
            max_crashes: differs(policy.max_crashes, usual.max_crashes),
            growth: differs(growth, usual.backoff.growth),
            base: differs(base, usual.backoff.base),
            cap: differs(cap, usual.backoff.cap),
            jitter: differs(jitter, usual.backoff.jitter),
            timeout: policy.timeout,
            max_wait: policy.max_wait,
            max_deferral: policy.max_deferral,
            delay: None,
            expires_in: None,
        }
    }
}

fn differs<T: PartialEq>(value: T, usual: T) -> Option<T> {
    (value != usual).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_field_is_decided_by_the_first_who_says_something() {
        // L19
        let kind = JobDefaults { base: Some(secs(3)), ..JobDefaults::default() }.retries(2).delay(secs(7));
        let queue = JobDefaults::default().retries(9).timeout(secs(60)).delay(secs(1)).expires_in(secs(90));
        let both = kind.over(queue);
        assert_eq!((both.delay, both.expires_in), (Some(secs(7)), Some(secs(90))));
        let policy = both.applied_to(Policy::default());
        assert_eq!((policy.max_retries, policy.timeout, policy.max_wait), (2, Some(secs(60)), None));
        assert_eq!((policy.backoff.base, policy.backoff.cap), (secs(3), Policy::default().backoff.cap));
    }

    #[test]
    fn a_policy_says_what_differs_from_the_engines_own() {
        // L19
        assert_eq!(JobDefaults::from(Policy::default()), JobDefaults::default());
        let policy = Policy::default().retries(1).timeout(secs(5)).backoff(Backoff::fixed(secs(2)));
        let said = JobDefaults::from(policy.clone());
        assert_eq!(said.max_crashes, None);
        assert_eq!(said.applied_to(Policy::default()), policy);
    }
}
