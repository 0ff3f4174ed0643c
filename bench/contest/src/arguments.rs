//! The command line of a driver.

use std::time::Duration;

/// What a driver is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
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
    /// Store jobs at a steady rate beside an idle worker, and tell how long each waited for its handler.
    Latency,
}

/// One call of a driver.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// What to do.
    pub phase: Phase,
    /// Where the jobs are stored.
    pub url: String,
    /// How many jobs.
    pub jobs: usize,
    /// How many producers at once.
    pub clients: usize,
    /// Jobs a second, for [`Phase::Latency`].
    pub rate: u32,
    /// When a drain stops and tells how far it came.
    pub limit: Duration,
}

impl Arguments {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// When it is not `PHASE [--url URL] [--jobs N] [--clients N] [--rate N] [--limit SECONDS]`.
    pub fn read() -> Result<Self, crate::Failure> {
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
                _ => return Err(format!("no option {name}")),
            }
        }
        Ok(read)
    }
}

fn parse_phase(word: &str) -> Result<Phase, String> {
    Ok(match word {
        "version" => Phase::Version,
        "setup" => Phase::Setup,
        "enqueue_bulk" => Phase::EnqueueBulk,
        "enqueue_single" => Phase::EnqueueSingle,
        "drain" => Phase::Drain,
        "fail" => Phase::Fail,
        "retry" => Phase::Retry,
        "latency" => Phase::Latency,
        _ => return Err(format!("no phase {word}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_full_command_line_is_read() {
        let read = parse("latency --url sqlite:a.db --jobs 500 --clients 64 --rate 100 --limit 7").unwrap();
        assert_eq!(read.phase, Phase::Latency);
        assert_eq!((read.url.as_str(), read.jobs, read.clients), ("sqlite:a.db", 500, 64));
        assert_eq!((read.rate, read.limit), (100, Duration::from_secs(7)));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("", "phase"),
            ("dance", "dance"),
            ("drain --jobs", "--jobs"),
            ("drain --jobs x", "x"),
            ("drain --tea 1", "--tea"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
