//! Which fire times are due, and which of them are made up for.

use std::time::Duration;

use super::{FireTimes, Misfire};
use crate::time::Timestamp;

/// A fire is missed when it is so late: whoever takes over from a process that died comes sooner.
pub const MISSED_AFTER: Duration = Duration::from_secs(60);

/// A store's clock that is behind what was decided by more than this was put back.
const PUT_BACK: Duration = Duration::from_secs(60);

/// What is due.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueFires {
    /// To be submitted, in order.
    pub fires: Vec<Timestamp>,
    /// The latest that was missed and is not made up for.
    pub missed: Option<Timestamp>,
}

/// Up to where fire times are decided. A clock that was put back does not keep a schedule silent until it has caught
/// up: what was submitted before is known by its key.
pub(super) fn decided_by(now: Timestamp, decided: Timestamp) -> Timestamp {
    if decided > now.after(PUT_BACK) { now } else { decided }
}

impl DueFires {
    /// What is due at `now` of what comes after `decided`.
    #[must_use]
    pub fn at(now: Timestamp, decided: Timestamp, times: &FireTimes, misfire: Misfire) -> Self {
        let decided = decided_by(now, decided);
        let on_time = now.before(MISSED_AFTER).max(decided);
        let mut fires: Vec<Timestamp> = times.between(on_time, now).collect();
        let make_up = match misfire {
            Misfire::Skip => 0,
            Misfire::FireOnce => usize::from(fires.is_empty()),
            Misfire::CatchUp(count) => count as usize,
        };
        let mut missed = match decided < on_time {
            true => times.last_of(decided, on_time, make_up + 1),
            false => Vec::new(),
        };
        let over = missed.len().saturating_sub(make_up);
        let made_up = missed.split_off(over);
        fires.splice(0..0, made_up);
        Self { fires, missed: missed.pop() }
    }
}
