//! The turn of a job in a line: jobs with one ordering key run one at a time (L21).

use super::{PausedFrom, Record, State, Trigger, next};

impl Record {
    /// Its turn has come: it is the head of its line and waits for nothing but its time and a worker (L21). A person
    /// who has paused it meanwhile keeps it back as a pending job. Answers whether it was in a line.
    pub fn take_turn(&mut self) -> bool {
        if self.signal_wait().is_some() {
            return false;
        }
        if let Ok(state) = next(self.state, Trigger::Release) {
            self.state = state;
            return true;
        }
        let in_line = self.is_in_line();
        if in_line {
            self.paused_from = Some(PausedFrom::Pending);
        }
        in_line
    }

    /// True while it waits for its turn, paused or not (L21). One that waits for a signal has had its turn (W10).
    #[must_use]
    pub fn is_in_line(&self) -> bool {
        self.is_waiting() && self.signal_wait().is_none()
    }

    /// True while something else than a worker is missing, paused or not.
    pub(super) fn is_waiting(&self) -> bool {
        let paused = self.state == State::Paused && self.paused_from == Some(PausedFrom::Waiting);
        self.state == State::Waiting || paused
    }

    /// True when it makes room for the next of its line: nothing but a success, or a person who gives it up, lets
    /// others pass by (L21).
    #[must_use]
    pub const fn leaves_line(&self) -> bool {
        matches!(self.state, State::Succeeded | State::Canceled)
    }

    /// True when its line stands still, if it is the head, until a person does something about it (L21).
    #[must_use]
    pub const fn blocks_line(&self) -> bool {
        self.state.blocks_line()
    }
}
