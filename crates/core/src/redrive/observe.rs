//! How a plan learns what became of the jobs it drove, and when it halts for it.

use std::cmp::Ordering;

use super::{Item, Outcome, Part, Phase, Plan};
use crate::job::{Glance, PausedFrom, State};
use crate::time::Timestamp;

/// What can be seen of a job that was driven.
#[derive(Debug, Clone, Copy)]
pub enum Sight<'a> {
    /// It is there.
    Job(&'a Glance),
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
    pub fn observe(&mut self, item: &mut Item, sight: Sight<'_>, now: Timestamp) -> Option<Outcome> {
        let outcome = self.outcome(item, sight)?;
        item.outcome = Some(outcome.clone());
        item.ended_at = Some(now);
        self.open = self.open.saturating_sub(1);
        self.count(&outcome);
        let is_canary = item.part == Part::Canary && item.round == self.round.number;
        if is_canary {
            self.round.canaries_open = self.round.canaries_open.saturating_sub(1);
            self.round.canaries_passed += u32::from(outcome == Outcome::Succeeded);
        }
        self.judge_failure(item, &outcome, is_canary, sight, now);
        Some(outcome)
    }

    fn outcome(&self, item: &Item, sight: Sight<'_>) -> Option<Outcome> {
        let job = match sight {
            Sight::Missing => return Some(Outcome::Gone),
            Sight::Archived(State::Succeeded) => return Some(Outcome::Succeeded),
            Sight::Archived(State::Canceled) => return Some(Outcome::Canceled),
            Sight::Archived(_) => return Some(Outcome::FailedOtherwise { fingerprint: None }),
            Sight::Job(job) => job,
        };
        if let Some(why) = self.not_driven(item, job) {
            return Some(Outcome::NotDriven { why: why.to_owned() });
        }
        if job.redrives > item.redrives {
            return Some(Outcome::DrivenByHand);
        }
        match job.rests {
            Some(State::Succeeded) => Some(Outcome::Succeeded),
            Some(State::Canceled) => Some(Outcome::Canceled),
            Some(State::Failed) => Some(died(item, job)),
            Some(State::Paused) if job.paused_from == Some(PausedFrom::Failed) => Some(died(item, job)),
            // Its own policy still retries it, but it has shown that the cause is still there.
            _ => (job.died_of.is_some() && job.died_of == item.fingerprint).then_some(Outcome::FailedAgain),
        }
    }

    /// Why the store refused the drive, which it can for a job that changed after the plan had looked at it.
    fn not_driven(&self, item: &Item, job: &Glance) -> Option<&'static str> {
        match job.redrives.cmp(&item.redrives) {
            Ordering::Less if job.rests == Some(State::Paused) => Some("it was paused before its turn came"),
            Ordering::Less => Some("another live job holds its business key"),
            Ordering::Equal if job.plan.as_ref() != Some(&self.id) => Some("somebody else drove it first"),
            Ordering::Equal | Ordering::Greater => None,
        }
    }

    fn count(&mut self, outcome: &Outcome) {
        let counts = &mut self.counts;
        if matches!(outcome, Outcome::NotDriven { .. }) {
            counts.driven = counts.driven.saturating_sub(1);
        }
        *match outcome {
            Outcome::Succeeded => &mut counts.succeeded,
            Outcome::FailedAgain => &mut counts.failed_same,
            Outcome::FailedOtherwise { .. } => &mut counts.failed_other,
            Outcome::Canceled => &mut counts.canceled,
            Outcome::Gone => &mut counts.gone,
            Outcome::DrivenByHand => &mut counts.by_hand,
            Outcome::NotDriven { .. } => &mut counts.skipped,
        } += 1;
    }

    fn judge_failure(
        &mut self,
        item: &Item,
        outcome: &Outcome,
        is_canary: bool,
        sight: Sight<'_>,
        now: Timestamp,
    ) {
        if !(self.phase.is_moving() || self.phase == Phase::Paused) || self.is_old_news(item, sight) {
            return;
        }
        match outcome {
            Outcome::FailedAgain => {
                let what = item
                    .fingerprint
                    .as_ref()
                    .map_or_else(String::new, |print| format!(" (incident {print})"));
                let why =
                    format!("job {} failed again of the same{what}: the cause is still there", item.job);
                self.halt(item.job, why, now);
            }
            Outcome::FailedOtherwise { .. } | Outcome::DrivenByHand if is_canary => {
                let why = format!("job {}, a canary, {}", item.job, because(outcome));
                self.halt(item.job, why, now);
            }
            Outcome::FailedOtherwise { .. } | Outcome::DrivenByHand => {
                self.round.failures = self.round.failures.saturating_add(1);
                if self.round.failures > self.settings.max_failures {
                    let many = self.round.failures;
                    let why = format!("{many} jobs failed otherwise, the latest was job {}", item.job);
                    self.halt(item.job, why, now);
                }
            }
            Outcome::Succeeded | Outcome::Canceled | Outcome::Gone | Outcome::NotDriven { .. } => {}
        }
    }

    /// True when the job of an earlier round ended before this one began: that round halted for its like already.
    fn is_old_news(&self, item: &Item, sight: Sight<'_>) -> bool {
        let ended_at = match sight {
            Sight::Job(job) => job.finished_at,
            Sight::Archived(_) | Sight::Missing => None,
        };
        item.round < self.round.number && ended_at.is_some_and(|end| end < self.round.began_at)
    }
}

/// What a dead letter died of this time, beside what it had died of before.
fn died(item: &Item, job: &Glance) -> Outcome {
    let same = match (&job.died_of, &item.fingerprint) {
        (Some(now), Some(before)) => now == before,
        // No run left an error, neither time: then the reason tells whether it is the same, such as `expired`.
        (None, None) => job.reason == item.reason,
        _ => false,
    };
    if same { Outcome::FailedAgain } else { Outcome::FailedOtherwise { fingerprint: job.died_of.clone() } }
}

const fn because(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::DrivenByHand => "was driven by somebody else before its end was seen, so it proves nothing",
        _ => "failed of something else: look at it before the rest follows",
    }
}
