//! The command line of a driver.

use std::time::Duration;

/// What a driver is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverPhase {
    /// Say which version it drives and with which settings.
    Version,
    /// Make the tables; not measured.
    Setup,
    /// Store jobs in batches.
    EnqueueBulk,
    /// Store jobs one at a time from many clients at once, each acknowledged before that client's next.
    EnqueueSingle,
    /// Run the jobs that are stored, until the last ending is stored too.
    Drain,
    /// Run the jobs that are stored; each of them fails for good.
    Fail,
    /// Run the jobs that are stored; each of them fails once, is tried again at once, and succeeds.
    Retry,
    /// Drive again, by a plan, the jobs that have failed for good; now each of them succeeds.
    Redrive,
    /// Store jobs at a steady rate beside an idle worker, and tell how long each waited for its handler.
    Latency,
    /// The same, on a queue beside another one whose jobs all fail.
    Storm,
    /// Run a worker that has nothing to do, and tell how busy the process was.
    Idle,
}

/// One call of a driver.
#[derive(Clone, Debug)]
pub struct DriverCall {
    /// What to do.
    pub phase: DriverPhase,
    /// Where the jobs are stored.
    pub url: String,
    /// How many jobs.
    pub jobs: usize,
    /// How many producers at once.
    pub clients: usize,
    /// Jobs a second, for [`DriverPhase::Latency`] and [`DriverPhase::Storm`].
    pub rate: u32,
    /// When a drain stops and tells how far it came.
    pub limit: Duration,
    /// How many queues the worker serves.
    pub queues: usize,
    /// In how many of them the jobs lie, evenly.
    pub filled: usize,
    /// How many jobs fail on the other queue, for [`DriverPhase::Storm`].
    pub beside: usize,
    /// How long a worker is watched, for [`DriverPhase::Idle`].
    pub watch: Duration,
}

impl DriverCall {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// When it is not a phase and pairs of `--url URL`, `--jobs N`, `--clients N`, `--rate N`, `--limit SECONDS`,
    /// `--queues N`, `--filled N`, `--beside N` and `--watch SECONDS`.
    pub fn read() -> Result<Self, crate::DriverError> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        Ok(Self::parse(&words)?)
    }

    fn parse(words: &[String]) -> Result<Self, String> {
        let (phase, options) = words.split_first().ok_or("name a phase, such as drain")?;
        let mut read = Self {
            phase: parse_phase(phase)?,
            url: String::new(),
            jobs: 0,
            clients: 1,
            rate: 1,
            limit: Duration::from_secs(60),
            queues: 1,
            filled: 1,
            beside: 0,
            watch: Duration::from_secs(20),
        };
        for pair in options.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            let number = || value.parse::<u32>().map_err(|error| format!("{name} {value}: {error}"));
            let count = || number().map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            match name.as_str() {
                "--url" => read.url.clone_from(value),
                "--jobs" => read.jobs = count()?,
                "--clients" => read.clients = count()?,
                "--rate" => read.rate = number()?,
                "--limit" => read.limit = Duration::from_secs(number()?.into()),
                "--queues" => read.queues = count()?,
                "--filled" => read.filled = count()?,
                "--beside" => read.beside = count()?,
                "--watch" => read.watch = Duration::from_secs(number()?.into()),
                _ => return Err(format!("no option {name}")),
            }
        }
        if read.filled == 0 || read.filled > read.queues {
            return Err(format!("--filled {}: at least 1 and no more than --queues", read.filled));
        }
        Ok(read)
    }
}

fn parse_phase(word: &str) -> Result<DriverPhase, String> {
    Ok(match word {
        "version" => DriverPhase::Version,
        "setup" => DriverPhase::Setup,
        "enqueue_bulk" => DriverPhase::EnqueueBulk,
        "enqueue_single" => DriverPhase::EnqueueSingle,
        "drain" => DriverPhase::Drain,
        "fail" => DriverPhase::Fail,
        "retry" => DriverPhase::Retry,
        "redrive" => DriverPhase::Redrive,
        "latency" => DriverPhase::Latency,
        "storm" => DriverPhase::Storm,
        "idle" => DriverPhase::Idle,
        _ => return Err(format!("no phase {word}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<DriverCall, String> {
        DriverCall::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_full_command_line_is_read() {
        let read = parse("latency --url sqlite:a.db --jobs 500 --clients 64 --rate 100 --limit 7").unwrap();
        assert_eq!(read.phase, DriverPhase::Latency);
        assert_eq!((read.url.as_str(), read.jobs, read.clients), ("sqlite:a.db", 500, 64));
        assert_eq!((read.rate, read.limit), (100, Duration::from_secs(7)));
        assert_eq!((read.queues, read.filled, read.beside), (1, 1, 0), "what is not named is plain");
    }

    #[test]
    fn queues_and_what_happens_beside_them_are_read() {
        let read = parse("drain --queues 200 --filled 5").unwrap();
        assert_eq!((read.queues, read.filled), (200, 5));
        assert_eq!(parse("storm --beside 300").unwrap().beside, 300);
        assert_eq!(parse("idle --watch 4").unwrap().watch, Duration::from_secs(4));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("", "phase"),
            ("dance", "dance"),
            ("drain --jobs", "--jobs"),
            ("drain --jobs x", "x"),
            ("drain --tea 1", "--tea"),
            ("drain --filled 2", "--filled"),
            ("drain --queues 0 --filled 0", "--filled"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
