//! Waiting for a signal (W10): what a parked job waits for, and what ends the wait.
//!
//! A wait is a durable step: what comes is kept as its result, so later runs are answered from the store, in the order
//! of the calls. Owns the race of a signal with the end of the run that waits for it: both are written on the
//! record, so whichever comes second sees the other.

use super::{
    Operated, PausedFrom, Record, SignalWait, Spec, State, StepState, StepWrite, StoredJob, Trigger, next,
};
use crate::id::Fence;
use crate::refusal::Refusal;
use crate::time::Timestamp;

impl Record {
    /// The signal that it waits for, paused or not.
    #[must_use]
    pub fn signal_wait(&self) -> Option<&SignalWait> {
        let wait = self.marks.as_ref().and_then(|marks| marks.signal.as_ref());
        wait.filter(|_| self.is_waiting())
    }

    /// The run has ended and waits; one whose signal came before its end goes on at once.
    pub(super) fn park(&mut self, spec: &Spec, wait: SignalWait, now: Timestamp) {
        let has_come = |record: &Self| {
            record.steps().iter().any(|step| step.name == wait.step && step.state == StepState::Done)
        };
        if has_come(self) {
            self.go_on(spec, now);
        } else {
            self.run_at = wait.until;
            // It has started, and nobody knows when it goes on: the time in which it must start begins then.
            self.expires_at = None;
            self.mark(|marks| marks.signal = Some(wait));
        }
    }

    /// What a run or a parked job waits for has come, or its time is up. Another hold, or a job that does not wait for
    /// it, is not changed.
    pub(super) fn answer_wait(
        &mut self,
        job: &StoredJob,
        fence: Fence,
        step: &StepWrite,
        now: Timestamp,
    ) -> Result<Operated, Refusal> {
        if !self.awaits(fence, &step.name) {
            return Err(Refusal::MovedOn { job: job.spec.id });
        }
        let is_parked = self.is_parked_at(&step.name);
        if self.write_step(step).is_none() {
            return Ok(self.answer(false));
        }
        if is_parked {
            self.go_on(&job.spec, now);
        }
        Ok(self.answer(true))
    }

    /// True while what this step waits for would be taken: by the run with this fence, or by the job that it has left
    /// waiting.
    #[must_use]
    pub fn awaits(&self, fence: Fence, step: &str) -> bool {
        let runs = self.state == State::Running && self.hold.is_some_and(|hold| hold.started_at.is_some());
        self.fence == fence && (runs || self.is_parked_at(step))
    }

    fn is_parked_at(&self, step: &str) -> bool {
        self.signal_wait().is_some_and(|wait| wait.step == step)
    }

    fn go_on(&mut self, spec: &Spec, now: Timestamp) {
        self.mark(|marks| marks.signal = None);
        match next(self.state, Trigger::Release) {
            Ok(state) => self.state = state,
            // A person has paused it: it stays so, and waits for nothing else.
            Err(_) => self.paused_from = Some(PausedFrom::Pending),
        }
        self.run_at = now;
        self.wait_for_start(spec);
    }
}

#[cfg(test)]
#[path = "signal_tests.rs"]
mod tests;
