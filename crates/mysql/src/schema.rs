//! The tables, as a list of migrations.
//!
//! Statements that change tables commit by themselves here, so a migration is not one transaction: each of its
//! statements can be run again, and its number is written last. A process killed between any two of them leaves
//! something that the next one completes. A published migration is never edited; add another.

use backstop_sql::{Query, Value};

pub(crate) mod roles;

/// Every migration, oldest first. The version of a database is the number of those it has seen.
pub(crate) const MIGRATIONS: &[&[&str]] = &[FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH];

/// The newest version this program knows.
pub(crate) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The lock that keeps two programs from migrating at once. Its name may have 64 characters.
pub(crate) const LOCK: &str =
    "SELECT GET_LOCK(CONCAT('backstop:', MD5(CONCAT(DATABASE(), '/', CAST(? AS CHAR)))), 60)";
pub(crate) const UNLOCK: &str =
    "DO RELEASE_LOCK(CONCAT('backstop:', MD5(CONCAT(DATABASE(), '/', CAST(? AS CHAR)))))";
pub(crate) const META_TABLES: &str = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() \
     AND table_name = CAST(? AS CHAR)";
pub(crate) const VERSION: &str = "SELECT value FROM backstop_meta WHERE name = 'schema'";
pub(crate) const VERSIONS: &str = "SELECT (SELECT value FROM backstop_meta WHERE name = 'schema'), \
     (SELECT value FROM backstop_meta WHERE name = 'oldest')";
pub(crate) const VERSION_SAVE: &str = "INSERT INTO backstop_meta (name, value) VALUES ('schema', ?), ('oldest', ?) \
     ON DUPLICATE KEY UPDATE value = VALUES(value)";

/// The oldest version whose programs can still work on tables of the newest one. During a deploy both are there, so a
/// migration first adds what the new program needs, and a later release takes away what no program needs any more.
pub(crate) const OLDEST: i64 = 1;

