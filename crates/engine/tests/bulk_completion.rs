//! Bulk handlers that write the rows of all their jobs and complete them in one transaction of their own, on every
//! database (W12, L14).
#![cfg(all(feature = "sqlite", feature = "postgres", feature = "mysql"))]
#![allow(missing_docs, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop::bulk::{BulkContext, BulkItem, BulkJob};
use backstop::mysql::mysql_async::prelude::Queryable as _;
use backstop::mysql::mysql_async::{Conn, Opts, TxOpts};
use backstop::postgres::tokio_postgres::{self, NoTls};
use backstop::prelude::*;
use backstop::sqlite::rusqlite::{Connection, TransactionBehavior};
use backstop::{Cause, State};
use backstop_store::PageRequest;
use backstop_testbed::shared;

/// A table of the application's own in the database of the store.
struct Table {
    /// A file, or the URL of a server.
    database: String,
    name: String,
    calls: AtomicUsize,
}

/// One row of it.
#[derive(Serialize, Deserialize)]
struct Insert {
    number: i64,
    then: String,
}

/// What is to be done in one transaction.
struct Work {
    jobs: Vec<BulkItem<Insert>>,
    insert: String,
}

impl Table {
    /// The completions come first, so that a row which is refused finds jobs that are completed in vain.
    async fn commit(&self, work: Work) -> JobResult<Vec<BulkItem<Insert>>> {
        let Work { jobs, insert } = work;
        match self.database.split_once(':') {
            Some(("postgres", _)) => {
                let (mut client, connection) = tokio_postgres::connect(&self.database, NoTls).await?;
                tokio::spawn(connection);
                let mut tx = client.transaction().await?;
                for item in &jobs {
                    item.complete_in(&mut tx, item.job().number).await?;
                }
                tx.batch_execute(&insert).await?;
                tx.commit().await?;
                Ok(jobs)
            }
            Some(("mysql", _)) => {
                let mut conn = Conn::new(Opts::from_url(&self.database)?).await?;
                let mut tx = conn.start_transaction(TxOpts::default()).await?;
                for item in &jobs {
                    item.complete_in(&mut tx, item.job().number).await?;
                }
                if let Err(problem) = tx.query_drop(&insert).await {
                    tx.rollback().await?;
                    return Err(problem.into());
                }
                tx.commit().await?;
                Ok(jobs)
            }
            _ => {
                let file = self.database.clone();
                let blocking = move || {
                    let mut conn = Connection::open(file)?;
                    conn.busy_timeout(Duration::from_secs(10))?;
                    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
                    for item in &jobs {
                        item.complete_in_blocking(&tx, item.job().number)?;
                    }
                    tx.execute_batch(&insert)?;
                    tx.commit()?;
                    Ok(jobs)
                };
                tokio::task::spawn_blocking(blocking).await?
            }
        }
    }

    /// A statement of the test's own; answers with the first column of what it finds.
    async fn ask(&self, statement: &str) -> Vec<i64> {
        match self.database.split_once(':') {
            Some(("postgres", _)) => {
                let (client, connection) =
                    tokio_postgres::connect(&self.database, NoTls).await.expect("a server");
                tokio::spawn(connection);
                let rows = client.query(statement, &[]).await.expect("a good statement");
                rows.iter().map(|row| row.get(0)).collect()
            }
            Some(("mysql", _)) => {
                let opts = Opts::from_url(&self.database).expect("a URL");
                let mut conn = Conn::new(opts).await.expect("a server");
                conn.query(statement).await.expect("a good statement")
            }
            _ => {
                let conn = Connection::open(&self.database).expect("a file");
                conn.busy_timeout(Duration::from_secs(10)).expect("it can wait");
                let mut query = conn.prepare(statement).expect("a good statement");
                let rows = query.query_map([], |row| row.get(0)).expect("rows");
                rows.collect::<Result<_, _>>().expect("rows")
            }
        }
    }
}

impl BulkJob for Insert {
    const KIND: &'static str = "insert";
    type Context = Table;
    type Output = JobResult<i64>;

