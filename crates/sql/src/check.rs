//! What `doctor` says of every database server.

use backstop_store::{Finding, Level};

use crate::failure::SqlFailure;
use crate::row::{self, Row, moment_of};
use crate::session::Session as _;
use crate::statement::Statement;
use crate::transaction::Transaction;
use crate::value::{Query, Value};

/// A larger difference between clocks is reported: the store does not use this machine's, but people compare logs.
const SKEW_SECONDS: i64 = 5;

/// Something that was found.
pub fn finding(level: Level, subject: &str, message: impl Into<String>, hint: Option<&str>) -> Finding {
    Finding { level, subject: subject.to_owned(), message: message.into(), hint: hint.map(ToOwned::to_owned) }
}

/// Something that is as it should be.
pub fn good(subject: &str, message: impl Into<String>) -> Finding {
    finding(Level::Good, subject, message, None)
}

/// Whether the tables are of the version that this program knows.
fn schema(found: Option<i64>, newest: i64) -> Finding {
    match found {
        Some(version) if version == newest => good("schema", format!("version {version}")),
        Some(version) => finding(
            Level::Bad,
            "schema",
            format!("version {version}, this program knows {newest}: another program has migrated it"),
            Some("restart with the newer version of the program"),
        ),
        None => finding(Level::Bad, "schema", "it has no version", Some("run `backstop migrate`")),
    }
}

/// What every server is asked last: the version of its tables, its clock, and the counter of fences.
///
/// # Errors
/// Those of the connection.
pub async fn rest(tx: &mut Transaction, version: Query, newest: i64) -> Result<Vec<Finding>, SqlFailure> {
    let version = row::first(tx.one(version).await?, Row::int)?;
    Ok(vec![schema(version, newest), skew(tx).await?, tx.shared.fences.finding()])
}

/// Whether old transactions keep dead rows from being removed. `hint` says how to end one.
#[must_use]
pub fn horizon(old: &[String], hint: &str) -> Finding {
    if old.is_empty() {
        return good("horizon", "no old transaction keeps dead rows alive");
    }
    let message = format!("old transactions keep dead rows from being removed: {}", old.join("; "));
    finding(Level::Warning, "horizon", message, Some(hint))
}

/// Whether this machine and the server agree about the time.
async fn skew(tx: &mut Transaction) -> Result<Finding, SqlFailure> {
    let server = moment_of(tx.ask(Statement::Clock.with(vec![Value::Int(None)])).await?)?;
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let here = i64::try_from(here.as_micros()).unwrap_or(i64::MAX);
    let apart = (server.as_micros() - here) / 1_000_000;
    if apart.abs() < SKEW_SECONDS {
        return Ok(good("clock", "this machine and the server agree"));
    }
    let message = format!("the server's clock is {apart} s ahead of this machine's; jobs go by the server's");
    Ok(finding(Level::Warning, "clock", message, Some("run NTP on both")))
}
