//! What an error of the server or of the way to it means here. The only place that knows the server's numbers.

use std::collections::BTreeSet;

use backstop_store::Error;
use backstop_store::desk::LaneKey;
use backstop_store::encryption::Unprotected;
use mysql_async::{DriverError, Error as DriverFailure};

use crate::tls;

/// Why a step did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The database said no.
    Database {
        /// Its number.
        code: u16,
        /// Its words.
        message: String,
    },
    /// The connection broke; what was sent may have been done.
    Lost(String),
    /// No connection could be had.
    Unreachable(String),
    /// No connection could be had that is protected as the URL asks for.
    Unprotected(Unprotected),
    /// The deadline passed.
    Slow(&'static str),
    /// A rule said no before anything was written.
    Refused(Error),
    /// A row that this program cannot have written.
    Unreadable(String),
    /// Two transactions met and one of them must begin again.
    Again(String),
    /// Another transaction holds what this one needs, and was waited for long enough.
    Busy(String),
    /// Lanes that nobody has made: they are made in a transaction of their own, and then this one begins again.
    NoLane(BTreeSet<LaneKey>),
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(format!("a JSON column: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<DriverFailure> for Failure {
    fn from(error: DriverFailure) -> Self {
        if let Some(unprotected) = tls::unprotected(&error) {
            return Self::Unprotected(unprotected);
        }
        match error {
            DriverFailure::Server(server) => Self::from_database(server.code, &server.message),
            DriverFailure::Io(problem) => Self::Lost(problem.to_string()),
            DriverFailure::Driver(DriverError::PacketTooLarge) => {
                Self::from_database(PACKET_TOO_LARGE, "the packet is too large for the server")
            }
            DriverFailure::Driver(
                problem @ (DriverError::ConnectionClosed
                | DriverError::PoolDisconnected
                | DriverError::PacketOutOfOrder
                | DriverError::UnexpectedPacket { .. }),
            ) => Self::Lost(problem.to_string()),
            other => Self::Unreadable(other.to_string()),
        }
    }
}

const PACKET_TOO_LARGE: u16 = 1153;
const HELD: &str = "another open transaction holds a key, a row or a table that this call needs";

impl Failure {
    /// What an error that the database itself raised means.
    #[must_use]
    pub fn from_database(code: u16, message: &str) -> Self {
        match code {
            // A lock that took too long: the server does not say on what.
            1205 => Self::Busy(HELD.to_owned()),
            // A duplicate key, a deadlock, and a table that was being changed.
            1062 | 1213 | 1412 => Self::Again(format!("{message} ({code})")),
            // The server stops, or ended the connection; 1180 is a commit whose outcome it does not know itself.
            1053 | 1077 | 1079 | 1080 | 1152 | 1158..=1161 | 1180 | 1184 | 1927 | 2006 | 2013 | 4031 => {
                Self::Lost(format!("{message} ({code})"))
            }
            _ => Self::Database { code, message: message.to_owned() },
        }
    }

    /// True when the whole transaction should be tried again at once.
    pub(crate) const fn is_again(&self) -> bool {
        matches!(self, Self::Again(_) | Self::NoLane(_))
    }

    /// True when a column or an index was to be added that is there already.
    pub(crate) const fn is_there_already(&self) -> bool {
        matches!(self, Self::Database { code: 1060 | 1061, .. })
    }

    /// The error that callers see. `sent` is true when the commit may have reached the server.
    pub(crate) fn into_error(self, location: &str, sent: bool) -> Error {
        let location = location.to_owned();
        let unavailable =
            |problem: String| Error::Unavailable { location: location.clone(), problem, source: None };
        match self {
            Self::Refused(error) => error,
            Self::Lost(_) | Self::Slow(_) if sent => Error::Unknown { location, source: None },
            Self::Lost(problem) => {
                unavailable(format!("the connection was lost ({problem}); it is made again by itself"))
            }
            Self::Unreachable(problem) => unavailable(format!(
                "no connection ({problem}); check that the server runs and can be reached"
            )),
            Self::Unprotected(unprotected) => unprotected.into_error(location),
            Self::Slow(what) => unavailable(format!(
                "{what} took longer than the deadline; look for locks or an overloaded server"
            )),
            Self::Again(problem) => {
                unavailable(format!("transactions kept meeting each other ({problem}); try again"))
            }
            Self::Busy(waits_for) => Error::Busy { location, waits_for },
            Self::NoLane(lanes) => {
                let queue = lanes.first().map_or("", |lane| &*lane.queue);
                unavailable(format!("a lane of queue {queue:?} was not found after it was made; try again"))
            }
            Self::Unreadable(problem) => Error::Corrupt { location, problem },
            Self::Database { code, message } => meaning(code, &message, location),
        }
    }
}

/// What an error that the database raised means to whoever called the store.
fn meaning(code: u16, message: &str, location: String) -> Error {
    let unusable = |problem: String, hint: &str| Error::Unusable {
        location: location.clone(),
        problem,
        hint: hint.to_owned(),
    };
    let unavailable =
        |problem: String| Error::Unavailable { location: location.clone(), problem, source: None };
    match code {
        1021 | 1114 => Error::DiskFull { location, source: None },
        // A file that could not be written, with the number the system gave.
        1026 | 3 if message.contains("28") => Error::DiskFull { location, source: None },
        1290 | 1792 | 1836 => unavailable(format!(
            "the server is read-only ({message}): it is a replica, or was made read-only; name the primary in the URL"
        )),
        1044 | 1142 | 1143 | 1227 | 1370 => unusable(
            format!("a right is missing ({message})"),
            "grant SELECT, INSERT, UPDATE and DELETE on the tables, and CREATE for migrations, or use another user",
        ),
        1146 | 1054 | 1932 => unusable(
            format!("its tables are not those of this version ({message})"),
            "run `backstop migrate` with a user that may create tables",
        ),
        1045 | 1130 | 1251 | 1275 | 1698 | 1862 => unusable(
            "the user or the password is wrong".to_owned(),
            "check them in the URL, and the user's host",
        ),
        1049 | 1046 => unusable(
            format!("there is no such database ({message})"),
            "create it with CREATE DATABASE, or name another one in the URL",
        ),
        PACKET_TOO_LARGE => unusable(
            format!("a job is larger than the server takes in one piece ({message})"),
            "set max_allowed_packet to 16 MiB or more",
        ),
        1665 => unusable(
            format!("its log cannot hold what this store does ({message})"),
            "set binlog_format = ROW or MIXED",
        ),
        1040 | 1203 | 1226 => unavailable(format!(
            "the server has no connection left ({message}); raise max_connections or lower `connections` in the URL"
        )),
        1317 | 1969 | 3024 => unavailable(format!(
            "the server canceled the statement ({message}); look for locks or a limit on the time of statements"
        )),
        1037 | 1038 | 1041 | 1206 => {
            unavailable(format!("the server has too little left of something ({message}, {code})"))
        }
        _ => Error::Backend { location, problem: format!("{message} ({code})"), source: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_for(code: u16, sent: bool) -> &'static str {
        Failure::from_database(code, "words").into_error("db", sent).code()
    }

    #[test]
    fn each_number_has_one_meaning() {
        for (code, meaning) in [
            (1021, "disk_full"),
            (1114, "disk_full"),
            (1040, "store_unavailable"),
            (1290, "store_unavailable"),
            (1836, "store_unavailable"),
            (1142, "store_unusable"),
            (1044, "store_unusable"),
            (1146, "store_unusable"),
            (1045, "store_unusable"),
            (1049, "store_unusable"),
            (1153, "store_unusable"),
            (1213, "store_unavailable"),
            (1205, "busy"),
            (1053, "store_unavailable"),
            (1317, "store_unavailable"),
            (1264, "store_failed"),
        ] {
            assert_eq!(code_for(code, false), meaning, "{code}");
        }
    }

    #[test]
    fn only_what_a_migration_finds_done_is_there_already() {
        for (code, there) in [(1060, true), (1061, true), (1050, false), (1054, false), (1062, false)] {
            assert_eq!(Failure::from_database(code, "words").is_there_already(), there, "{code}");
        }
    }

    #[test]
    fn a_connection_lost_at_commit_leaves_the_outcome_unknown() {
        for code in [1053, 2006, 2013, 1180] {
            assert_eq!(code_for(code, true), "outcome_unknown", "{code}");
        }
        assert_eq!(Failure::Lost(String::new()).into_error("db", true).code(), "outcome_unknown");
        assert_eq!(Failure::Slow("a write").into_error("db", true).code(), "outcome_unknown");
        // The server has answered: it did not commit.
        assert_eq!(code_for(1213, true), "store_unavailable");
    }
}
