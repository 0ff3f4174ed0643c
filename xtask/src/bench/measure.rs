//! One round of one contender: every phase on an empty place, and the figures that come out.
//!
//! A phase that fails costs the figures of that phase and nothing else.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::contender::Contender;
use super::driver::{Answered, Driver};
use super::figures::quantile;
use super::floor;
use super::json::Json;
use super::options::Sizes;
use super::stage::{Place, Stage, Written};

/// No phase may take longer.
const LIMIT: Duration = Duration::from_secs(120);

/// Producers of the bulk enqueue: one for each core of a small machine.
const BULK_CLIENTS: u32 = 2;

/// Producers of single jobs.
const SINGLE_CLIENTS: u32 = 64;

/// The rates of the latency phases.
const RATES: [u32; 2] = [100, 2_000];

/// Jobs of a latency phase that drivers run first and do not count.
const WARM_UP: u32 = 50;

/// Jobs that may be under way when a drain is stopped: handlers have run whose endings are not stored, or are a moment
/// later.
const STOPPED_EARLY: f64 = 2_000.0;

/// How long the server may take to add up what its closed sessions have done.
const ADDING_UP: Duration = Duration::from_millis(300);

/// What is measured, by name; the tables are made of these.
pub(crate) const MEASURES: [Measure; 14] = [
    Measure { name: "enqueue_bulk", title: "bulk enqueue", unit: "jobs/s" },
    Measure { name: "enqueue_single", title: "single enqueue, 64 clients", unit: "jobs/s" },
    Measure { name: "drain", title: "drain of a backlog", unit: "jobs/s" },
    Measure { name: "latency_100_p50", title: "p50 at 100/s", unit: "ms" },
    Measure { name: "latency_100_p99", title: "p99 at 100/s", unit: "ms" },
    Measure { name: "latency_100_p999", title: "p99.9 at 100/s", unit: "ms" },
    Measure { name: "latency_2000_p50", title: "p50 at 2,000/s", unit: "ms" },
    Measure { name: "latency_2000_p99", title: "p99 at 2,000/s", unit: "ms" },
    Measure { name: "latency_2000_p999", title: "p99.9 at 2,000/s", unit: "ms" },
    Measure { name: "fail", title: "failures for good", unit: "jobs/s" },
    Measure { name: "retry", title: "jobs that fail once and succeed", unit: "jobs/s" },
    Measure { name: "log_bytes", title: "log written for a job", unit: "bytes" },
    Measure { name: "commits", title: "commits for a job", unit: "commits" },
    Measure { name: "memory", title: "peak memory of the worker", unit: "MB" },
];

/// One column of the comparison.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
}

/// What one round says about one measure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) measure: String,
    pub(crate) value: Result<f64, String>,
    /// The value is of the first seconds of the work, because all of it would have taken too long.
    pub(crate) partial: bool,
}

/// One contender at work.
pub(crate) struct Turn<'a> {
    pub(crate) contender: &'a Contender,
    pub(crate) driver: Option<&'a Driver>,
    pub(crate) stage: &'a mut Stage,
    pub(crate) sizes: &'a Sizes,
    /// For files of this run.
    pub(crate) folder: &'a Path,
}

