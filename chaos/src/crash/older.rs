//! A store as the first version of the program left it, with jobs that nobody has run.
//!
//! The first migration of a store is never edited, and neither is what a program of that version wrote: both are
//! written here by hand, so that what reads them later is the code under test and nothing else.

use backstop::JobId;
use backstop::mysql::mysql_async::prelude::Queryable;
use backstop::mysql::mysql_async::{Conn, Opts};
use backstop::postgres::tokio_postgres::{NoTls, connect};
use backstop::sqlite::rusqlite::{Connection, params};
use backstop::{mysql, postgres, sqlite};
use backstop_core::job::{NewJob, Spec};
use backstop_testbed::shared;

use super::job::EffectJob;
use crate::journal::{Journal, JournalEntry};
use crate::location::{StoreKind, StoreLocation};

/// Jobs that wait in it.
pub const JOBS: usize = 5;

/// When they were submitted: long ago, so that all are due.
const THEN: i64 = 1_700_000_000_000_000;

/// Makes the tables of the first version with jobs in them; the journal tells of those as of any others.
///
/// # Panics
/// When the store is not empty or cannot be reached.
pub async fn make(location: &StoreLocation) -> Vec<JobId> {
    let jobs: Vec<NewJob> = (0..JOBS).map(job).collect();
    let journal = Journal::create_in(location.folder());
    for job in &jobs {
        journal.write(JournalEntry::Trying(job.into()));
    }
    match location.kind() {
        StoreKind::Sqlite => in_sqlite(location, &jobs),
        StoreKind::Postgres => in_postgres(location.place("schema"), &jobs).await,
        StoreKind::Mariadb => in_mariadb(location.place("prefix"), &jobs).await,
    }
    let ids: Vec<JobId> = jobs.iter().map(|job| job.spec.id).collect();
    ids.iter().for_each(|id| journal.write(JournalEntry::Acked { job: *id, answer: *id }));
    ids
}

fn job(number: usize) -> NewJob {
    let effect = EffectJob { label: format!("older-{number}"), point: None };
    let payload = serde_json::to_string(&effect).expect("a job is plain data");
    let mut spec = Spec::new(backstop::job_id(), "effect", payload);
    spec.idempotency_key = Some(effect.label);
    NewJob::new(spec)
}

fn key(job: &NewJob) -> &str {
    job.spec.idempotency_key.as_deref().unwrap_or_default()
}

fn in_sqlite(location: &StoreLocation, jobs: &[NewJob]) {
    let conn = Connection::open(location.folder().join("jobs.db")).expect("the file can be made");
    conn.execute_batch("PRAGMA journal_mode = WAL").expect("a log");
    for statement in sqlite::TABLES_OF_VERSION_1 {
        conn.execute_batch(statement).expect(statement);
    }
    let lane = format!(
        "INSERT INTO backstop_lane (id, queue, kind, version, priority, pending) \
         VALUES (1, 'default', 'effect', 1, 2, {})",
        jobs.len()
    );
    conn.execute_batch(&lane).expect("a lane");
    for (seq, job) in (1_i64..).zip(jobs) {
        let (id, key) = (job.spec.id, key(job));
        let written =
            "INSERT INTO backstop_job (seq, created_at, payload, idempotency_key) VALUES (?1, ?2, ?3, ?4)";
        conn.execute(written, params![seq, THEN, &*job.spec.payload, key]).expect(written);
        let state = "INSERT INTO backstop_state (seq, id, lane, status, run_at, attempt, crashes, deferrals, runs, \
                     redrives, fence) VALUES (?1, ?2, 1, 1, ?3, 0, 0, 0, 0, 0, 0)";
        conn.execute(state, params![seq, id.as_bytes(), THEN]).expect(state);
        let known = "INSERT INTO backstop_idempotency (key, job) VALUES (?1, ?2)";
        conn.execute(known, params![key, id.as_bytes()]).expect(known);
    }
    conn.execute_batch("INSERT INTO backstop_meta (key, value) VALUES ('schema', 1)").expect("a version");
}

async fn in_postgres(schema: &str, jobs: &[NewJob]) {
    let (client, connection) = connect(shared::postgres(), NoTls).await.expect("the server is there");
    let driver = tokio::spawn(connection);
    let mut script = vec![format!("CREATE SCHEMA {schema}")];
    script.extend(postgres::TABLES_OF_VERSION_1.iter().map(|statement| (*statement).to_owned()));
    script.push(format!(
        "INSERT INTO backstop.lane (id, queue, kind, version, priority, pending) \
         OVERRIDING SYSTEM VALUE VALUES (1, 'default', 'effect', 1, 2, {})",
        jobs.len()
    ));
    script.push("SELECT setval(pg_get_serial_sequence('backstop.lane', 'id'), 1)".to_owned());
    for job in jobs {
        let (id, payload, key) = (job.spec.id, &job.spec.payload, key(job));
        script.push(format!(
            "INSERT INTO backstop.job (id, lane, created_at, run_at, payload, idempotency_key) \
             VALUES ('{id}', 1, {THEN}, {THEN}, '{payload}', '{key}')"
        ));
        script.push(format!(
            "INSERT INTO backstop.ready (lane, run_at, id, rowed) VALUES (1, {THEN}, '{id}', false)"
        ));
        script.push(format!("INSERT INTO backstop.idempotency (key, job) VALUES ('{key}', '{id}')"));
    }
    script.push("INSERT INTO backstop.meta (key, value) VALUES ('schema', 1), ('oldest', 1)".to_owned());
    for statement in script {
        let statement = statement.replace("backstop.", &format!("{schema}."));
        client.batch_execute(&statement).await.unwrap_or_else(|problem| panic!("{statement}: {problem}"));
    }
    drop(client);
    let _ = driver.await;
}

async fn in_mariadb(prefix: &str, jobs: &[NewJob]) {
    let mut conn = Conn::new(Opts::from_url(shared::mariadb()).expect("a good URL")).await.expect("a server");
    let mut script: Vec<String> =
        mysql::TABLES_OF_VERSION_1.iter().map(|statement| (*statement).to_owned()).collect();
    script.push(format!(
        "INSERT INTO backstop_lane (id, queue, kind, version, priority, pending) \
         VALUES (1, 'default', 'effect', 1, 2, {})",
        jobs.len()
    ));
    for job in jobs {
        let (payload, key) = (&job.spec.payload, key(job));
        let id: String = job.spec.id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        script.push(format!(
            "INSERT INTO backstop_job (id, lane, created_at, run_at, payload, idempotency_key) \
             VALUES (x'{id}', 1, {THEN}, {THEN}, '{payload}', '{key}')"
        ));
        script.push(format!(
            "INSERT INTO backstop_ready (lane, run_at, id, rowed) VALUES (1, {THEN}, x'{id}', 0)"
        ));
        script.push(format!("INSERT INTO backstop_idempotency (name, job) VALUES ('{key}', x'{id}')"));
    }
    script.push("INSERT INTO backstop_meta (name, value) VALUES ('schema', 1), ('oldest', 1)".to_owned());
    for statement in script {
        let statement = statement.replace("backstop_", prefix);
        conn.query_drop(&statement).await.unwrap_or_else(|problem| panic!("{statement}: {problem}"));
    }
    conn.disconnect().await.expect("the connection ends");
}
