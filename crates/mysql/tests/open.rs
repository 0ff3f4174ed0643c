//! Servers and tables that cannot be used: one clear sentence each, with what to do. And those that can.

mod place;

use std::time::Duration;

use backstop_core::JobId;
use backstop_core::job::{NewJob, Spec};
use backstop_mysql::mysql_async::prelude::Queryable;
use backstop_mysql::mysql_async::{Conn, Opts};
use backstop_mysql::{MysqlStore, Options, Prefix};
use backstop_store::conformance::StorePlace;
use backstop_store::{Error, InspectStore, JobFilter, Level, PageRequest, Submit, WorkStore};
use backstop_testbed::shared;
use place::InDatabase;

async fn open(url: &str) -> Result<MysqlStore, Error> {
    MysqlStore::open(url, Options::default()).await
}

/// The sentence with which a URL is refused.
async fn refusal(url: &str, code: &str) -> String {
    let error = open(url).await.expect_err("it cannot be opened");
    assert_eq!(error.code(), code, "{error}");
    error.to_string()
}

/// A connection of the test's own, to a database.
async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(url).expect("a good URL")).await.expect("the server is there")
}

/// The URL of a place with another user and password.
fn as_user(place: &InDatabase, user: &str, password: &str) -> String {
    let url = place.url();
    let (_, host) = url.split_once('@').expect("it names a user");
    format!("mysql://{user}:{password}@{host}")
}

async fn submit(store: &MysqlStore, number: u128) -> Result<(), Error> {
    let job = NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"));
    let answers = store.submit(Submit { jobs: vec![job], atomic: true }).await?;
    assert!(answers[0].is_ok());
    Ok(())
}

async fn count(store: &MysqlStore) -> usize {
    store.list(JobFilter::default(), PageRequest::first(100)).await.expect("listed").items.len()
}

#[test]
fn a_wrong_url_is_refused_without_its_password() {
    // E10
    InDatabase::block_on(async {
        for url in
            ["mysql://me:secret@db:port/app", "mysql://me:secret@db", "mysql://me:secret@db/app?no_such=1"]
        {
            let text = refusal(url, "store_unusable").await;
            assert!(!text.contains("secret") && text.contains("mysql://me@db"), "{text}");
        }
    });
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // E10
    InDatabase::block_on(async {
        let text = refusal("mysql://me:secret@127.0.0.1:1/app", "store_unavailable").await;
        assert!(
            text.contains("127.0.0.1:1/app") && text.contains("check that the server is running"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
        let text =
            refusal("mariadb://me@no-such-host.invalid/app?sslmode=require", "store_unavailable").await;
        assert!(text.contains("no-such-host.invalid"), "{text}");
    });
}

#[test]
fn a_missing_database_is_named() {
    // E10
    InDatabase::block_on(async {
        let (server, _) = shared::mariadb().rsplit_once('/').expect("it names a database");
        let text = refusal(&format!("{server}/no_such_database"), "store_unusable").await;
        assert!(text.contains("no such database") && text.contains("CREATE DATABASE"), "{text}");
    });
}

#[test]
fn a_wrong_password_is_refused_and_not_repeated() {
    // E10
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let user = format!("u_{}", place.name());
        let make = format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'right-one'; GRANT ALL ON {}.* TO {user}@'%'",
            place.name()
        );
        place::sql(shared::mariadb(), &make).await;
        let text = refusal(&as_user(&place, &user, "wrong-one"), "store_unusable").await;
        assert!(text.contains("the user or the password is wrong"), "{text}");
        assert!(!text.contains("wrong-one"), "{text}");
        let store = open(&as_user(&place, &user, "right-one")).await.expect("the password is right");
        let findings = store.check().await.expect("checked");
        let horizon = findings.iter().find(|finding| finding.subject == "horizon").expect("looked at");
        assert!(horizon.hint.as_deref().is_some_and(|hint| hint.contains("PROCESS")), "{horizon:?}");
        drop(store);
        place::sql(shared::mariadb(), &format!("DROP USER {user}@'%'")).await;
    });
}

#[test]
fn missing_rights_are_named_with_the_way_out() {
    // E10
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let (user, name) = (format!("g_{}", place.name()), place.name());
        let grant = |rights: &str| format!("GRANT {rights} ON {name}.* TO {user}@'%'");
        place::sql(shared::mariadb(), &format!("CREATE USER {user}@'%'")).await;
        let url = as_user(&place, &user, "");
        let text = refusal(&url, "store_unusable").await;
        assert!(text.contains("lacks a permission") && text.contains("grant"), "{text}");
        place::sql(shared::mariadb(), &grant("SELECT")).await;
        let text = refusal(&url, "store_unusable").await;
        assert!(text.contains("lacks a permission"), "it may not make tables: {text}");
        submit(&open(&place.url()).await.expect("the owner may"), 1).await.expect("stored");
        let reader = open(&url).await.expect("reading is enough to open it");
        assert_eq!(count(&reader).await, 1);
        let error = submit(&reader, 2).await.expect_err("it may not write");
        assert!(error.to_string().contains("lacks a permission"), "{error}");
        drop(reader);
        place::sql(shared::mariadb(), &format!("DROP USER {user}@'%'")).await;
    });
}

#[test]
fn a_newer_schema_is_refused_unless_it_still_takes_this_program() {
    // E10: a deploy has old and new programs side by side.
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        drop(open(&place.url()).await.expect("fresh"));
        let version = |name: &str| format!("UPDATE backstop_meta SET value = 99 WHERE name = '{name}'");
        place::sql(&place.url(), &version("schema")).await;
        let store = open(&place.url()).await.expect("it says that older programs may go on");
        submit(&store, 1).await.expect("and they do");
        place::sql(&place.url(), &version("oldest")).await;
        let text = refusal(&place.url(), "store_unusable").await;
        assert!(text.contains("newer Backstop (schema 99, this program knows up to"), "{text}");
    });
}

