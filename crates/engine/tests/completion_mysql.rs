//! Handlers that submit and complete in their own transaction on MariaDB, over every driver (L14).

#![cfg(feature = "tx-sqlx-mysql")]

use backstop::mysql::mysql_async::prelude::Queryable as _;
use backstop::mysql::mysql_async::{Conn, Opts, TxOpts};
use backstop::mysql::sqlx::{Connection as _, Executor as _, MySqlConnection};
use backstop::prelude::*;
use backstop_core::job::State;
use backstop_store::{JobFilter, PageRequest};
use backstop_testbed::shared;

/// What the handlers share.
#[derive(Clone)]
struct App {
    engine: Backstop,
    /// The address of a database of its own.
    address: String,
    database: String,
}

impl App {
    async fn new(name: &str) -> Self {
        let database = format!("completion_{}_{name}", std::process::id());
        let (place, _) = shared::mariadb().rsplit_once('/').expect("a URL with a database");
        let address = format!("{place}/{database}");
        client(shared::mariadb())
            .await
            .query_drop(format!("CREATE DATABASE {database}"))
            .await
            .expect("a new name");
        client(&address).await.query_drop("CREATE TABLE moved (cents INT)").await.expect("a new table");
        Self { engine: Backstop::open(&address).await.expect("a server"), address, database }
    }

    async fn rows(&self) -> i64 {
        let counted = client(&self.address).await.query_first("SELECT COUNT(*) FROM moved").await;
        counted.expect("counted").expect("one row")
    }
}

async fn client(address: &str) -> Conn {
    Conn::new(Opts::from_url(address).expect("a good URL")).await.expect("a server")
}

const OWN_ROW: &str = "INSERT INTO moved VALUES (5)";

#[job]
async fn after(_cx: JobContext<App>) -> JobResult {
    Ok(())
}

#[job]
async fn over_mysql_async(cx: JobContext<App>, commit: bool) -> JobResult {
    let mut conn = client(&cx.app().address).await;
    let mut tx = conn.start_transaction(TxOpts::default()).await?;
    tx.query_drop(OWN_ROW).await?;
    cx.enqueue(After {}).submit_in(&mut tx).await?;
    cx.submit_with_completion(cx.enqueue(After {}).queue("children")).await?;
    cx.complete_in(&mut tx, "moved").await?;
    if commit {
        tx.commit().await?
    } else {
        tx.rollback().await?
    }
    Ok(())
}

#[job]
async fn over_sqlx(cx: JobContext<App>, commit: bool) -> JobResult {
    let mut conn = MySqlConnection::connect(&cx.app().address).await?;
    let mut tx = conn.begin().await?;
    tx.execute(OWN_ROW).await?;
    cx.enqueue(After {}).submit_in(&mut tx).await?;
    cx.submit_with_completion(cx.enqueue(After {}).queue("children")).await?;
    cx.complete_in(&mut tx, "moved").await?;
    if commit {
        tx.commit().await?
    } else {
        tx.rollback().await?
    }
    Ok(())
}

/// Runs the job once with a rollback that it calls done, and once more with a commit.
async fn check<J: Job<Context = App>>(name: &str, of: impl Fn(bool) -> J) {
    let app = App::new(name).await;
    for commit in [false, true] {
        app.engine.enqueue(of(commit)).max_retries(0).submit().await.expect("admitted");
        let worker =
            app.engine.worker(app.clone()).register::<J>().queue("default", 1).inline().expect("complete");
        let ran = worker.run_next().await.expect("a server").expect("one is due");
        let expected = if commit { State::Succeeded } else { State::Failed };
        assert_eq!((ran.state, app.rows().await), (Some(expected), i64::from(commit)));
    }
    let jobs = app.engine.jobs(JobFilter::default(), PageRequest::first(10)).await.expect("read").items;
    let submitted = jobs.iter().filter(|view| &*view.job.spec.kind == After::KIND).count();
    let results: Vec<_> = jobs.iter().filter_map(|view| view.result.as_deref()).collect();
    assert_eq!(
        (submitted, results),
        (2, vec!["\"moved\""]),
        "one of the transaction and one of the completion"
    );
    let drop = format!("DROP DATABASE {}", app.database);
    client(shared::mariadb()).await.query_drop(drop).await.expect("it is there");
}

#[tokio::test]
async fn mysql_async_commits_all_or_nothing() {
    // L14, L23
    check("mysql_async", |commit| OverMysqlAsync { commit }).await;
}

#[tokio::test]
async fn sqlx_commits_all_or_nothing() {
    // L14, L23
    check("sqlx", |commit| OverSqlx { commit }).await;
}
