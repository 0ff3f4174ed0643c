//! The tables, as a list of migrations, and how a file is brought to the newest one.
//!
//! A migration and its number are written in one transaction: a process killed at any statement leaves the old
//! version or the new one, never something between. A published migration is never edited; add another.

use rusqlite::Connection;

use crate::error::SqliteFailure;
use crate::{rows, sql};

/// Every migration, oldest first. The version of a file is the number of those it has seen.
pub(crate) const MIGRATIONS: &[&[&str]] = &[FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH];

/// The newest version this program knows.
pub(crate) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Measured against tables keyed by the 16 bytes of the id: integer keys (`seq`) make claim and finish 1.4 times
/// as fast, because each job is touched in five trees. The id stands in `state` only, where every lookup begins.
pub const FIRST: &[&str] = &[
    "CREATE TABLE backstop_meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO backstop_meta (key, value) VALUES ('fence', 0)",
    // Jobs of one queue, kind, version and priority form a lane. Its counts are kept with every move of a job.
    "CREATE TABLE backstop_lane (
        id INTEGER PRIMARY KEY,
        queue TEXT NOT NULL,
        kind TEXT NOT NULL,
        version INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        pending INTEGER NOT NULL DEFAULT 0,
        running INTEGER NOT NULL DEFAULT 0,
        succeeded INTEGER NOT NULL DEFAULT 0,
        failed INTEGER NOT NULL DEFAULT 0,
        paused INTEGER NOT NULL DEFAULT 0,
        canceled INTEGER NOT NULL DEFAULT 0,
        waiting INTEGER NOT NULL DEFAULT 0,
        UNIQUE (queue, kind, version, priority))",
    // What never changes. Written once, at submit.
    "CREATE TABLE backstop_job (
        seq INTEGER PRIMARY KEY,
        created_at INTEGER NOT NULL,
        payload TEXT NOT NULL,
        policy TEXT,
        expires_at INTEGER,
        idempotency_key TEXT,
        business_key TEXT,
        correlation_id TEXT,
        tags TEXT,
        params TEXT,
        on_success TEXT,
        on_failure TEXT,
        callback_of BLOB)",
    "CREATE INDEX backstop_job_business_key ON backstop_job (business_key) WHERE business_key IS NOT NULL",
    // What changes: `backstop_core::job::Record`.
    "CREATE TABLE backstop_state (
        seq INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        lane INTEGER NOT NULL,
        status INTEGER NOT NULL,
        run_at INTEGER NOT NULL,
        expires_at INTEGER,
        attempt INTEGER NOT NULL,
        crashes INTEGER NOT NULL,
        deferrals INTEGER NOT NULL,
        runs INTEGER NOT NULL,
        redrives INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        worker BLOB,
        claimed_at INTEGER,
        started_at INTEGER,
        last_failed_run INTEGER,
        progress TEXT,
        paused_from INTEGER,
        finished_at INTEGER,
        reason TEXT,
        cancel_reason TEXT,
        superseded_by BLOB,
        business_key TEXT)",
    // The claim path.
    "CREATE INDEX backstop_state_pending ON backstop_state (lane, run_at, id) WHERE status = 1",
    "CREATE INDEX backstop_state_expiring ON backstop_state (expires_at, id) WHERE status = 1 AND expires_at IS \
         NOT NULL",
    // What is held by a worker (2), and the lists that people read (3 to 6: waiting, paused, failed, canceled). One
    // index for both, because each one costs every write of a record 5 percent.
    "CREATE INDEX backstop_state_shelf ON backstop_state (status, id) WHERE status BETWEEN 2 AND 6",
    // What has ended, by when: the archival reads the beginning of it (L16). Without the id, which would make it
    // twice as large to order what ended in the same moment.
    "CREATE INDEX backstop_state_ended ON backstop_state (status, finished_at) WHERE status >= 5",
    // L11: the key cannot be forgotten, whatever the code above it does.
    "CREATE UNIQUE INDEX backstop_state_live_key ON backstop_state (business_key) WHERE business_key IS NOT \
         NULL AND status < 5",
    // The ledger: one row for each run that ended. Never changed.
    "CREATE TABLE backstop_attempt (
        job INTEGER NOT NULL,
        number INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        worker BLOB NOT NULL,
        code_version TEXT,
        cause TEXT NOT NULL,
        due_at INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        finished_at INTEGER NOT NULL,
        error_type TEXT,
        message TEXT,
        fingerprint TEXT,
        decision TEXT,
        result TEXT,
        warning TEXT,
        output TEXT,
        PRIMARY KEY (job, number)) WITHOUT ROWID",
    "CREATE INDEX backstop_attempt_fingerprint ON backstop_attempt (fingerprint, job, number) WHERE fingerprint \
         IS NOT NULL",
    "CREATE TABLE backstop_tag (tag TEXT NOT NULL, id BLOB NOT NULL, PRIMARY KEY (tag, id)) WITHOUT ROWID",
    // L10: kept for ever, also when the job is gone.
    "CREATE TABLE backstop_idempotency (key TEXT PRIMARY KEY, job BLOB NOT NULL) WITHOUT ROWID",
    // L16: jobs that have left `state`, `job`, `attempt` and `tag`.
    "CREATE TABLE backstop_archive (
        id BLOB PRIMARY KEY,
        status INTEGER NOT NULL,
        finished_at INTEGER NOT NULL,
        archived_at INTEGER NOT NULL,
        document TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE backstop_queue (name TEXT PRIMARY KEY, paused INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE backstop_worker (
        id BLOB PRIMARY KEY,
        name TEXT NOT NULL,
        code_version TEXT,
        queues TEXT NOT NULL,
        kinds TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE backstop_duty (
        name TEXT PRIMARY KEY,
        number INTEGER NOT NULL,
        node BLOB NOT NULL,
        expires_at INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE backstop_incident (
        fingerprint TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        error_type TEXT NOT NULL,
        message TEXT NOT NULL,
        failures INTEGER NOT NULL,
        dead INTEGER NOT NULL,
        first_seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL,
        sample_job BLOB NOT NULL) WITHOUT ROWID",
    "CREATE INDEX backstop_incident_latest ON backstop_incident (last_seen DESC, fingerprint)",
];

/// Dead letters that are looked after (D2-D5). Every new column may be absent or has a default: a program of version 1
/// that still has the file open goes on working.
const SECOND: &[&str] = &[
    // `backstop_core::job::Marks`; most jobs have none.
    "ALTER TABLE backstop_state ADD COLUMN marks TEXT",
    "ALTER TABLE backstop_incident ADD COLUMN open INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE backstop_incident ADD COLUMN first_version TEXT",
    "ALTER TABLE backstop_incident ADD COLUMN last_version TEXT",
    "ALTER TABLE backstop_incident ADD COLUMN standing TEXT",
    // Whether a run of it was ever started. Where that cannot be read it stays unknown, and the job is never pruned.
    "ALTER TABLE backstop_archive ADD COLUMN ran INTEGER",
    "UPDATE backstop_archive SET ran = json_extract(document, '$.job.runs') > 0 WHERE json_valid(document)",
    "CREATE INDEX backstop_archive_outworn ON backstop_archive (archived_at, id) WHERE ran = 1",
    // How its job had ended, once that job was purged (L10, D5). Found by the job too, because an id that comes again
    // may bring another key; only what was purged is in that index.
    "ALTER TABLE backstop_idempotency ADD COLUMN ended INTEGER",
    "CREATE INDEX backstop_idempotency_ended ON backstop_idempotency (job) WHERE ended IS NOT NULL",
    "ALTER TABLE backstop_queue ADD COLUMN note TEXT",
    "CREATE TABLE backstop_document (
        drawer TEXT NOT NULL,
        key TEXT NOT NULL,
        revision INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (drawer, key)) WITHOUT ROWID",
];

/// What travels with a job, and the failures of one incident in the order of their jobs. Programs of earlier versions
/// that still have the file open go on working: they leave both columns empty, and find the index by its name.
const THIRD: &[&str] = &[
    // `backstop_core::job::Provenance`; most jobs have none.
    "ALTER TABLE backstop_job ADD COLUMN papers TEXT",
    // The job's id once more, for failures only: they are listed newest job first, and sorting the 20,000 dead letters
    // of one incident for each page took 90 ms.
    "ALTER TABLE backstop_attempt ADD COLUMN id BLOB",
    "DROP INDEX backstop_attempt_fingerprint",
    "UPDATE backstop_attempt SET id = (SELECT id FROM backstop_state WHERE seq = job) WHERE fingerprint IS NOT NULL",
    "CREATE INDEX backstop_attempt_fingerprint ON backstop_attempt (fingerprint, id, job, number) \
         WHERE fingerprint IS NOT NULL",
    // What an earlier program writes meanwhile, and otherwise empty: those are given their id at the next start.
    "CREATE INDEX backstop_attempt_unstamped ON backstop_attempt (fingerprint) \
         WHERE fingerprint IS NOT NULL AND id IS NULL",
];

/// Lists of one queue, kind or tenant read its lanes and nothing else (decision 14). Written when a job is stored and
/// when it leaves; no claim, and no run that ends well, changes an entry. Programs of earlier versions go on.
const FOURTH: &[&str] = &[
    "CREATE INDEX backstop_state_lane ON backstop_state (lane, id)",
    // Waiting, paused, failed and canceled jobs by lane: a queue with few dead letters beside one with many.
    "CREATE INDEX backstop_state_lane_shelf ON backstop_state (lane, status, id) WHERE status BETWEEN 3 AND 6",
];

/// Lanes that have been empty for long are left out of lists and limits, and the incidents of a tenant are counted.
/// Programs of earlier versions go on: they list what is marked, and leave marks that lanes with jobs do not heed.
const FIFTH: &[&str] = &[
    // `backstop_store::LaneMark`.
    "ALTER TABLE backstop_lane ADD COLUMN empty_since INTEGER",
    "ALTER TABLE backstop_lane ADD COLUMN retired INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX backstop_incident_kind ON backstop_incident (kind)",
];

/// Lines of jobs with one ordering key (L21): who has its turn, and who waits. Programs of earlier versions go on, but
/// give no turn on: ordering keys are for when all have been replaced.
const SIXTH: &[&str] = &[
    // Stands in the papers of the job too; here it is seen without a look at them, by whoever ends a job.
    "ALTER TABLE backstop_state ADD COLUMN ordering_key TEXT",
    // No two jobs of a line can have their turn, whatever the code does.
    "CREATE TABLE backstop_line (key TEXT PRIMARY KEY, head BLOB NOT NULL, blocked INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX backstop_line_blocked ON backstop_line (key) WHERE blocked <> 0",
    "CREATE TABLE backstop_place (
        key TEXT NOT NULL,
        number INTEGER NOT NULL,
        id BLOB NOT NULL,
        PRIMARY KEY (key, number)) WITHOUT ROWID",
    "CREATE INDEX backstop_place_job ON backstop_place (id)",
];

