//! What `doctor` says of this store: every setting that would lose an acknowledged job, and what else is odd.

use std::collections::{HashMap, HashSet};

use backstop_store::{Finding, Level};

use crate::error::Failure;
use crate::schema;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// Clocks further apart than this are worth a word: nothing goes by ours, but people compare logs.
const SKEW_SECONDS: i64 = 5;
/// The server's word for a right that is missing to look at the transactions of others.
const NOT_ALLOWED: u16 = 1227;
/// A job with the largest payload, written into a statement, takes a few of these.
const SMALL_PACKET: u64 = 16 * 1024 * 1024;

/// Looks at everything.
pub(crate) async fn check(unit: &mut Unit) -> Result<Vec<Finding>, Failure> {
    let mut settings = HashMap::new();
    for mut row in unit.one(Query::new(sql::SETTINGS, Vec::new())).await? {
        settings.insert(row.text()?, row.text()?);
    }
    let mut findings = of_settings(&settings);
    findings.push(connection(unit).await?);
    findings.push(version(unit).await?);
    findings.extend(drift(unit).await?);
    findings.push(horizon(unit).await?);
    findings.push(skew(unit).await?);
    findings.push(unit.shared.fences.finding());
    Ok(findings)
}

fn finding(level: Level, subject: &str, message: impl Into<String>, hint: Option<&str>) -> Finding {
    Finding { level, subject: subject.to_owned(), message: message.into(), hint: hint.map(ToOwned::to_owned) }
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

fn good(subject: &str, message: &str) -> Finding {
    finding(Level::Good, subject, message, None)
}

fn binary_log(sync: &str, format: &str) -> Vec<Finding> {
    let synced = match sync {
        "1" => good("sync_binlog", "what replicas are told is on the disk before a commit is acknowledged"),
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
        _ => good("binlog_format", "replicas are told rows"),
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
        return finding(Level::Good, "server version", format!("{name} {version}"), None);
    }
    let message = format!("{name} {version}; this store needs {}.{} or newer", oldest.0, oldest.1);
    finding(Level::Bad, "server version", message, Some("upgrade the server"))
}

/// How this very connection is protected. The server tells of the way that ends at it: behind a proxy it is not ours.
async fn connection(unit: &mut Unit) -> Result<Finding, Failure> {
    let rows = unit.one(Query::new(sql::CIPHER, Vec::new())).await?;
    let cipher = rows.into_iter().next().map(|mut row| {
        row.skip(1);
        row.text()
    });
    let there = cipher.transpose()?.map(|cipher| !cipher.is_empty());
    let here = unit.shared.opts.ssl_opts().is_some();
    Ok(unit.shared.encryption.finding(Some(here), there))
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

/// Tables and indexes that are not there, and tables of an engine without transactions.
async fn drift(unit: &mut Unit) -> Result<Vec<Finding>, Failure> {
    let prefix = unit.shared.prefix.name().to_owned();
    // An underscore stands for any character in such a pattern, which only finds more.
    let pattern = || vec![Value::text(format!("{prefix}%"))];
    let batch = vec![Query::new(sql::TABLES, pattern()), Query::new(sql::INDEXES, pattern())];
    let mut answers = unit.run(batch).await?;
    let pairs = |rows: Vec<Row>| {
        rows.into_iter()
            .map(|mut row| Ok((row.text()?, row.text()?)))
            .collect::<Result<HashSet<_>, Failure>>()
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
        findings.push(good("tables", "all tables and indexes are there, and of InnoDB"));
    }
    Ok(findings)
}

/// Transactions that keep old versions of rows alive.
async fn horizon(unit: &mut Unit) -> Result<Finding, Failure> {
    let age = i64::try_from(unit.shared.old_transaction.as_secs()).unwrap_or(i64::MAX);
    let query = Query::new(sql::OLD_TRANSACTIONS, vec![Value::int(age)]);
    let rows = match unit.one(query).await {
        Err(Failure::Database { code: NOT_ALLOWED, .. }) => {
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
    if old.is_empty() {
        return Ok(good("horizon", "no old transaction keeps dead rows alive"));
    }
    let message = format!("old transactions keep dead rows from being removed: {}", old.join("; "));
    let hint = "find out what they do; end one with KILL and its number";
    Ok(finding(Level::Warning, "horizon", message, Some(hint)))
}

async fn skew(unit: &mut Unit) -> Result<Finding, Failure> {
    let server = crate::shared::moment_of(unit.one(Query::new(sql::CLOCK, vec![Value::Int(None)])).await?)?;
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let here = i64::try_from(here.as_micros()).unwrap_or(i64::MAX);
    let apart = (server.as_micros() - here) / 1_000_000;
    if apart.abs() < SKEW_SECONDS {
        return Ok(good("clock", "this machine and the server agree"));
    }
    let message = format!("the server's clock is {apart} s ahead of this machine's; jobs go by the server's");
    Ok(finding(Level::Warning, "clock", message, Some("run a time service on both")))
}
