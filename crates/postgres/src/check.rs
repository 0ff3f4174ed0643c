//! What `doctor` says of this store: every setting that would lose an acknowledged job, and what else is odd.

use backstop_store::{Finding, Level};

use crate::error::Failure;
use crate::schema;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// Clocks further apart than this are worth a word: nothing goes by ours, but people compare logs.
const SKEW_SECONDS: i64 = 5;

/// Looks at everything.
pub(crate) async fn check(unit: &mut Unit) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for mut row in unit.one(Query::new(sql::SETTINGS, Vec::new())).await? {
        findings.extend(setting(&row.text()?, &row.text()?));
    }
    findings.push(connection(unit).await?);
    findings.push(version(unit).await?);
    findings.extend(drift(unit).await?);
    let age = i64::try_from(unit.shared.old_transaction.as_secs()).unwrap_or(i64::MAX);
    let horizon = unit.one(Query::new(sql::OLD_TRANSACTIONS, vec![Value::Int(Some(age))])).await?;
    findings.push(horizon_of(horizon)?);
    findings.extend(blockers(unit.one(Query::new(sql::BLOCKERS, Vec::new())).await?)?);
    findings.push(skew(unit).await?);
    findings.push(unit.shared.fences.finding());
    Ok(findings)
}

fn finding(level: Level, subject: &str, message: impl Into<String>, hint: Option<&str>) -> Finding {
    Finding { level, subject: subject.to_owned(), message: message.into(), hint: hint.map(ToOwned::to_owned) }
}

/// What a setting means for jobs that were acknowledged.
fn setting(name: &str, value: &str) -> Option<Finding> {
    let bad = |message: String, hint: &str| Some(finding(Level::Bad, name, message, Some(hint)));
    let good = |message: &str| Some(finding(Level::Good, name, message, None));
    match (name, value) {
        ("fsync", "on") => good("commits reach the disk"),
        ("fsync", _) => {
            bad("off: a crash of the machine can lose or destroy everything".to_owned(), "set fsync = on")
        }
        ("synchronous_commit", "off") => bad(
            "off: a crash of the server loses jobs that were acknowledged".to_owned(),
            "set synchronous_commit = on, also for this user and this database",
        ),
        ("synchronous_commit", "local") => Some(finding(
            Level::Warning,
            name,
            "local: a promoted standby can be without jobs that were acknowledged",
            Some("set synchronous_commit = on when synchronous standbys are configured"),
        )),
        ("synchronous_commit", _) => good("a commit is durable before it is acknowledged"),
        ("full_page_writes", "on") => good("torn pages are repaired after a crash"),
        ("full_page_writes", _) => {
            bad("off: a crash of the machine can destroy tables".to_owned(), "set full_page_writes = on")
        }
        ("default_transaction_isolation", "read committed") => good("read committed"),
        ("default_transaction_isolation", other) => Some(finding(
            Level::Warning,
            name,
            format!("{other}: transactions meet each other more often and are begun again"),
            Some("set default_transaction_isolation = 'read committed' for this user"),
        )),
        ("autovacuum", "on") => good("dead rows are removed"),
        ("autovacuum", _) => Some(finding(
            Level::Warning,
            name,
            "off: tables grow with every claim",
            Some("set autovacuum = on"),
        )),
        ("default_transaction_read_only" | "in_hot_standby", "off") => good("writes are allowed"),
        ("default_transaction_read_only" | "in_hot_standby", _) => bad(
            "on: nothing can be submitted, claimed or finished here".to_owned(),
            "name the primary in the URL, or let this user write",
        ),
        ("server_version_num", number) => Some(server_version(number)),
        _ => None,
    }
}

/// How this very connection is protected. The server tells of the way that ends at it: behind a pooler it is not ours.
async fn connection(unit: &mut Unit) -> Result<Finding, Failure> {
    let rows = unit.one(Query::new(sql::IS_ENCRYPTED, Vec::new())).await?;
    let there = rows.into_iter().next().map(|mut row| row.bool()).transpose()?;
    let encryption = &unit.shared.encryption;
    let here = encryption.promised().or(if unit.shared.direct { there } else { None });
    Ok(encryption.finding(here, there))
}

