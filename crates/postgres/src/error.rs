//! What an error of PostgreSQL or of the way to it means here. The only place that knows SQLSTATE codes.

use std::error::Error as _;

use backstop_sql::{Meaning, SqlFailure};
use tokio_postgres::error::SqlState;

use crate::tls;

/// What the server answers to a savepoint outside of any transaction.
pub(crate) const NO_TRANSACTION: &str = "25P01";

/// What an error of the driver means.
pub(crate) fn of_driver(error: tokio_postgres::Error) -> SqlFailure {
    let Some(database) = error.as_db_error() else {
        if let Some(unprotected) = tls::unprotected(&error) {
            return SqlFailure::Unprotected(unprotected);
        }
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        return if error.is_closed() || is_io(&error) {
            SqlFailure::Lost(cause)
        } else {
            SqlFailure::Unreadable(cause)
        };
    };
    // Where it waited for a lock, the server names the relation in its context only.
    let place = database.constraint().or(database.table()).or(database.where_());
    of_database(database.code().code(), database.message(), place)
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

/// What an error that the database itself raised means: its five letters, its words, and the constraint or object that
/// it names. For sessions over other drivers.
#[must_use]
pub fn of_database(code: &str, message: &str, detail: Option<&str>) -> SqlFailure {
    let meets_another =
        [SqlState::UNIQUE_VIOLATION, SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    if code == SqlState::LOCK_NOT_AVAILABLE.code() {
        return SqlFailure::Busy(held(detail));
    }
    if meets_another.iter().any(|state| state.code() == code) {
        return SqlFailure::Again(format!("{message} ({code})"));
    }
    // The server ends connections with these when it is stopped or promoted.
    if code.starts_with("57P") || code.starts_with("08") {
        return SqlFailure::Lost(format!("{message} ({code})"));
    }
    SqlFailure::Database { code: code.to_owned(), means: meaning(code, message, detail) }
}

/// What an error that the database raised means to the caller of the store.
fn meaning(code: &str, message: &str, detail: Option<&str>) -> Meaning {
    match code {
        "53100" => Meaning::DiskFull,
        "25006" => Meaning::Unavailable(
            "the server is read-only: it is a standby, or was made read-only; name the primary in the URL (several \
             hosts with target_session_attrs=read-write find it by themselves)"
                .to_owned(),
        ),
        "42501" => Meaning::missing_right(
            message,
            "grant it as `backstop migrate --print-roles` shows, or use another user",
        ),
        "3F000" | "42P01" | "42883" | "42703" => Meaning::other_tables(message),
        "28P01" | "28000" => Meaning::wrong_login("check them in the URL, and pg_hba.conf"),
        "3D000" => Meaning::no_database(message, "create it with `createdb`, or name another one"),
        "57014" => Meaning::Unavailable(format!(
            "the server canceled the statement ({message}); look for locks or a statement_timeout"
        )),
        _ if code.starts_with("53") => Meaning::too_little(message, code),
        _ if code.starts_with("58") || code.starts_with("XX") => {
            Meaning::Unavailable(format!("the server had an internal error ({message}, {code}); see its log"))
        }
        _ => Meaning::Other(match detail {
            Some(detail) => format!("{message} ({code}, {detail})"),
            None => format!("{message} ({code})"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_for(state: &str, sent: bool) -> &'static str {
        of_database(state, "words", None).into_error("db", sent).code()
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
            let text = of_database("55P03", "canceling statement", place).into_error("db", false);
            assert!(text.to_string().contains(words), "{text}");
        }
    }

    #[test]
    fn a_server_that_stops_at_commit_leaves_the_outcome_unknown() {
        assert_eq!(code_for("57P01", true), "outcome_unknown");
        // The server has answered: it did not commit.
        assert_eq!(code_for("40001", true), "store_unavailable");
    }
}