/// Moments are microseconds since 1970, as in every store. Text is kept as bytes: names are compared as they are,
/// also where they end in spaces. What a row must not be without is NOT NULL; counters that are almost always zero are
/// NULL then, which costs a bit instead of eight bytes.
pub const FIRST: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS backstop_meta (name VARBINARY(64) PRIMARY KEY, value BIGINT NOT NULL) ENGINE=InnoDB",
    // Jobs of one queue, kind, version and priority form a lane. Its counts are kept: here, plus what `tally` holds.
    "CREATE TABLE IF NOT EXISTS backstop_lane (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        queue VARBINARY(1024) NOT NULL,
        kind VARBINARY(1024) NOT NULL,
        version BIGINT NOT NULL,
        priority BIGINT NOT NULL,
        pending BIGINT NOT NULL DEFAULT 0,
        running BIGINT NOT NULL DEFAULT 0,
        succeeded BIGINT NOT NULL DEFAULT 0,
        failed BIGINT NOT NULL DEFAULT 0,
        paused BIGINT NOT NULL DEFAULT 0,
        canceled BIGINT NOT NULL DEFAULT 0,
        waiting BIGINT NOT NULL DEFAULT 0,
        UNIQUE KEY lane_names (queue, kind, version, priority)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // Changes of the counts, one row per transaction and lane: updating the lane itself would put all writers in a row.
    "CREATE TABLE IF NOT EXISTS backstop_tally (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        lane BIGINT NOT NULL,
        pending BIGINT NOT NULL,
        running BIGINT NOT NULL,
        succeeded BIGINT NOT NULL,
        failed BIGINT NOT NULL,
        paused BIGINT NOT NULL,
        canceled BIGINT NOT NULL,
        waiting BIGINT NOT NULL) ENGINE=InnoDB",
    // What never changes. Written once, at submit.
    "CREATE TABLE IF NOT EXISTS backstop_job (
        id BINARY(16) NOT NULL PRIMARY KEY,
        lane BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        run_at BIGINT NOT NULL,
        payload LONGBLOB NOT NULL,
        policy LONGBLOB,
        expires_at BIGINT,
        idempotency_key VARBINARY(1024),
        business_key VARBINARY(1024),
        correlation_id VARBINARY(1024),
        tags LONGBLOB,
        params LONGBLOB,
        on_success LONGBLOB,
        on_failure LONGBLOB,
        callback_of BINARY(16),
        KEY job_business_key (business_key, id)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // The claim path: pending jobs and nothing else.
    "CREATE TABLE IF NOT EXISTS backstop_ready (
        lane BIGINT NOT NULL,
        run_at BIGINT NOT NULL,
        id BINARY(16) NOT NULL,
        expires_at BIGINT,
        rowed TINYINT NOT NULL,
        PRIMARY KEY (lane, run_at, id),
        KEY ready_expiring (expires_at, id)) ENGINE=InnoDB",
    // One row per claim, for all the jobs it took. Its key is the fence: it grows with every claim (L5), also over a
    // restart of the server.
    "CREATE TABLE IF NOT EXISTS backstop_claim (
        fence BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        worker BINARY(16) NOT NULL,
        claimed_at BIGINT NOT NULL,
        edits INT NOT NULL DEFAULT 0,
        slots LONGBLOB NOT NULL,
        jobs LONGBLOB NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // What a job has gone through, once it has a past: `backstop_core::job::Record`.
    "CREATE TABLE IF NOT EXISTS backstop_record (
        id BINARY(16) NOT NULL PRIMARY KEY,
        lane BIGINT NOT NULL,
        status TINYINT NOT NULL,
        run_at BIGINT NOT NULL,
        expires_at BIGINT,
        attempt BIGINT NOT NULL,
        crashes BIGINT NOT NULL,
        deferrals BIGINT NOT NULL,
        runs BIGINT NOT NULL,
        redrives BIGINT NOT NULL,
        fence BIGINT NOT NULL,
        last_failed_run BIGINT,
        progress LONGBLOB,
        paused_from TINYINT,
        finished_at BIGINT,
        reason VARBINARY(64),
        cancel_reason LONGBLOB,
        superseded_by BINARY(16),
        KEY record_shelf (status, id),
        KEY record_ended (status, finished_at, id)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // Jobs that succeeded, each with its last run: the same row is its row in the ledger.
    "CREATE TABLE IF NOT EXISTS backstop_done (
        id BINARY(16) NOT NULL PRIMARY KEY,
        lane BIGINT NOT NULL,
        run_at BIGINT NOT NULL,
        expires_at BIGINT,
        attempt BIGINT,
        crashes BIGINT,
        deferrals BIGINT,
        runs BIGINT NOT NULL,
        redrives BIGINT,
        fence BIGINT NOT NULL,
        progress LONGBLOB,
        finished_at BIGINT NOT NULL,
        worker BINARY(16),
        code_version LONGBLOB,
        started_at BIGINT,
        result LONGBLOB,
        warning LONGBLOB,
        output LONGBLOB,
        KEY done_ended (finished_at, id)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // The ledger: one row for each other run that ended. Never changed.
    "CREATE TABLE IF NOT EXISTS backstop_attempt (
        job BINARY(16) NOT NULL,
        number BIGINT NOT NULL,
        fence BIGINT NOT NULL,
        worker BINARY(16) NOT NULL,
        code_version LONGBLOB,
        cause VARBINARY(64) NOT NULL,
        due_at BIGINT NOT NULL,
        started_at BIGINT NOT NULL,
        finished_at BIGINT NOT NULL,
        error_type LONGBLOB,
        message LONGBLOB,
        fingerprint VARBINARY(255),
        decision LONGBLOB,
        result LONGBLOB,
        warning LONGBLOB,
        output LONGBLOB,
        PRIMARY KEY (job, number),
        KEY attempt_fingerprint (fingerprint, job, number)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "CREATE TABLE IF NOT EXISTS backstop_tag (
        tag VARBINARY(1024) NOT NULL,
        id BINARY(16) NOT NULL,
        PRIMARY KEY (tag, id)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // L10: kept for ever, also when the job is gone.
    "CREATE TABLE IF NOT EXISTS backstop_idempotency (
        name VARBINARY(1024) NOT NULL PRIMARY KEY,
        job BINARY(16) NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // L11: who holds a business key, while it is live. The key cannot be held twice, whatever the code does.
    "CREATE TABLE IF NOT EXISTS backstop_business (
        name VARBINARY(1024) NOT NULL PRIMARY KEY,
        job BINARY(16) NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // L16: jobs that have left all the tables above.
    "CREATE TABLE IF NOT EXISTS backstop_archive (
        id BINARY(16) NOT NULL PRIMARY KEY,
        status TINYINT NOT NULL,
        finished_at BIGINT NOT NULL,
        archived_at BIGINT NOT NULL,
        document LONGBLOB NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "CREATE TABLE IF NOT EXISTS backstop_queue (
        name VARBINARY(1024) NOT NULL PRIMARY KEY,
        paused TINYINT NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "CREATE TABLE IF NOT EXISTS backstop_worker (
        id BINARY(16) NOT NULL PRIMARY KEY,
        name LONGBLOB NOT NULL,
        code_version LONGBLOB,
        queues LONGBLOB NOT NULL,
        kinds LONGBLOB NOT NULL,
        started_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "CREATE TABLE IF NOT EXISTS backstop_duty (
        name VARBINARY(64) NOT NULL PRIMARY KEY,
        number BIGINT NOT NULL,
        node BINARY(16) NOT NULL,
        expires_at BIGINT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS backstop_incident (
        fingerprint VARBINARY(255) NOT NULL PRIMARY KEY,
        kind LONGBLOB NOT NULL,
        error_type LONGBLOB NOT NULL,
        message LONGBLOB NOT NULL,
        failures BIGINT NOT NULL,
        dead BIGINT NOT NULL,
        first_seen BIGINT NOT NULL,
        last_seen BIGINT NOT NULL,
        sample_job BINARY(16) NOT NULL,
        KEY incident_latest (last_seen, fingerprint)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
];

