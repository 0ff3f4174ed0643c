//! How fast jobs are stored and run, and what the server and the worker pay for it.

use std::thread;
use std::time::Duration;

use super::super::driver::DriverReport;
use super::super::floor;
use super::super::json::Json;
use super::super::stage::{EmptyStore, WrittenBytes};
use super::{ContenderRun, MeasuredRound, phase, rate, seconds, value};

/// The figures of a backlog that is stored and drained; memory is told where there is a worker.
pub(super) const DRAIN: [&str; 4] = ["enqueue_bulk", "drain", "log_bytes", "commits"];

/// The figures of jobs that are stored one at a time.
pub(super) const SINGLE: [&str; 1] = ["enqueue_single"];

/// Producers of single jobs.
const SINGLE_CLIENTS: u32 = 64;

/// Jobs that may be under way when a drain is stopped: handlers have run whose endings are not stored, or are a moment
/// later.
const STOPPED_EARLY: f64 = 2_000.0;

/// How long the server may take to add up what its closed sessions have done.
const ADDING_UP: Duration = Duration::from_millis(300);

impl ContenderRun<'_> {
    pub(super) fn rates(&mut self) -> Vec<MeasuredRound> {
        self.say("bulk enqueue and drain");
        let mut found = phase(&DRAIN, self.on_a_place(Self::fill_and_drain));
        self.say("single enqueue");
        found.extend(phase(&SINGLE, self.on_a_place(Self::single)));
        found
    }

    fn fill_and_drain(&mut self, place: &EmptyStore) -> Result<Vec<MeasuredRound>, String> {
        let jobs = self.sizes.jobs;
        let limit = seconds(self.sizes.drain_limit);
        let (filled, fill_cost) = self.metered(place, |turn| match turn.driver {
            Some(_) => turn.fill(place, jobs, &[]),
            None => floor::enqueue_bulk(place, turn.folder, jobs).map(from_floor),
        })?;
        let stored = rate(&filled.answer)?;
        self.check(place, f64::from(jobs), 0.0)?;
        let (drained, drain_cost) = self.metered(place, |turn| match turn.driver {
            Some(_) => turn.run("drain", place, &[("jobs", jobs), ("limit", limit)]),
            None => floor::drain(place, turn.folder, jobs).map(from_floor),
        })?;
        let done = rate(&drained.answer)?;
        let partial = done.jobs < f64::from(jobs);
        let open = if partial { STOPPED_EARLY } else { 0.0 };
        self.check(place, f64::from(jobs) - done.jobs, open)?;
        let per_job = |fill: Option<f64>, drain: Option<f64>| Some(fill? / stored.jobs + drain? / done.jobs);
        let megabytes = drained.peak_bytes.map(|bytes| bytes as f64 / 1e6);
        let mut found = vec![
            value("enqueue_bulk", stored.a_second()),
            MeasuredRound { partial, ..value("drain", done.a_second()) },
        ];
        found.extend(
            per_job(fill_cost.log_bytes, drain_cost.log_bytes).map(|bytes| value("log_bytes", bytes)),
        );
        found.extend(per_job(fill_cost.commits, drain_cost.commits).map(|commits| value("commits", commits)));
        found.extend(megabytes.filter(|_| !self.contender.is_floor()).map(|peak| value("memory", peak)));
        Ok(found)
    }

    fn single(&mut self, place: &EmptyStore) -> Result<Vec<MeasuredRound>, String> {
        let jobs = self.sizes.singles;
        let (answered, _) = self.metered(place, |turn| match turn.driver {
            Some(_) => turn.run("enqueue_single", place, &[("jobs", jobs), ("clients", SINGLE_CLIENTS)]),
            None => floor::enqueue_single(place, turn.folder, jobs, SINGLE_CLIENTS).map(from_floor),
        })?;
        let stored = rate(&answered.answer)?;
        self.check(place, f64::from(jobs), 0.0)?;
        Ok(vec![value("enqueue_single", stored.a_second())])
    }

    /// Runs a phase between two looks at what the server has written.
    fn metered(
        &mut self,
        place: &EmptyStore,
        phase: impl FnOnce(&Self) -> Result<DriverReport, String>,
    ) -> Result<(DriverReport, WrittenBytes), String> {
        self.stage.settle(place)?;
        thread::sleep(ADDING_UP);
        let before = self.stage.written(place);
        let answered = phase(self)?;
        thread::sleep(ADDING_UP);
        Ok((answered, self.stage.written(place).since(before)))
    }
}

fn from_floor(answer: Json) -> DriverReport {
    DriverReport { answer, peak_bytes: None }
}
