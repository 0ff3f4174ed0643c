//! What an error of the server or of the way to it means here. The only place that knows the server's numbers.

use backstop_sql::{Meaning, SqlFailure};
use mysql_async::{DriverError, Error as DriverFailure};

use crate::tls;

const PACKET_TOO_LARGE: u16 = 1153;
const HELD: &str = "another open transaction holds a key, a row or a table that this call needs";
/// What the server answers to a savepoint outside of any transaction.
pub(crate) const NO_TRANSACTION: &str = "1305";
/// The server's code when the user may not see the transactions of others.
pub(crate) const NOT_ALLOWED: &str = "1227";

/// What an error of the driver means.
pub(crate) fn of_driver(error: DriverFailure) -> SqlFailure {
    if let Some(unprotected) = tls::unprotected(&error) {
        return SqlFailure::Unprotected(unprotected);
    }
    match error {
        DriverFailure::Server(server) => of_database(server.code, &server.message),
        DriverFailure::Io(problem) => SqlFailure::Lost(problem.to_string()),
        DriverFailure::Driver(DriverError::PacketTooLarge) => {
            of_database(PACKET_TOO_LARGE, "the packet is too large for the server")
        }
        DriverFailure::Driver(
            problem @ (DriverError::ConnectionClosed
            | DriverError::PoolDisconnected
            | DriverError::PacketOutOfOrder
            | DriverError::UnexpectedPacket { .. }),
        ) => SqlFailure::Lost(problem.to_string()),
        other => SqlFailure::Unreadable(other.to_string()),
    }
}

/// What an error that the database itself raised means: its number and its words. For sessions over other drivers.
#[must_use]
pub fn of_database(code: u16, message: &str) -> SqlFailure {
    match code {
        // A lock that took too long: the server does not say on what.
        1205 => SqlFailure::Busy(HELD.to_owned()),
        // A duplicate key, a deadlock, and a table that was being changed.
        1062 | 1213 | 1412 => SqlFailure::Again(format!("{message} ({code})")),
        // The server stops, or ended the connection; 1180 is a commit whose outcome it does not know itself.
        1053 | 1077 | 1079 | 1080 | 1152 | 1158..=1161 | 1180 | 1184 | 1927 | 2006 | 2013 | 4031 => {
            SqlFailure::Lost(format!("{message} ({code})"))
        }
        _ => SqlFailure::Database { code: code.to_string(), means: meaning(code, message) },
    }
}

/// True when a column or an index was to be added that is there already.
pub(crate) fn is_there_already(failure: &SqlFailure) -> bool {
    failure.has_code("1060") || failure.has_code("1061")
}

/// What an error that the database raised means to the caller of the store.
fn meaning(code: u16, message: &str) -> Meaning {
    let unusable = |problem: String, hint| Meaning::Unusable { problem, hint };
    let unavailable = Meaning::Unavailable;
    match code {
        1021 | 1114 => Meaning::DiskFull,
        // A file that could not be written, with the number the system gave.
        1026 | 3 if message.contains("28") => Meaning::DiskFull,
        1290 | 1792 | 1836 => unavailable(format!(
            "the server is read-only ({message}): it is a replica, or was made read-only; name the primary in the URL"
        )),
        1044 | 1142 | 1143 | 1227 | 1370 => Meaning::missing_right(
            message,
            "grant SELECT, INSERT, UPDATE and DELETE on the tables, and CREATE for migrations, or use another user",
        ),
        1146 | 1054 | 1932 => Meaning::other_tables(message),
        1045 | 1130 | 1251 | 1275 | 1698 | 1862 => {
            Meaning::wrong_login("check them in the URL, and the user's host")
        }
        1049 | 1046 => {
            Meaning::no_database(message, "create it with CREATE DATABASE, or name another one in the URL")
        }
        PACKET_TOO_LARGE => unusable(
            format!("a job is larger than the server accepts in one packet ({message})"),
            "set max_allowed_packet to 16 MiB or more",
        ),
        1665 => unusable(
            format!("the format of its binary log does not allow what this store writes ({message})"),
            "set binlog_format = ROW or MIXED",
        ),
        1040 | 1203 | 1226 => unavailable(format!(
            "the server has no connections left ({message}); raise max_connections or lower `connections` in the URL"
        )),
        1317 | 1969 | 3024 => unavailable(format!(
            "the server canceled the statement ({message}); look for locks or a limit on the time of statements"
        )),
        1037 | 1038 | 1041 | 1206 => Meaning::too_little(message, code),
        _ => Meaning::Other(format!("{message} ({code})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_for(code: u16, sent: bool) -> &'static str {
        of_database(code, "words").into_error("db", sent).code()
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
            assert_eq!(is_there_already(&of_database(code, "words")), there, "{code}");
        }
    }

    #[test]
    fn a_server_that_stops_at_commit_leaves_the_outcome_unknown() {
        for code in [1053, 2006, 2013, 1180] {
            assert_eq!(code_for(code, true), "outcome_unknown", "{code}");
        }
        // The server has answered: it did not commit.
        assert_eq!(code_for(1213, true), "store_unavailable");
    }
}
