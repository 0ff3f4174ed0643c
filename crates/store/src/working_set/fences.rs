//! The counter of fences, which must not fall behind what jobs have seen (L5).
//!
//! A restore can lose it: a dump without sequences, a copy that leaves the counters of tables out. What a store knows
//! of that is kept here, so that the next claim raises the counter first and `doctor` says what happened.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Finding, Level};

/// What a store knows of its counter of fences.
#[derive(Debug, Default)]
pub struct Fences {
    behind: AtomicBool,
    raised: AtomicU64,
}

impl Fences {
    /// A fence was drawn that a job has seen already, or the counter was found below one.
    pub fn note_behind(&self) {
        self.behind.store(true, Ordering::Release);
    }

    /// True when the counter is to be raised before it is used again.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// The counter is above everything again.
    pub fn note_raised(&self) {
        self.raised.fetch_add(1, Ordering::Relaxed);
        self.behind.store(false, Ordering::Release);
    }

    /// What `doctor` says of it.
    #[must_use]
    pub fn finding(&self) -> Finding {
        let subject = "fences".to_owned();
        let restored = "a restore left out the fence counter: restore it too next time, and end every worker that \
             was started before";
        if self.is_behind() {
            let message =
                "the counter has gone back below fences that jobs have seen; the next claim raises it";
            let hint = Some(restored.to_owned());
            return Finding { level: Level::Bad, subject, message: message.to_owned(), hint };
        }
        match self.raised.load(Ordering::Relaxed) {
            0 => {
                let message = "the counter is above every fence that was seen".to_owned();
                Finding { level: Level::Good, subject, message, hint: None }
            }
            _ => {
                let message = "the counter had gone back below fences that jobs have seen, and was raised";
                let hint = Some(restored.to_owned());
                Finding { level: Level::Warning, subject, message: message.to_owned(), hint }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_hears_of_a_counter_that_went_back() {
        // L5
        let fences = Fences::default();
        assert_eq!(fences.finding().level, Level::Good);
        fences.note_behind();
        assert_eq!((fences.is_behind(), fences.finding().level), (true, Level::Bad));
        fences.note_raised();
        assert_eq!((fences.is_behind(), fences.finding().level), (false, Level::Warning));
    }
}