/// Dead letters that are looked after. Columns that are NULL or have a default take no time on a table of any size.
/// MariaDB is told to leave out what is there already; to MySQL those words are a comment, and its complaint is taken
/// for what it means (see `SqlFailure::is_there_already`).
///
/// Programs of the first version go on beside it: none of their statements reads or writes what is new here. What they
/// leave NULL means what it meant then: no marks, and of an archived job the document says whether it ever ran.
const SECOND: &[&str] = &[
    // `backstop_core::job::Marks`; most jobs have none.
    "ALTER TABLE backstop_record ADD COLUMN /*M! IF NOT EXISTS */ marks LONGBLOB",
    "ALTER TABLE backstop_done ADD COLUMN /*M! IF NOT EXISTS */ marks LONGBLOB",
    "ALTER TABLE backstop_incident ADD COLUMN /*M! IF NOT EXISTS */ open BIGINT NOT NULL DEFAULT 0, \
     ADD COLUMN /*M! IF NOT EXISTS */ first_version LONGBLOB, \
     ADD COLUMN /*M! IF NOT EXISTS */ last_version LONGBLOB, ADD COLUMN /*M! IF NOT EXISTS */ standing LONGBLOB",
    "ALTER TABLE backstop_queue ADD COLUMN /*M! IF NOT EXISTS */ note LONGBLOB",
    "ALTER TABLE backstop_archive ADD COLUMN /*M! IF NOT EXISTS */ ran TINYINT",
    // L16: a job that never ran is not removed by age.
    "ALTER TABLE backstop_archive ADD INDEX /*M! IF NOT EXISTS */ archive_outworn (ran, archived_at, id)",
    // L10, D5: how purged jobs had ended that an idempotency key still names, and nothing else of them.
    "CREATE TABLE IF NOT EXISTS backstop_purged (
        id BINARY(16) NOT NULL PRIMARY KEY,
        status TINYINT NOT NULL) ENGINE=InnoDB",
    // Small things of the engine's own, changed together with jobs: rules, plans, budgets, alerts that wait.
    "CREATE TABLE IF NOT EXISTS backstop_document (
        drawer VARBINARY(64) NOT NULL,
        name VARBINARY(2048) NOT NULL,
        revision BIGINT NOT NULL,
        body LONGBLOB NOT NULL,
        PRIMARY KEY (drawer, name)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
];

