//! How long ended jobs stay where work is found (L16).
//!
//! Only an ending starts this clock. A job that has not ended has no age that counts, however old it is.

use std::time::Duration;

use super::{Record, State};
use crate::time::Timestamp;

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const QUARTER: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// How long jobs stay in the hot tables after they have ended, by how they ended, and in the archive after that. None
/// keeps them there for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Jobs that succeeded.
    pub succeeded: Option<Duration>,
    /// Jobs that were canceled.
    pub canceled: Option<Duration>,
    /// Dead letters: longer, because people look after them and drive them again.
    pub failed: Option<Duration>,
    /// Archived jobs, counted from their archival; then they are removed for good, except those that never ran (D5).
    pub archive: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { succeeded: Some(WEEK), canceled: Some(WEEK), failed: Some(QUARTER), archive: Some(QUARTER) }
    }
}

impl Retention {
    /// The states that are archived, in the order of their turn: what nobody looks after goes first.
    pub const STATES: [State; 3] = [State::Succeeded, State::Canceled, State::Failed];

    /// Keeps every job for ever.
    #[must_use]
    pub const fn forever() -> Self {
        Self { succeeded: None, canceled: None, failed: None, archive: None }
    }

    /// How long jobs stay that succeeded; none for ever.
    #[must_use]
    pub const fn succeeded(mut self, span: Option<Duration>) -> Self {
        self.succeeded = span;
        self
    }

    /// How long jobs stay that were canceled; none for ever.
    #[must_use]
    pub const fn canceled(mut self, span: Option<Duration>) -> Self {
        self.canceled = span;
        self
    }

    /// How long dead letters stay; none for ever.
    #[must_use]
    pub const fn failed(mut self, span: Option<Duration>) -> Self {
        self.failed = span;
        self
    }

    /// How long archived jobs stay; none for ever. One that never ran stays for ever in any case (L16).
    #[must_use]
    pub const fn archive(mut self, span: Option<Duration>) -> Self {
        self.archive = span;
        self
    }

    /// How long jobs in `state` stay; none for ever, and always none for a job that has not ended.
    #[must_use]
    pub const fn of(&self, state: State) -> Option<Duration> {
        match state {
            State::Succeeded => self.succeeded,
            State::Canceled => self.canceled,
            State::Failed => self.failed,
            State::Pending | State::Running | State::Paused | State::Waiting => None,
        }
    }

    /// The latest end that is old enough at `now` for jobs in `state`; none when no end is.
    #[must_use]
    pub fn cutoff(&self, state: State, now: Timestamp) -> Option<Timestamp> {
        // A span longer than the calendar must not be cut down to it: then the earliest moment would be old enough.
        self.of(state).filter(|span| *span <= now.since(Timestamp::MIN)).map(|span| now.before(span))
    }

    /// True when the job has ended, and its retention is over at `now`.
    #[must_use]
    pub fn has_passed(&self, record: &Record, now: Timestamp) -> bool {
        let cutoff = self.cutoff(record.state, now);
        record.finished_at.zip(cutoff).is_some_and(|(end, cutoff)| end <= cutoff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;
    use crate::job::Spec;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn record(state: State, finished_at: Option<Timestamp>) -> Record {
        let spec = Spec::new(JobId::from_u128(1), "work", "{}");
        Record { state, finished_at, ..Record::new(&spec, Timestamp::MIN) }
    }

    #[test]
    fn each_ending_has_its_own_retention() {
        // L16
        let table = [(State::Succeeded, 7), (State::Canceled, 7), (State::Failed, 90)];
        let retention = Retention::default();
        for (state, days) in table {
            let end = NOW.before(DAY * days);
            assert!(retention.has_passed(&record(state, Some(end)), NOW), "{state}: to the microsecond");
            let later = end.after(Duration::from_micros(1));
            assert!(!retention.has_passed(&record(state, Some(later)), NOW), "{state}: not yet");
        }
    }

    #[test]
    fn what_has_not_ended_stays_whatever_its_age() {
        // L16
        let at_once = Some(Duration::ZERO);
        let retention =
            Retention { succeeded: at_once, canceled: at_once, failed: at_once, ..Retention::forever() };
        for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
            assert_eq!(retention.of(state), None, "{state}");
            assert!(!retention.has_passed(&record(state, None), Timestamp::MAX), "{state}");
            // A paused dead letter keeps the moment of its end.
            assert!(!retention.has_passed(&record(state, Some(Timestamp::MIN)), Timestamp::MAX), "{state}");
        }
        for state in Retention::STATES {
            assert!(retention.has_passed(&record(state, Some(NOW)), NOW), "{state}");
            assert!(!retention.has_passed(&record(state, Some(NOW)), NOW.before(DAY)), "{state}: not ahead");
        }
    }

    #[test]
    fn no_retention_is_for_ever() {
        // L16
        for state in State::ALL {
            let oldest = record(state, Some(Timestamp::MIN));
            assert!(!Retention::forever().has_passed(&oldest, Timestamp::MAX), "{state}");
        }
        let mixed = Retention::default().succeeded(None).canceled(Some(DAY)).failed(Some(DAY * 2));
        let spans = Retention::STATES.map(|state| mixed.of(state));
        assert_eq!(spans, [None, Some(DAY), Some(DAY * 2)]);
        assert_eq!((mixed.archive, Retention::forever().archive), (Some(DAY * 90), None));
        assert_eq!(mixed.archive(Some(DAY)).archive, Some(DAY));
    }

    #[test]
    fn absurd_spans_are_for_ever_too() {
        // L16, L20
        let retention = Retention::default().succeeded(Some(Duration::MAX));
        let oldest = record(State::Succeeded, Some(Timestamp::MIN));
        for now in [Timestamp::MIN, NOW, Timestamp::MAX] {
            assert!(!retention.has_passed(&oldest, now), "{now}");
        }
    }

    #[test]
    fn every_terminal_state_has_its_turn() {
        // L16
        for state in State::ALL {
            assert_eq!(Retention::STATES.contains(&state), state.is_terminal(), "{state}");
        }
    }
}