impl Turn<'_> {
    /// Does every phase once.
    pub(crate) fn take(&mut self) -> Vec<Found> {
        let names = ["enqueue_bulk", "drain", "log_bytes", "commits"];
        let mut found = phase(&names, self.fill_and_drain());
        found.extend(phase(&["enqueue_single"], self.single()));
        if self.contender.is_ours() {
            found.extend(phase(&["fail"], self.fill_and("fail")));
            found.extend(phase(&["retry"], self.fill_and("retry")));
        }
        if !self.contender.is_floor() {
            for rate in RATES {
                let names = ["p50", "p99", "p999"].map(|end| format!("latency_{rate}_{end}"));
                let names = [names[0].as_str(), names[1].as_str(), names[2].as_str()];
                found.extend(phase(&names, self.latency(rate)));
            }
        }
        found
    }

    fn place(&mut self) -> Result<Place, String> {
        let place = self.stage.fresh(self.contender.store)?;
        match self.driver {
            Some(driver) => drop(driver.run(&words("setup", &place, &[]), LIMIT)?),
            None => floor::setup(self.stage, &place)?,
        }
        Ok(place)
    }

    fn fill_and_drain(&mut self) -> Result<Vec<Found>, String> {
        let place = self.place()?;
        let found = self.fill_and_drain_at(&place);
        self.stage.remove(&place);
        found
    }

    fn fill_and_drain_at(&mut self, place: &Place) -> Result<Vec<Found>, String> {
        let jobs = self.sizes.jobs;
        let (filled, fill_cost) = self.metered(place, |turn| match turn.driver {
            Some(driver) => {
                driver.run(&words("enqueue_bulk", place, &[("jobs", jobs), ("clients", BULK_CLIENTS)]), LIMIT)
            }
            None => floor::enqueue_bulk(place, turn.folder, jobs).map(from_floor),
        })?;
        let stored = rate(&filled.answer)?;
        self.check(place, f64::from(jobs), 0.0)?;
        let limit = u32::try_from(self.sizes.drain_limit.as_secs()).unwrap_or(u32::MAX);
        let (drained, drain_cost) = self.metered(place, |turn| match turn.driver {
            Some(driver) => driver.run(&words("drain", place, &[("jobs", jobs), ("limit", limit)]), LIMIT),
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
            Found { partial, ..value("drain", done.a_second()) },
        ];
        found.extend(
            per_job(fill_cost.log_bytes, drain_cost.log_bytes).map(|bytes| value("log_bytes", bytes)),
        );
        found.extend(per_job(fill_cost.commits, drain_cost.commits).map(|commits| value("commits", commits)));
        found.extend(megabytes.filter(|_| !self.contender.is_floor()).map(|peak| value("memory", peak)));
        Ok(found)
    }

    /// Stores a backlog, and does a phase with it.
    fn fill_and(&mut self, name: &str) -> Result<Vec<Found>, String> {
        let place = self.place()?;
        let driver = self.driver.ok_or("the floor has no handlers")?;
        let jobs = self.sizes.jobs;
        let limit = u32::try_from(self.sizes.drain_limit.as_secs()).unwrap_or(u32::MAX);
        driver.run(&words("enqueue_bulk", &place, &[("jobs", jobs), ("clients", BULK_CLIENTS)]), LIMIT)?;
        self.stage.settle(&place)?;
        let answered = driver.run(&words(name, &place, &[("jobs", jobs), ("limit", limit)]), LIMIT)?;
        self.stage.remove(&place);
        let done = rate(&answered.answer)?;
        Ok(vec![Found { partial: done.jobs < f64::from(jobs), ..value(name, done.a_second()) }])
    }

    fn single(&mut self) -> Result<Vec<Found>, String> {
        let place = self.place()?;
        let jobs = self.sizes.singles;
        let (answered, _) = self.metered(&place, |turn| match turn.driver {
            Some(driver) => {
                let options = [("jobs", jobs), ("clients", SINGLE_CLIENTS)];
                driver.run(&words("enqueue_single", &place, &options), LIMIT)
            }
            None => floor::enqueue_single(&place, turn.folder, jobs, SINGLE_CLIENTS).map(from_floor),
        })?;
        let stored = rate(&answered.answer)?;
        self.check(&place, f64::from(jobs), 0.0)?;
        self.stage.remove(&place);
        Ok(vec![value("enqueue_single", stored.a_second())])
    }

    fn latency(&mut self, rate: u32) -> Result<Vec<Found>, String> {
        let place = self.place()?;
        self.stage.settle(&place)?;
        let jobs = rate * self.sizes.latency_seconds + WARM_UP;
        let driver = self.driver.ok_or("the floor has no handlers")?;
        let answered =
            driver.run(&words("latency", &place, &[("jobs", jobs), ("rate", rate), ("limit", 30)]), LIMIT)?;
        self.stage.remove(&place);
        let mut waits = answered.answer.numbers_at("waits_us").ok_or("its answer has no waits")?;
        let wanted = jobs - WARM_UP;
        if waits.len() != usize::try_from(wanted).unwrap_or_default() {
            return Err(format!("{} of {wanted} jobs were started within 30 s of the last one", waits.len()));
        }
        waits.sort_by(f64::total_cmp);
        let at = |end: &str, per_mille: usize| {
            let millis = quantile(&waits, per_mille).unwrap_or(f64::NAN) / 1_000.0;
            value(&format!("latency_{rate}_{end}"), millis)
        };
        Ok(vec![at("p50", 500), at("p99", 990), at("p999", 999)])
    }

    /// Runs a phase between two looks at what the server has written.
    fn metered(
        &mut self,
        place: &Place,
        phase: impl FnOnce(&Self) -> Result<Answered, String>,
    ) -> Result<(Answered, Written), String> {
        self.stage.settle(place)?;
        thread::sleep(ADDING_UP);
        let before = self.stage.written(place);
        let answered = phase(self)?;
        thread::sleep(ADDING_UP);
        Ok((answered, self.stage.written(place).since(before)))
    }

    /// Holds the driver's count against the tables: an engine that loses or skips jobs must not look fast.
    /// Up to `open` jobs may be on either side of the line.
    fn check(&self, place: &Place, expected: f64, open: f64) -> Result<(), String> {
        let Some(sql) = self.contender.unfinished else { return Ok(()) };
        let found = self.stage.number(place, sql).ok_or("its tables cannot be counted")?;
        if (found - expected).abs() <= open {
            return Ok(());
        }
        Err(format!("its tables hold {found} unfinished jobs where {expected} are expected"))
    }
}