/// What travels with a job: `backstop_core::job::Provenance`. Most jobs have none. Programs of earlier versions go on
/// beside it: none of their statements reads or writes it.
const THIRD: &[&str] = &["ALTER TABLE backstop_job ADD COLUMN /*M! IF NOT EXISTS */ papers LONGBLOB"];

/// Lists of one queue, kind or tenant read its lanes and nothing else (decision 14). `job` is written once, at submit,
/// so no claim and no end of a run changes the first; `record` holds what has failed or was looked after. Both are made
/// while others write, or not at all. Programs of earlier versions go on beside it.
const FOURTH: &[&str] = &[
    "ALTER TABLE backstop_job ADD INDEX /*M! IF NOT EXISTS */ job_lane (lane, id), ALGORITHM=INPLACE, LOCK=NONE",
    "ALTER TABLE backstop_record ADD INDEX /*M! IF NOT EXISTS */ record_lane (lane, status, id), \
     ALGORITHM=INPLACE, LOCK=NONE",
];

/// Lanes that have been empty for long are left out of lists and limits (`backstop_store::LaneMark`), and the incidents
/// of a tenant are counted. Programs of earlier versions go on beside it: they list what is marked, and leave marks
/// that lanes with jobs do not heed.
const FIFTH: &[&str] = &[
    "ALTER TABLE backstop_lane ADD COLUMN /*M! IF NOT EXISTS */ empty_since BIGINT, \
     ADD COLUMN /*M! IF NOT EXISTS */ retired TINYINT NOT NULL DEFAULT 0",
    "ALTER TABLE backstop_incident ADD INDEX /*M! IF NOT EXISTS */ incident_kind (kind(64))",
];

/// Lines of jobs with one ordering key (L21): who has its turn, who waits, and where the turn may have to pass on.
/// Programs of earlier versions go on beside it, but give no turn on: ordering keys are for when all have been
/// replaced.
const SIXTH: &[&str] = &[
    // No two jobs of a line can have their turn, whatever the code does.
    "CREATE TABLE IF NOT EXISTS backstop_line (
        name VARBINARY(1024) NOT NULL PRIMARY KEY,
        head BINARY(16) NOT NULL,
        blocked TINYINT NOT NULL,
        KEY line_blocked (blocked, name)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "CREATE TABLE IF NOT EXISTS backstop_place (
        name VARBINARY(1024) NOT NULL,
        number BIGINT NOT NULL AUTO_INCREMENT,
        id BINARY(16) NOT NULL,
        PRIMARY KEY (name, number),
        KEY place_number (number),
        UNIQUE KEY place_job (id)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    // H12: a row for each place whose waiting jobs were ever counted, to be locked while they are.
    "CREATE TABLE IF NOT EXISTS backstop_depth (name VARBINARY(1024) NOT NULL PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS backstop_line_change (
        number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        name VARBINARY(1024) NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
];

