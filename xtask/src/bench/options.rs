//! The command line of `cargo xtask bench compare`, and how much work that means.

use std::time::Duration;

use super::contender::{self, Contender};
use crate::error::TaskError;

/// What to compare, and with how much work.
#[derive(Clone, Debug)]
pub(crate) struct CompareOptions {
    pub(crate) quick: bool,
    pub(crate) contenders: Vec<&'static Contender>,
    pub(crate) parts: Vec<FigureFamily>,
    pub(crate) sizes: CompareSizes,
}

/// One family of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureFamily {
    /// Storing and running, and what it costs.
    Rates,
    /// From the acknowledgement to the handler.
    Latency,
    /// What fails, is tried again, and is driven again.
    Failure,
    /// Whether a rate stays when work, history or the number of queues grows.
    Flat,
    /// What failures do to another queue.
    Storm,
    /// What a worker costs that has nothing to do.
    Idle,
}

impl FigureFamily {
    /// All parts by the names that `--parts` knows, in the order in which they are measured.
    pub(crate) const ALL: [(&str, Self); 6] = [
        ("rates", Self::Rates),
        ("latency", Self::Latency),
        ("failure", Self::Failure),
        ("flat", Self::Flat),
        ("storm", Self::Storm),
        ("idle", Self::Idle),
    ];
}

/// How much work every contender gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompareSizes {
    /// Jobs of the backlog that is stored in bulk and drained.
    pub(crate) jobs: u32,
    /// Jobs that are stored one at a time.
    pub(crate) singles: u32,
    /// How long jobs come at each rate of the latency phases.
    pub(crate) latency_seconds: u32,
    /// How often rates, latency and the failure path are measured; the median counts.
    pub(crate) rounds: u32,
    /// When a drain stops and tells how far it came.
    pub(crate) drain_limit: Duration,
    /// How often a backlog is stored and drained while a transaction is held open.
    pub(crate) pinned_rounds: u32,
    /// How often Backstop does that from the beginning.
    pub(crate) pinned_sessions: u32,
    /// How often the rates are measured that are held against each other.
    pub(crate) repeats: u32,
    /// Jobs of the large backlog.
    pub(crate) backlog: u32,
    /// Finished jobs of the long history.
    pub(crate) history: u32,
    /// How long a steady queue goes on alone, and beside a storm.
    pub(crate) storm_seconds: u32,
    /// How long an idle worker is watched.
    pub(crate) idle_seconds: u32,
}

impl CompareSizes {
    /// All of it takes about 50 minutes on two cores.
    pub(crate) const FULL: Self = Self {
        jobs: 50_000,
        singles: 10_240,
        latency_seconds: 10,
        rounds: 3,
        drain_limit: Duration::from_secs(20),
        pinned_rounds: 10,
        pinned_sessions: 3,
        repeats: 3,
        backlog: 2_000_000,
        history: 10_000_000,
        storm_seconds: 10,
        idle_seconds: 20,
    };

    const QUICK: Self = Self {
        jobs: 10_000,
        singles: 2_560,
        latency_seconds: 4,
        rounds: 1,
        drain_limit: Duration::from_secs(15),
        pinned_rounds: 6,
        pinned_sessions: 1,
        repeats: 1,
        backlog: 100_000,
        history: 100_000,
        storm_seconds: 3,
        idle_seconds: 4,
    };
}

impl CompareOptions {
    /// Only a full run of everything with everybody is fit to be shown to others.
    pub(crate) fn is_complete(&self) -> bool {
        let everything =
            self.contenders.len() == contender::ALL.len() && self.parts.len() == FigureFamily::ALL.len();
        !self.quick && self.sizes == CompareSizes::FULL && everything
    }

