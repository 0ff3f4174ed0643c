//! Random work of people and plans, for scripts: what is said of incidents, written down, driven again, thrown away.

use std::time::Duration;

use backstop_core::JobId;
use backstop_core::incident::{IncidentUpdate, IncidentVerb};
use backstop_core::job::{
    NewJob, Operation, PlanId, SignalAnswer, SignalWait, Spec, State, StepFact, StepWrite,
};
use backstop_core::workflow::CancelCause;

use super::build::{fingerprint, id};
use super::command::ScriptCommand;
use super::draft::signal_wait;
use super::script::{KEYS, KINDS, MESSAGES, Script};
use crate::{Amend, Drawer, Duty, Edit, Expect};

pub(super) const VERSIONS: [&str; 4] = ["v1", "1.4", "2.0", "no version"];

impl Script {
    pub(super) fn say(&mut self) -> ScriptCommand {
        let version = self.dice.percent(30).then(|| self.dice.one_of(&VERSIONS).to_owned());
        let verb = match self.dice.between(1, 8) {
            1 => IncidentVerb::Acknowledge,
            2 => IncidentVerb::Mute,
            3 => IncidentVerb::Reopen,
            _ => IncidentVerb::Fix { version },
        };
        let note = self.dice.percent(50).then(|| self.dice.one_of(&MESSAGES).to_owned());
        let fingerprints = (0..self.count(2)).map(|_| fingerprint(self.dice.one_of(&MESSAGES))).collect();
        ScriptCommand::Say(fingerprints, IncidentUpdate { verb, by: "ann".to_owned(), note })
    }

    pub(super) fn redrive(&mut self) -> Operation {
        Operation::Redrive {
            plan: PlanId::from_number(self.dice.between(1, 3)),
            needs: self.dice.percent(50).then(|| self.dice.one_of(&VERSIONS).to_owned()),
            redrives: u32::try_from(self.dice.between(0, 3) / 3).unwrap_or(0),
        }
    }

    /// A job that probably died, and not long ago: those of long ago have been dealt with.
    fn dead_letter(&mut self) -> JobId {
        let recent = &self.dead[self.dead.len().saturating_sub(4)..];
        let dead = self.dice.pick(recent).filter(|_| self.dice.percent(90));
        dead.unwrap_or_else(|| self.job())
    }

    pub(super) fn amend(&mut self) -> ScriptCommand {
        let mut edits: Vec<Edit> = (0..self.count(3)).map(|_| self.edit()).collect();
        edits.sort_by(|a, b| (a.drawer, &a.key).cmp(&(b.drawer, &b.key)));
        edits.dedup_by(|a, b| (a.drawer, &a.key) == (b.drawer, &b.key));
        let mut operations: Vec<(JobId, Operation)> = Vec::new();
        for _ in 0..self.count(3) {
            let job = self.dead_letter();
            if operations.iter().all(|(named, _)| *named != job) {
                let operation = if self.dice.percent(60) { self.redrive() } else { Operation::Retry };
                operations.push((job, operation));
            }
        }
        let term = if self.dice.percent(30) { self.term(Duty::Redrive) } else { None };
        // Without throws of their own: what became of the latest step, and a job that comes with the change.
        let latest = self.latest;
        if let Some(rounds) = latest.checked_sub(8) {
            let step = id(rounds / 13 * 13 + 8);
            let cause = CancelCause::DependencyFailed;
            let what =
                if latest.is_multiple_of(3) { Operation::PassBy { cause } } else { Operation::Release };
            if operations.iter().all(|(named, _)| *named != step) {
                operations.push((step, what));
            }
        }
        // And a signal for what waits, or ran not long ago (W10).
        if let Some(hold) = self.past.last().filter(|_| !latest.is_multiple_of(5))
            && operations.iter().all(|(named, _)| *named != hold.lease.job)
        {
            let answer = SignalAnswer::Received(latest.into());
            let SignalWait { signal, step, .. } = signal_wait(self.now);
            let step = StepWrite { index: None, name: step, fact: StepFact::Done(answer.to_text()) };
            let (fence, timed_out) = (hold.lease.fence, false);
            operations.push((hold.lease.job, Operation::Signal { fence, signal, timed_out, step }));
        }
        let more =
            latest.is_multiple_of(4).then(|| NewJob::new(Spec::new(id(1_000_000 + latest), KINDS[0], "{}")));
        ScriptCommand::Amend(Amend {
            term,
            edits,
            operations,
            jobs: more.into_iter().collect(),
            strict: latest.is_multiple_of(3),
        })
    }

    fn edit(&mut self) -> Edit {
        let expect = match self.dice.between(1, 12) {
            1 => Expect::Absent,
            2 | 3 => Expect::Revision(1),
            4 => Expect::Revision(2),
            _ => Expect::Any,
        };
        Edit {
            drawer: self.dice.one_of(&[Drawer::Rules, Drawer::Plans]),
            key: self.dice.one_of(&KEYS).to_owned(),
            expect,
            body: self.dice.percent(80).then(|| self.dice.one_of(&MESSAGES).into()),
        }
    }

    pub(super) fn purge(&mut self) -> ScriptCommand {
        let only = self.dice.percent(50).then_some(State::Failed);
        ScriptCommand::Purge((0..self.count(2)).map(|_| self.dead_letter()).collect(), only)
    }

    pub(super) fn prune(&mut self) -> ScriptCommand {
        let Some(term) = self.term(Duty::Prune) else {
            return ScriptCommand::Lead(
                super::build::worker_id(1),
                vec![Duty::Prune],
                Duration::from_secs(60),
            );
        };
        ScriptCommand::Prune(term, self.millis(6_000), self.count(3))
    }
}
