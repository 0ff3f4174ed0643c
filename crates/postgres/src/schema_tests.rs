//! A migration that is killed leaves the old version or the new one, whatever statement it was at; one that goes
//! through keeps what the earlier version has stored, and a program of that version can go on.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::failure::{Cause, Decision, TerminalReason, Verdict};
use backstop_core::job::{Aging, Ending, FailureRecord, NewJob, Operation, Retention, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_store::{
    Amend, Amended, Claim, ClaimQueue, ClaimedJob, Drawer, Duty, Edit, Expect, Finish, InspectStore,
    KnownKind, NewWorker, Submit, WorkStore,
};
use backstop_testbed::shared;
use tokio_postgres::{Client, NoTls};

use crate::schema::Schema;
use crate::schema::{MIGRATIONS, SCHEMA_MAKE};
use crate::{Options, PostgresStore};

pub(crate) async fn connect() -> Client {
    let (client, connection) =
        tokio_postgres::connect(shared::postgres(), NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_kill_at_every_statement_leaves_a_store_that_opens() {
    // L17
    let name = format!("killed_{}", std::process::id());
    let schema = Schema::named(&name).expect("a plain name");
    let statements: Vec<&str> = MIGRATIONS.iter().flat_map(|migration| migration.iter().copied()).collect();
    for kill_at in 0..=statements.len() {
        let migrator = connect().await;
        migrator.batch_execute("BEGIN").await.expect("begun");
        migrator.batch_execute(&format!("{SCHEMA_MAKE}{name}")).await.expect("made");
        for statement in &statements[..kill_at] {
            migrator.batch_execute(&schema.text(statement)).await.expect("applied");
        }
        // The connection goes without a word, as that of a killed process does.
        drop(migrator);
        let url = format!("{}?schema={name}&listen=off&connections=1", shared::postgres());
        let store = PostgresStore::open(&url, Options::default()).await.expect("it opens");
        assert_eq!(store.found_version(), None, "nothing of the killed migration is there");
        drop(store);
        connect().await.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
    }
    println!("{} kills, one at each statement", statements.len() + 1);
}

const WORKER: WorkerId = WorkerId::from_u128(7);

/// What the later migrations have added, taken away again: a database of the first version.
const BACK_TO_THE_FIRST: &[&str] = &[
    "DROP TABLE backstop.turn, backstop.permit",
    "DROP TABLE backstop.line, backstop.place, backstop.line_change",
    "ALTER TABLE backstop.lane DROP COLUMN empty_since, DROP COLUMN retired",
    "DROP INDEX backstop.incident_kind",
    "DROP VIEW backstop.gate",
    "DROP TABLE backstop.laneless",
    "DROP FUNCTION backstop.sort_in",
    "DROP TRIGGER note_arrivals ON backstop.ready",
    "DROP FUNCTION backstop.note_arrivals, \
     backstop.take(bigint, uuid, text[], bigint[], boolean[], text[], bigint[], bigint, jsonb, boolean), \
     backstop.peek(bigint, text[], boolean[], text[], bigint[], jsonb)",
    "DROP TABLE backstop.arrival, backstop.arrival_floor, backstop.cursor",
    "ALTER TABLE backstop.lane DROP COLUMN cursor_at, DROP COLUMN cursor_id, \
     DROP COLUMN cursor_checked_at, DROP COLUMN cursor_cost",
    "DROP FUNCTION backstop.pick, backstop.peek, backstop.take",
    "DROP INDEX backstop.job_lane",
    "DROP INDEX backstop.record_lane",
    "ALTER TABLE backstop.job DROP COLUMN papers",
    "DROP TABLE backstop.document",
    "DROP INDEX backstop.archive_outworn",
    "ALTER TABLE backstop.archive DROP COLUMN ran",
    "ALTER TABLE backstop.queue DROP COLUMN note",
    "ALTER TABLE backstop.incident DROP COLUMN open, DROP COLUMN first_version, DROP COLUMN last_version, \
     DROP COLUMN standing",
    "ALTER TABLE backstop.idempotency DROP COLUMN ended",
    "ALTER TABLE backstop.record DROP COLUMN marks",
    "ALTER TABLE backstop.done DROP COLUMN marks",
    "UPDATE backstop.meta SET value = 1 WHERE key = 'schema'",
];

pub(crate) fn id(number: u128) -> JobId {
    JobId::from_u128(number)
}

pub(crate) async fn open(name: &str) -> PostgresStore {
    let url = format!("{}?schema={name}&listen=off&connections=2", shared::postgres());
    PostgresStore::open(&url, Options::default()).await.expect("it opens")
}

pub(crate) async fn submit(store: &PostgresStore, number: u128, key: &str) -> (JobId, State, bool) {
    let mut job = NewJob::new(Spec::new(id(number), "work", "{}"));
    job.spec.idempotency_key = Some(key.to_owned());
    let mut answers = store.submit(Submit { jobs: vec![job], atomic: true }).await.expect("submitted");
    let answer = answers.remove(0).expect("not refused");
    (answer.id, answer.state, answer.deduplicated)
}

/// Claims the one job that is due.
async fn take(store: &PostgresStore) -> ClaimedJob {
    let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
    let worker = NewWorker {
        id: WORKER,
        name: "w".into(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds.clone(),
        lease: Duration::from_secs(60),
    };
    store.enlist(worker).await.expect("enlisted");
    let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
    let claim = Claim {
        worker: WORKER,
        queues: vec![room],
        kinds,
        aging: Aging::default(),
        limits: Default::default(),
    };
    store.claim(claim).await.expect("live").jobs.remove(0)
}

/// Runs the one job that is due, to its death or to a good end.
pub(crate) async fn run(store: &PostgresStore, dies: bool) {
    let taken = take(store).await;
    let header = taken.job.spec.header();
    let mut ending = Ending::plain(header.clone(), Cause::Succeeded, Decision::succeeded());
    if dies {
        let reason = TerminalReason::NonRetryable;
        let dead = Decision::plain(Verdict::Dead { reason });
        ending = Ending::plain(header, Cause::Permanent, dead);
        let (error_type, message) = ("Broken".to_owned(), "it broke".to_owned());
        let fingerprint = fingerprint("work", &error_type, &message);
        ending.failure = Some(FailureRecord { error_type, message, fingerprint });
    }
    store.finish(vec![Finish { lease: taken.lease, ending }]).await.expect("finished")[0].expect("held");
}

pub(crate) async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("counted").get(0)
}

#[tokio::test]
async fn a_database_of_the_first_version_keeps_all_it_has() {
    // L16, L17, D5
    let name = format!("first_{}", std::process::id());
    let (schema, client) = (Schema::named(&name).expect("a plain name"), connect().await);
    let store = open(&name).await;
    submit(&store, 1, "ran").await;
    run(&store, false).await;
    submit(&store, 2, "never-ran").await;
    store.operate(vec![id(2)], Operation::Cancel { reason: "no".into() }).await.expect("canceled")[0]
        .as_ref()
        .expect("it was pending");
    let term = store.lead(WORKER, vec![Duty::Archive], Duration::from_secs(60)).await.expect("led")[0];
    let at_once = Retention::default().succeeded(Some(Duration::ZERO)).canceled(Some(Duration::ZERO));
    assert_eq!(store.archive(term.expect("free"), at_once, 10).await.expect("archived"), 2);
    submit(&store, 3, "died").await;
    run(&store, true).await;
    store.apply_roles().await.expect("made");
    let before = (
        store.jobs(vec![id(3)]).await.expect("read"),
        store.archived(vec![id(1), id(2)]).await.expect("read"),
    );
    drop(store);
    for statement in BACK_TO_THE_FIRST {
        client.batch_execute(&schema.text(statement)).await.expect(statement);
    }

    let store = open(&name).await;
    assert_eq!(store.found_version(), Some(1));
    let dead = store.jobs(vec![id(3)]).await.expect("read").remove(0).expect("it is there");
    assert_eq!((dead.view.record.state, &dead.view.record.marks), (State::Failed, &None));
    let mut unmarked = before.0[0].clone().expect("it was there");
    unmarked.view.record.marks = None;
    assert_eq!(dead, unmarked, "nothing but its marks is gone");
    let archived = store.archived(vec![id(1), id(2)]).await.expect("read");
    assert_eq!(archived, before.1, "also whether they ever ran");
    assert_eq!(archived.iter().flatten().map(|gone| gone.ran).collect::<Vec<_>>(), [true, false]);
    let incident = store.incidents(10).await.expect("read").remove(0);
    assert_eq!((incident.failures, incident.dead, incident.open), (1, 1, 0), "not marked, not open");
    store.operate(vec![id(3)], Operation::Retry).await.expect("retried")[0].as_ref().expect("it was dead");
    run(&store, true).await;
    assert_eq!(store.incidents(10).await.expect("read")[0].open, 1, "from now on it is counted");

    assert_eq!(store.prunable(Duration::ZERO, 10).await.expect("counted"), 1);
    let term = store.lead(WORKER, vec![Duty::Prune], Duration::from_secs(60)).await.expect("led")[0];
    assert_eq!(store.prune(term.expect("free"), Duration::ZERO, 10).await.expect("pruned"), 1);
    assert_eq!(submit(&store, 9, "ran").await, (id(1), State::Succeeded, true));
    assert_eq!(submit(&store, 9, "never-ran").await, (id(2), State::Canceled, true));
    let told = count(&client, &format!("SELECT count(*) FROM {name}.archive WHERE ran IS FALSE")).await;
    assert_eq!(told, 1, "what never ran is passed by from now on");

    let may = |role: &str| {
        format!("SELECT has_table_privilege('{name}_{role}', '{name}.document', 'INSERT')::integer::bigint")
    };
    for (role, allowed) in [("server", 1), ("worker", 1), ("enqueuer", 0), ("reader", 0)] {
        assert_eq!(count(&client, &may(role)).await, allowed, "{role}, made for the first version");
    }
    drop(store);
    client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
    for role in ["migrator", "server", "worker", "enqueuer", "reader"] {
        client.batch_execute(&format!("DROP ROLE {name}_{role}")).await.expect("dropped");
    }
}

/// The statement with which a program of the first version archives.
const ARCHIVED_BY_THE_FIRST: &str = "INSERT INTO backstop.archive (id, status, finished_at, archived_at, document) VALUES ($1::text::uuid, 7, 1, 1, $2)";

#[tokio::test]
async fn what_a_program_of_the_first_version_archives_meanwhile_is_pruned_too() {
    // L17, D5
    let name = format!("beside_{}", std::process::id());
    let (schema, client) = (Schema::named(&name).expect("a plain name"), connect().await);
    let store = open(&name).await;
    for number in 1..=4 {
        let runs = if number == 4 { "{}" } else { "" };
        let document =
            format!(r#"{{"job":{{"idempotency_key":null,"payload":"\u0000"}},"attempts":[{runs}]}}"#);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&id(number).to_string(), &document];
        client.execute(&*schema.text(ARCHIVED_BY_THE_FIRST), &values).await.expect("the columns are there");
    }
    let term =
        store.lead(WORKER, vec![Duty::Prune], Duration::from_secs(60)).await.expect("led")[0].expect("free");
    assert_eq!(store.prune(term, Duration::ZERO, 1).await.expect("pruned"), 1, "behind three that never ran");
    assert_eq!(store.prune(term, Duration::ZERO, 1).await.expect("pruned"), 0);
    drop(store);
    client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
}

/// The statement with which a program of the fifteenth version ends the run of the only job.
const ENDED_BY_THE_FIFTEENTH: &str = "SELECT backstop.end_runs(NULL::bigint, ARRAY[c.fence], ARRAY[c.worker], \
     ARRAY[c.edits::bigint], ARRAY[''::bytea], NULL::text, ARRAY[1::bigint], ARRAY[j.id], ARRAY[j.lane::bigint], \
     ARRAY[j.run_at], '{}'::bigint[], ARRAY[c.claimed_at], '{}'::text[], '{}'::text[], '{}'::text[]) \
     FROM backstop.claim c, backstop.job j";

#[tokio::test]
async fn a_program_of_the_fifteenth_version_ends_runs_with_the_function_that_it_knows() {
    // L5, L17
    let name = format!("ends_{}", std::process::id());
    let (schema, client) = (Schema::named(&name).expect("a plain name"), connect().await);
    let store = open(&name).await;
    submit(&store, 1, "ran").await;
    take(&store).await;
    let end = schema.text(ENDED_BY_THE_FIFTEENTH);
    let ended: bool = client.query_one(&*end, &[]).await.expect("the function is there").get(0);
    assert!(ended, "the claim is as it is remembered");
    let job = store.jobs(vec![id(1)]).await.expect("read").remove(0).expect("it is there");
    assert_eq!((job.view.record.state, job.view.record.runs), (State::Succeeded, 1));
    assert!(client.query_opt(&*end, &[]).await.expect("the claim is gone").is_none());
    drop(store);
    client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
}

fn new_document(key: &str) -> Amend {
    let body = Some(Arc::from("mine"));
    Amend {
        edits: vec![Edit { drawer: Drawer::Plans, key: key.to_owned(), expect: Expect::Absent, body }],
        ..Amend::default()
    }
}

#[tokio::test]
async fn whoever_comes_second_with_a_new_document_is_told_so() {
    // D4: an insert that waits for another one is a conflict once that is committed, and never an error.
    let name = format!("second_{}", std::process::id());
    let (schema, client) = (Schema::named(&name).expect("a plain name"), connect().await);
    let store = Arc::new(open(&name).await);
    let first = connect().await;
    let theirs = "BEGIN; INSERT INTO backstop.document (drawer, key, revision, body) VALUES ('plan', 'rd-1', 1, 'theirs')";
    first.batch_execute(&schema.text(theirs)).await.expect("written, not committed");
    let second = tokio::spawn({
        let store = store.clone();
        async move { store.amend(new_document("rd-1")).await }
    });
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO {name}.document%'"
    );
    while count(&client, &waits).await == 0 {
        tokio::task::yield_now().await;
    }
    first.batch_execute("COMMIT").await.expect("committed");
    let answer = second.await.expect("no panic").expect("no error");
    assert_eq!(answer, Amended::Conflict { drawer: Drawer::Plans, key: "rd-1".into() });
    let other = store.amend(new_document("rd-2")).await.expect("amended");
    assert!(matches!(other, Amended::Done { .. }), "{other:?}");
    drop(store);
    client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
}
