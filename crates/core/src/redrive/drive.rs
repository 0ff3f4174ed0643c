//! What a plan may do now, and which jobs it takes.

use std::time::Duration;

use super::selector::CandidateChoice;
use super::{LeftOut, Plan, PlanJob, PlanJobOutcome, PlanPart, PlanPhase};
use crate::job::{JobView, Operation};
use crate::time::Timestamp;

/// Batches that one look at the jobs in flight should make room for, if so many have ended.
const BATCHES_AHEAD: u32 = 4;

/// What a plan wants after [`Plan::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanStep {
    /// Nothing now: it waits for jobs to end, for code, or for a person.
    Nothing,
    /// Nothing before this moment.
    Wait(Timestamp),
    /// Up to this many candidates, from behind its cursor, for [`Plan::take`].
    Candidates(u32),
}

/// A job to drive: the item and the operation go into one transaction with the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDrive {
    /// What is kept of it.
    pub item: PlanJob,
    /// What is asked of the store.
    pub operation: Operation,
}

/// What a plan made of the candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriveBatch {
    /// Jobs to drive.
    pub drives: Vec<PlanDrive>,
    /// Jobs that were met and left out, for the report.
    pub left_out: Vec<PlanJob>,
}

impl Plan {
    /// Moves through the phases as far as what was observed allows, and says what may be done now.
    ///
    /// `code_is_live` says whether a live worker has the code that the plan needs; it is not asked about otherwise.
    pub fn advance(&mut self, code_is_live: bool, now: Timestamp) -> PlanStep {
        self.settle(now);
        let most = self.most();
        self.waits_for_code = most.is_some() && self.needs.is_some() && !code_is_live;
        let Some(most) = most else { return PlanStep::Nothing };
        match self.next_batch_at {
            _ if self.waits_for_code || most == 0 => PlanStep::Nothing,
            Some(moment) if moment > now => PlanStep::Wait(moment),
            _ => PlanStep::Candidates(most),
        }
    }

    /// Takes from `candidates`, which are the dead letters behind the cursor, newest first; `more` says that others
    /// follow. Never more than [`Plan::advance`] allowed, whatever is offered.
    pub fn take(&mut self, candidates: &[JobView], more: bool, now: Timestamp) -> DriveBatch {
        let mut taken = DriveBatch::default();
        let most = self.most().filter(|_| !self.is_held_back(now)).unwrap_or(0);
        let part = match self.phase {
            PlanPhase::Canary => PlanPart::Canary,
            _ => PlanPart::Batch(self.batches.saturating_add(1)),
        };
        let mut offered = candidates.iter();
        while u32::try_from(taken.drives.len()).is_ok_and(|drives| drives < most) {
            let Some(view) = offered.next() else { break };
            // What does not lie behind the cursor has had its turn in this round.
            if self.cursor.is_none_or(|cursor| view.job.spec.id < cursor) {
                self.meet(view, part, now, &mut taken);
            }
        }
        self.round.exhausted |= most > 0 && !more && offered.len() == 0;
        self.note_drives(taken.drives.len(), part, now);
        taken
    }

    /// Moves from phase to phase while what is known allows.
    fn settle(&mut self, now: Timestamp) {
        loop {
            let proven = self.round.canaries_passed >= self.settings.canary;
            let next = match self.phase {
                PlanPhase::Canary if self.canaries_missing() == 0 || self.round.exhausted => PlanPhase::Gate,
                PlanPhase::Gate if self.round.canaries_open > 0 => return,
                PlanPhase::Gate if proven => PlanPhase::Driving,
                PlanPhase::Gate if self.round.exhausted => PlanPhase::Draining,
                // A canary was canceled or is gone: another one has to show that the rest may follow.
                PlanPhase::Gate => PlanPhase::Canary,
                PlanPhase::Driving if self.round.exhausted => PlanPhase::Draining,
                PlanPhase::Draining if self.open == 0 => PlanPhase::Done,
                _ => return,
            };
            self.phase = next;
            self.enter_phase(next, now);
        }
    }

    fn enter_phase(&mut self, phase: PlanPhase, now: Timestamp) {
        let what = match phase {
            PlanPhase::Canary => "another canary goes: one was canceled or is gone".to_owned(),
            PlanPhase::Driving => "the canaries succeeded, the rest follows".to_owned(),
            PlanPhase::Done => format!("done: {}", self.tally()),
            _ => return,
        };
        self.enter(now, None, what);
    }

