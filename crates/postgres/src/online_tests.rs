//! Indexes that are made on tables with jobs in them, while others write.

use backstop_core::job::State;
use tokio_postgres::Client;

use crate::PostgresStore;
use crate::schema::Schema;
use crate::schema_tests::{connect, count, id, open, run, submit};

/// What the fourth migration has added, taken away again. What came after it stays: the store that stands for an
/// earlier program works with it.
const BACK_TO_THE_THIRD: &[&str] = &[
    "DROP INDEX backstop.job_lane",
    "DROP INDEX backstop.record_lane",
    "UPDATE backstop.meta SET value = 3 WHERE key = 'schema'",
];

/// A schema at version 3 with some jobs, and a store that a program of that version has open.
async fn third(name: &str) -> (Schema, Client, PostgresStore) {
    let (schema, client) = (Schema::named(name).expect("a plain name"), connect().await);
    let store = open(name).await;
    for number in 1..=9 {
        submit(&store, number, &format!("key-{number}")).await;
    }
    for statement in BACK_TO_THE_THIRD {
        client.batch_execute(&schema.text(statement)).await.expect(statement);
    }
    (schema, client, store)
}

async fn valid_indexes(client: &Client, name: &str) -> i64 {
    let valid = format!(
        "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid IN \
         (to_regclass('{name}.job_lane'), to_regclass('{name}.record_lane'))"
    );
    count(client, &valid).await
}

#[tokio::test]
async fn indexes_are_made_while_others_write() {
    // L17: no writer waits for a migration that only adds indexes, and two programs may begin it at once.
    let name = format!("online_{}", std::process::id());
    let (_, client, earlier) = third(&name).await;
    // An index that is made online waits for whoever may still see the table as it was.
    let reader = connect().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begun");
    reader.query_one(&format!("SELECT count(*) FROM {name}.job"), &[]).await.expect("read");
    let openers: Vec<_> = (0..2)
        .map(|_| {
            let name = name.clone();
            tokio::spawn(async move { open(&name).await.found_version() })
        })
        .collect();
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX CONCURRENTLY job_lane ON {name}.%'"
    );
    while count(&client, &waits).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(submit(&earlier, 10, "meanwhile").await, (id(10), State::Pending, false));
    run(&earlier, true).await;
    reader.batch_execute("COMMIT").await.expect("committed");
    for opener in openers {
        // Whoever came second may have found it done.
        assert!(opener.await.expect("no panic") >= Some(3));
    }
    assert_eq!(valid_indexes(&client, &name).await, 2);
    drop(earlier);
    client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
}

#[tokio::test]
async fn an_index_that_was_not_finished_is_made_again() {
    // L17: what a kill leaves behind is an index of this name that nothing may read.
    let name = format!("unfinished_{}", std::process::id());
    let (schema, client, earlier) = third(&name).await;
    let refused = "CREATE UNIQUE INDEX CONCURRENTLY job_lane ON backstop.job (lane)";
    client.batch_execute(&schema.text(refused)).await.expect_err("all jobs are of one lane");
    assert_eq!(valid_indexes(&client, &name).await, 0);
    drop(earlier);
    let store = open(&name).await;
    assert_eq!(store.found_version(), Some(3));
    assert_eq!(valid_indexes(&client, &name).await, 2);
    let on = format!("SELECT indnatts::bigint FROM pg_index WHERE indexrelid = '{name}.job_lane'::regclass");
    assert_eq!(count(&client, &on).await, 2, "by lane and id");
    drop(store);
    client.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
}
