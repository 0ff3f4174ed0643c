//! From a path to connections: what the file is, its settings, its schema.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use backstop_store::Error;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{SqliteFailure, meaning, unusable};
use crate::options::{Options, Synchronous};
use crate::schema::{self, pragma};
use crate::sql;

/// Bytes of a page. Larger than SQLite's 4096: with rows of a few hundred bytes, trees are flatter and fewer frames
/// go into the log. Measured: claim and finish of batches of 500 gain 5 to 10 percent over 4096.
const PAGE_BYTES: i64 = 8192;
/// Pages in the log before they are moved into the file, about 16 MB: rare enough to cost little, small enough to
/// be read back quickly after a crash.
const CHECKPOINT_PAGES: i64 = 2_000;
/// Bytes that the log file keeps after it was moved into the file.
const LOG_BYTES: i64 = 64 * 1024 * 1024;
/// KiB of pages that a connection keeps in memory; SQLite takes KiB as a negative number. A writer and two readers
/// together stay far below 200 MB, however large the file is.
const WRITER_CACHE_KIB: i64 = -48 * 1024;
const READER_CACHE_KIB: i64 = -8 * 1024;
/// Prepared statements that a connection keeps: all of ours, and some variants of listings.
const STATEMENTS: usize = 128;

/// Repeats `work` while another connection holds a lock, for at most `patience`.
///
/// SQLite's own busy handler is not called in some cases (a fresh file that two processes set up at once, a log
/// under recovery), and sleeps too long in others.
pub(crate) fn retry_while_busy<T>(
    patience: Duration,
    mut work: impl FnMut() -> Result<T, SqliteFailure>,
) -> Result<T, SqliteFailure> {
    let start = Instant::now();
    let mut tries = 0;
    loop {
        match work() {
            Err(failure) if failure.is_busy() && start.elapsed() < patience => {
                thread::sleep(pause_before_retry(tries, start.elapsed()));
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

/// How long to sleep between two tries for a lock. A connection that has waited long tries more often, because the lock
/// goes to whichever happens to try at the right moment.
fn pause_before_retry(tries: u32, waited: Duration) -> Duration {
    if waited > Duration::from_millis(200) {
        Duration::from_micros(20)
    } else if waited > Duration::from_millis(40) {
        Duration::from_micros(100)
    } else {
        Duration::from_micros(50 << tries.min(3))
    }
}

/// Opens the file for writing, and brings it to the newest schema if that is allowed.
pub(crate) fn writer(path: &Path, options: &Options) -> Result<Connection, Error> {
    let location = path.display().to_string();
    check_path(path, &location, options.create)?;
    let conn = connect(path, options.create).map_err(|error| meaning(&error, &location))?;
    // Only `retry_while_busy` waits: SQLite would sleep up to 100 ms between tries and never get the lock.
    conn.busy_timeout(Duration::ZERO).map_err(|error| meaning(&error, &location))?;
    let set_up = || -> Result<Connection, SqliteFailure> {
        let found = retry_while_busy(options.busy_timeout, || schema::version(&conn))?;
        accept(found, &location, options.migrate)?;
        retry_while_busy(options.busy_timeout, || use_log(&conn, &location))?;
        if found != Some(schema::newest()) {
            retry_while_busy(options.busy_timeout, || migrate(&conn, &location))?;
        } else {
            retry_while_busy(options.busy_timeout, || Ok(conn.prepare_cached(sql::STAMP)?.execute([])?))?;
        }
        retry_while_busy(options.busy_timeout, || tune_writer(&conn, options.synchronous))?;
        Ok(conn)
    };
    set_up().map_err(|failure| failure.into_error(&location))
}

/// Opens a file that [`writer`] has set up, for reading only.
pub(crate) fn reader(path: &Path, busy_timeout: Duration) -> Result<Connection, Error> {
    let set_up = || -> Result<Connection, SqliteFailure> {
        let conn = connect(path, false)?;
        conn.busy_timeout(busy_timeout)?;
        tune(&conn, READER_CACHE_KIB)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    set_up().map_err(|failure| failure.into_error(&path.display().to_string()))
}

fn connect(path: &Path, create: bool) -> rusqlite::Result<Connection> {
    // Each connection belongs to one thread, so SQLite's own locks would only cost.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        make_private(path);
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    Connection::open_with_flags(path, flags)
}

/// Makes a new file that only its owner can read: payloads may hold secrets. SQLite gives the log beside it the same
/// permissions. When this fails, SQLite tries again and says why.
fn make_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

fn tune_writer(conn: &Connection, synchronous: Synchronous) -> Result<(), SqliteFailure> {
    tune(conn, WRITER_CACHE_KIB)?;
    let level = match synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", level)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    Ok(())
}

fn tune(conn: &Connection, cache_kib: i64) -> Result<(), SqliteFailure> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // A plan depends on the statement alone. Otherwise one with a range is planned again for every value of its bounds,
    // which took a quarter of a claim over many queues.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "cache_size", cache_kib)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "foreign_keys", false)?;
    Ok(())
}

/// Says what is wrong with a path more clearly than SQLite's "unable to open database file".
fn check_path(path: &Path, location: &str, create: bool) -> Result<(), Error> {
    let refuse = |problem: &str, hint: &str| Err(unusable(location.to_owned(), problem, hint));
    if path.is_dir() {
        return refuse("it is a directory", "name a file in it, such as backstop.db");
    }
    if path.exists() {
        return Ok(());
    }
    if !create {
        return refuse("there is no such file", "check the name, or let it be created");
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            refuse("its directory does not exist", "create the directory first")
        }
        _ => Ok(()),
    }
}

fn accept(found: Option<i64>, location: &str, migrate: bool) -> Result<(), SqliteFailure> {
    let newest = schema::newest();
    let refuse = |problem: String, hint: &str| {
        Err(SqliteFailure::Refused(unusable(location.to_owned(), problem, hint)))
    };
    match found {
        Some(version) if version > newest => refuse(
            format!(
                "it was written by a newer Backstop (schema {version}, this program knows up to {newest})"
            ),
            "use that version of the program",
        ),
        Some(version) if version == newest => Ok(()),
        _ if migrate => Ok(()),
        Some(version) => refuse(
            format!("its schema is version {version}, this program needs {newest}"),
            "run `backstop migrate`",
        ),
        None => refuse("it has no Backstop tables".to_owned(), "run `backstop migrate`"),
    }
}

/// Turns the write-ahead log on. The page size of a file that holds something already stays as it is.
fn use_log(conn: &Connection, location: &str) -> Result<(), SqliteFailure> {
    conn.pragma_update(None, "page_size", PAGE_BYTES)?;
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(SqliteFailure::Refused(unusable(
        location.to_owned(),
        format!("its file system does not support a write-ahead log (journal mode {mode})"),
        "put the file on a local disk",
    )))
}

fn migrate(conn: &Connection, location: &str) -> Result<(), SqliteFailure> {
    conn.execute_batch(sql::BEGIN_WRITE)?;
    let applied = apply_missing(conn, location).and_then(|()| Ok(conn.execute_batch("COMMIT")?));
    if applied.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    applied
}

/// Applies what the file has not seen. Another process may have been here since it was looked at.
fn apply_missing(conn: &Connection, location: &str) -> Result<(), SqliteFailure> {
    let found = schema::version(conn)?;
    accept(found, location, true)?;
    for (leads_to, statements) in schema::missing(found.unwrap_or(0)) {
        schema::apply(conn, leads_to, statements)?;
    }
    Ok(())
}

/// The settings that `doctor` looks at.
pub(crate) fn setting(conn: &Connection, name: &str) -> Result<String, SqliteFailure> {
    pragma::<rusqlite::types::Value>(conn, name).map(|value| match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    })
}