fn from_floor(answer: Json) -> Answered {
    Answered { answer, peak_bytes: None }
}

fn words(phase: &str, place: &Place, options: &[(&str, u32)]) -> Vec<String> {
    let mut words = vec![phase.to_owned(), "--url".to_owned(), place.url.clone()];
    words.extend(options.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]));
    words
}

fn value(measure: &str, value: f64) -> Found {
    Found { measure: measure.to_owned(), value: Ok(value), partial: false }
}

/// What a phase found, or its reason for every figure that it would have had.
fn phase(names: &[&str], found: Result<Vec<Found>, String>) -> Vec<Found> {
    found.unwrap_or_else(|reason| {
        let absent =
            |name: &&str| Found { measure: (*name).to_owned(), value: Err(reason.clone()), partial: false };
        names.iter().map(absent).collect()
    })
}

/// Jobs and the time they took.
struct Rate {
    jobs: f64,
    seconds: f64,
}

impl Rate {
    fn a_second(&self) -> f64 {
        self.jobs / self.seconds
    }
}

fn rate(answer: &Json) -> Result<Rate, String> {
    let number = |name: &str| answer.number_at(name).filter(|number| *number > 0.0);
    match (number("jobs"), number("seconds")) {
        (Some(jobs), Some(seconds)) => Ok(Rate { jobs, seconds }),
        _ => Err(format!("its answer has no jobs and seconds: {answer}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_phase_gives_its_reason_for_each_of_its_figures() {
        let found = phase(&["drain", "memory"], Err("it is gone".to_owned()));
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|found| found.value == Err("it is gone".to_owned())));
        assert_eq!(phase(&["drain"], Ok(vec![value("drain", 2.0)]))[0].value, Ok(2.0));
    }

    #[test]
    fn an_answer_without_work_is_no_rate() {
        let answer = |text: &str| rate(&Json::parse(text).unwrap()).map(|rate| rate.a_second());
        assert_eq!(answer(r#"{"jobs":10,"seconds":2}"#), Ok(5.0));
        assert!(answer(r#"{"jobs":0,"seconds":2}"#).is_err());
        assert!(answer("{}").is_err());
    }

    #[test]
    fn every_figure_of_a_latency_phase_is_a_measure() {
        for rate in RATES {
            for end in ["p50", "p99", "p999"] {
                let name = format!("latency_{rate}_{end}");
                assert!(MEASURES.iter().any(|measure| measure.name == name), "{name}");
            }
        }
    }
}
