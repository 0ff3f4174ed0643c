//! What `doctor` says of this store: every setting that could lose an acknowledged job, and anything else unusual.

use std::collections::{HashMap, HashSet};

use backstop_sql::check::{self, finding, good};
use backstop_sql::{Query, Row, Session, SqlFailure, Transaction, Value};
use backstop_store::{Finding, Level};

use crate::error::NOT_ALLOWED;
use crate::schema;
use crate::sql;
use crate::state::ServerState;

/// A job with the largest payload, written into a statement, takes a few of these.
const SMALL_PACKET: u64 = 16 * 1024 * 1024;

/// All findings.
pub(crate) async fn check(tx: &mut Transaction, state: &ServerState) -> Result<Vec<Finding>, SqlFailure> {
    let mut settings = HashMap::new();
    for mut row in tx.one(Query::new(sql::SETTINGS, Vec::new())).await? {
        settings.insert(row.text()?, row.text()?);
    }
    let mut findings = of_settings(&settings);
    findings.push(connection(tx, state).await?);
    findings.extend(drift(tx, state).await?);
    findings.push(horizon(tx, state).await?);
    let version = Query::new(schema::VERSION, Vec::new());
    findings.extend(check::rest(tx, version, schema::newest()).await?);
    Ok(findings)
}

/// What the settings mean for jobs that were acknowledged.
fn of_settings(settings: &HashMap<String, String>) -> Vec<Finding> {
    let value = |name: &str| settings.get(name).map(String::as_str).unwrap_or_default();
    let logs = matches!(value("log_bin"), "ON" | "1");
    let mut findings = vec![
        match value("innodb_flush_log_at_trx_commit") {
            "1" | "3" => {
                good("innodb_flush_log_at_trx_commit", "a commit is on the disk before it is acknowledged")
            }
            other => finding(
                Level::Bad,
                "innodb_flush_log_at_trx_commit",
                format!("{other}: a crash loses jobs that were acknowledged"),
                Some("set innodb_flush_log_at_trx_commit = 1"),
            ),
        },
        match value("innodb_doublewrite") {
            "OFF" | "0" | "DETECT_ONLY" => finding(
                Level::Bad,
                "innodb_doublewrite",
                "off: a crash of the machine can destroy tables",
                Some("set innodb_doublewrite = ON"),
            ),
            _ => good("innodb_doublewrite", "torn pages are repaired after a crash"),
        },
        match value("read_only") {
            "OFF" | "0" => good("read_only", "writes are allowed"),
            other => finding(
                Level::Bad,
                "read_only",
                format!("{other}: this is a replica, or was made read-only"),
                Some("name the primary in the URL"),
            ),
        },
        of_session(
            value("sql_mode"),
            &format!("{}{}", value("transaction_isolation"), value("tx_isolation")),
        ),
        packet(value("max_allowed_packet")),
        server_version(value("version")),
    ];
    findings
        .extend(logs.then(|| binary_log(value("sync_binlog"), value("binlog_format"))).into_iter().flatten());
    findings
}

fn binary_log(sync: &str, format: &str) -> Vec<Finding> {
    let synced = match sync {
        "1" => good("sync_binlog", "the binary log is on the disk before a commit is acknowledged"),
        other => finding(
            Level::Warning,
            "sync_binlog",
            format!("{other}: after a crash a replica can be without jobs that were acknowledged"),
            Some("set sync_binlog = 1"),
        ),
    };
    let told = match format {
        "STATEMENT" => finding(
            Level::Bad,
            "binlog_format",
            "STATEMENT: the server refuses writes under READ COMMITTED",
            Some("set binlog_format = ROW"),
        ),
        _ => good("binlog_format", "replicas receive rows"),
    };
    vec![synced, told]
}

/// What our own sessions are like: a proxy on the way may have kept their settings from the server.
fn of_session(mode: &str, isolation: &str) -> Finding {
    let (strict, committed) = (mode.contains("STRICT_ALL_TABLES"), isolation.contains("READ-COMMITTED"));
    if strict && committed {
        return good("session", "strict, and READ COMMITTED");
    }
    finding(
        Level::Bad,
        "session",
        format!(
            "sql_mode is {mode:?} and the isolation {isolation}: what this store sets does not reach the server"
        ),
        Some("connect without the proxy, or let it pass SET SESSION on"),
    )
}

