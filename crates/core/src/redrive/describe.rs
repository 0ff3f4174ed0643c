//! Where a plan is and what comes next, in one sentence for people.

use super::selector::CandidateChoice;
use super::{Plan, PlanPhase};
use crate::job::JobView;

impl Plan {
    /// True when the plan is not over and this dead letter's turn is still to come.
    #[must_use]
    pub fn may_still_drive(&self, view: &JobView) -> bool {
        !self.phase.is_final()
            && self.cursor.is_none_or(|cursor| view.job.spec.id < cursor)
            && self.judge(view) == CandidateChoice::Drive
    }

    /// Where it is and what comes next, in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let id = &self.id;
        match self.phase {
            PlanPhase::Planned => format!(
                "planned: {} would be driven again; nothing happens until `backstop redrive start {id}`",
                jobs(self.expected)
            ),
            PlanPhase::Paused => format!(
                "paused by a person while it was {}: {}; `backstop redrive resume {id}` lets it go on",
                self.paused_from.map_or("on its way", PlanPhase::as_str),
                self.tally()
            ),
            PlanPhase::Halted => {
                let why = self.halted.as_ref().map_or("no reason was kept", |halt| halt.why.as_str());
                format!(
                    "halted: {why}; fix it, then `backstop redrive resume {id}` begins again with a canary ({})",
                    self.tally()
                )
            }
            PlanPhase::Canceled => format!("canceled by a person: {}", self.tally()),
            PlanPhase::Done => format!("done: {}", self.tally()),
            PlanPhase::Canary | PlanPhase::Gate | PlanPhase::Driving | PlanPhase::Draining => {
                self.describe_way()
            }
        }
    }

    fn describe_way(&self) -> String {
        let phase = self.phase;
        if self.waits_for_code && phase != PlanPhase::Gate && phase != PlanPhase::Draining {
            let needs = self.needs.as_deref().unwrap_or("a newer one");
            return format!(
                "{phase}: waits until a live worker has code version {needs} or a later one ({})",
                self.tally()
            );
        }
        match phase {
            PlanPhase::Canary => {
                let go = if self.settings.canary == 1 { "goes" } else { "go" };
                format!("canary: {} of {} {go} first", jobs(self.settings.canary.into()), self.expected)
            }
            PlanPhase::Gate => format!(
                "gate: waits for {} to end; the rest follows only when it has succeeded",
                match self.round.canaries_open {
                    1 => "its canary".to_owned(),
                    many => format!("its {many} canaries"),
                }
            ),
            PlanPhase::Draining => {
                format!("draining: all are driven; waits for the last to end ({})", self.tally())
            }
            _ => format!("{phase}: {}", self.tally()),
        }
    }

    /// What happened so far; counts of zero that nobody asks about are left out.
    #[must_use]
    pub fn tally(&self) -> String {
        let counts = &self.counts;
        let mut words =
            format!("{} of {} driven, {} succeeded", counts.driven, self.expected, counts.succeeded);
        let rest = [
            (counts.failed_same, "failed again"),
            (counts.failed_other, "failed otherwise"),
            (counts.canceled, "canceled"),
            (counts.gone, "gone"),
            (counts.by_hand, "driven by hand"),
            (counts.skipped, "left out"),
            (u64::from(self.open), "in flight"),
        ];
        for (count, what) in rest {
            if count > 0 {
                words.push_str(&format!(", {count} {what}"));
            }
        }
        words
    }
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}
