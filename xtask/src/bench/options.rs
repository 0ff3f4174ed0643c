//! The command line of `cargo xtask bench compare`, and how much work that means.

use std::time::Duration;

use super::contender::{self, Contender};
use crate::failure::Failure;

/// What to compare, and with how much work.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) contenders: Vec<&'static Contender>,
    pub(crate) sizes: Sizes,
}

/// How much work every contender gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Jobs of the backlog that is stored in bulk and drained.
    pub(crate) jobs: u32,
    /// Jobs that are stored one at a time.
    pub(crate) singles: u32,
    /// How long jobs come at each rate of the latency phases.
    pub(crate) latency_seconds: u32,
    /// How often everything is measured; the median counts.
    pub(crate) rounds: u32,
    /// When a drain stops and tells how far it came.
    pub(crate) drain_limit: Duration,
}

impl Sizes {
    const FULL: Self = Self {
        jobs: 50_000,
        singles: 10_240,
        latency_seconds: 20,
        rounds: 3,
        drain_limit: Duration::from_secs(60),
    };

    const QUICK: Self = Self {
        jobs: 10_000,
        singles: 2_560,
        latency_seconds: 4,
        rounds: 1,
        drain_limit: Duration::from_secs(15),
    };
}

impl Options {
    /// Only a full run of everybody is fit to be shown to others.
    pub(crate) fn is_complete(&self) -> bool {
        !self.quick && self.sizes == Sizes::FULL && self.contenders.len() == contender::ALL.len()
    }

    /// Reads the words behind `compare`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Failure> {
        let quick = words.iter().any(|word| word == "--quick");
        let sizes = if quick { Sizes::QUICK } else { Sizes::FULL };
        let mut read = Self { quick, contenders: contender::ALL.iter().collect(), sizes };
        let mut words = words.iter().filter(|word| *word != "--quick");
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Failure::Usage(format!("`{word}` needs a value")));
            match word.as_str() {
                "--only" => read.contenders = chosen(value()?)?,
                "--jobs" => read.sizes.jobs = number(word, value()?)?,
                "--rounds" => read.sizes.rounds = number(word, value()?)?,
                _ => return Err(Failure::Usage(format!("`bench compare` has no option `{word}`; {USAGE}"))),
            }
        }
        if !read.sizes.jobs.is_multiple_of(JOBS_STEP) {
            return Err(Failure::Usage(format!("`--jobs` takes a multiple of {JOBS_STEP}")));
        }
        Ok(read)
    }
}

/// Two producers send whole batches of 1,000.
const JOBS_STEP: u32 = 2_000;

const USAGE: &str = "it takes --quick, --only NAME,..., --jobs N and --rounds N";

/// The contenders of these names, and Backstop on the same kind of store, which the others are held against.
fn chosen(names: &str) -> Result<Vec<&'static Contender>, Failure> {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = names.iter().find(|name| contender::ALL.iter().all(|known| known.name != **name)) {
        let known: Vec<&str> = contender::ALL.iter().map(|contender| contender.name).collect();
        return Err(Failure::Usage(format!("no contender `{unknown}`; there are {}", known.join(", "))));
    }
    let is_asked = |contender: &&Contender| names.contains(&contender.name);
    let bases: Vec<&str> = contender::ALL.iter().filter(is_asked).map(|asked| asked.base()).collect();
    Ok(contender::ALL.iter().filter(|known| is_asked(known) || bases.contains(&known.name)).collect())
}

fn number(option: &str, word: &str) -> Result<u32, Failure> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Failure::Usage(format!("`{option}` takes a number of at least 1, not `{word}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn everything_is_the_default_and_only_that_is_shown_to_others() {
        assert!(parse("").unwrap().is_complete());
        for less in ["--quick", "--jobs 2000", "--rounds 1", "--only pg-boss"] {
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
    fn wrong_words_are_wrong_usage() {
        for line in ["--only nobody", "--fast", "--jobs", "--jobs 0", "--jobs 3000", "--rounds x"] {
            assert!(matches!(parse(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
