//! How a plan learns what became of the jobs it drove, and when it halts for it.

use std::cmp::Ordering;

use super::{Plan, PlanJob, PlanJobOutcome, PlanPart, PlanPhase};
use crate::job::{JobSummary, PausedFrom, State};
use crate::time::Timestamp;

/// What can be seen of a job that was driven.
#[derive(Debug, Clone, Copy)]
pub enum DrivenJob<'a> {
    /// It is there.
    Job(&'a JobSummary),
    /// It has ended so and was archived since.
    Archived(State),
    /// Nothing is left of it.
    Missing,
}

impl Plan {
    /// Looks at one job in flight; when it has ended, counts that, notes it on the item, and halts if it must.
    ///
    /// The same failure halts at once, also when the job's own policy still retries it: its next run proves nothing
    /// that this one did not. Any failure of a canary halts; other failures do when there are too many.
    pub fn observe(
        &mut self,
        item: &mut PlanJob,
        sight: DrivenJob<'_>,
        now: Timestamp,
    ) -> Option<PlanJobOutcome> {
        let outcome = self.outcome(item, sight)?;
        item.outcome = Some(outcome.clone());
        item.ended_at = Some(now);
        self.open = self.open.saturating_sub(1);
        self.count(&outcome);
        let is_canary = item.part == PlanPart::Canary && item.round == self.round.number;
        if is_canary {
            self.round.canaries_open = self.round.canaries_open.saturating_sub(1);
            self.round.canaries_passed += u32::from(outcome == PlanJobOutcome::Succeeded);
        }
        self.judge_failure(item, &outcome, is_canary, sight, now);
        Some(outcome)
    }

    fn outcome(&self, item: &PlanJob, sight: DrivenJob<'_>) -> Option<PlanJobOutcome> {
        let job = match sight {
            DrivenJob::Missing => return Some(PlanJobOutcome::Gone),
            DrivenJob::Archived(State::Succeeded) => return Some(PlanJobOutcome::Succeeded),
            DrivenJob::Archived(State::Canceled) => return Some(PlanJobOutcome::Canceled),
            DrivenJob::Archived(_) => return Some(PlanJobOutcome::FailedOtherwise { fingerprint: None }),
            DrivenJob::Job(job) => job,
        };
        if let Some(why) = self.not_driven(item, job) {
            return Some(PlanJobOutcome::NotDriven { why: why.to_owned() });
        }
        if job.redrives > item.redrives {
            return Some(PlanJobOutcome::DrivenByHand);
        }
        match job.rests {
            Some(State::Succeeded) => Some(PlanJobOutcome::Succeeded),
            Some(State::Canceled) => Some(PlanJobOutcome::Canceled),
            Some(State::Failed) => Some(died(item, job)),
            Some(State::Paused) if job.paused_from == Some(PausedFrom::Failed) => Some(died(item, job)),
            // Its own policy still retries it, but it has shown that the cause is still there.
            _ => (job.died_of.is_some() && job.died_of == item.fingerprint)
                .then_some(PlanJobOutcome::FailedAgain),
        }
    }

    /// Why the store refused the drive, which it can for a job that changed after the plan had looked at it.
    fn not_driven(&self, item: &PlanJob, job: &JobSummary) -> Option<&'static str> {
        match job.redrives.cmp(&item.redrives) {
            Ordering::Less if job.rests == Some(State::Paused) => Some("it was paused before its turn came"),
            Ordering::Less => Some("another live job holds its business key"),
            Ordering::Equal if job.plan.as_ref() != Some(&self.id) => Some("somebody else drove it first"),
            Ordering::Equal | Ordering::Greater => None,
        }
    }

    fn count(&mut self, outcome: &PlanJobOutcome) {
        let counts = &mut self.counts;
        if matches!(outcome, PlanJobOutcome::NotDriven { .. }) {
            counts.driven = counts.driven.saturating_sub(1);
        }
        *match outcome {
            PlanJobOutcome::Succeeded => &mut counts.succeeded,
            PlanJobOutcome::FailedAgain => &mut counts.failed_same,
            PlanJobOutcome::FailedOtherwise { .. } => &mut counts.failed_other,
            PlanJobOutcome::Canceled => &mut counts.canceled,
            PlanJobOutcome::Gone => &mut counts.gone,
            PlanJobOutcome::DrivenByHand => &mut counts.by_hand,
            PlanJobOutcome::NotDriven { .. } => &mut counts.skipped,
        } += 1;
    }

    fn judge_failure(
        &mut self,
        item: &PlanJob,
        outcome: &PlanJobOutcome,
        is_canary: bool,
        sight: DrivenJob<'_>,
        now: Timestamp,
    ) {
        if !(self.phase.is_moving() || self.phase == PlanPhase::Paused) || self.is_old_news(item, sight) {
            return;
        }
        match outcome {
            PlanJobOutcome::FailedAgain => {
                let what = item
                    .fingerprint
                    .as_ref()
                    .map_or_else(String::new, |print| format!(" (incident {print})"));
                let why = format!(
                    "job {} failed again with the same error{what}: the cause is still there",
                    item.job
                );
                self.halt(item.job, why, now);
            }
            PlanJobOutcome::FailedOtherwise { .. } | PlanJobOutcome::DrivenByHand if is_canary => {
                let why = format!("job {}, a canary, {}", item.job, because(outcome));
                self.halt(item.job, why, now);
            }
            PlanJobOutcome::FailedOtherwise { .. } | PlanJobOutcome::DrivenByHand => {
                self.round.failures = self.round.failures.saturating_add(1);
                if self.round.failures > self.settings.max_failures {
                    let many = self.round.failures;
                    let why = format!("{many} jobs failed in other ways, the latest was job {}", item.job);
                    self.halt(item.job, why, now);
                }
            }
            PlanJobOutcome::Succeeded
            | PlanJobOutcome::Canceled
            | PlanJobOutcome::Gone
            | PlanJobOutcome::NotDriven { .. } => {}
        }
    }

    /// True when the job of an earlier round ended before this one began: that round halted for its like already.
    fn is_old_news(&self, item: &PlanJob, sight: DrivenJob<'_>) -> bool {
        let ended_at = match sight {
            DrivenJob::Job(job) => job.finished_at,
            DrivenJob::Archived(_) | DrivenJob::Missing => None,
        };
        item.round < self.round.number && ended_at.is_some_and(|end| end < self.round.began_at)
    }
}

/// What a dead letter died of this time, beside what it had died of before.
fn died(item: &PlanJob, job: &JobSummary) -> PlanJobOutcome {
    let same = match (&job.died_of, &item.fingerprint) {
        (Some(now), Some(before)) => now == before,
        // No run left an error, neither time: then the reason tells whether it is the same, such as `expired`.
        (None, None) => job.reason == item.reason,
        _ => false,
    };
    if same {
        PlanJobOutcome::FailedAgain
    } else {
        PlanJobOutcome::FailedOtherwise { fingerprint: job.died_of.clone() }
    }
}

const fn because(outcome: &PlanJobOutcome) -> &'static str {
    match outcome {
        PlanJobOutcome::DrivenByHand => {
            "was driven by somebody else before its end was seen, so it proves nothing"
        }
        _ => "failed for another reason: look at it before the rest follows",
    }
}
