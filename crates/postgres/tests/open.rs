//! Servers and tables that cannot be used: one clear sentence each, with what to do. And those that can.

mod place;

use backstop_core::JobId;
use backstop_core::job::{NewJob, Spec};
use backstop_postgres::tokio_postgres::{Client, NoTls};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{Error, InspectStore, JobFilter, Level, PageRequest, Submit, WorkStore};
use backstop_testbed::shared;
use place::InSchema;

async fn open(url: &str) -> Result<PostgresStore, Error> {
    PostgresStore::open(url, Options::default()).await
}

/// The sentence with which a URL is refused.
async fn refusal(url: &str, code: &str) -> String {
    let error = open(url).await.expect_err("it cannot be opened");
    assert_eq!(error.code(), code, "{error}");
    error.to_string()
}

/// A connection of the test's own, as the superuser of the test server.
async fn superuser() -> Client {
    let (client, connection) = backstop_postgres::tokio_postgres::connect(shared::postgres(), NoTls)
        .await
        .expect("the server is there");
    tokio::spawn(connection);
    client
}

/// The URL of the test server with another user and password.
fn as_user(user: &str, password: &str, rest: &str) -> String {
    let (_, host) = shared::postgres().split_once('@').expect("it names a user");
    format!("postgres://{user}:{password}@{host}{rest}")
}

async fn submit(store: &PostgresStore, number: u128) -> Result<(), Error> {
    let job = NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"));
    let answers = store.submit(Submit { jobs: vec![job], atomic: true }).await?;
    assert!(answers[0].is_ok());
    Ok(())
}

async fn count(store: &PostgresStore) -> usize {
    store.list(JobFilter::default(), PageRequest::first(100)).await.expect("listed").items.len()
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // E10
    InSchema::block_on(async {
        let text = refusal("postgres://me:secret@127.0.0.1:1/app", "store_unavailable").await;
        assert!(
            text.contains("127.0.0.1:1/app") && text.contains("check that the server is running"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
        let text =
            refusal("postgres://me@no-such-host.invalid/app?sslmode=require", "store_unavailable").await;
        assert!(text.contains("no-such-host.invalid"), "{text}");
    });
}

#[test]
fn a_missing_database_is_named() {
    // E10
    InSchema::block_on(async {
        let (server, _) = shared::postgres().rsplit_once('/').expect("it names a database");
        let url = format!("{server}/no_such_database");
        let text = refusal(&url, "store_unusable").await;
        assert!(text.contains("no such database") && text.contains("createdb"), "{text}");
    });
}

#[test]
fn missing_rights_are_named_with_the_way_out() {
    // E10
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let store = open(&place.url()).await.expect("the superuser may");
        submit(&store, 1).await.expect("stored");
        let client = superuser().await;
        let user = format!("guest_{}", place.name());
        client.batch_execute(&format!("CREATE ROLE {user} LOGIN")).await.expect("made");
        let url = as_user(&user, "", &format!("?schema={}&listen=off", place.name()));
        let text = refusal(&url, "store_unusable").await;
        assert!(text.contains("lacks a permission") && text.contains("grant it"), "{text}");
        // A guest that may make nothing, in a schema that does not exist.
        let url = as_user(&user, "", "?schema=nowhere_at_all&listen=off");
        let text = refusal(&url, "store_unusable").await;
        assert!(text.contains("lacks a permission"), "{text}");
        let grant = format!(
            "GRANT USAGE ON SCHEMA {0} TO {user}; GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO {user}",
            place.name()
        );
        client.batch_execute(&grant).await.expect("granted");
        let url = as_user(&user, "", &format!("?schema={}&listen=off", place.name()));
        let reader = open(&url).await.expect("it may read now");
        assert_eq!(count(&reader).await, 1, "by itself, without being opened again");
        let error = submit(&reader, 2).await.expect_err("it may not write");
        assert!(error.to_string().contains("lacks a permission"), "{error}");
        let clean = format!("DROP OWNED BY {user}; DROP ROLE {user}");
        client.batch_execute(&clean).await.expect("dropped");
    });
}

#[test]
fn a_read_only_server_is_named_and_left_when_it_is_over() {
    // E10, L20: what a standby says, and what a server says that an operator has made read-only.
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let client = superuser().await;
        let user = format!("reader_{}", place.name());
        let make = format!(
            "CREATE ROLE {user} LOGIN SUPERUSER; ALTER ROLE {user} SET default_transaction_read_only = on"
        );
        client.batch_execute(&make).await.expect("made");
        drop(open(&place.url()).await.expect("the tables are there"));
        let store = open(&as_user(&user, "", &format!("?schema={}&connections=1&listen=off", place.name())))
            .await
            .expect("reading is enough to open it");
        let error = submit(&store, 1).await.expect_err("nothing can be written");
        assert!(error.is_transient(), "{error}");
        assert!(error.to_string().contains("read-only") && error.to_string().contains("primary"), "{error}");
        let findings = store.check().await.expect("a doctor only looks");
        let found = findings.iter().find(|finding| finding.subject == "default_transaction_read_only");
        assert!(found.is_some_and(|finding| finding.level == Level::Bad), "{findings:?}");
        let mend = format!("ALTER ROLE {user} RESET default_transaction_read_only");
        client.batch_execute(&mend).await.expect("fixed");
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";
        client.query(end, &[&user]).await.expect("its connections end");
        // The first call may still find the dead connection; whoever repeats it gets through.
        let first = submit(&store, 1).await;
        assert!(first.as_ref().map_or_else(Error::is_transient, |()| true), "{first:?}");
        submit(&store, 1).await.expect("it connects again by itself");
        drop(store);
        client.batch_execute(&format!("DROP ROLE {user}")).await.expect("dropped");
    });
}

