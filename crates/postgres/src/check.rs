//! What `doctor` says of this store: every setting that could lose an acknowledged job, and anything else unusual.

use backstop_sql::check::{self, finding};
use backstop_sql::row::first;
use backstop_sql::{Query, Row, Session, SqlFailure, Transaction, Value};
use backstop_store::{Finding, Level};

use crate::schema;
use crate::sql;
use crate::state::ServerState;

/// All findings.
pub(crate) async fn check(tx: &mut Transaction, state: &ServerState) -> Result<Vec<Finding>, SqlFailure> {
    let mut findings = Vec::new();
    for mut row in tx.one(Query::new(sql::SETTINGS, Vec::new())).await? {
        findings.extend(setting(&row.text()?, &row.text()?));
    }
    findings.push(connection(tx, state).await?);
    findings.push(drift(tx, state).await?);
    let age = i64::try_from(state.old_transaction.as_secs()).unwrap_or(i64::MAX);
    let horizon = tx.one(Query::new(sql::OLD_TRANSACTIONS, vec![Value::int(age)])).await?;
    findings.push(horizon_of(horizon)?);
    findings.extend(blockers(tx.one(Query::new(sql::BLOCKERS, Vec::new())).await?)?);
    let version = Query::new(schema::VERSION, Vec::new());
    findings.extend(check::rest(tx, version, schema::newest()).await?);
    Ok(findings)
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
            format!("{other}: transactions conflict more often and are retried"),
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
async fn connection(tx: &mut Transaction, state: &ServerState) -> Result<Finding, SqlFailure> {
    let rows = tx.one(Query::new(sql::IS_ENCRYPTED, Vec::new())).await?;
    let there = first(rows, Row::bool)?;
    let here = state.encryption.promised().or(if state.direct { there } else { None });
    Ok(state.encryption.finding(here, there))
}

fn server_version(number: &str) -> Finding {
    let major = number.parse::<i64>().unwrap_or(0) / 10_000;
    if major >= 15 {
        return finding(Level::Good, "server version", format!("PostgreSQL {major}"), None);
    }
    let message = format!("PostgreSQL {major}; this store is tested on 15 and newer");
    finding(Level::Warning, "server version", message, Some("upgrade the server"))
}

/// Tables and indexes that are not there, or are not valid.
async fn drift(tx: &mut Transaction, state: &ServerState) -> Result<Finding, SqlFailure> {
    let schema = state.schema.name();
    let rows = tx.one(Query::new(sql::RELATIONS, vec![Value::text(schema)])).await?;
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
        return Ok(check::good("tables", "all tables and indexes are there and valid"));
    }
    let message = format!("missing or invalid in schema {schema}: {}", missing.join(", "));
    let hint =
        "somebody dropped or broke them: recreate them as docs/operate/postgres.md says, or restore a backup";
    Ok(finding(Level::Bad, "tables", message, Some(hint)))
}

fn horizon_of(rows: Vec<Row>) -> Result<Finding, SqlFailure> {
    let mut old = Vec::new();
    for mut row in rows {
        let (pid, seconds, user, state) = (row.int()?, row.int()?, row.text()?, row.text()?);
        old.push(format!("pid {pid} ({user}, {state}) since {seconds} s"));
    }
    Ok(check::horizon(&old, "find out what they do; end one with SELECT pg_terminate_backend(pid)"))
}

/// Transactions that others wait for at this moment; none when there are none.
fn blockers(rows: Vec<Row>) -> Result<Option<Finding>, SqlFailure> {
    let mut found = Vec::new();
    for mut row in rows {
        let (pid, seconds, user, state) = (row.int()?, row.int()?, row.text()?, row.text()?);
        found.push(format!("pid {pid} ({user}, {state}, since {seconds} s) blocks {}", row.int()?));
    }
    let message = format!("sessions wait for locks of open transactions: {}", found.join("; "));
    let hint =
        "calls that need the same rows are refused as busy; end one with SELECT pg_terminate_backend(pid)";
    Ok((!found.is_empty()).then(|| finding(Level::Warning, "locks", message, Some(hint))))
}
