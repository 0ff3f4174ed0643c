//! What an error of PostgreSQL or of the way to it means here. The only place that knows SQLSTATE codes.

use std::collections::BTreeSet;
use std::error::Error as _;

use backstop_store::Error;
use backstop_store::desk::LaneKey;
use backstop_store::encryption::Unprotected;
use tokio_postgres::error::SqlState;

use crate::tls;

/// Why a step did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The database said no.
    Database {
        /// Its five letters.
        code: String,
        /// Its words.
        message: String,
        /// The constraint or object it names.
        detail: Option<String>,
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

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(database) = error.as_db_error() else {
            if let Some(unprotected) = tls::unprotected(&error) {
                return Self::Unprotected(unprotected);
            }
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            return if error.is_closed() || is_io(&error) {
                Self::Lost(cause)
            } else {
                Self::Unreadable(cause)
            };
        };
        // Where it waited for a lock, the server names the relation in its context only.
        let place = database.constraint().or(database.table()).or(database.where_());
        Self::from_database(database.code().code(), database.message(), place)
    }
}

/// Who is waited for, in words. `place` names the relation that the lock is in, as far as the server tells.
fn held(place: Option<&str>) -> String {
    let is_name = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let place = place.unwrap_or_default();
    let relation = match place.split_once("relation \"").and_then(|(_, rest)| rest.split_once('"')) {
        Some((relation, _)) => relation,
        None => Some(place).filter(is_name).unwrap_or_default(),
    };
    let what = match relation {
        name if name.starts_with("idempotency") => "the same idempotency key".to_owned(),
        name if name.starts_with("business") => "the same business key".to_owned(),
        name if name.starts_with("lane") => "a new queue, kind or priority of the same name".to_owned(),
        "" => "a table or row that this call needs".to_owned(),
        name => format!("a row of {name} that this call needs"),
    };
    format!("another open transaction holds {what}")
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    false
}

impl Failure {
    /// What an error that the database itself raised means.
    #[must_use]
    pub fn from_database(code: &str, message: &str, detail: Option<&str>) -> Self {
        let meets_another = [
            SqlState::UNIQUE_VIOLATION,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
        ];
        if code == SqlState::LOCK_NOT_AVAILABLE.code() {
            return Self::Busy(held(detail));
        }
        if meets_another.iter().any(|state| state.code() == code) {
            return Self::Again(format!("{message} ({code})"));
        }
        // The server ends connections with these when it is stopped or promoted.
        if code.starts_with("57P") || code.starts_with("08") {
            return Self::Lost(format!("{message} ({code})"));
        }
        Self::Database {
            code: code.to_owned(),
            message: message.to_owned(),
            detail: detail.map(ToOwned::to_owned),
        }
    }

    /// True when the whole transaction should be tried again at once.
    pub(crate) const fn is_again(&self) -> bool {
        matches!(self, Self::Again(_) | Self::NoLane(_))
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
            Self::Database { code, message, detail } => meaning(&code, &message, detail.as_deref(), location),
        }
    }
}

/// What an error that the database raised means to whoever called the store.
fn meaning(code: &str, message: &str, detail: Option<&str>, location: String) -> Error {
    let unusable = |problem: String, hint: &str| Error::Unusable {
        location: location.clone(),
        problem,
        hint: hint.to_owned(),
    };
    let unavailable =
        |problem: String| Error::Unavailable { location: location.clone(), problem, source: None };
    match code {
        "53100" => Error::DiskFull { location, source: None },
        "25006" => unavailable(
            "the server is read-only: it is a standby, or was made read-only; name the primary in the URL (several \
             hosts with target_session_attrs=read-write find it by themselves)"
                .to_owned(),
        ),
        "42501" => unusable(
            format!("a right is missing ({message})"),
            "grant it as `backstop migrate --print-roles` shows, or use another user",
        ),
        "3F000" | "42P01" | "42883" | "42703" => unusable(
            format!("its tables are not those of this version ({message})"),
            "run `backstop migrate` with a user that may create tables",
        ),
        "28P01" | "28000" => {
            unusable("the user or the password is wrong".to_owned(), "check them in the URL, and pg_hba.conf")
        }
        "3D000" => unusable(
            format!("there is no such database ({message})"),
            "create it with `createdb`, or name another one",
        ),
        "57014" => unavailable(format!(
            "the server canceled the statement ({message}); look for locks or a statement_timeout"
        )),
        _ if code.starts_with("53") => {
            unavailable(format!("the server has too little left of something ({message}, {code})"))
        }
        _ if code.starts_with("58") || code.starts_with("XX") => {
            unavailable(format!("the server failed inside ({message}, {code}); look into its log"))
        }
        _ => Error::Backend {
            location,
            problem: match detail {
                Some(detail) => format!("{message} ({code}, {detail})"),
                None => format!("{message} ({code})"),
            },
            source: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_for(state: &str, sent: bool) -> &'static str {
        Failure::from_database(state, "words", None).into_error("db", sent).code()
    }

    #[test]
    fn each_code_has_one_meaning() {
        for (state, meaning) in [
            ("53100", "disk_full"),
            ("53300", "store_unavailable"),
            ("25006", "store_unavailable"),
            ("42501", "store_unusable"),
            ("42P01", "store_unusable"),
            ("28P01", "store_unusable"),
            ("3D000", "store_unusable"),
            ("40P01", "store_unavailable"),
            ("55P03", "busy"),
            ("57P01", "store_unavailable"),
            ("58030", "store_unavailable"),
            ("22003", "store_failed"),
        ] {
            assert_eq!(code_for(state, false), meaning, "{state}");
        }
    }

    #[test]
    fn who_is_waited_for_is_said_in_words() {
        for (place, words) in [
            (Some("while inserting index tuple (0,3) in relation \"idempotency_pkey\""), "idempotency key"),
            (Some("while inserting index tuple (0,3) in relation \"business_pkey\""), "business key"),
            (Some("while locking tuple (0,1) in relation \"record\""), "a row of record"),
            (Some("while locking tuple (0,1) in relation \"ready\"\nSQL function"), "a row of ready that"),
            (Some("SQL function \"x\""), "a table or row"),
            (None, "a table or row"),
        ] {
            let text = Failure::from_database("55P03", "canceling statement", place).into_error("db", false);
            assert!(text.to_string().contains(words), "{text}");
        }
    }

    #[test]
    fn a_connection_lost_at_commit_leaves_the_outcome_unknown() {
        assert_eq!(code_for("57P01", true), "outcome_unknown");
        assert_eq!(Failure::Lost(String::new()).into_error("db", true).code(), "outcome_unknown");
        assert_eq!(Failure::Slow("a write").into_error("db", true).code(), "outcome_unknown");
        // The server has answered: it did not commit.
        assert_eq!(code_for("40001", true), "store_unavailable");
    }
}
