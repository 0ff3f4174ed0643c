//! Who does what when: rounds in which the contenders take turns, then what is measured once.

use std::fs;
use std::path::Path;

use super::driver::Driver;
use super::measure::{ContenderRun, MeasuredRound};
use super::options::CompareOptions;
use super::progress::CompareProgress;
use super::results::Results;
use super::stage::BenchServers;

/// What is known so far, below the folder of the comparison: a run that is stopped leaves its figures there.
const SO_FAR: &str = "compare-so-far.json";

/// A comparison on its way.
pub(crate) struct Comparison<'a> {
    pub(crate) options: &'a CompareOptions,
    /// In the order of the results' rows.
    pub(crate) drivers: &'a [Result<Option<Driver>, String>],
    pub(crate) stage: &'a mut BenchServers,
    pub(crate) folder: &'a Path,
    pub(crate) progress: &'a CompareProgress,
    pub(crate) results: &'a mut Results,
}

impl Comparison<'_> {
    /// Lets everybody do everything.
    pub(crate) fn take(&mut self) {
        let rounds = self.options.sizes.rounds;
        for round in 1..=rounds {
            self.everybody(&format!(", round {round} of {rounds}"), |turn| turn.round());
        }
        self.everybody("", |turn| turn.once());
    }

    fn everybody(&mut self, when: &str, task: fn(&mut ContenderRun<'_>) -> Vec<MeasuredRound>) {
        for (at, driver) in self.drivers.iter().enumerate() {
            let row = &mut self.results.rows[at];
            if row.absent.is_some() {
                continue;
            }
            let mut turn = ContenderRun {
                contender: row.contender,
                driver: driver.as_ref().ok().and_then(Option::as_ref),
                stage: self.stage,
                sizes: &self.options.sizes,
                parts: &self.options.parts,
                folder: self.folder,
                progress: self.progress,
                who: format!("{}{when}", row.contender.name),
            };
            row.add(task(&mut turn));
            self.keep();
        }
    }

    /// Writes what is known so far. It is a help for whoever stops the run, so a failure stops nothing.
    fn keep(&self) {
        let path = self.folder.join(SO_FAR);
        if let Err(error) = fs::write(&path, self.results.json().pretty()) {
            eprintln!("xtask: cannot write {}: {error}", path.display());
        }
    }
}