#[test]
fn nothing_is_migrated_without_leave() {
    // E10
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let mut options = Options::default();
        options.migrate = false;
        let error = MysqlStore::open(&place.url(), options.clone()).await.expect_err("no tables");
        assert!(error.to_string().contains("backstop migrate"), "{error}");
        drop(open(&place.url()).await.expect("migrated"));
        MysqlStore::open(&place.url(), options.clone()).await.expect("nothing is missing any more");
        place::sql(&place.url(), "UPDATE backstop_meta SET value = 0").await;
        let error = MysqlStore::open(&place.url(), options).await.expect_err("an older schema");
        assert!(error.to_string().contains("its schema is version 0"), "{error}");
        submit(&open(&place.url()).await.expect("migrated again"), 1).await.expect("stored");
    });
}

#[test]
fn a_migration_killed_after_any_statement_is_completed_by_the_next_open() {
    // L14, E10: statements that make tables commit by themselves, so a kill can fall between any two of them.
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let mut conn = connect(&place.url()).await;
        let steps = MysqlStore::migrations(&Prefix::default()).len();
        for killed_after in 0..=steps {
            let prefix = format!("k{killed_after}_");
            let statements = MysqlStore::migrations(&Prefix::named(&prefix).expect("a plain name"));
            assert_eq!(statements.len(), steps);
            for statement in &statements[..killed_after] {
                conn.query_drop(statement).await.expect("good SQL");
            }
            let url = format!("{}?prefix={prefix}&connections=1", place.url());
            let store = open(&url).await.unwrap_or_else(|error| panic!("after {killed_after}: {error}"));
            submit(&store, 1).await.expect("stored");
            assert_eq!(count(&store).await, 1);
        }
    });
}

#[test]
fn many_may_open_a_fresh_database_at_once() {
    // L14: whoever comes first makes the tables, and nobody else fails.
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let openers: Vec<_> = (1..=8)
            .map(|number| {
                let url = place.url();
                tokio::spawn(async move {
                    let store = open(&url).await.expect("no lock reaches a caller");
                    submit(&store, number).await.expect("stored");
                })
            })
            .collect();
        for opener in openers {
            opener.await.expect("no opener failed");
        }
        assert_eq!(count(&open(&place.url()).await.expect("again")).await, 8);
    });
}

#[test]
fn stores_of_different_prefixes_do_not_see_each_other() {
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let one = open(&format!("{}?prefix=one_", place.url())).await.expect("opened");
        let two = open(&format!("{}?prefix=two_", place.url())).await.expect("opened");
        submit(&one, 1).await.expect("stored");
        assert_eq!((count(&one).await, count(&two).await), (1, 0));
        assert!(one.info().location.ends_with("?prefix=one_"), "{}", one.info().location);
    });
}

#[test]
fn a_lost_connection_is_made_again() {
    // L20: the first call may meet the dead connection; whoever repeats it gets through.
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let store = open(&place.url()).await.expect("opened");
        submit(&store, 1).await.expect("stored");
        let mut conn = connect(&place.url()).await;
        let find = format!(
            "SELECT id FROM information_schema.processlist WHERE db = '{}' AND id <> CONNECTION_ID()",
            place.name()
        );
        let ids: Vec<u64> = conn.query(find).await.expect("asked");
        assert!(!ids.is_empty());
        for id in ids {
            conn.query_drop(format!("KILL {id}")).await.expect("killed");
        }
        let first = submit(&store, 2).await;
        assert!(first.as_ref().map_or_else(Error::is_transient, |()| true), "{first:?}");
        submit(&store, 2).await.expect("it connects again by itself");
        assert_eq!(count(&store).await, 2);
    });
}

#[test]
fn the_doctor_names_what_could_lose_a_job_and_what_is_missing() {
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let mut options = Options::default();
        options.old_transaction = Duration::ZERO;
        let store = MysqlStore::open(&place.url(), options).await.expect("fresh");
        let mut old = connect(&place.url()).await;
        old.query_drop("START TRANSACTION; INSERT INTO backstop_queue (name, paused) VALUES ('q', 0)")
            .await
            .expect("begun");
        let id: u64 = old.query_first("SELECT CONNECTION_ID()").await.expect("asked").expect("a number");
        let break_it =
            "ALTER TABLE backstop_record DROP INDEX record_shelf; ALTER TABLE backstop_tag ENGINE = Aria";
        place::sql(&place.url(), break_it).await;
        let mut findings = store.check().await.expect("checked");
        // The oldest transaction is named, and other tests have theirs: this one stays until they have ended.
        let ours = format!("connection {id} ");
        while !findings.iter().any(|one| one.subject == "horizon" && one.message.contains(&ours)) {
            tokio::task::yield_now().await;
            findings = store.check().await.expect("checked");
        }
        let found =
            |subject: &str| findings.iter().filter(|finding| finding.subject == subject).collect::<Vec<_>>();
        assert_eq!(found("innodb_flush_log_at_trx_commit").len(), 1);
        assert_eq!(found("session")[0].level, Level::Good, "{findings:?}");
        assert_eq!(found("server version")[0].level, Level::Good);
        assert_eq!(found("max_allowed_packet")[0].level, Level::Good);
        assert_eq!(found("schema")[0].level, Level::Good);
        let tables = found("tables");
        assert!(tables[0].message.contains("backstop_record.record_shelf"), "{tables:?}");
        assert!(tables[1].message.contains("backstop_tag (Aria)"), "{tables:?}");
        assert!(findings.iter().all(|finding| finding.level == Level::Good || finding.hint.is_some()));
    });
}
