//! Files that cannot be opened: one clear sentence each, with what to do. And files that can.

mod scratch;

use std::path::Path;

use backstop_core::JobId;
use backstop_core::job::{NewJob, Spec};
use backstop_sqlite::rusqlite::Connection;
use backstop_sqlite::{Options, SqliteStore, Synchronous};
use backstop_store::conformance::block_on;
use backstop_store::{Error, InspectStore, JobFilter, Level, PageRequest, Submit, WorkStore};
use scratch::Scratch;

fn open(path: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(path, Options::default())
}

/// The sentence with which a file is refused.
fn refusal(path: &Path, options: Options) -> String {
    let error = SqliteStore::open(path, options).expect_err("it cannot be opened");
    assert_eq!(error.code(), "store_unusable", "{error}");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "it names the file: {text}");
    text
}

fn submit(store: &SqliteStore, number: u128) {
    let job = NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"));
    let answers = block_on(store.submit(Submit { jobs: vec![job], atomic: true })).expect("stored");
    assert!(answers[0].is_ok());
}

fn count(store: &SqliteStore) -> usize {
    block_on(store.list(JobFilter::default(), PageRequest::first(100))).expect("listed").items.len()
}

#[test]
fn a_directory_is_refused() {
    // E10
    let dir = Scratch::new();
    std::fs::create_dir(dir.path("jobs")).expect("made");
    assert!(refusal(&dir.path("jobs"), Options::default()).contains("it is a directory"));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    // E10
    let dir = Scratch::new();
    let path = dir.path("notes.txt");
    let text = "milk, bread and many other things, but not a database\n".repeat(50);
    std::fs::write(&path, &text).expect("written");
    assert!(refusal(&path, Options::default()).contains("not an SQLite database"));
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), text);
}

#[test]
fn a_missing_directory_is_named() {
    // E10
    let dir = Scratch::new();
    assert!(refusal(&dir.path("no/such/jobs.db"), Options::default()).contains("create the directory first"));
    std::fs::write(dir.path("file"), "").expect("written");
    assert!(refusal(&dir.path("file/jobs.db"), Options::default()).contains("directory does not exist"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_directory_that_takes_no_files_is_refused() {
    // E10: nobody may create files in /proc, not even the user that may do everything.
    assert!(
        refusal(Path::new("/proc/backstop.db"), Options::default()).contains("cannot be opened or created")
    );
}

#[test]
fn a_missing_file_is_created_only_when_allowed() {
    // E10
    let dir = Scratch::new();
    let mut options = Options::default();
    options.create = false;
    assert!(refusal(&dir.path("jobs.db"), options).contains("there is no such file"));
    assert!(!dir.path("jobs.db").exists());
}

#[test]
fn a_newer_schema_is_refused() {
    // E10
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    drop(open(&path).expect("fresh"));
    let conn = Connection::open(&path).expect("a plain database");
    conn.execute("UPDATE backstop_meta SET value = 99 WHERE key = 'schema'", []).expect("written");
    drop(conn);
    let text = refusal(&path, Options::default());
    assert!(text.contains("was written by a newer Backstop (schema 99, this program knows up to"), "{text}");
}

#[test]
fn nothing_is_migrated_without_leave() {
    // E10
    let dir = Scratch::new();
    let mut options = Options::default();
    options.migrate = false;
    assert!(refusal(&dir.path("jobs.db"), options.clone()).contains("backstop migrate"));
    drop(open(&dir.path("jobs.db")).expect("migrated"));
    SqliteStore::open(dir.path("jobs.db"), options).expect("nothing is missing any more");
}

#[test]
fn the_file_may_be_the_applications_own() {
    // L14
    let dir = Scratch::new();
    let path = dir.path("app.db");
    let conn = Connection::open(&path).expect("a plain database");
    conn.execute_batch("PRAGMA user_version = 12; CREATE TABLE job (n); INSERT INTO job VALUES (1)")
        .expect("made");
    let store = open(&path).expect("room for both");
    submit(&store, 1);
    drop(store);
    assert_eq!(count(&open(&path).expect("again")), 1);
    let theirs: (i64, i64) = (
        conn.query_row("SELECT count(*) FROM job", [], |row| row.get(0)).expect("their table is theirs"),
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).expect("their version is theirs"),
    );
    assert_eq!(theirs, (1, 12));
}

#[test]
fn many_may_open_a_fresh_file_at_once() {
    // L14: whoever comes first makes the tables, and nobody else fails.
    for _ in 0..5 {
        let dir = Scratch::new();
        let path = dir.path("jobs.db");
        std::thread::scope(|scope| {
            for number in 1..=8 {
                let path = &path;
                scope.spawn(move || submit(&open(path).expect("no lock reaches a caller"), number));
            }
        });
        assert_eq!(count(&open(&path).expect("again")), 8);
    }
}

#[test]
fn a_good_store_has_good_findings() {
    let dir = Scratch::new();
    let findings = block_on(open(&dir.path("jobs.db")).expect("fresh").check()).expect("checked");
    let bad: Vec<_> = findings.iter().filter(|finding| finding.level != Level::Good).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let subjects: Vec<_> = findings.iter().map(|finding| finding.subject.as_str()).collect();
    for subject in ["journal mode", "synchronous", "schema", "integrity", "write-ahead log"] {
        assert!(subjects.contains(&subject), "{subjects:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_store_is_for_its_owner_alone_and_the_doctor_says_when_it_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Scratch::new();
    let store = open(&dir.path("jobs.db")).expect("fresh");
    submit(&store, 1);
    for file in ["jobs.db", "jobs.db-wal", "jobs.db-shm"] {
        let mode = dir.path(file).metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    for (mode, what) in [(0o640, "read"), (0o604, "read"), (0o620, "change"), (0o666, "change")] {
        let rights = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path("jobs.db"), rights).expect("changed");
        let findings = block_on(store.check()).expect("checked");
        let found =
            findings.iter().find(|finding| finding.subject == "permissions").expect("it is looked at");
        assert_eq!(found.level, Level::Warning, "{mode:o}");
        assert!(found.message.contains(what) && found.hint.is_some(), "{found:?}");
    }
}

#[test]
fn the_doctor_names_what_could_lose_a_job() {
    let dir = Scratch::new();
    let mut options = Options::default();
    options.synchronous = Synchronous::Normal;
    let store = SqliteStore::open(dir.path("jobs.db"), options).expect("fresh");
    let findings = block_on(store.check()).expect("checked");
    let bad = findings.iter().find(|finding| finding.level == Level::Bad).expect("one is bad");
    assert_eq!(bad.subject, "synchronous");
    assert!(bad.hint.is_some());
}
