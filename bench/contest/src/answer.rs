//! The one line that a driver prints.

use std::time::Duration;

/// What a driver found out.
#[derive(Clone, Debug, PartialEq)]
pub enum DriverAnswer {
    /// Nothing to tell: the phase is done.
    Done,
    /// The version of the engine, and the settings that the driver gives it.
    Version {
        /// The engine's own version.
        version: String,
        /// The settings in words.
        settings: String,
    },
    /// So many jobs in such a time.
    Rate {
        /// Jobs that are done, which may be fewer than were asked for when the time was limited.
        jobs: usize,
        /// The time they took.
        spent: Duration,
    },
    /// How long every job waited, in microseconds.
    Waits(Vec<u64>),
    /// What became of a steady queue beside another one.
    Steady {
        /// Jobs of the steady queue that have run.
        jobs: usize,
        /// The time from the first that was due until the last had run.
        spent: Duration,
        /// How long they waited, in microseconds.
        waits: Vec<u64>,
        /// Runs that failed on the other queue meanwhile.
        failures: usize,
    },
    /// How busy a process was that had nothing to do.
    Idle {
        /// How long it was watched.
        spent: Duration,
        /// The processor time that it took.
        busy: Duration,
    },
}

impl DriverAnswer {
    /// Prints it for `xtask`.
    pub fn print(&self) {
        println!("{}", self.json());
    }

    fn json(&self) -> String {
        match self {
            Self::Done => "{}".to_owned(),
            Self::Version { version, settings } => {
                format!("{{\"version\":{},\"settings\":{}}}", quoted(version), quoted(settings))
            }
            Self::Rate { jobs, spent } => {
                format!("{{\"jobs\":{jobs},\"seconds\":{:.6}}}", spent.as_secs_f64())
            }
            Self::Waits(waits) => format!("{{\"waits_us\":{}}}", list(waits)),
            Self::Steady { jobs, spent, waits, failures } => format!(
                "{{\"jobs\":{jobs},\"seconds\":{:.6},\"waits_us\":{},\"failures\":{failures}}}",
                spent.as_secs_f64(),
                list(waits)
            ),
            Self::Idle { spent, busy } => format!(
                "{{\"seconds\":{:.6},\"busy_seconds\":{:.6}}}",
                spent.as_secs_f64(),
                busy.as_secs_f64()
            ),
        }
    }
}

fn list(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// A JSON string of plain words.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_one_object() {
        let rate = DriverAnswer::Rate { jobs: 3, spent: Duration::from_millis(1_500) };
        assert_eq!(rate.json(), r#"{"jobs":3,"seconds":1.500000}"#);
        assert_eq!(DriverAnswer::Waits(vec![1, 22]).json(), r#"{"waits_us":[1,22]}"#);
        let version = DriverAnswer::Version { version: "1".to_owned(), settings: "a \"b\"\n".to_owned() };
        assert_eq!(version.json(), r#"{"version":"1","settings":"a \"b\""}"#);
        assert_eq!(DriverAnswer::Done.json(), "{}");
        let second = Duration::from_secs(1);
        let steady = DriverAnswer::Steady { jobs: 2, spent: second, waits: vec![3], failures: 4 };
        assert_eq!(steady.json(), r#"{"jobs":2,"seconds":1.000000,"waits_us":[3],"failures":4}"#);
        let idle = DriverAnswer::Idle { spent: second, busy: Duration::from_millis(20) };
        assert_eq!(idle.json(), r#"{"seconds":1.000000,"busy_seconds":0.020000}"#);
    }
}