/// Jobs that share something (H5, H6): by what they need, and what runs hold. Programs of earlier versions do not claim
/// from their lanes.
const SEVENTH: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS backstop_turn (
        lane BIGINT NOT NULL,
        name VARBINARY(1100) NOT NULL,
        run_at BIGINT NOT NULL,
        id BINARY(16) NOT NULL,
        PRIMARY KEY (lane, name, run_at, id)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
    "CREATE TABLE IF NOT EXISTS backstop_permit (
        shared VARBINARY(1100) NOT NULL,
        id BINARY(16) NOT NULL,
        lane BIGINT NOT NULL,
        amount BIGINT NOT NULL,
        PRIMARY KEY (shared, id)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
];

/// The migrations that a database at `version` has not seen, each ending in the version it leads to.
pub(crate) fn steps(version: i64) -> impl Iterator<Item = Vec<Query>> {
    let missing = (1..).zip(MIGRATIONS).filter(move |(leads_to, _)| *leads_to > version);
    missing.map(|(leads_to, statements)| {
        let save = Query::new(VERSION_SAVE, vec![Value::int(leads_to), Value::int(OLDEST)]);
        let statements = statements.iter().map(|statement| Query::new(*statement, Vec::new()));
        statements.chain([save]).collect()
    })
}

/// A table as the migrations make it: its name without the prefix, and its indexes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemaTable {
    pub(crate) name: &'static str,
    pub(crate) indexes: Vec<&'static str>,
}

/// All tables, as the migrations make them.
pub(crate) fn tables() -> Vec<SchemaTable> {
    let statements = || MIGRATIONS.iter().flat_map(|migration| migration.iter());
    let table = |statement: &&'static str| {
        let rest = statement.strip_prefix("CREATE TABLE IF NOT EXISTS backstop_")?;
        let index = |line: &'static str| {
            let line = line.trim();
            line.strip_prefix("UNIQUE KEY ").or(line.strip_prefix("KEY "))?.split(' ').next()
        };
        Some(SchemaTable { name: rest.split(' ').next()?, indexes: rest.lines().filter_map(index).collect() })
    };
    let mut tables: Vec<SchemaTable> = statements().filter_map(table).collect();
    let added = |statement: &&'static str| {
        let (table, rest) = statement
            .strip_prefix("ALTER TABLE backstop_")?
            .split_once(" ADD INDEX /*M! IF NOT EXISTS */ ")?;
        Some((table, rest.split(' ').next()?))
    };
    for (name, index) in statements().filter_map(added) {
        tables.iter_mut().filter(|table| table.name == name).for_each(|table| table.indexes.push(index));
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_known_by_name() {
        let tables = tables();
        let later = ["purged", "document", "line", "place", "line_change", "depth", "turn", "permit"];
        let of_later = |table: &&SchemaTable| later.contains(&table.name);
        assert_eq!(tables.iter().filter(of_later).count(), later.len(), "{tables:?}");
        assert_eq!(
            tables.len(),
            FIRST.len() + later.len(),
            "every statement of the first migration makes a table"
        );
        assert!(tables.iter().any(|table| table.name == "ready" && table.indexes == ["ready_expiring"]));
        assert!(tables.iter().any(|table| table.name == "archive" && table.indexes == ["archive_outworn"]));
        let record = tables.iter().find(|table| table.name == "record").expect("a table of records");
        assert_eq!(record.indexes, ["record_shelf", "record_ended", "record_lane"]);
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert!(tables.iter().all(|table| plain(table.name) && table.indexes.iter().all(|name| plain(name))));
    }

    #[test]
    fn every_statement_can_be_run_again() {
        for statement in MIGRATIONS.iter().flat_map(|migration| migration.iter()) {
            let added = statement.matches(" ADD ").count();
            let guarded = statement.matches("/*M! IF NOT EXISTS */").count();
            let adds = statement.starts_with("ALTER TABLE ") && added > 0 && added == guarded;
            assert!(adds || statement.starts_with("CREATE TABLE IF NOT EXISTS "), "{statement}");
        }
    }
}
