//! The failure path: jobs that fail for good and are driven again, and jobs that fail once.

use super::super::stage::EmptyStore;
use super::{ContenderRun, MeasuredRound, Rate, phase, rate, seconds, value};

/// The figures of a backlog that fails, and is then driven again.
pub(super) const FIRST: [&str; 2] = ["fail", "redrive"];

/// The figure of a backlog that fails once.
pub(super) const RETRY: [&str; 1] = ["retry"];

/// When a plan that is not done is stopped and tells how far it came, in seconds: it is longer on its way than a drain.
const REDRIVE_LIMIT: u32 = 60;

impl ContenderRun<'_> {
    pub(super) fn failures(&mut self) -> Vec<MeasuredRound> {
        let mut found = phase(&FIRST, self.on_a_place(Self::fail_and_redrive));
        self.say("jobs that fail once");
        found.extend(phase(
            &RETRY,
            self.on_a_place(|turn, place| {
                let done = turn.fill_and(place, "retry")?;
                Ok(vec![turn.figure("retry", &done, turn.sizes.jobs)])
            }),
        ));
        found
    }

    /// What has failed for good is there to be driven again.
    fn fail_and_redrive(&mut self, place: &EmptyStore) -> Result<Vec<MeasuredRound>, String> {
        self.say("failures for good");
        let jobs = self.sizes.jobs;
        let failed = self.fill_and(place, "fail")?;
        let mut found = vec![self.figure("fail", &failed, jobs)];
        self.say("driven again by a plan");
        let driven = self.redrive(place, &failed);
        found.extend(phase(&FIRST[1..], driven));
        Ok(found)
    }

    fn redrive(&mut self, place: &EmptyStore, failed: &Rate) -> Result<Vec<MeasuredRound>, String> {
        let jobs = self.sizes.jobs;
        if failed.jobs < f64::from(jobs) {
            return Err(format!("only {} of {jobs} jobs had failed in time", failed.jobs));
        }
        self.stage.settle(place)?;
        let answered = self.run("redrive", place, &[("jobs", jobs), ("limit", REDRIVE_LIMIT)])?;
        Ok(vec![self.figure("redrive", &rate(&answered.answer)?, jobs)])
    }

    /// Stores a backlog, and does a phase with it.
    fn fill_and(&mut self, place: &EmptyStore, name: &str) -> Result<Rate, String> {
        let jobs = self.sizes.jobs;
        self.fill(place, jobs, &[])?;
        self.stage.settle(place)?;
        let limit = seconds(self.sizes.drain_limit);
        rate(&self.run(name, place, &[("jobs", jobs), ("limit", limit)])?.answer)
    }

    fn figure(&self, name: &str, done: &Rate, jobs: u32) -> MeasuredRound {
        MeasuredRound { partial: done.jobs < f64::from(jobs), ..value(name, done.a_second()) }
    }
}
