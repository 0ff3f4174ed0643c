//! What people ask of a plan: start, pause, resume, cancel. Each is refused in one sentence or entered in the audit.

use super::plan::PlanRound;
use super::{Plan, PlanError, PlanPhase};
use crate::time::Timestamp;

impl Plan {
    /// Lets a new plan go, beginning with its canary.
    ///
    /// # Errors
    /// [`PlanError::WrongPhase`] when it was started before.
    pub fn start(&mut self, by: &str, now: Timestamp) -> Result<(), PlanError> {
        if self.phase != PlanPhase::Planned {
            return Err(self.refuse("started"));
        }
        self.begin_round(now);
        self.enter(now, Some(by), "started".into());
        Ok(())
    }

    /// Holds a plan back: nothing more is driven, and what is in flight goes on.
    ///
    /// # Errors
    /// [`PlanError::WrongPhase`] when it is not on its way.
    pub fn pause(&mut self, by: &str, now: Timestamp) -> Result<(), PlanError> {
        if !self.phase.is_moving() {
            return Err(self.refuse("paused"));
        }
        self.paused_from = Some(self.phase);
        self.phase = PlanPhase::Paused;
        self.enter(now, Some(by), "paused".into());
        Ok(())
    }

    /// Lets a paused plan go on from where it was, and a halted one begin a new round with a canary.
    ///
    /// # Errors
    /// [`PlanError::WrongPhase`] when it is neither paused nor halted.
    pub fn resume(&mut self, by: &str, now: Timestamp) -> Result<(), PlanError> {
        match (self.phase, self.paused_from.take()) {
            (PlanPhase::Paused, Some(from)) => self.phase = from,
            (PlanPhase::Halted, _) => self.begin_round(now),
            (_, from) => {
                self.paused_from = from;
                return Err(self.refuse("resumed"));
            }
        }
        self.enter(now, Some(by), format!("resumed, goes on with {}", self.phase));
        Ok(())
    }

    /// Calls a plan off: nothing more is driven, and what is in flight goes on.
    ///
    /// # Errors
    /// [`PlanError::WrongPhase`] when it has come to its end already.
    pub fn cancel(&mut self, by: &str, now: Timestamp) -> Result<(), PlanError> {
        if self.phase.is_final() {
            return Err(self.refuse("canceled"));
        }
        self.phase = PlanPhase::Canceled;
        self.paused_from = None;
        self.enter(now, Some(by), "canceled".into());
        Ok(())
    }

    /// Every round begins at the newest job again: what died since its first drive lies before the old cursor.
    fn begin_round(&mut self, now: Timestamp) {
        self.phase = PlanPhase::Canary;
        self.reached = match (self.reached, self.cursor.take()) {
            (Some(before), Some(now)) => Some(before.min(now)),
            (before, now) => before.or(now),
        };
        self.round = PlanRound::beginning(self.round.number.saturating_add(1), now);
    }

    fn refuse(&self, verb: &'static str) -> PlanError {
        let way_out = match self.phase {
            PlanPhase::Planned => "start it with `backstop redrive start`",
            PlanPhase::Canary | PlanPhase::Gate | PlanPhase::Driving | PlanPhase::Draining => {
                "it has already started"
            }
            PlanPhase::Paused => "let it go on with `backstop redrive resume`",
            PlanPhase::Halted => "fix the cause, then `backstop redrive resume` begins again with a canary",
            PlanPhase::Done | PlanPhase::Canceled => "make a new plan for what is left",
        };
        PlanError::WrongPhase { plan: self.id.clone(), phase: self.phase, verb, way_out }
    }
}
