//! Files of earlier versions, with jobs in them.

use std::path::Path;
use std::time::Duration;

use backstop_core::JobId;
use backstop_core::job::{NewJob, Operation, Spec, State};
use backstop_store::conformance::block_on;
use backstop_store::{InspectStore, JobFilter, PageRequest, Submit, WorkStore};
use rusqlite::{Connection, params};

use crate::schema::{MIGRATIONS, apply, newest, version};
use crate::scratch::Scratch;
use crate::{Options, SqliteStore, sql};

const FINGERPRINT: &str = "00112233445566ff";
const DEAD: JobId = JobId::from_u128(1);
const RAN: JobId = JobId::from_u128(2);
const NEVER_RAN: JobId = JobId::from_u128(3);
const UNREADABLE: JobId = JobId::from_u128(4);

/// A file as a program of version 1 left it: a dead letter, and archived jobs.
fn version_1(path: &Path) -> Connection {
    let conn = Connection::open(path).expect("made");
    conn.execute_batch("PRAGMA journal_mode = WAL").expect("set");
    apply(&conn, 1, MIGRATIONS[0]).expect("applied");
    conn.execute_batch(
        "INSERT INTO backstop_lane (id, queue, kind, version, priority, failed) VALUES (1, 'default', 'work', 1, 2, 1);
         INSERT INTO backstop_job (seq, created_at, payload, business_key) VALUES (1, 1000, '{}', 'order-7');
         INSERT INTO backstop_queue (name, paused) VALUES ('default', 1);",
    )
    .expect("written");
    conn.execute(
        "INSERT INTO backstop_state (seq, id, lane, status, run_at, attempt, crashes, deferrals, runs, redrives, \
         fence, last_failed_run, finished_at, reason, business_key) \
         VALUES (1, ?1, 1, 5, 1000, 1, 0, 0, 1, 0, 1, 1, 3000, 'retry_exhausted', 'order-7')",
        [DEAD.as_bytes()],
    )
    .expect("written");
    conn.execute(
        "INSERT INTO backstop_attempt (job, number, fence, worker, cause, due_at, started_at, finished_at, \
         error_type, message, fingerprint) VALUES (1, 1, 1, ?1, 'error', 1000, 2000, 3000, 'Broken', 'broken', ?2)",
        params![[7_u8; 16], FINGERPRINT],
    )
    .expect("written");
    conn.execute(
        "INSERT INTO backstop_incident (fingerprint, kind, error_type, message, failures, dead, first_seen, \
         last_seen, sample_job) VALUES (?1, 'work', 'Broken', 'broken', 1, 1, 3000, 3000, ?2)",
        params![FINGERPRINT, DEAD.as_bytes()],
    )
    .expect("written");
    for (id, document) in [
        (RAN, r#"{"job":{"runs":2,"idempotency_key":"once"},"attempts":[]}"#),
        (NEVER_RAN, r#"{"job":{"runs":0},"attempts":[]}"#),
        (UNREADABLE, "not what was written"),
    ] {
        conn.execute(
            "INSERT INTO backstop_archive (id, status, finished_at, archived_at, document) VALUES (?1, 7, 1, 2, ?2)",
            params![id.as_bytes(), document],
        )
        .expect("written");
    }
    conn.execute("INSERT INTO backstop_idempotency (key, job) VALUES ('once', ?1)", [RAN.as_bytes()])
        .expect("written");
    conn
}

#[test]
fn a_file_of_version_1_keeps_everything() {
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    drop(version_1(&path));
    let store = SqliteStore::open(&path, Options::default()).expect("migrated");
    let page = block_on(store.list(JobFilter::default(), PageRequest::first(10))).expect("listed");
    let dead = &page.items[0];
    assert_eq!((dead.job.spec.id, dead.record.state, page.items.len()), (DEAD, State::Failed, 1));
    assert_eq!(dead.record.marks, None);
    assert_eq!(dead.last_failure.as_ref().map(|failure| failure.fingerprint.as_ref()), Some(FINGERPRINT));
    let archived = block_on(store.archived(vec![RAN, NEVER_RAN, UNREADABLE])).expect("read");
    let ran: Vec<_> = archived.iter().flatten().map(|job| job.ran).collect();
    assert_eq!(ran, [true, false, false], "what cannot be read is never pruned");
    assert_eq!(block_on(store.prunable(Duration::ZERO, 10)).expect("counted"), 1);
    let incidents = block_on(store.incidents(10)).expect("read");
    assert_eq!((incidents[0].failures, incidents[0].open, &incidents[0].last_version), (1, 0, &None));
    let queue = &block_on(store.queues()).expect("read")[0];
    assert_eq!((queue.paused, &queue.pause_note, queue.failed), (true, &None, 1));
}

#[test]
fn what_version_1_left_is_driven_again_and_purged() {
    // D4, D5, L10
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    drop(version_1(&path));
    let store = SqliteStore::open(&path, Options::default()).expect("migrated");
    let driven = block_on(store.operate(vec![DEAD], Operation::Retry)).expect("asked");
    assert!(driven[0].is_ok(), "{driven:?}");
    assert_eq!(block_on(store.incidents(1)).expect("read")[0].open, 0, "it was never counted as open");
    let purged = block_on(store.purge(vec![RAN], None)).expect("purged");
    assert_eq!(purged, [Ok(State::Succeeded)]);
    let mut again = Spec::new(JobId::from_u128(9), "work", "{}");
    again.idempotency_key = Some("once".to_owned());
    let answer = block_on(store.submit(Submit { jobs: vec![NewJob::new(again)], atomic: true }));
    let answer = answer.expect("stored")[0].clone().expect("not refused");
    assert_eq!((answer.id, answer.state, answer.deduplicated), (RAN, State::Succeeded, true));
}

#[test]
fn the_second_migration_cut_off_anywhere_leaves_version_1() {
    // C6
    for ran in 0..=MIGRATIONS[1].len() {
        let dir = Scratch::new();
        let path = dir.path("jobs.db");
        let conn = version_1(&path);
        conn.execute_batch(sql::BEGIN_WRITE).expect("begun");
        for statement in &MIGRATIONS[1][..ran] {
            conn.execute_batch(statement).expect("applied");
        }
        drop(conn);
        let conn = Connection::open(&path).expect("opened");
        assert_eq!(version(&conn).expect("read"), Some(1), "after {ran} statements");
        drop(SqliteStore::open(&path, Options::default()).expect("migrated after the crash"));
        assert_eq!(version(&conn).expect("read"), Some(newest()));
    }
}

#[test]
fn a_program_of_version_1_goes_on_with_a_migrated_file() {
    // Rolling upgrades: it binds the columns it knows, and the others have defaults.
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    let old = version_1(&path);
    let store = SqliteStore::open(&path, Options::default()).expect("migrated");
    let newest = JobId::from_u128(5);
    old.execute(
        "INSERT OR REPLACE INTO backstop_archive (id, status, finished_at, archived_at, document) \
         VALUES (?1, 7, 1, 2, ?2)",
        params![newest.as_bytes(), r#"{"job":{"runs":1},"attempts":[]}"#],
    )
    .expect("written");
    old.execute(
        "INSERT INTO backstop_incident (fingerprint, kind, error_type, message, failures, dead, first_seen, \
         last_seen, sample_job) VALUES (?1, 'work', 'Broken', 'broken', 1, 0, 4000, 4000, ?2) \
         ON CONFLICT (fingerprint) DO UPDATE SET failures = failures + 1, last_seen = excluded.last_seen",
        params![FINGERPRINT, DEAD.as_bytes()],
    )
    .expect("written");
    old.execute("INSERT OR REPLACE INTO backstop_queue (name, paused) VALUES ('default', 1)", [])
        .expect("written");
    let page = block_on(store.archive_page(PageRequest::first(1))).expect("read");
    assert_eq!(page.items[0].0, newest);
    assert!(!page.items[0].1.ran, "what nobody said of it is not taken for an age limit");
    assert_eq!(block_on(store.incidents(1)).expect("read")[0].failures, 2);
}

/// A file as a program of version 2 left it, with `jobs` dead letters of one incident. Ids and rows run against each other.
fn version_2(path: &Path, jobs: u8) -> Connection {
    let conn = version_1(path);
    apply(&conn, 2, MIGRATIONS[1]).expect("applied");
    (1..=jobs).for_each(|number| die(&conn, number, jobs));
    conn
}

/// What a program of version 2 writes of a job that dies.
fn die(conn: &Connection, number: u8, jobs: u8) {
    let (seq, id) = (100 + i64::from(number), JobId::from_u128(1_000 + u128::from(jobs - number)));
    conn.execute("INSERT INTO backstop_job (seq, created_at, payload) VALUES (?1, 1000, '{}')", [seq])
        .expect("written");
    conn.execute(
        "INSERT INTO backstop_state (seq, id, lane, status, run_at, attempt, crashes, deferrals, runs, redrives, \
         fence, last_failed_run, finished_at, reason) VALUES (?1, ?2, 1, 5, 1000, 1, 0, 0, 1, 0, 1, 1, 3000, 'invalid')",
        params![seq, id.as_bytes()],
    )
    .expect("written");
    conn.execute(
        "INSERT INTO backstop_attempt (job, number, fence, worker, cause, due_at, started_at, finished_at, \
         error_type, message, fingerprint) VALUES (?1, 1, 1, ?2, 'error', 1000, 2000, 3000, 'Broken', 'broken', ?3)",
        params![seq, [7_u8; 16], FINGERPRINT],
    )
    .expect("written");
}

/// The dead letters of the incident, page by page.
fn of_incident(store: &SqliteStore) -> Vec<JobId> {
    let filter = JobFilter { fingerprint: Some(FINGERPRINT.to_owned()), ..JobFilter::default() };
    let (mut found, mut page) = (Vec::new(), PageRequest::first(3));
    loop {
        let read = block_on(store.list(filter.clone(), page)).expect("listed");
        found.extend(read.items.iter().map(|view| view.job.spec.id));
        match read.next {
            Some(next) => page.after = Some(next),
            None => return found,
        }
    }
}

fn unstamped(path: &Path) -> i64 {
    let conn = Connection::open(path).expect("opened");
    let count = "SELECT count(*) FROM backstop_attempt WHERE fingerprint IS NOT NULL AND id IS NULL";
    conn.query_row(count, [], |row| row.get(0)).expect("counted")
}

#[test]
fn dead_letters_of_version_2_are_listed_newest_first() {
    // F20, D2
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    let old = version_2(&path, 10);
    let store = SqliteStore::open(&path, Options::default()).expect("migrated");
    let newest_first: Vec<_> =
        (0..10).rev().map(|number| JobId::from_u128(1_000 + number)).chain([DEAD]).collect();
    assert_eq!(of_incident(&store), newest_first);
    assert_eq!(unstamped(&path), 0);
    // The old program still has the file open, and another job dies there.
    die(&old, 11, 50);
    let with_the_new: Vec<_> = [JobId::from_u128(1_039)].into_iter().chain(newest_first).collect();
    assert_eq!(of_incident(&store), with_the_new);
    assert_eq!(unstamped(&path), 1);
    drop((old, store));
    let store = SqliteStore::open(&path, Options::default()).expect("opened");
    assert_eq!(unstamped(&path), 0, "the next start fixes it");
    assert_eq!(of_incident(&store), with_the_new);
}

#[test]
fn a_program_of_version_2_goes_on_with_a_migrated_file() {
    // Rolling upgrades: what it lists by fingerprint names an index, and its jobs have no papers.
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    let old = version_2(&path, 3);
    let store = SqliteStore::open(&path, Options::default()).expect("migrated");
    let listed = "SELECT s.seq FROM backstop_attempt f INDEXED BY backstop_attempt_fingerprint \
         CROSS JOIN backstop_state s ON s.seq = f.job AND s.last_failed_run = f.number \
         WHERE f.fingerprint = ?1 AND f.fingerprint IS NOT NULL ORDER BY s.id DESC";
    let mut select = old.prepare(listed).expect("the index is there");
    let seqs: Vec<i64> = select
        .query_map([FINGERPRINT], |row| row.get(0))
        .expect("read")
        .map(|row| row.expect("a row"))
        .collect();
    assert_eq!(seqs, [101, 102, 103, 1]);
    let page = block_on(store.list(JobFilter::default(), PageRequest::first(10))).expect("listed");
    assert!(page.items.iter().all(|view| view.job.spec.provenance.is_none()));
}

#[test]
fn the_third_migration_cut_off_anywhere_leaves_version_2() {
    // C6
    for ran in 0..=MIGRATIONS[2].len() {
        let dir = Scratch::new();
        let path = dir.path("jobs.db");
        let conn = version_2(&path, 2);
        conn.execute_batch(sql::BEGIN_WRITE).expect("begun");
        for statement in &MIGRATIONS[2][..ran] {
            conn.execute_batch(statement).expect("applied");
        }
        drop(conn);
        let conn = Connection::open(&path).expect("opened");
        assert_eq!(version(&conn).expect("read"), Some(2), "after {ran} statements");
        drop(SqliteStore::open(&path, Options::default()).expect("migrated after the crash"));
        assert_eq!(version(&conn).expect("read"), Some(newest()));
    }
}

#[test]
fn jobs_of_version_3_are_listed_by_lane() {
    // F20, C6: cut off anywhere, the fourth migration leaves version 3; done, its indexes hold what was there before.
    for ran in 0..=MIGRATIONS[3].len() {
        let dir = Scratch::new();
        let path = dir.path("jobs.db");
        let conn = version_2(&path, 5);
        apply(&conn, 3, MIGRATIONS[2]).expect("applied");
        conn.execute_batch(sql::BEGIN_WRITE).expect("begun");
        for statement in &MIGRATIONS[3][..ran] {
            conn.execute_batch(statement).expect("applied");
        }
        drop(conn);
        let old = Connection::open(&path).expect("opened");
        assert_eq!(version(&old).expect("read"), Some(3), "after {ran} statements");
        let store = SqliteStore::open(&path, Options::default()).expect("migrated after the crash");
        assert_eq!(version(&old).expect("read"), Some(newest()));
        // A program of version 3 still has the file open, and another job dies there.
        die(&old, 6, 50);
        old.execute("UPDATE backstop_lane SET failed = 7", []).expect("counted");
        let of_lane = JobFilter { queue: Some("default".to_owned()), ..JobFilter::default() };
        for state in [None, Some(State::Failed)] {
            let filter = JobFilter { state, ..of_lane.clone() };
            let page = block_on(store.list(filter, PageRequest::first(10))).expect("listed");
            let found: Vec<_> = page.items.iter().map(|view| view.job.spec.id).collect();
            let newest_first = [1_044, 1_004, 1_003, 1_002, 1_001, 1_000].map(JobId::from_u128);
            assert_eq!(found, [&newest_first[..], &[DEAD]].concat());
        }
        let indexes = "SELECT count(*) FROM backstop_state INDEXED BY backstop_state_lane WHERE lane = 1 \
             UNION ALL SELECT count(*) FROM backstop_state INDEXED BY backstop_state_lane_shelf \
             WHERE lane = 1 AND status = 5 AND status BETWEEN 3 AND 6";
        let mut select = old.prepare(indexes).expect("both are there");
        let held: Vec<i64> =
            select.query_map([], |row| row.get(0)).expect("read").map(|row| row.expect("a number")).collect();
        assert_eq!(held, [7, 7]);
    }
}
