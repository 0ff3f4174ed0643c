//! The state table: one function over every (state, trigger), the illegal ones refused by name (L1).
//!
//! `docs/states.md` is generated from [`TABLE`] and [`next`], so the picture cannot disagree with the code.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::State;

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// A worker takes it.
    Claim,
    /// Its run succeeded.
    Succeed,
    /// Its run ended badly and another is due.
    Retry,
    /// Its run ended uncharged and it goes back: snoozed, interrupted, deferred, never started.
    Return,
    /// Its run ended badly for good.
    Die,
    /// A person, or its own handler, cancels it.
    Cancel,
    /// A person holds it back.
    Pause,
    /// A person lets it go again, to where it was paused from.
    Resume {
        /// The state it was paused in.
        into: PausedFrom,
    },
    /// A person or a plan drives a dead letter again.
    Redrive,
    /// Its time to start has passed.
    Expire,
    /// A dependency, a signal or code is missing.
    Hold,
    /// What was missing is there.
    Release,
}

/// The states that can be paused, and so restored by a resume (L8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausedFrom {
    /// It was pending.
    Pending,
    /// It was a dead letter.
    Failed,
    /// Something else than a free worker was missing, such as its turn (L21).
    Waiting,
}

impl PausedFrom {
    /// The state to go back to.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Self::Pending => State::Pending,
            Self::Failed => State::Failed,
            Self::Waiting => State::Waiting,
        }
    }

    /// The pausable state, if `state` is one.
    #[must_use]
    pub const fn of(state: State) -> Option<Self> {
        match state {
            State::Pending => Some(Self::Pending),
            State::Failed => Some(Self::Failed),
            State::Waiting => Some(Self::Waiting),
            _ => None,
        }
    }
}

/// Every trigger, in the order of the documentation.
pub const TABLE: [Trigger; 14] = [
    Trigger::Claim,
    Trigger::Succeed,
    Trigger::Retry,
    Trigger::Return,
    Trigger::Die,
    Trigger::Cancel,
    Trigger::Pause,
    Trigger::Resume { into: PausedFrom::Pending },
    Trigger::Resume { into: PausedFrom::Failed },
    Trigger::Resume { into: PausedFrom::Waiting },
    Trigger::Redrive,
    Trigger::Expire,
    Trigger::Hold,
    Trigger::Release,
];

/// Where `trigger` takes a job that is in `state`.
///
/// # Errors
/// [`IllegalTransition`] names the pair when the table has no such move.
pub const fn next(state: State, trigger: Trigger) -> Result<State, IllegalTransition> {
    use State::{Canceled, Failed, Paused, Pending, Running, Succeeded, Waiting};
    match (state, trigger) {
        (Pending, Trigger::Claim) => Ok(Running),
        (Running, Trigger::Succeed) => Ok(Succeeded),
        (Running, Trigger::Retry | Trigger::Return) => Ok(Pending),
        (Running, Trigger::Die) => Ok(Failed),
        (Pending | Running | Paused | Waiting, Trigger::Cancel) => Ok(Canceled),
        (Pending | Failed | Waiting | Paused, Trigger::Pause) => Ok(Paused),
        (Paused, Trigger::Resume { into }) => Ok(into.state()),
        (Failed, Trigger::Redrive) => Ok(Pending),
        (Pending | Waiting, Trigger::Expire) => Ok(Failed),
        (Pending | Running, Trigger::Hold) => Ok(Waiting),
        (Waiting, Trigger::Release) => Ok(Pending),
        _ => Err(IllegalTransition { state, trigger }),
    }
}

/// A move the table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {state} job cannot {trigger}")]
pub struct IllegalTransition {
    /// Where the job is.
    pub state: State,
    /// What was tried.
    pub trigger: Trigger,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claim => "be claimed",
            Self::Succeed => "succeed",
            Self::Retry => "be retried",
            Self::Return => "return",
            Self::Die => "die",
            Self::Cancel => "be canceled",
            Self::Pause => "be paused",
            Self::Resume { into: PausedFrom::Pending } => "resume to pending",
            Self::Resume { into: PausedFrom::Failed } => "resume to failed",
            Self::Resume { into: PausedFrom::Waiting } => "resume to waiting",
            Self::Redrive => "be driven again",
            Self::Expire => "expire",
            Self::Hold => "be held",
            Self::Release => "be released",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table as a person would draw it: one row a trigger, one column a state of [`State::ALL`].
    /// `.` is refused; a letter is the first of the state it leads to (P, R, S, F, p = paused, C, W).
    #[rustfmt::skip]
    const DRAWN: [(Trigger, &str); 14] = [
        //                                            PRSFpCW
        (Trigger::Claim,                             "R......"),
        (Trigger::Succeed,                           ".S....."),
        (Trigger::Retry,                             ".P....."),
        (Trigger::Return,                            ".P....."),
        (Trigger::Die,                               ".F....."),
        (Trigger::Cancel,                            "CC..C.C"),
        (Trigger::Pause,                             "p..pp.p"),
        (Trigger::Resume { into: PausedFrom::Pending }, "....P.."),
        (Trigger::Resume { into: PausedFrom::Failed },  "....F.."),
        (Trigger::Resume { into: PausedFrom::Waiting }, "....W.."),
        (Trigger::Redrive,                           "...P..."),
        (Trigger::Expire,                            "F.....F"),
        (Trigger::Hold,                              "WW....."),
        (Trigger::Release,                           "......P"),
    ];

    fn letter(outcome: Result<State, IllegalTransition>) -> char {
        match outcome {
            Err(_) => '.',
            Ok(State::Pending) => 'P',
            Ok(State::Running) => 'R',
            Ok(State::Succeeded) => 'S',
            Ok(State::Failed) => 'F',
            Ok(State::Paused) => 'p',
            Ok(State::Canceled) => 'C',
            Ok(State::Waiting) => 'W',
        }
    }

    #[test]
    fn every_pair_is_as_drawn() {
        // L1, L7, L8, L9: all 98 pairs.
        assert_eq!(DRAWN.map(|(trigger, _)| trigger), TABLE);
        for (trigger, row) in DRAWN {
            let actual: String = State::ALL.map(|state| letter(next(state, trigger))).iter().collect();
            assert_eq!(actual, row, "{trigger:?}");
        }
    }

    #[test]
    fn refusals_name_the_pair() {
        let refused = next(State::Succeeded, Trigger::Cancel).expect_err("succeeded is final");
        assert_eq!(refused.to_string(), "a succeeded job cannot be canceled");
    }

    #[test]
    fn failed_is_left_only_by_redrive_or_pause() {
        // L1
        let ways: Vec<_> = TABLE.into_iter().filter(|t| next(State::Failed, *t).is_ok()).collect();
        assert_eq!(ways, [Trigger::Pause, Trigger::Redrive]);
    }

    #[test]
    fn succeeded_and_canceled_are_final() {
        // L1
        for state in [State::Succeeded, State::Canceled] {
            assert!(TABLE.into_iter().all(|trigger| next(state, trigger).is_err()), "{state}");
        }
    }
}