fn packet(bytes: &str) -> Finding {
    if bytes.parse::<u64>().is_ok_and(|bytes| bytes >= SMALL_PACKET) {
        return good("max_allowed_packet", "every job fits into one packet");
    }
    finding(
        Level::Warning,
        "max_allowed_packet",
        format!("{bytes} bytes: a large payload or result may be refused"),
        Some("set max_allowed_packet = 16M or more"),
    )
}

fn server_version(version: &str) -> Finding {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (name, oldest) = if version.contains("MariaDB") { ("MariaDB", (10, 6)) } else { ("MySQL", (8, 0)) };
    if found >= oldest {
        return good("server version", format!("{name} {version}"));
    }
    let message = format!("{name} {version}; this store needs {}.{} or newer", oldest.0, oldest.1);
    finding(Level::Bad, "server version", message, Some("upgrade the server"))
}

/// How this very connection is protected. The server tells of the way that ends at it: behind a proxy it is not ours.
async fn connection(tx: &mut Transaction, state: &ServerState) -> Result<Finding, SqlFailure> {
    let rows = tx.one(Query::new(sql::CIPHER, Vec::new())).await?;
    let cipher = rows.into_iter().next().map(|mut row| {
        row.skip(1);
        row.text()
    });
    let there = cipher.transpose()?.map(|cipher| !cipher.is_empty());
    let here = state.opts.ssl_opts().is_some();
    Ok(state.encryption.finding(Some(here), there))
}

/// Tables and indexes that are not there, and tables of an engine without transactions.
async fn drift(tx: &mut Transaction, state: &ServerState) -> Result<Vec<Finding>, SqlFailure> {
    let prefix = state.prefix.name();
    // An underscore stands for any character in such a pattern, which only finds more.
    let pattern = || vec![Value::text(format!("{prefix}%"))];
    let batch = vec![Query::new(sql::TABLES, pattern()), Query::new(sql::INDEXES, pattern())];
    let mut answers = tx.run(batch).await?;
    let pairs = |rows: Vec<Row>| {
        rows.into_iter()
            .map(|mut row| Ok((row.text()?, row.text()?)))
            .collect::<Result<HashSet<_>, SqlFailure>>()
    };
    let indexes = pairs(answers.pop().unwrap_or_default())?;
    let engines: HashMap<String, String> = pairs(answers.pop().unwrap_or_default())?.into_iter().collect();
    let (mut missing, mut foreign) = (Vec::new(), Vec::new());
    for table in schema::tables() {
        let name = format!("{prefix}{}", table.name);
        match engines.get(&name) {
            None => missing.push(name.clone()),
            Some(engine) if engine != "InnoDB" => foreign.push(format!("{name} ({engine})")),
            Some(_) => {}
        }
        let gone =
            table.indexes.iter().filter(|index| !indexes.contains(&(name.clone(), (**index).to_owned())));
        missing.extend(gone.map(|index| format!("{name}.{index}")));
    }
    let mut findings = Vec::new();
    if !missing.is_empty() {
        let hint = "somebody dropped them: recreate them as docs/operate/mysql.md says, or restore a backup";
        let message = format!("missing: {}", missing.join(", "));
        findings.push(finding(Level::Bad, "tables", message, Some(hint)));
    }
    if !foreign.is_empty() {
        let message = format!("without transactions: {}", foreign.join(", "));
        findings.push(finding(Level::Bad, "tables", message, Some("ALTER TABLE ... ENGINE = InnoDB")));
    }
    if findings.is_empty() {
        findings.push(good("tables", "all tables and indexes are there and use InnoDB"));
    }
    Ok(findings)
}

/// Transactions that keep old versions of rows alive.
async fn horizon(tx: &mut Transaction, state: &ServerState) -> Result<Finding, SqlFailure> {
    let age = i64::try_from(state.old_transaction.as_secs()).unwrap_or(i64::MAX);
    let query = Query::new(sql::OLD_TRANSACTIONS, vec![Value::int(age)]);
    let rows = match tx.one(query).await {
        Err(failure) if failure.has_code(NOT_ALLOWED) => {
            return Ok(finding(
                Level::Warning,
                "horizon",
                "this user may not look for old transactions",
                Some("grant PROCESS to it"),
            ));
        }
        other => other?,
    };
    let mut old = Vec::new();
    for mut row in rows {
        let (id, seconds) = (row.int()?, row.int()?);
        old.push(format!("connection {id} since {seconds} s"));
    }
    Ok(check::horizon(&old, "find out what they do; end one with KILL and its number"))
}
