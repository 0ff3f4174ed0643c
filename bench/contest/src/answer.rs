//! The one line that a driver prints.

use std::time::Duration;

/// What a driver found out.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
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
}

impl Answer {
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
            Self::Waits(waits) => {
                let waits: Vec<String> = waits.iter().map(u64::to_string).collect();
                format!("{{\"waits_us\":[{}]}}", waits.join(","))
            }
        }
    }
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
        let rate = Answer::Rate { jobs: 3, spent: Duration::from_millis(1_500) };
        assert_eq!(rate.json(), r#"{"jobs":3,"seconds":1.500000}"#);
        assert_eq!(Answer::Waits(vec![1, 22]).json(), r#"{"waits_us":[1,22]}"#);
        let version = Answer::Version { version: "1".to_owned(), settings: "a \"b\"\n".to_owned() };
        assert_eq!(version.json(), r#"{"version":"1","settings":"a \"b\""}"#);
        assert_eq!(Answer::Done.json(), "{}");
    }
}
