//! What `doctor` says of this store: every setting that could lose an acknowledged job, and anything else unusual.

use std::path::{Path, PathBuf};

use backstop_store::{Finding, Level};
use rusqlite::Connection;

use crate::context::StoreContext;
use crate::error::SqliteFailure;
use crate::open::setting;
use crate::options::Synchronous;
use crate::schema;

/// A log larger than this means that something keeps it from being moved into the file.
const LARGE_LOG_BYTES: u64 = 512 * 1024 * 1024;

/// All findings.
pub(crate) fn check(conn: &Connection, context: &StoreContext) -> Result<Vec<Finding>, SqliteFailure> {
    let mut findings = vec![
        journal_mode(&setting(conn, "journal_mode")?),
        synchronous(context.synchronous),
        schema_version(schema::version(conn)?),
        integrity(conn)?,
        log_size(&context.path),
        context.fences.finding(),
    ];
    findings.extend(permissions(&context.path));
    Ok(findings)
}

fn finding(level: Level, subject: &str, message: impl Into<String>, hint: Option<&str>) -> Finding {
    Finding { level, subject: subject.to_owned(), message: message.into(), hint: hint.map(ToOwned::to_owned) }
}

fn journal_mode(mode: &str) -> Finding {
    let subject = "journal mode";
    if mode.eq_ignore_ascii_case("wal") {
        return finding(Level::Good, subject, "write-ahead log", None);
    }
    let hint = "another program changed it: close that program, then open the store again";
    finding(Level::Bad, subject, format!("{mode} instead of the write-ahead log"), Some(hint))
}

fn synchronous(level: Synchronous) -> Finding {
    let subject = "synchronous";
    match level {
        Synchronous::Full => {
            finding(Level::Good, subject, "every commit is synced before it is acknowledged", None)
        }
        Synchronous::Normal => finding(
            Level::Bad,
            subject,
            "commits are not synced one by one: a power failure can lose jobs that were acknowledged",
            Some("open the store with synchronous = full"),
        ),
    }
}

fn schema_version(found: Option<i64>) -> Finding {
    let newest = schema::newest();
    match found {
        Some(version) if version == newest => {
            finding(Level::Good, "schema", format!("version {version}"), None)
        }
        Some(version) => finding(
            Level::Bad,
            "schema",
            format!("version {version}, this program knows {newest}: another program has migrated it"),
            Some("restart with the newer version of the program"),
        ),
        None => finding(
            Level::Bad,
            "schema",
            "the Backstop tables are gone from the file",
            Some("look for another program that writes to it"),
        ),
    }
}

fn integrity(conn: &Connection) -> Result<Finding, SqliteFailure> {
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(if verdict == "ok" {
        finding(Level::Good, "integrity", "the quick check found no errors", None)
    } else {
        let hint = "stop the workers, keep a copy of the file, and restore a backup";
        finding(Level::Bad, "integrity", verdict, Some(hint))
    })
}

fn log_size(path: &Path) -> Finding {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    let bytes = PathBuf::from(name).metadata().map_or(0, |data| data.len());
    let message = format!("{} MiB", bytes / (1024 * 1024));
    if bytes < LARGE_LOG_BYTES {
        return finding(Level::Good, "write-ahead log", message, None);
    }
    let hint = "a process keeps an old snapshot open: look for long reads by other programs";
    finding(Level::Warning, "write-ahead log", message, Some(hint))
}

#[cfg(unix)]
fn permissions(path: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().ok()?.permissions().mode();
    let message = format!("mode {:o}", mode & 0o7777);
    let others = match mode {
        mode if mode & 0o022 != 0 => "change",
        mode if mode & 0o044 != 0 => "read",
        _ => return Some(finding(Level::Good, "permissions", message, None)),
    };
    let hint = format!("payloads may hold secrets: chmod 600 {0} {0}-wal {0}-shm", path.display());
    Some(finding(
        Level::Warning,
        "permissions",
        format!("{message}: other users may {others} it"),
        Some(&hint),
    ))
}

#[cfg(not(unix))]
fn permissions(_path: &Path) -> Option<Finding> {
    None
}
