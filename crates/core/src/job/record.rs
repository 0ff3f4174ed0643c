//! The part of a job that changes, and the only functions that change it.
//!
//! Every store loads a [`Record`], calls one of these, and writes what comes back. A store that edits a field by
//! itself has taken a decision that belongs here.

use serde::{Deserialize, Serialize};

use super::{
    Attempt, Ending, Marks, PartOf, PausedFrom, PlanId, SignalWait, Spec, State, StepWrite, StoredJob,
    Trigger, next,
};
use crate::failure::{Cause, Decision, TerminalReason, Verdict};
use crate::id::{Fence, JobId, Lease, WorkerId};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::workflow::CancelCause;

/// Where a job is and what it has used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Where it is.
    pub state: State,
    /// When it may run, or when it last became due.
    pub run_at: Timestamp,
    /// It must not start after this moment.
    pub expires_at: Option<Timestamp>,
    /// Runs charged to the attempt budget since the last re-drive (F3).
    pub attempt: u32,
    /// Runs charged to the crash budget since the last re-drive (C1).
    pub crashes: u32,
    /// Runs that ended uncharged since the last re-drive.
    pub deferrals: u32,
    /// Runs started, ever: the number of the latest run (C5).
    pub runs: u32,
    /// Times a person or a plan drove it again (L9).
    pub redrives: u32,
    /// The latest hold, ever. Only grows (L5).
    pub fence: Fence,
    /// Who holds it now.
    pub hold: Option<Hold>,
    /// The run whose ledger row holds the latest failure; forgotten by success and by a re-drive (L9).
    pub last_failed_run: Option<u32>,
    /// How far its handler says it is; kept after the end.
    pub progress: Option<Progress>,
    /// Where a resume goes back to (L8).
    pub paused_from: Option<PausedFrom>,
    /// When it reached a terminal state.
    pub finished_at: Option<Timestamp>,
    /// Why it is a dead letter (F13).
    pub reason: Option<TerminalReason>,
    /// Why it was canceled, in the words of whoever did it.
    pub cancel_reason: Option<String>,
    /// The job that took its place (L22).
    pub superseded_by: Option<JobId>,
    /// What else is remembered of it; boxed, because most jobs have none and records are copied often.
    pub marks: Option<Box<Marks>>,
}

/// One hold on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Who holds it.
    pub worker: WorkerId,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When its handler was started; none while it is only prefetched (C2).
    pub started_at: Option<Timestamp>,
}

/// How far a handler says it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Progress {
    /// From 0 to 100.
    pub percent: u8,
    /// In words.
    pub note: String,
}

/// The lease shown is not the current hold, so nothing was changed (L5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the lease on job {job} with fence {fence} is stale: the job has moved on and this write changed nothing"
)]
pub struct Stale {
    /// The job.
    pub job: JobId,
    /// The fence that was shown.
    pub fence: Fence,
}

/// Why a job cannot be taken. What is stored may be anything, so this is an answer and no panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unclaimable {
    /// Only a pending job is taken.
    #[error("a {0} job cannot be claimed")]
    State(State),
    /// The fence that was drawn does not grow: whoever counts them has gone back, as after a restore (L5).
    #[error("fence {drawn} was drawn, and the job has seen {seen}: the fence counter has gone backwards")]
    FenceWentBack {
        /// What was drawn.
        drawn: Fence,
        /// What the job has seen.
        seen: Fence,
    },
}

