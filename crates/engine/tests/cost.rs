//! What the library asks of a store for what it does, counted on PostgreSQL.
#![cfg(feature = "postgres")]
#![allow(missing_docs, reason = "a test")]

use std::sync::Arc;

use backstop::postgres::{Options, PostgresStore};
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
    assert_eq!(asked[0], asked[1], "statements for 50 jobs that tell nothing, and for 50 that tell nobody");
}