    async fn run(jobs: Vec<BulkItem<Self>>, cx: BulkContext<Table>) -> JobResult {
        let table = cx.app();
        table.calls.fetch_add(1, Ordering::SeqCst);
        let values: Vec<String> = jobs.iter().map(|item| format!("({})", item.job().number)).collect();
        let insert = format!("INSERT INTO {} VALUES {}", table.name, values.join(", "));
        let fails_after = jobs.iter().any(|item| item.job().then == "fail after the commit");
        let jobs = table.commit(Work { jobs, insert }).await?;
        if fails_after {
            return Err("too late to matter".into());
        }
        // Who says nothing is asked for in the store.
        for item in jobs.into_iter().filter(|item| item.job().then != "say nothing") {
            item.answer(Ok(-1));
        }
        Ok(())
    }
}

async fn check(url: String, table: Table) {
    let engine = Backstop::open(&url).await.expect("a store");
    let create = format!("CREATE TABLE {} (number bigint PRIMARY KEY, CHECK (number < 1000))", table.name);
    table.ask(&create).await;
    let app = Arc::new(table);
    let worker = engine.worker_sharing(app.clone()).register::<Insert>().queue("default", 100);
    let worker = worker.inline().expect("it has a kind");

    // One row that the table refuses: all completions of that call are rolled back.
    let mut ids = Vec::new();
    for number in [1, 2, 3, 4_000, 5, 6, 7, 8] {
        let then = if number == 5 { "say nothing" } else { "" };
        let job = engine.enqueue(Insert { number, then: then.into() }).max_retries(0);
        ids.push((number, job.submit().await.expect("stored").id));
    }
    assert_eq!(worker.drain(100).await.expect("the store is there").len(), 8);
    assert_eq!(app.calls.load(Ordering::SeqCst), 1 + 2 * 3);
    for (number, id) in ids {
        let view = engine.job(id).await.expect("read").expect("stored").view;
        let causes: Vec<Cause> = engine
            .attempts(id, PageRequest::first(5))
            .await
            .expect("read")
            .items
            .iter()
            .map(|run| run.cause)
            .collect();
        if number == 4_000 {
            assert_eq!((view.state(), causes), (State::Failed, vec![Cause::Error]));
        } else {
            assert_eq!((view.state(), causes), (State::Succeeded, vec![Cause::Succeeded]), "{number}");
            assert_eq!(view.result.as_deref(), Some(&*number.to_string()), "what was committed is kept");
        }
    }
    let numbers = format!("SELECT number FROM {} ORDER BY number", app.name);
    assert_eq!(app.ask(&numbers).await, [1, 2, 3, 5, 6, 7, 8], "each once");

    // What fails after the commit is done all the same, and is not called again.
    let mut ids = Vec::new();
    for number in [11, 12] {
        let job = engine.enqueue(Insert { number, then: "fail after the commit".into() }).max_retries(0);
        ids.push(job.submit().await.expect("stored").id);
    }
    worker.drain(100).await.expect("the store is there");
    assert_eq!(app.calls.load(Ordering::SeqCst), 1 + 2 * 3 + 1);
    for id in ids {
        assert_eq!(engine.job(id).await.expect("read").expect("stored").view.state(), State::Succeeded);
    }
    assert_eq!(app.ask(&numbers).await.len(), 9);
    app.ask(&format!("DROP TABLE {}", app.name)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_file() {
    // W12, L14
    let folder = backstop_testbed::Folder::new("bulk-completion").expect("a folder");
    let file = folder.path().join("jobs.db").display().to_string();
    let table = Table { database: file.clone(), name: "numbers".into(), calls: AtomicUsize::new(0) };
    check(format!("sqlite:{file}"), table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    // W12, L14
    let (server, own) = (shared::postgres(), format!("bulk_completion_{}", std::process::id()));
    let name = format!("{own}.numbers");
    let table = Table { database: server.to_owned(), name, calls: AtomicUsize::new(0) };
    check(format!("{server}?schema={own}"), table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_mariadb() {
    // W12, L14
    let (server, own) = (shared::mariadb(), format!("bulk_completion_{}_", std::process::id()));
    let table =
        Table { database: server.to_owned(), name: format!("{own}numbers"), calls: AtomicUsize::new(0) };
    check(format!("{server}?prefix={own}"), table).await;
}
