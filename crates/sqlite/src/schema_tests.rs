//! Migrations that are cut off at every statement, and plans that must not become scans.

use std::path::Path;

use backstop_core::JobId;
use backstop_core::job::{NewJob, Spec};
use backstop_store::conformance::block_on;
use backstop_store::{Submit, WorkStore};
use rusqlite::Connection;

use crate::schema::{MIGRATIONS, newest, version};
use crate::scratch::Scratch;
use crate::{Options, SqliteStore, sql};

/// Opens the file as a program would after the crash, and uses it.
fn assert_usable(path: &Path) {
    let store = SqliteStore::open(path, Options::default()).expect("opened after the crash");
    let job = NewJob::new(Spec::new(JobId::from_u128(1), "work", "{}"));
    let answers = block_on(store.submit(Submit { jobs: vec![job], atomic: true })).expect("stored");
    assert!(answers[0].is_ok());
    assert_eq!(version(&Connection::open(path).expect("opened")).expect("read"), Some(newest()));
}

fn copy_files(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        if Path::new(&name(from)).exists() {
            std::fs::copy(name(from), name(to)).expect("copied");
        }
    }
}

#[test]
fn a_migration_cut_off_anywhere_leaves_the_old_version_or_the_new() {
    // C6: what is on the disk after each statement is what a kill at that moment leaves behind.
    let statements: Vec<&str> = MIGRATIONS.iter().flat_map(|migration| migration.iter().copied()).collect();
    for ran in 0..=statements.len() {
        let dir = Scratch::new();
        let conn = Connection::open(dir.path("jobs.db")).expect("made");
        conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA cache_spill = 1; PRAGMA cache_size = 1;")
            .expect("set");
        conn.execute_batch(sql::BEGIN_WRITE).expect("begun");
        for statement in &statements[..ran] {
            conn.execute_batch(statement).expect("applied");
        }
        copy_files(&dir.path("jobs.db"), &dir.path("killed.db"));
        let left = version(&Connection::open(dir.path("killed.db")).expect("opened")).expect("read");
        assert_eq!(left, None, "after {ran} statements nothing is there");
        assert_usable(&dir.path("killed.db"));
        drop(conn);
        assert_usable(&dir.path("jobs.db"));
    }
}

#[test]
fn opening_again_changes_nothing() {
    let dir = Scratch::new();
    let open = || drop(SqliteStore::open(dir.path("jobs.db"), Options::default()).expect("opened"));
    let schema = || -> Vec<String> {
        let conn = Connection::open(dir.path("jobs.db")).expect("opened");
        let mut select =
            conn.prepare("SELECT name || coalesce(sql, '') FROM sqlite_schema ORDER BY 1").expect("read");
        select.query_map([], |row| row.get(0)).expect("read").map(|row| row.expect("text")).collect()
    };
    open();
    let first = schema();
    open();
    assert_eq!(schema(), first);
}

/// How SQLite would run a statement.
pub(crate) fn plan(statement: &str) -> String {
    let dir = Scratch::new();
    drop(SqliteStore::open(dir.path("jobs.db"), Options::default()).expect("opened"));
    let conn = Connection::open(dir.path("jobs.db")).expect("opened");
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).expect("it compiles");
    let mut rows = explain.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().expect("explained") {
        steps.push(row.get::<_, String>(3).expect("text"));
    }
    steps.join("; ")
}

#[test]
fn claims_read_an_index_in_order() {
    // L2, L3
    for statement in [sql::LANE_DUE, sql::LANE_DUE_AFTER, sql::LANE_NEXT_DUE] {
        let plan = plan(statement);
        assert!(plan.contains("backstop_state_pending (lane=?"), "{plan}");
        assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
    }
}

#[test]
fn no_statement_of_a_run_scans() {
    let statements = [
        (sql::STATE_BY_ID, "(id=?)"),
        (sql::STATE_UPDATE, "(rowid=?)"),
        (sql::STATE_UPDATE_HELD, "(rowid>? AND rowid<?)"),
        (sql::STATE_UPDATE_DONE, "(rowid>? AND rowid<?)"),
        (sql::KEY_HOLDER, "(business_key=?)"),
        (sql::OVERDUE, "((expires_at,id)>(?,?) AND expires_at<?)"),
        (sql::LANE_NEXT_START, "backstop_state_pending (lane=?)"),
        (sql::ENDED, "backstop_state_ended (status=? AND finished_at<?)"),
        (sql::HELD, "(status=?"),
        (sql::INCIDENTS, "backstop_incident_latest"),
        (sql::UNSTAMPED, "backstop_attempt_unstamped (fingerprint=?)"),
        (sql::STAMP, "backstop_attempt_unstamped"),
        (sql::VIEW_BY_SEQ, "(rowid=?)"),
        (sql::INCIDENT, "(fingerprint=?)"),
        (sql::INCIDENT_DELETE, "(fingerprint=?)"),
        (sql::INCIDENTS_OF_TENANT, "backstop_incident_kind (kind>? AND kind<?)"),
        // E13: who has many queues slows nobody else.
        (sql::LANES, "(queue>? AND queue<?)"),
        (sql::LANE_QUEUES, "(queue>? AND queue<?)"),
        (sql::QUEUES, "(name>? AND name<?)"),
        (sql::QUEUE_NAMES, "(name>? AND name<?)"),
        (sql::INCIDENT_OPEN, "(fingerprint=?)"),
        (sql::INCIDENT_STAND, "(fingerprint=?)"),
        (sql::DOCUMENT_REVISION, "(drawer=? AND key=?)"),
        (sql::DOCUMENTS_FROM, "(drawer=? AND key>?)"),
        (sql::DOCUMENTS_AFTER, "(drawer=? AND key>?)"),
        (sql::ARCHIVE_PAGE, "(id<?)"),
        (sql::OUTWORN, "backstop_archive_outworn (archived_at<?)"),
        (sql::OUTWORN_COUNT, "COVERING INDEX backstop_archive_outworn (archived_at<?)"),
        (sql::IDEMPOTENCY_END, "(key=?)"),
        (sql::IDEMPOTENCY_END_AGAIN, "backstop_idempotency_ended (job=?)"),
    ];
    for (statement, by) in statements {
        let plan = plan(statement);
        // Sorting those that ended in the same moment is no scan.
        let sorts = plan.contains("B-TREE") && !plan.contains("FOR LAST TERM");
        assert!(plan.contains(by) && !sorts, "{plan}");
    }
}
