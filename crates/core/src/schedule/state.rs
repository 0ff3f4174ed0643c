//! What was decided of a schedule so far, and the next decision.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::decide::decided_by;
use super::{DueFires, FireTimes, Overlap, Schedule};
use crate::id::JobId;
use crate::time::Timestamp;

/// Fires that wait for the job of the last one, or for room in their queue, at most.
pub const MOST_QUEUED: usize = 100;

/// One fire: its time, and the job that is submitted for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fire {
    /// When it was to fire.
    pub fire_time: Timestamp,
    /// The job.
    pub job: JobId,
    /// True when nobody submits it any more: its job was submitted, or skipped, in the transaction that said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
}

impl Fire {
    /// One that is decided and has not been submitted.
    #[must_use]
    pub const fn new(fire_time: Timestamp, job: JobId) -> Self {
        Self { fire_time, job, settled: false }
    }
}

/// Why a fire was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PassReason {
    /// Nobody was there for it.
    Missed,
    /// The job of the last fire had not ended.
    Overlap,
    /// Too many waited for the job of the last fire, or for room in their queue.
    QueueFull,
    /// Its job was refused.
    Refused,
}

/// A fire that was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PassedFire {
    /// When it was to fire.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub fire_time: Timestamp,
    /// Why.
    pub reason: PassReason,
}

/// A pause, and who asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What was decided of a schedule so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleState {
    /// What an interval is counted from.
    pub anchor: Timestamp,
    /// Fire times up to this moment are decided.
    pub decided: Timestamp,
    /// The fires that were decided last: submitted, or about to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fires: Vec<Fire>,
    /// Fires that wait for the job of the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<Timestamp>,
    /// The latest fire that was passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<PassedFire>,
    /// Why the job of the latest fire was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// While it is set, nothing fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

impl ScheduleState {
    /// Of a schedule that is set at this moment: it fires for the first time after it.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self {
            anchor: now,
            decided: now,
            fires: Vec::new(),
            queued: Vec::new(),
            passed: None,
            problem: None,
            paused: None,
        }
    }

    /// The fire that was decided last.
    #[must_use]
    pub fn last(&self) -> Option<Fire> {
        self.fires.last().copied()
    }

    /// The next fire time; none while it is paused.
    #[must_use]
    pub fn next(&self, times: &FireTimes, now: Timestamp) -> Option<Timestamp> {
        match &self.paused {
            Some(_) => None,
            None => times.next(decided_by(now, self.decided)),
        }
    }

    /// True when the store's clock was put back behind what was decided: then there is something to decide.
    #[must_use]
    pub fn is_ahead_of(&self, now: Timestamp) -> bool {
        self.paused.is_none() && decided_by(now, self.decided) != self.decided
    }

    /// Decides what is due at `now`; `going` says that the job of the last fire has not ended, `unsubmitted` which of
    /// the last fires wait for room in their queue, and `job` makes ids. Answers whether anything changed.
    pub fn decide(
        &mut self,
        schedule: &Schedule,
        times: &FireTimes,
        now: Timestamp,
        going: bool,
        unsubmitted: &BTreeSet<Timestamp>,
        job: impl FnMut() -> JobId,
    ) -> bool {
        if self.paused.is_some() {
            return false;
        }
        // A job that is not even submitted has not ended.
        let going = going || !unsubmitted.is_empty();
        let due = DueFires::at(now, self.decided, times, schedule.misfire);
        let waits = !self.queued.is_empty() && !going;
        if due == DueFires::default() && !waits && !self.is_ahead_of(now) {
            return false;
        }
        self.decided = now;
        if let Some(fire_time) = due.missed {
            self.passed = Some(PassedFire { fire_time, reason: PassReason::Missed });
        }
        let wanted: Vec<Timestamp> = self.queued.drain(..).chain(due.fires).collect();
        let mut fires = self.without_overlap(schedule.overlap, going, wanted);
        if !unsubmitted.is_empty() {
            let over = fires.split_off(MOST_QUEUED.saturating_sub(unsubmitted.len()).min(fires.len()));
            self.pass(&over, PassReason::QueueFull);
        }
        if !fires.is_empty() {
            self.problem = None;
            self.fires.retain(|fire| unsubmitted.contains(&fire.fire_time));
            let made = fires.into_iter().zip(std::iter::repeat_with(job));
            self.fires.extend(made.map(|(fire_time, job)| Fire::new(fire_time, job)));
        }
        true
    }

    /// Those that are submitted now; of the others it is noted what becomes of them.
    fn without_overlap(
        &mut self,
        overlap: Overlap,
        going: bool,
        mut wanted: Vec<Timestamp>,
    ) -> Vec<Timestamp> {
        let now = if going { 0 } else { 1 };
        match overlap {
            Overlap::Allow => wanted,
            Overlap::Skip => {
                let over = wanted.split_off(now.min(wanted.len()));
                self.pass(&over, PassReason::Overlap);
                wanted
            }
            Overlap::Queue => {
                self.queued = wanted.split_off(now.min(wanted.len()));
                let over = self.queued.split_off(MOST_QUEUED.min(self.queued.len()));
                self.pass(&over, PassReason::QueueFull);
                wanted
            }
        }
    }

    fn pass(&mut self, over: &[Timestamp], reason: PassReason) {
        if let Some(&fire_time) = over.last() {
            self.passed = Some(PassedFire { fire_time, reason });
        }
    }
}