    const fn canaries_missing(&self) -> u32 {
        let have = self.round.canaries_passed.saturating_add(self.round.canaries_open);
        self.settings.canary.saturating_sub(have)
    }

    /// How many jobs the phase, the batch and those in flight leave room for; none when the phase drives nothing.
    fn most(&self) -> Option<u32> {
        let wanted = match self.phase {
            PlanPhase::Canary => self.canaries_missing(),
            PlanPhase::Driving => u32::MAX,
            _ => return None,
        };
        let room = self.settings.in_flight.saturating_sub(self.open);
        Some(wanted.min(self.settings.batch).min(room))
    }

    /// True when the plan cannot go on without knowing what became of the jobs in flight. While there is room for more
    /// of them, looking at all of them before each batch would only hold it up: how many may fail unseen is what the
    /// number in flight says.
    #[must_use]
    pub const fn must_look(&self) -> bool {
        let full = self.open.saturating_add(self.settings.batch) > self.settings.in_flight;
        full || self.round.exhausted || !matches!(self.phase, PlanPhase::Driving)
    }

    /// True when what was seen leaves room for several batches: a plan that drives need not look any further then.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let wanted = self.settings.batch.saturating_mul(BATCHES_AHEAD).min(self.settings.in_flight);
        self.phase == PlanPhase::Driving && self.settings.in_flight.saturating_sub(self.open) >= wanted
    }

    /// True when a look may end where no more jobs have ended: those that were driven later hardly have. A canary is
    /// not passed by like this, nor what was in flight when a round began.
    #[must_use]
    pub const fn looks_by_age(&self) -> bool {
        matches!(self.phase, PlanPhase::Driving | PlanPhase::Draining)
    }

    fn is_held_back(&self, now: Timestamp) -> bool {
        self.waits_for_code || self.next_batch_at.is_some_and(|moment| moment > now)
    }

    fn meet(&mut self, view: &JobView, part: PlanPart, now: Timestamp, taken: &mut DriveBatch) {
        self.cursor = Some(view.job.spec.id);
        match self.judge(view) {
            CandidateChoice::Pass => {}
            CandidateChoice::LeaveOut(_)
                if self.reached.is_some_and(|reached| view.job.spec.id >= reached) => {}
            CandidateChoice::LeaveOut(why) => {
                self.counts.skipped += 1;
                taken.left_out.push(self.left_out(view, part, why, now));
            }
            CandidateChoice::Drive => {
                let operation = Operation::Redrive {
                    plan: self.id.clone(),
                    needs: self.needs.clone(),
                    redrives: view.record.redrives,
                };
                let redrives = view.record.redrives.saturating_add(1);
                taken.drives.push(PlanDrive { item: self.item(view, part, redrives, now), operation });
            }
        }
    }

    fn item(&self, view: &JobView, part: PlanPart, redrives: u32, now: Timestamp) -> PlanJob {
        PlanJob {
            job: view.job.spec.id,
            part,
            round: self.round.number,
            redrives,
            fingerprint: view.last_failure.as_ref().map(|failure| failure.fingerprint.clone()),
            reason: view.record.reason,
            driven_at: now,
            outcome: None,
            ended_at: None,
        }
    }

    fn left_out(&self, view: &JobView, part: PlanPart, why: LeftOut, now: Timestamp) -> PlanJob {
        let item = self.item(view, part, view.record.redrives, now);
        PlanJob { outcome: Some(PlanJobOutcome::from(why)), ended_at: Some(now), ..item }
    }

    fn note_drives(&mut self, drives: usize, part: PlanPart, now: Timestamp) {
        // A page has a thousand rows at most.
        let drives = u32::try_from(drives).unwrap_or(u32::MAX);
        if drives == 0 {
            return;
        }
        self.open = self.open.saturating_add(drives);
        self.counts.driven = self.counts.driven.saturating_add(u64::from(drives));
        match part {
            PlanPart::Canary => self.round.canaries_open = self.round.canaries_open.saturating_add(drives),
            PlanPart::Batch(number) => self.batches = number,
        }
        let micros = (u64::from(drives) * 1_000_000).div_ceil(u64::from(self.settings.per_second.max(1)));
        self.next_batch_at = Some(now.after(Duration::from_micros(micros)));
    }
}