#[test]
fn a_newer_schema_is_refused_unless_it_still_takes_this_program() {
    // E10: a deploy has old and new programs side by side.
    let place = InSchema::fresh();
    InSchema::block_on(async {
        drop(open(&place.url()).await.expect("fresh"));
        let client = superuser().await;
        let version = |key: &'static str, number: i64| {
            format!("UPDATE {}.meta SET value = {number} WHERE key = '{key}'", place.name())
        };
        client.batch_execute(&version("schema", 99)).await.expect("a newer program was here");
        let store = open(&place.url()).await.expect("it says that older programs may go on");
        submit(&store, 1).await.expect("and they do");
        client.batch_execute(&version("oldest", 99)).await.expect("no longer");
        let text = refusal(&place.url(), "store_unusable").await;
        assert!(text.contains("newer Backstop (schema 99, this program knows up to"), "{text}");
    });
}

#[test]
fn nothing_is_migrated_without_leave() {
    // E10
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let mut options = Options::default();
        options.migrate = false;
        let error = PostgresStore::open(&place.url(), options.clone()).await.expect_err("no tables");
        assert!(error.to_string().contains("backstop migrate"), "{error}");
        drop(open(&place.url()).await.expect("migrated"));
        PostgresStore::open(&place.url(), options).await.expect("nothing is missing any more");
    });
}

#[test]
fn many_may_open_a_fresh_schema_at_once() {
    // L14: whoever comes first makes the tables, and nobody else fails.
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let url = place.url();
        let openers: Vec<_> = (1..=8)
            .map(|number| {
                let url = url.clone();
                tokio::spawn(async move {
                    let store = open(&url).await.expect("no lock reaches a caller");
                    submit(&store, number).await.expect("stored");
                })
            })
            .collect();
        for opener in openers {
            opener.await.expect("no opener failed");
        }
        assert_eq!(count(&open(&url).await.expect("again")).await, 8);
    });
}

#[test]
fn the_doctor_names_what_could_lose_a_job_and_what_is_missing() {
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let client = superuser().await;
        let user = format!("doctor_{}", place.name());
        let make = format!(
            "CREATE ROLE {user} LOGIN SUPERUSER; ALTER ROLE {user} SET synchronous_commit = off; \
             ALTER ROLE {user} SET default_transaction_isolation = 'serializable'"
        );
        client.batch_execute(&make).await.expect("made");
        let url = as_user(&user, "", &format!("?schema={}&listen=off", place.name()));
        let mut options = Options::default();
        options.old_transaction = std::time::Duration::ZERO;
        let store = PostgresStore::open(&url, options).await.expect("fresh");
        let old = superuser().await;
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("a snapshot");
        let pid = old.query_one("SELECT pg_backend_pid()", &[]).await.expect("its pid").get::<_, i32>(0);
        client.batch_execute(&format!("DROP INDEX {}.record_shelf", place.name())).await.expect("dropped");
        let findings = store.check().await.expect("checked");
        let found =
            |subject: &str| findings.iter().find(|finding| finding.subject == subject).expect("looked at");
        assert_eq!(found("synchronous_commit").level, Level::Bad);
        assert_eq!(found("default_transaction_isolation").level, Level::Warning);
        assert_eq!(found("tables").level, Level::Bad);
        assert!(found("tables").message.contains("record_shelf"), "{:?}", found("tables"));
        assert_eq!(found("schema").level, Level::Good);
        assert_eq!(found("horizon").level, Level::Warning);
        assert!(found("horizon").message.contains(&format!("pid {pid} ")), "{:?}", found("horizon"));
        assert!(findings.iter().all(|finding| finding.level == Level::Good || finding.hint.is_some()));
        drop(store);
        client.batch_execute(&format!("DROP OWNED BY {user}; DROP ROLE {user}")).await.expect("dropped");
    });
}

#[test]
fn a_wrong_password_is_refused_without_being_shown() {
    // E10: the shared server trusts everybody, so this one is asked for passwords.
    let folder = backstop_testbed::Folder::new("password").expect("a folder");
    let server =
        backstop_testbed::Postgres::start(backstop_testbed::DatabaseSettings::new(folder.join("server")))
            .expect("a server of its own");
    server.psql("CREATE ROLE ann LOGIN SUPERUSER PASSWORD 'right-one'").expect("made");
    let file = server.psql("SHOW hba_file").expect("it has one");
    let trusting = std::fs::read_to_string(file.trim()).expect("readable");
    std::fs::write(file.trim(), format!("host all ann 127.0.0.1/32 scram-sha-256\n{trusting}"))
        .expect("writable");
    server.psql("SELECT pg_reload_conf()").expect("told");
    InSchema::block_on(async {
        let url = |password: &str| {
            let server = server.url();
            let (_, host) = server.split_once('@').expect("it names a user");
            format!("postgres://ann:{password}@{host}")
        };
        let text = refusal(&url("wrong-one"), "store_unusable").await;
        assert!(text.contains("the user or the password is wrong"), "{text}");
        assert!(!text.contains("wrong-one"), "{text}");
        let store = open(&url("right-one")).await.expect("the password is right");
        submit(&store, 1).await.expect("stored");
    });
}
