//! What a schedule is told beside its job.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::schedule::{Misfire, Overlap, Timing};

/// When a schedule fires, and what becomes of fires that cannot go as planned.
///
/// ```
/// use backstop::schedules::{Misfire, Overlap, ScheduleSettings};
///
/// let nightly = ScheduleSettings::cron("30 2 * * MON-FRI")
///     .time_zone("Europe/Berlin")
///     .misfire(Misfire::CatchUp(3))
///     .overlap(Overlap::Queue);
/// assert_eq!(nightly.timing.to_string(), "30 2 * * MON-FRI Europe/Berlin");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleSettings {
    /// When it fires.
    pub timing: Timing,
    /// What becomes of fire times that were missed.
    pub misfire: Misfire,
    /// What becomes of a fire while the job of the last one has not ended.
    pub overlap: Overlap,
    /// True begins with a pause, false ends one; what stands stays unless given.
    pub paused: Option<bool>,
}

impl ScheduleSettings {
    /// By a cron expression of five fields, or of six with seconds in front; in UTC unless told.
    pub fn cron(expression: impl Into<Arc<str>>) -> Self {
        Self { timing: Timing::cron(expression), ..Self::default() }
    }

    /// Every so often, counted from when it is set.
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self { timing: Timing::every(interval), ..Self::default() }
    }

    /// By the clock of a time zone, such as `Europe/Berlin`.
    #[must_use]
    pub fn time_zone(mut self, zone: impl Into<Arc<str>>) -> Self {
        self.timing = self.timing.time_zone(zone);
        self
    }

    /// What becomes of fire times that were missed.
    #[must_use]
    pub const fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// What becomes of a fire while the job of the last one has not ended.
    #[must_use]
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Begins with a pause, or ends one.
    #[must_use]
    pub const fn paused(mut self, paused: bool) -> Self {
        self.paused = Some(paused);
        self
    }
}
