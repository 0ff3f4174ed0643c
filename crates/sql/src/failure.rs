//! Why a step did not succeed, and what callers are told of it.
//!
//! A dialect says what the codes of its server mean; what follows from that is the same for all of them.

use std::collections::BTreeSet;

use backstop_store::Error;
use backstop_store::encryption::Unprotected;
use backstop_store::working_set::LaneKey;

/// Why a step did not succeed.
#[derive(Debug)]
pub enum SqlFailure {
    /// The database returned an error.
    Database {
        /// Its code.
        code: String,
        /// What that means.
        means: Meaning,
    },
    /// The connection broke; what was sent may have been done.
    Lost(String),
    /// No connection could be had.
    Unreachable(String),
    /// No connection could be had that is protected as the URL asks for.
    Unprotected(Unprotected),
    /// The deadline passed.
    Slow(&'static str),
    /// A rule refused it before anything was written.
    Refused(Error),
    /// A row that this program cannot have written.
    Unreadable(String),
    /// Two transactions conflicted and one of them must be retried.
    Again(String),
    /// Another transaction holds what this one needs, and was waited for long enough.
    Busy(String),
    /// Lanes that nobody has made: they are made in a transaction of their own, and then this one begins again.
    NoLane(BTreeSet<LaneKey>),
}

/// What an error of the database means to the caller of the store.
#[derive(Debug)]
pub enum Meaning {
    /// There is no room left.
    DiskFull,
    /// It may succeed later: what is wrong, and what to look for.
    Unavailable(String),
    /// It will not succeed until a person changes something.
    Unusable {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// Any other error, in the words of the server.
    Other(String),
}

/// Errors that every database has, in the same words.
impl Meaning {
    /// The user may not do this.
    #[must_use]
    pub fn missing_right(message: &str, hint: &'static str) -> Self {
        Self::Unusable { problem: format!("the user lacks a permission ({message})"), hint }
    }

    /// A table or a column is not there.
    #[must_use]
    pub fn other_tables(message: &str) -> Self {
        let problem = format!("its tables do not match this version ({message})");
        Self::Unusable { problem, hint: "run `backstop migrate` with a user that may create tables" }
    }

    /// The user is not let in.
    #[must_use]
    pub fn wrong_login(hint: &'static str) -> Self {
        Self::Unusable { problem: "the user or the password is wrong".to_owned(), hint }
    }

    /// The database is not there.
    #[must_use]
    pub fn no_database(message: &str, hint: &'static str) -> Self {
        Self::Unusable { problem: format!("there is no such database ({message})"), hint }
    }

    /// The server is out of memory or the like.
    #[must_use]
    pub fn too_little(message: &str, code: impl std::fmt::Display) -> Self {
        Self::Unavailable(format!("the server is out of resources ({message}, {code})"))
    }
}

impl From<serde_json::Error> for SqlFailure {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(format!("a JSON column is not valid: {error}"))
    }
}

impl From<Error> for SqlFailure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl SqlFailure {
    /// True when the database returned this code.
    #[must_use]
    pub fn has_code(&self, wanted: &str) -> bool {
        matches!(self, Self::Database { code, .. } if code == wanted)
    }

    /// True when the whole transaction should be tried again at once.
    #[must_use]
    pub const fn is_again(&self) -> bool {
        matches!(self, Self::Again(_) | Self::NoLane(_))
    }

    /// The same for a connection that was not made yet.
    #[must_use]
    pub fn while_connecting(self) -> Self {
        match self {
            Self::Lost(problem) | Self::Unreadable(problem) => Self::Unreachable(problem),
            other => other,
        }
    }

    /// The error that callers see. `sent` is true when the commit may have reached the server.
    #[must_use]
    pub fn into_error(self, location: &str, sent: bool) -> Error {
        let location = location.to_owned();
        let unavailable =
            |problem: String| Error::Unavailable { location: location.clone(), problem, source: None };
        match self {
            Self::Refused(error) => error,
            Self::Lost(_) | Self::Slow(_) if sent => Error::Unknown { location, source: None },
            Self::Lost(problem) => {
                unavailable(format!("the connection was lost ({problem}); the store reconnects by itself"))
            }
            Self::Unreachable(problem) => unavailable(format!(
                "cannot connect ({problem}); check that the server is running and reachable"
            )),
            Self::Unprotected(unprotected) => unprotected.into_error(location),
            Self::Slow(what) => unavailable(format!(
                "{what} took longer than the deadline; look for locks or an overloaded server"
            )),
            Self::Again(problem) => {
                unavailable(format!("transactions kept conflicting ({problem}); try again"))
            }
            Self::Busy(waits_for) => Error::Busy { location, waits_for },
            Self::NoLane(lanes) => {
                let queue = lanes.first().map_or("", |lane| &*lane.queue);
                unavailable(format!(
                    "a lane of queue {queue:?} was not found after it was created; try again"
                ))
            }
            Self::Unreadable(problem) => Error::Corrupt { location, problem },
            Self::Database { means, .. } => match means {
                Meaning::DiskFull => Error::DiskFull { location, source: None },
                Meaning::Unavailable(problem) => unavailable(problem),
                Meaning::Unusable { problem, hint } => {
                    Error::Unusable { location, problem, hint: hint.to_owned() }
                }
                Meaning::Other(problem) => Error::Backend { location, problem, source: None },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_lost_at_commit_leaves_the_outcome_unknown() {
        for (failure, code) in [
            (SqlFailure::Lost(String::new()), "outcome_unknown"),
            (SqlFailure::Slow("a write"), "outcome_unknown"),
            // The server has answered: it did not commit.
            (SqlFailure::Again(String::new()), "store_unavailable"),
            (SqlFailure::Busy(String::new()), "busy"),
        ] {
            assert_eq!(failure.into_error("db", true).code(), code);
        }
        assert_eq!(SqlFailure::Lost(String::new()).into_error("db", false).code(), "store_unavailable");
    }
}
