//! Which jobs run alone after their process has died (C3).
//!
//! When a process dies, every job that ran in it may have killed it. Each has used one of its crashes; what is decided
//! here is only in whose company it runs next.

use super::Cause;
use crate::job::{Attempt, Policy, Record};

/// What is known of a job that was started in a process that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspicion {
    /// Crashes that it was charged.
    pub crashes: u32,
    /// Crashes that are forgiven.
    pub forgiven: u32,
    /// True when its handler has come to an end since its latest crash.
    pub survived: bool,
    /// How many of those that died beside it have succeeded alone since.
    pub cleared_by: u32,
}

impl Suspicion {
    /// What is known of a job whose latest run is this; `cleared_by` comes from whoever ran those that died beside it.
    #[must_use]
    pub fn new(record: &Record, policy: &Policy, latest: Option<&Attempt>, cleared_by: u32) -> Self {
        Self {
            crashes: record.crashes,
            forgiven: policy.max_crashes,
            survived: latest.is_some_and(|run| came_to_its_end(run.cause)),
            cleared_by,
        }
    }

    /// True when it must run alone, or in a process of its own.
    ///
    /// One success alone clears those that died beside it once; who dies among others again needs twice as many each
    /// time, so that one bad job among many is alone after a few deaths, and many good ones are not held up for long.
    /// Half of the budget may be used up among others and no more: no death beside others poisons a job that has a
    /// crash to spare.
    #[must_use]
    pub const fn runs_alone(&self) -> bool {
        if self.crashes == 0 {
            return false;
        }
        if self.crashes > self.forgiven / 2 {
            return true;
        }
        let needed = 1_u32.checked_shl(self.crashes - 1);
        let cleared = matches!(needed, Some(needed) if self.cleared_by >= needed);
        !self.survived && !cleared
    }
}

/// True when the handler's own code has ended the run, or has had all the time it may have. What stopped it before
/// that, or kept it from running, says nothing of what it would have done.
const fn came_to_its_end(cause: Cause) -> bool {
    match cause {
        Cause::Succeeded
        | Cause::Error
        | Cause::Permanent
        | Cause::Invalid
        | Cause::Timeout
        | Cause::Panic
        | Cause::Rejected
        | Cause::RateLimited
        | Cause::Snoozed
        | Cause::Waiting => true,
        Cause::Crash
        | Cause::Interrupted
        | Cause::CircuitOpen
        | Cause::NoPermit
        | Cause::LockHeld
        | Cause::Canceled
        | Cause::LeaseLost
        | Cause::Signature
        | Cause::NotAllowed
        | Cause::UnknownKind
        | Cause::EngineFault => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspicion(crashes: u32, forgiven: u32) -> Suspicion {
        Suspicion { crashes, forgiven, survived: false, cleared_by: 0 }
    }

    #[test]
    fn who_has_crashed_runs_alone_until_it_is_cleared() {
        // C3: crashes, forgiven, survived, cleared by; alone?
        for (crashes, forgiven, survived, cleared_by, alone) in [
            (0, 10, false, 0, false),
            (1, 10, false, 0, true),
            (1, 10, false, 1, false),
            (1, 10, true, 0, false),
            (2, 10, false, 1, true),
            (2, 10, false, 2, false),
            (5, 10, false, 15, true),
            (5, 10, false, 16, false),
            (5, 10, true, 0, false),
            // More than half of what is forgiven: alone for good.
            (6, 10, true, 1_000, true),
            (1, 1, true, 1_000, true),
            (1, 2, false, 1, false),
            (40, 100, false, u32::MAX, true),
        ] {
            let suspicion = Suspicion { survived, cleared_by, ..suspicion(crashes, forgiven) };
            assert_eq!(suspicion.runs_alone(), alone, "{suspicion:?}");
        }
    }

    #[test]
    fn no_death_beside_others_poisons_a_job_that_has_a_crash_to_spare() {
        // C3
        for forgiven in 1..200 {
            for crashes in 0..=forgiven {
                let known =
                    Suspicion { survived: true, cleared_by: u32::MAX, ..suspicion(crashes, forgiven) };
                assert!(known.runs_alone() || crashes < forgiven, "{known:?}");
            }
        }
    }
}
