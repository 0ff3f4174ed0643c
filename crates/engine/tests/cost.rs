//! What the library asks of a store for what it does, counted on PostgreSQL.
#![cfg(feature = "postgres")]
#![allow(missing_docs, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use backstop::postgres::{Options, PostgresStore, tokio_postgres};
use backstop::prelude::*;
use backstop::{Config, Enqueue};

#[job]
async fn quiet(_cx: JobContext<()>) -> JobResult<()> {
    Ok(())
}

#[job]
async fn telling(cx: JobContext<()>) -> JobResult<()> {
    cx.publish("told", serde_json::json!({ "so": "what" })).await?;
    Ok(())
}

#[tokio::test]
async fn what_nobody_hears_costs_nothing() {
    let url = format!("{}?schema=cost_{}", backstop_testbed::shared::postgres(), std::process::id());
    let store = Arc::new(PostgresStore::open(&url, Options::default()).await.expect("a server"));
    let engine = Backstop::on(store.clone(), Config::default());
    let worker = engine.worker(()).register_all().queue("default", 50).inline().expect("it has kinds");
    // Twice: the first time lanes are made.
    let mut asked = Vec::new();
    for _ in 0..2 {
        let kinds: [fn(&Backstop) -> Enqueue; 2] =
            [|engine| engine.enqueue(Quiet {}).untyped(), |engine| engine.enqueue(Telling {}).untyped()];
        asked = Vec::new();
        for kind in kinds {
            let stored = engine.submit_all((0..50).map(|_| kind(&engine)).collect(), true).await;
            assert!(stored.expect("the store is there").iter().all(Result::is_ok));
            let before = store.statements();
            assert_eq!(worker.drain(100).await.expect("the store is there").len(), 50);
            asked.push(store.statements() - before);
        }
    }
    let [nothing, nobody] = asked[..] else { panic!("two kinds") };
    // What an engine does now and then, whatever its jobs do, may meet either.
    assert!(
        nobody < nothing + 25,
        "{nothing} statements for 50 jobs that tell nothing, {nobody} for 50 that tell nobody"
    );
}

/// How many connections have this name.
async fn connections(watcher: &tokio_postgres::Client, name: &str) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    watcher.query_one(sql, &[&name]).await.expect("asked").get(0)
}

#[tokio::test]
async fn a_worker_process_has_five_connections_at_most_and_three_when_idle() {
    let name = format!("connections_{}", std::process::id());
    let (watcher, connection) =
        tokio_postgres::connect(backstop_testbed::shared::postgres(), tokio_postgres::NoTls)
            .await
            .expect("a server");
    tokio::spawn(connection);
    let url = format!("{}?schema={name}&application_name={name}", backstop_testbed::shared::postgres());
    let mut options = Options::default();
    options.keep_idle = Duration::from_secs(1);
    let engine = Backstop::on(
        Arc::new(PostgresStore::open(&url, options).await.expect("a server")),
        Config::default(),
    );
    let worker = engine.worker(()).register_all().queue("default", 50).start().await.expect("started");
    let many = || (0..2_000).map(|_| engine.enqueue(Quiet {}).untyped()).collect();
    let mut most = 0;
    let work = async {
        for _ in 0..3 {
            assert!(engine.submit_all(many(), true).await.expect("stored").iter().all(Result::is_ok));
        }
        while engine
            .queues()
            .list()
            .await
            .expect("read")
            .iter()
            .any(|queue| queue.pending + queue.running > 0)
        {}
    };
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            () = &mut work => break,
            open = connections(&watcher, &name) => most = most.max(open),
        }
    }
    assert!((2..=5).contains(&most), "{most} connections under load");
    let idle = async { while connections(&watcher, &name).await > 3 {} };
    tokio::time::timeout(Duration::from_secs(60), idle).await.expect("those that nobody uses are closed");
    worker.stop().await;
}
