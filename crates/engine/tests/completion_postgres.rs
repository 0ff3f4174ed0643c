//! Handlers that submit and complete in their own transaction on PostgreSQL, over every driver (L14).

#![cfg(all(feature = "tx-sqlx-postgres", feature = "tx-diesel-async"))]

use backstop::postgres::diesel_async::{AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection};
use backstop::postgres::diesel_async::{SimpleAsyncConnection as _, TransactionManager as _};
use backstop::postgres::sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use backstop::postgres::tokio_postgres::{self, NoTls};
use backstop::prelude::*;
use backstop_core::job::State;
use backstop_store::{JobFilter, PageRequest};
use backstop_testbed::shared;

/// What the handlers share.
#[derive(Clone)]
struct App {
    engine: Backstop,
    schema: String,
}

impl App {
    /// An engine in a schema of its own, whose name it must find by itself in every transaction.
    async fn new(name: &str) -> Self {
        let schema = format!("completion_{}_{name}", std::process::id());
        let url = format!("{}?schema={schema}&listen=off", shared::postgres());
        let app = Self { engine: Backstop::open(&url).await.expect("a server"), schema };
        app.sql(&format!("CREATE TABLE {}.moved (cents int)", app.schema)).await;
        app
    }

    fn own_row(&self) -> String {
        format!("INSERT INTO {}.moved VALUES (5)", self.schema)
    }

    async fn client() -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(shared::postgres(), NoTls).await.expect("a server");
        tokio::spawn(connection);
        client
    }

    async fn sql(&self, text: &str) {
        Self::client().await.batch_execute(text).await.expect("good SQL");
    }

    async fn rows(&self) -> i64 {
        let sql = format!("SELECT count(*) FROM {}.moved", self.schema);
        Self::client().await.query_one(&sql, &[]).await.expect("counted").get(0)
    }
}

#[job]
async fn after(_cx: JobContext<App>) -> JobResult {
    Ok(())
}

#[job]
async fn over_tokio_postgres(cx: JobContext<App>, commit: bool) -> JobResult {
    let mut client = App::client().await;
    let mut tx = client.transaction().await?;
    tx.batch_execute(&cx.app().own_row()).await?;
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
    let mut conn = PgConnection::connect(shared::postgres()).await?;
    let mut tx = conn.begin().await?;
    tx.execute(AssertSqlSafe(cx.app().own_row())).await?;
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
async fn over_diesel(cx: JobContext<App>, commit: bool) -> JobResult {
    let mut conn = AsyncPgConnection::establish(shared::postgres()).await?;
    AnsiTransactionManager::begin_transaction(&mut conn).await?;
    conn.batch_execute(&cx.app().own_row()).await?;
    cx.enqueue(After {}).submit_in(&mut conn).await?;
    cx.submit_with_completion(cx.enqueue(After {}).queue("children")).await?;
    cx.complete_in(&mut conn, "moved").await?;
    if commit {
        AnsiTransactionManager::commit_transaction(&mut conn).await?;
    } else {
        AnsiTransactionManager::rollback_transaction(&mut conn).await?;
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
    app.sql(&format!("DROP SCHEMA {} CASCADE", app.schema)).await;
}

#[tokio::test]
async fn tokio_postgres_commits_all_or_nothing() {
    // L14, L23
    check("tokio_postgres", |commit| OverTokioPostgres { commit }).await;
}

#[tokio::test]
async fn sqlx_commits_all_or_nothing() {
    // L14, L23
    check("sqlx", |commit| OverSqlx { commit }).await;
}

#[tokio::test]
async fn diesel_async_commits_all_or_nothing() {
    // L14, L23
    check("diesel", |commit| OverDiesel { commit }).await;
}
