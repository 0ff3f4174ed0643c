//! One contender at work: every phase on an empty place, and the figures that come out.
//!
//! A phase that fails costs the figures of that phase and nothing else.
//! - [`rates`], [`latency`], [`failure`]: measured in rounds, in which the contenders take turns.
//! - [`pinned`], [`flat`], [`storm`], [`idle`]: measured once, each with what it is held against.
//! - [`list`]: the names of all figures.

mod failure;
mod flat;
mod idle;
mod latency;
mod list;
mod pinned;
mod rates;
mod storm;

use std::path::Path;
use std::time::Duration;

use super::contender::Contender;
use super::driver::{Driver, DriverReport};
use super::floor;
use super::json::Json;
use super::options::{CompareSizes, FigureFamily};
use super::progress::CompareProgress;
use super::stage::{BenchServers, EmptyStore};

pub(crate) use list::{ComparedMeasure, MEASURES};

/// No phase may take longer.
const LIMIT: Duration = Duration::from_secs(120);

/// Producers of the bulk enqueue: one for each core of a small machine.
const BULK_CLIENTS: u32 = 2;

/// Jobs of a phase at a steady rate that drivers run first and do not count.
const WARM_UP: u32 = 50;

/// What one round says about one measure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredRound {
    pub(crate) measure: String,
    pub(crate) value: Result<f64, String>,
    /// The value is of the first seconds of the work, because all of it would have taken too long.
    pub(crate) partial: bool,
}

/// One contender at work.
pub(crate) struct ContenderRun<'a> {
    pub(crate) contender: &'a Contender,
    pub(crate) driver: Option<&'a Driver>,
    pub(crate) stage: &'a mut BenchServers,
    pub(crate) sizes: &'a CompareSizes,
    pub(crate) parts: &'a [FigureFamily],
    /// For files of this run.
    pub(crate) folder: &'a Path,
    pub(crate) progress: &'a CompareProgress,
    /// Whose turn it is, in words.
    pub(crate) who: String,
}

impl ContenderRun<'_> {
    /// Does once what is measured in rounds.
    pub(crate) fn round(&mut self) -> Vec<MeasuredRound> {
        let (ours, floor) = (self.contender.is_ours(), self.contender.is_floor());
        let mut found = Vec::new();
        for part in self.parts {
            match part {
                FigureFamily::Rates => found.extend(self.rates()),
                FigureFamily::Latency if !floor => found.extend(self.latencies()),
                FigureFamily::Failure if ours => found.extend(self.failures()),
                _ => {}
            }
        }
        found
    }

    /// Does what is measured once, with what each figure is held against.
    pub(crate) fn once(&mut self) -> Vec<MeasuredRound> {
        let ours = self.contender.is_ours();
        let mut found = Vec::new();
        for part in self.parts {
            match part {
                FigureFamily::Flat => {
                    found.extend(self.pinned());
                    found.extend(self.flatness());
                }
                FigureFamily::Storm if ours => found.extend(self.storm()),
                FigureFamily::Idle if ours => found.extend(self.idle()),
                _ => {}
            }
        }
        found
    }

    fn say(&self, what: &str) {
        self.progress.say(&self.who, what);
    }

    fn place(&mut self) -> Result<EmptyStore, String> {
        let place = self.stage.fresh(self.contender.store)?;
        match self.driver {
            Some(driver) => drop(driver.run(&words("setup", &place, &[]), LIMIT)?),
            None => floor::setup(self.stage, &place)?,
        }
        Ok(place)
    }

    /// Does something with an empty place, which is gone afterwards whatever came of it.
    fn on_a_place<T>(
        &mut self,
        task: impl FnOnce(&mut Self, &EmptyStore) -> Result<T, String>,
    ) -> Result<T, String> {
        let place = self.place()?;
        let done = task(self, &place);
        self.stage.remove(&place);
        done
    }

    /// Runs a phase with the contender's driver.
    fn run(&self, phase: &str, place: &EmptyStore, options: &[(&str, u32)]) -> Result<DriverReport, String> {
        let driver = self.driver.ok_or("the floor has no driver")?;
        driver.run(&words(phase, place, options), LIMIT)
    }

    /// Stores jobs in bulk.
    fn fill(&self, place: &EmptyStore, jobs: u32, options: &[(&str, u32)]) -> Result<DriverReport, String> {
        let mut all = vec![("jobs", jobs), ("clients", BULK_CLIENTS)];
        all.extend(options);
        self.run("enqueue_bulk", place, &all)
    }

    /// Holds the driver's count against the tables: an engine that loses or skips jobs must not look fast.
    /// Up to `open` jobs may be on either side of the line.
    fn check(&self, place: &EmptyStore, expected: f64, open: f64) -> Result<(), String> {
        let Some(sql) = self.contender.unfinished else { return Ok(()) };
        let found = self.stage.number(place, sql).ok_or("its tables cannot be counted")?;
        if (found - expected).abs() <= open {
            return Ok(());
        }
        Err(format!("its tables hold {found} unfinished jobs where {expected} are expected"))
    }
}

/// The words of a driver's command line.
fn words(phase: &str, place: &EmptyStore, options: &[(&str, u32)]) -> Vec<String> {
    let mut words = vec![phase.to_owned(), "--url".to_owned(), place.url.clone()];
    words.extend(options.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]));
    words
}

fn value(measure: &str, value: f64) -> MeasuredRound {
    MeasuredRound { measure: measure.to_owned(), value: Ok(value), partial: false }
}

fn absent(measure: &str, reason: &str) -> MeasuredRound {
    MeasuredRound { measure: measure.to_owned(), value: Err(reason.to_owned()), partial: false }
}

/// What a phase found, or its reason for every figure that it would have had.
fn phase(names: &[&str], found: Result<Vec<MeasuredRound>, String>) -> Vec<MeasuredRound> {
    found.unwrap_or_else(|reason| names.iter().map(|name| absent(name, &reason)).collect())
}

/// Whole seconds, as drivers take them.
fn seconds(span: Duration) -> u32 {
    u32::try_from(span.as_secs()).unwrap_or(u32::MAX)
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
    fn every_figure_of_every_phase_is_a_measure() {
        let latency = latency::RATES.iter().flat_map(|rate| latency::names(*rate));
        let others = [&rates::DRAIN[..], &rates::SINGLE, &failure::FIRST, &failure::RETRY, &pinned::NAMES];
        let flat = [&flat::BACKLOG[..], &flat::HISTORY, &flat::QUEUES, &storm::NAMES, &idle::NAMES];
        let names = others.into_iter().chain(flat).flatten().map(|name| (*name).to_owned()).chain(latency);
        for name in names {
            assert!(MEASURES.iter().any(|measure| measure.name == name), "{name}");
        }
    }
}