/// What a person asks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Call it off (L7).
    Cancel {
        /// Why, in the person's words.
        reason: String,
    },
    /// Hold it back (L8).
    Pause,
    /// Let it go again (L8).
    Resume,
    /// Drive a dead letter again (L9).
    Retry,
    /// Let it run: what it waited for in its workflow is there (W1).
    Release,
    /// Hand it what it waits for, or tell it that the time is up (W10).
    Signal {
        /// The hold under which it began to wait: any other is none of this signal's business.
        fence: Fence,
        /// The key of the signal.
        signal: String,
        /// True when the time is up and nobody sent one.
        timed_out: bool,
        /// The step that keeps it, with what comes.
        step: StepWrite,
    },
    /// Call it off because it cannot run in its workflow any more (W2, W4).
    PassBy {
        /// Why.
        cause: CancelCause,
    },
    /// Drive a dead letter again as a step of a plan (D4).
    Redrive {
        /// Which plan.
        plan: PlanId,
        /// Only code of this version or a later one may run it (D7).
        needs: Option<String>,
        /// How often it had been driven when the plan looked at it: another drive in between takes its turn away.
        redrives: u32,
    },
}

/// The answer to an [`Operation`].
#[derive(Debug, Clone, PartialEq)]
pub struct Operated {
    /// False when the job was already past it and nothing changed.
    pub changed: bool,
    /// Where the job is now.
    pub state: State,
    /// The run that the operation ended, if one was under way.
    pub ended_run: Option<Box<Attempt>>,
}

impl Record {
    /// The record of a job that has just been stored.
    #[must_use]
    pub fn new(spec: &Spec, run_at: Timestamp) -> Self {
        let part_of = spec.part_of();
        // Whether its turn has come is found out once it is stored, behind those that were stored before (L21).
        let waits = spec.ordering_key.is_some() || part_of.is_some_and(PartOf::waits);
        let marks = part_of.map(|part| Marks { workflow: Some(part.mark()), ..Marks::default() });
        Self {
            state: if waits { State::Waiting } else { State::Pending },
            run_at,
            expires_at: spec.start_by(run_at).into_iter().chain(spec.deferred_until(run_at)).min(),
            attempt: 0,
            crashes: 0,
            deferrals: 0,
            runs: 0,
            redrives: 0,
            fence: Fence::default(),
            hold: None,
            last_failed_run: None,
            progress: None,
            paused_from: None,
            finished_at: None,
            reason: None,
            cancel_reason: None,
            superseded_by: None,
            marks: marks.map(Box::new),
        }
    }