/// Jobs that share something (H5, H6). Programs of earlier versions do not claim from their lanes.
const SEVENTH: &[&str] = &[
    // Pending jobs by what they need: the first of a key tells whether there is room for any of it.
    "CREATE TABLE backstop_turn (
        lane INTEGER NOT NULL,
        key TEXT NOT NULL,
        run_at INTEGER NOT NULL,
        id BLOB NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (lane, key, run_at, id)) WITHOUT ROWID",
    // What runs hold.
    "CREATE TABLE backstop_permit (
        shared TEXT NOT NULL,
        id BLOB NOT NULL,
        lane INTEGER NOT NULL,
        amount INTEGER NOT NULL,
        PRIMARY KEY (shared, id)) WITHOUT ROWID",
];

/// The version of our tables in the file behind `conn`; none when there are none yet.
///
/// The file may be the application's own database, with tables of its own (L14): then `user_version` and
/// `application_id` are its business, and everything of ours begins with `backstop_`.
pub(crate) fn version(conn: &Connection) -> Result<Option<i64>, SqliteFailure> {
    let tables: i64 = conn.query_row(sql::META_TABLES, [], |row| row.get(0))?;
    if tables == 0 {
        return Ok(None);
    }
    rows::value(&mut *conn.prepare_cached(sql::SCHEMA_VERSION)?, [])
}

/// Reads one setting.
pub(crate) fn pragma<T: rusqlite::types::FromSql>(conn: &Connection, name: &str) -> Result<T, SqliteFailure> {
    Ok(conn.pragma_query_value(None, name, |row| row.get(0))?)
}

/// Applies one migration inside the transaction that the caller has opened, with the version it leads to.
pub(crate) fn apply(conn: &Connection, version: i64, statements: &[&str]) -> Result<(), SqliteFailure> {
    for statement in statements {
        conn.execute_batch(statement)?;
    }
    conn.prepare_cached(sql::SCHEMA_VERSION_SAVE)?.execute([version])?;
    Ok(())
}

/// The migrations that a file at `version` has not seen, each with the version it leads to.
pub(crate) fn missing(version: i64) -> impl Iterator<Item = (i64, &'static [&'static str])> {
    (1..).zip(MIGRATIONS.iter().copied()).filter(move |(leads_to, _)| *leads_to > version)
}