    /// Reads the words behind `compare`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, TaskError> {
        let quick = words.iter().any(|word| word == "--quick");
        let sizes = if quick { CompareSizes::QUICK } else { CompareSizes::FULL };
        let everything = FigureFamily::ALL.iter().map(|(_, part)| *part).collect();
        let mut read = Self { quick, contenders: contender::ALL.iter().collect(), parts: everything, sizes };
        let mut words = words.iter().filter(|word| *word != "--quick");
        while let Some(word) = words.next() {
            let mut value =
                || words.next().ok_or_else(|| TaskError::Usage(format!("`{word}` needs a value")));
            match word.as_str() {
                "--only" => read.contenders = chosen(value()?)?,
                "--parts" => read.parts = parts(value()?)?,
                "--jobs" => read.sizes.jobs = number(word, value()?)?,
                "--rounds" => read.sizes.rounds = number(word, value()?)?,
                _ => {
                    return Err(TaskError::Usage(format!("`bench compare` has no option `{word}`; {USAGE}")));
                }
            }
        }
        if !read.sizes.jobs.is_multiple_of(JOBS_STEP) {
            return Err(TaskError::Usage(format!("`--jobs` takes a multiple of {JOBS_STEP}")));
        }
        Ok(read)
    }
}

/// Two producers send whole batches of 1,000.
const JOBS_STEP: u32 = 2_000;

const USAGE: &str = "it takes --quick, --only NAME,..., --parts NAME,..., --jobs N and --rounds N";

/// The contenders of these names, and Backstop on the same kind of store, which the others are held against.
fn chosen(names: &str) -> Result<Vec<&'static Contender>, TaskError> {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = names.iter().find(|name| contender::ALL.iter().all(|known| known.name != **name)) {
        let known: Vec<&str> = contender::ALL.iter().map(|contender| contender.name).collect();
        return Err(TaskError::Usage(format!("no contender `{unknown}`; there are {}", known.join(", "))));
    }
    let is_asked = |contender: &&Contender| names.contains(&contender.name);
    let bases: Vec<&str> = contender::ALL.iter().filter(is_asked).map(|asked| asked.base()).collect();
    Ok(contender::ALL.iter().filter(|known| is_asked(known) || bases.contains(&known.name)).collect())
}

/// The parts of these names, in the order in which they are measured.
fn parts(names: &str) -> Result<Vec<FigureFamily>, TaskError> {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    let known: Vec<&str> = FigureFamily::ALL.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(*name)) {
        return Err(TaskError::Usage(format!("no part `{unknown}`; there are {}", known.join(", "))));
    }
    let chosen: Vec<FigureFamily> =
        FigureFamily::ALL.iter().filter(|(name, _)| names.contains(name)).map(|(_, part)| *part).collect();
    if chosen.is_empty() {
        return Err(TaskError::Usage(format!("`--parts` names none of {}", known.join(", "))));
    }
    Ok(chosen)
}

fn number(option: &str, word: &str) -> Result<u32, TaskError> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| TaskError::Usage(format!("`{option}` takes a number of at least 1, not `{word}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<CompareOptions, TaskError> {
        CompareOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn everything_is_the_default_and_only_that_is_shown_to_others() {
        assert!(parse("").unwrap().is_complete());
        for less in ["--quick", "--jobs 2000", "--rounds 1", "--only pg-boss", "--parts rates"] {
            assert!(!parse(less).unwrap().is_complete(), "{less}");
        }
    }

    #[test]
    fn a_choice_brings_what_it_is_held_against() {
        let names = |line: &str| -> Vec<&str> {
            parse(line).unwrap().contenders.iter().map(|contender| contender.name).collect()
        };
        assert_eq!(names("--only pg-boss"), ["backstop-postgres", "pg-boss"]);
        assert_eq!(names("--only apalis-sqlite,pg-boss").len(), 4);
        assert_eq!(names("--only backstop-sqlite"), ["backstop-sqlite"]);
    }

    #[test]
    fn parts_are_measured_in_their_order_and_each_once() {
        let read = |line: &str| parse(line).unwrap().parts;
        assert_eq!(read("--parts idle,rates,idle"), [FigureFamily::Rates, FigureFamily::Idle]);
        assert_eq!(read("").len(), FigureFamily::ALL.len());
        assert!(parse("--parts idle,storm,flat,failure,latency,rates").unwrap().is_complete());
    }

    #[test]
    fn wrong_words_are_wrong_usage() {
        let sizes = ["--fast", "--jobs", "--jobs 0", "--jobs 3000", "--rounds x"];
        let names = ["--only nobody", "--parts tea", "--parts", "--parts ,"];
        for line in sizes.into_iter().chain(names) {
            assert!(matches!(parse(line), Err(TaskError::Usage(_))), "{line}");
        }
    }
}