fn server_version(number: &str) -> Finding {
    let major = number.parse::<i64>().unwrap_or(0) / 10_000;
    if major >= 15 {
        return finding(Level::Good, "server version", format!("PostgreSQL {major}"), None);
    }
    let message = format!("PostgreSQL {major}; this store is tested on 15 and newer");
    finding(Level::Warning, "server version", message, Some("upgrade the server"))
}

async fn version(unit: &mut Unit) -> Result<Finding, Failure> {
    let rows = unit.one(Query::new(schema::VERSION, Vec::new())).await?;
    let newest = schema::newest();
    let found = rows.into_iter().next().map(|mut row| row.int()).transpose()?;
    Ok(match found {
        Some(version) if version == newest => {
            finding(Level::Good, "schema", format!("version {version}"), None)
        }
        Some(version) => finding(
            Level::Bad,
            "schema",
            format!("version {version}, this program knows {newest}: another program migrated it meanwhile"),
            Some("restart with the newer version of the program"),
        ),
        None => finding(Level::Bad, "schema", "it has no version", Some("run `backstop migrate`")),
    })
}

/// Tables and indexes that are not there, or are not valid.
async fn drift(unit: &mut Unit) -> Result<Vec<Finding>, Failure> {
    let schema = unit.shared.schema.name().to_owned();
    let rows = unit.one(Query::new(sql::RELATIONS, vec![Value::text(&schema)])).await?;
    let mut present = Vec::new();
    for mut row in rows {
        let (name, valid) = (row.text()?, row.bool()?);
        if valid {
            present.push(name);
        }
    }
    let missing: Vec<&str> =
        schema::relations().filter(|name| !present.iter().any(|found| found == name)).collect();
    if missing.is_empty() {
        return Ok(vec![finding(Level::Good, "tables", "all tables and indexes are there and valid", None)]);
    }
    let message = format!("missing or invalid in schema {schema}: {}", missing.join(", "));
    let hint =
        "somebody dropped or broke them: recreate them as docs/operate/postgres.md says, or restore a backup";
    Ok(vec![finding(Level::Bad, "tables", message, Some(hint))])
}

fn horizon_of(rows: Vec<Row>) -> Result<Finding, Failure> {
    let mut old = Vec::new();
    for mut row in rows {
        let (pid, seconds, user, state) = (row.int()?, row.int()?, row.text()?, row.text()?);
        old.push(format!("pid {pid} ({user}, {state}) since {seconds} s"));
    }
    if old.is_empty() {
        return Ok(finding(Level::Good, "horizon", "no old transaction keeps dead rows alive", None));
    }
    let message = format!("old transactions keep dead rows from being removed: {}", old.join("; "));
    let hint = "find out what they do; end one with SELECT pg_terminate_backend(pid)";
    Ok(finding(Level::Warning, "horizon", message, Some(hint)))
}

/// Transactions that others wait for at this moment; none when there are none.
fn blockers(rows: Vec<Row>) -> Result<Option<Finding>, Failure> {
    let mut found = Vec::new();
    for mut row in rows {
        let (pid, seconds, user, state) = (row.int()?, row.int()?, row.text()?, row.text()?);
        found.push(format!("pid {pid} ({user}, {state}, since {seconds} s) holds up {}", row.int()?));
    }
    let message = format!("sessions wait for locks of open transactions: {}", found.join("; "));
    let hint = "calls that need the same are refused as busy; end one with SELECT pg_terminate_backend(pid)";
    Ok((!found.is_empty()).then(|| finding(Level::Warning, "locks", message, Some(hint))))
}

async fn skew(unit: &mut Unit) -> Result<Finding, Failure> {
    let server = crate::shared::moment_of(unit.one(Query::new(sql::CLOCK, vec![Value::Int(None)])).await?)?;
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let here = i64::try_from(here.as_micros()).unwrap_or(i64::MAX);
    let apart = (server.as_micros() - here) / 1_000_000;
    if apart.abs() < SKEW_SECONDS {
        return Ok(finding(Level::Good, "clock", "this machine and the server agree", None));
    }
    let message = format!("the server's clock is {apart} s ahead of this machine's; jobs go by the server's");
    Ok(finding(Level::Warning, "clock", message, Some("run a time service on both")))
}