    /// True when a claim at `now` may take it (L2); whether its lane is open is another question.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.state == State::Pending && self.run_at <= now
    }

    /// True when it must not start any more (L19).
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|moment| moment < now)
    }

    /// True when a claim that has room for it starts it at once. A suspect is only held: its start is counted when its
    /// worker lets it run, alone or in a process of its own (C3, C5).
    #[must_use]
    pub const fn starts_when_claimed(&self) -> bool {
        self.crashes == 0
    }

    /// Takes the job for `worker`. A `started` claim counts the run at once; otherwise [`Record::start`] does (C5).
    ///
    /// # Errors
    /// [`Unclaimable`] when the job is not pending or `fence` does not grow; then nothing has changed.
    pub fn claim(
        &mut self,
        worker: WorkerId,
        fence: Fence,
        now: Timestamp,
        started: bool,
    ) -> Result<(), Unclaimable> {
        if fence <= self.fence {
            return Err(Unclaimable::FenceWentBack { drawn: fence, seen: self.fence });
        }
        self.claim_again(worker, fence, now, started)
    }

    /// Does a claim again that is stored already, whatever its fence: a hold is a hold, also when the counter of fences
    /// had gone back when it was made.
    ///
    /// # Errors
    /// [`Unclaimable::State`] when the job is not pending; then nothing has changed.
    pub fn claim_again(
        &mut self,
        worker: WorkerId,
        fence: Fence,
        now: Timestamp,
        started: bool,
    ) -> Result<(), Unclaimable> {
        self.state = next(self.state, Trigger::Claim).map_err(|_| Unclaimable::State(self.state))?;
        self.fence = fence;
        self.hold = Some(Hold { worker, claimed_at: now, started_at: started.then_some(now) });
        if started {
            self.runs = self.runs.saturating_add(1);
        }
        Ok(())
    }

    /// Counts the start of a prefetched job, before its handler runs (C5). Starting twice changes nothing.
    ///
    /// # Errors
    /// [`Stale`] when the lease is not the current hold.
    pub fn start(&mut self, lease: &Lease, now: Timestamp) -> Result<(), Stale> {
        let hold = self.held_by(lease)?;
        if hold.started_at.is_none() {
            self.hold = Some(Hold { started_at: Some(now), ..hold });
            self.runs = self.runs.saturating_add(1);
        }
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// The current hold, if `lease` is it.
    ///
    /// # Errors
    /// [`Stale`] when it is not.
    pub fn held_by(&self, lease: &Lease) -> Result<Hold, Stale> {
        match self.hold {
            Some(hold) if hold.worker == lease.worker && self.fence == lease.fence && self.is_running() => {
                Ok(hold)
            }
            _ => Err(Stale { job: lease.job, fence: lease.fence }),
        }
    }

    /// Ends the run that `lease` holds as `ending` says, and returns the ledger row for it.
    ///
    /// A job that was claimed but never started has no run to record: it returns without a row (C2).
    ///
    /// # Errors
    /// [`Stale`] when the lease is not the current hold.
    pub fn finish(
        &mut self,
        spec: &Spec,
        lease: &Lease,
        ending: &Ending,
        now: Timestamp,
    ) -> Result<Option<Attempt>, Stale> {
        let hold = self.held_by(lease)?;
        let trigger = ending.decision.verdict.trigger();
        let due_at = self.run_at;
        let stale = Stale { job: lease.job, fence: lease.fence };
        // Every verdict leaves running, which a held job is.
        self.state = next(self.state, trigger).map_err(|_| stale)?;
        self.hold = None;
        let output = self.take_output(ending.output.as_deref());
        let Some(started_at) = hold.started_at else {
            self.settle(spec, &ending.decision.verdict, now);
            return Ok(None);
        };
        self.charge(ending.cause);
        if ending.failure.is_some() {
            self.last_failed_run = Some(self.runs);
        }
        self.settle(spec, &ending.decision.verdict, now);
        self.remember_death(ending, now);
        Ok(Some(Attempt {
            number: self.runs,
            fence: lease.fence,
            worker: hold.worker,
            code_version: ending.code_version.clone(),
            cause: ending.cause,
            due_at,
            started_at,
            finished_at: now,
            failure: ending.failure.clone(),
            decision: (ending.cause != Cause::Succeeded).then(|| ending.decision.clone()),
            result: ending.result.clone(),
            warning: ending.warning.clone(),
            output,
        }))
    }

    fn charge(&mut self, cause: Cause) {
        let counter = if cause.charges_attempt() {
            &mut self.attempt
        } else if cause == Cause::Crash {
            &mut self.crashes
        } else if matches!(cause, Cause::Succeeded | Cause::Canceled) {
            return;
        } else {
            &mut self.deferrals
        };
        *counter = counter.saturating_add(1);
    }

    fn settle(&mut self, spec: &Spec, verdict: &Verdict, now: Timestamp) {
        match verdict {
            Verdict::Succeed => {
                self.finished_at = Some(now);
                self.last_failed_run = None;
            }
            Verdict::Retry { delay } => {
                self.run_at = now.after(*delay);
                self.mark(|marks| marks.deferred_since = None);
                self.wait_for_start(spec);
            }
            Verdict::Defer { delay } => {
                // What charges nothing does not begin the time again for which it may be kept from running (H7).
                let since = self.deferred_since();
                if spec.policy.max_deferral.is_some() {
                    self.mark(|marks| marks.deferred_since = Some(since));
                }
                self.run_at = now.after(*delay);
                self.wait_for_start(spec);
            }
            Verdict::Wait { signal, step, until } => {
                self.park(
                    spec,
                    SignalWait { signal: signal.clone(), step: step.clone(), until: *until },
                    now,
                );
            }
            Verdict::Dead { reason } => {
                self.finished_at = Some(now);
                self.reason = Some(*reason);
            }
            Verdict::Cancel { reason } => {
                self.finished_at = Some(now);
                self.cancel_reason = Some(reason.clone());
            }
        }
    }

    /// Marks an entry into the dead letters: the incident that counts it (D2), and the alert (D3).
    fn remember_death(&mut self, ending: &Ending, now: Timestamp) {
        let Verdict::Dead { reason } = ending.decision.verdict else { return };
        let incident = ending.incident().map(|failure| failure.fingerprint.clone());
        let about = ending
            .failure
            .as_ref()
            .map_or(reason.as_str(), |failure| failure.fingerprint.as_str())
            .to_owned();
        self.mark(|marks| {
            marks.incident = incident;
            marks.died_at_step = ending.step;
        });
        self.note_alert(&about, now);
    }

    /// Since when it is due, or would be if nobody had kept it from running (H7).
    fn deferred_since(&self) -> Timestamp {
        self.marks.as_ref().and_then(|marks| marks.deferred_since).unwrap_or(self.run_at)
    }

    /// A handed-back job keeps the moment it may not start after; waiting again counts again.
    pub(super) fn wait_for_start(&mut self, spec: &Spec) {
        let deferral = spec.deferred_until(self.deferred_since());
        self.expires_at = spec.start_by(self.run_at).into_iter().chain(deferral).min();
    }

    /// Fails a job whose time to start has passed (L19), or the time for which it may be kept from running (H7).
    /// Answers whether it did.
    pub fn expire(&mut self, spec: &Spec, now: Timestamp) -> bool {
        if !self.has_expired(now) {
            return false;
        }
        let Ok(state) = next(self.state, Trigger::Expire) else { return false };
        let deferred =
            spec.deferred_until(self.deferred_since()).is_some_and(|end| Some(end) == self.expires_at);
        let reason = if deferred { TerminalReason::DeferralExhausted } else { TerminalReason::Expired };
        self.state = state;
        self.finished_at = Some(now);
        self.reason = Some(reason);
        self.note_alert(reason.as_str(), now);
        true
    }

    /// Cancels the job because `successor` takes its place (L22).
    ///
    /// # Errors
    /// [`Refusal::NotReplaceable`] when it has started or ended.
    pub fn supersede(&mut self, id: JobId, successor: JobId, now: Timestamp) -> Result<(), Refusal> {
        let refusal = Refusal::NotReplaceable { job: id, state: self.state };
        self.state = match next(self.state, Trigger::Cancel) {
            // A running job can be canceled, but its place cannot be taken.
            Ok(state) if self.state != State::Running => state,
            _ => return Err(refusal),
        };
        self.finished_at = Some(now);
        self.cancel_reason = Some(format!("superseded by job {successor}"));
        self.superseded_by = Some(successor);
        self.paused_from = None;
        Ok(())
    }

    /// Does what a person asks.
    ///
    /// # Errors
    /// [`Refusal::WrongState`] when the state table has no such move.
    pub fn operate(
        &mut self,
        job: &StoredJob,
        operation: &Operation,
        now: Timestamp,
    ) -> Result<Operated, Refusal> {
        match operation {
            Operation::Cancel { reason } => Ok(self.cancel(reason, now)),
            Operation::Pause => self.pause(job),
            Operation::Resume => self.resume(job),
            Operation::Retry => self.retry(job, now),
            Operation::Release => self.release(job, now),
            Operation::Signal { fence, step, .. } => self.answer_wait(job, *fence, step, now),
            Operation::PassBy { cause } => {
                let operated = self.cancel(cause.as_str(), now);
                if operated.changed {
                    // Its workflow knows: there is nothing to note about this end.
                    self.mark(|marks| marks.workflow = None);
                }
                Ok(operated)
            }
            Operation::Redrive { plan, needs, redrives } => {
                if self.redrives != *redrives {
                    return Err(Refusal::MovedOn { job: job.spec.id });
                }
                let operated = self.retry(job, now)?;
                self.mark(|marks| {
                    marks.plan = Some(plan.clone());
                    marks.needs.clone_from(needs);
                });
                Ok(operated)
            }
        }
    }

    pub(super) fn answer(&self, changed: bool) -> Operated {
        Operated { changed, state: self.state, ended_run: None }
    }

    fn refuse(&self, job: &StoredJob, verb: &'static str) -> Refusal {
        Refusal::WrongState { job: job.spec.id, state: self.state, verb }
    }

    fn cancel(&mut self, reason: &str, now: Timestamp) -> Operated {
        let Ok(state) = next(self.state, Trigger::Cancel) else { return self.answer(false) };
        let ended_run = self.hold.take().and_then(|hold| self.canceled_run(hold, reason, now)).map(Box::new);
        self.state = state;
        self.paused_from = None;
        self.finished_at = Some(now);
        self.cancel_reason = Some(reason.to_owned());
        Operated { ended_run, ..self.answer(true) }
    }

    fn canceled_run(&mut self, hold: Hold, reason: &str, now: Timestamp) -> Option<Attempt> {
        let output = self.take_output(None);
        Some(Attempt {
            number: self.runs,
            fence: self.fence,
            worker: hold.worker,
            code_version: None,
            cause: Cause::Canceled,
            due_at: self.run_at,
            started_at: hold.started_at?,
            finished_at: now,
            failure: None,
            decision: Some(Decision::canceled(reason)),
            result: None,
            warning: None,
            output,
        })
    }

    fn pause(&mut self, job: &StoredJob) -> Result<Operated, Refusal> {
        if self.state == State::Paused {
            return Ok(self.answer(true));
        }
        let from = PausedFrom::of(self.state).ok_or_else(|| self.refuse(job, "paused"))?;
        self.state = next(self.state, Trigger::Pause).map_err(|_| self.refuse(job, "paused"))?;
        self.paused_from = Some(from);
        Ok(self.answer(true))
    }

    fn resume(&mut self, job: &StoredJob) -> Result<Operated, Refusal> {
        let into = self.paused_from.ok_or_else(|| self.refuse(job, "resumed"))?;
        self.state = next(self.state, Trigger::Resume { into }).map_err(|_| self.refuse(job, "resumed"))?;
        self.paused_from = None;
        Ok(self.answer(true))
    }

    /// What it waited for in its workflow is there (W1). The time in which it must start begins now.
    fn release(&mut self, job: &StoredJob, now: Timestamp) -> Result<Operated, Refusal> {
        if !self.take_turn() {
            return Err(self.refuse(job, "released"));
        }
        self.run_at = self.run_at.max(now);
        self.wait_for_start(&job.spec);
        Ok(self.answer(true))
    }

    fn retry(&mut self, job: &StoredJob, now: Timestamp) -> Result<Operated, Refusal> {
        self.state = next(self.state, Trigger::Redrive).map_err(|_| self.refuse(job, "retried"))?;
        self.attempt = 0;
        self.crashes = 0;
        self.deferrals = 0;
        self.reason = None;
        self.last_failed_run = None;
        self.finished_at = None;
        self.run_at = now;
        // A person who drives an expired job again means it to run: only the wait for a worker counts again.
        let patience = job.spec.policy.max_wait.map(|wait| now.after(wait));
        self.expires_at = patience.into_iter().chain(job.spec.deferred_until(now)).min();
        self.redrives = self.redrives.saturating_add(1);
        self.confirm_steps();
        // The alert stays: the same death again within the hour is no news (D3).
        self.mark(|marks| {
            marks.incident = None;
            marks.plan = None;
            marks.needs = None;
            marks.deferred_since = None;
            marks.died_at_step = None;
            marks.signal = None;
        });
        Ok(self.answer(true))
    }
}
