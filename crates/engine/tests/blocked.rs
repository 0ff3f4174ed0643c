//! A worker beside a locked table and many who read it: its runs go on, and none is charged for it (L15).

#![cfg(all(feature = "mysql", feature = "postgres"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop::mysql::mysql_async::prelude::Queryable as _;
use backstop::mysql::mysql_async::{Conn, Opts};
use backstop::postgres::tokio_postgres::{self, NoTls};
use backstop::prelude::*;
use backstop_core::job::State;
use backstop_store::PageRequest;
use backstop_testbed::shared;
use tokio::sync::Notify;

/// More than any pool holds.
const READERS: usize = 20;
const LEASE: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
struct App {
    starts: Arc<AtomicU32>,
    started: Arc<Notify>,
    release: Arc<Notify>,
}

#[job]
async fn patient(cx: JobContext<App>) -> JobResult {
    cx.app().starts.fetch_add(1, Ordering::SeqCst);
    cx.app().started.notify_one();
    cx.app().release.notified().await;
    Ok(())
}

/// Runs a job for three leases beside a locked table and its readers, and ends it before the lock is gone. The words:
/// what locks, what takes the server a tenth of a second, what unlocks.
async fn keeps_its_run(engine: Backstop, run: impl AsyncFn(&str), [lock, tick, unlock]: [&str; 3]) {
    let app = App::default();
    let worker = engine.worker(app.clone()).register::<Patient>().queue("default", 1);
    let worker = worker.lease(LEASE).start().await.expect("started");
    let id = engine.enqueue(Patient {}).submit().await.expect("admitted").id;
    app.started.notified().await;
    run(lock).await;
    let reader = || {
        let engine = engine.clone();
        tokio::spawn(async move { engine.archive().page(PageRequest::first(10)).await.map(drop) })
    };
    let mut readers: Vec<_> = (0..READERS).map(|_| reader()).collect();
    let began = tokio::time::Instant::now();
    while began.elapsed() < 3 * LEASE {
        // Those that were refused as busy come again.
        run(tick).await;
        readers.retain(|reader| !reader.is_finished());
        while readers.len() < READERS {
            readers.push(reader());
        }
    }
    app.release.notify_one();
    let job = engine.wait(id).await.expect("readable").expect("there");
    let record = &job.view.record;
    assert_eq!((record.state, record.runs, record.crashes), (State::Succeeded, 1, 0));
    assert_eq!(app.starts.load(Ordering::SeqCst), 1, "nobody else ran it meanwhile");
    run(unlock).await;
    for reader in readers {
        // One that waited too long was told so; none hangs.
        let _ = reader.await.expect("no panic");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_costs_no_run_on_postgres() {
    // L15
    let schema = format!("blocked_{}", std::process::id());
    let engine = Backstop::open(&format!("{}?schema={schema}", shared::postgres())).await.expect("a server");
    let (client, connection) = tokio_postgres::connect(shared::postgres(), NoTls).await.expect("a server");
    tokio::spawn(connection);
    let run = async |sql: &str| client.batch_execute(sql).await.expect("done");
    let lock = format!("BEGIN; LOCK TABLE {schema}.archive IN ACCESS EXCLUSIVE MODE");
    keeps_its_run(engine, run, [&lock, "SELECT pg_sleep(0.1)", "ROLLBACK"]).await;
    run(&format!("DROP SCHEMA {schema} CASCADE")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_costs_no_run_on_mariadb() {
    // L15
    let name = format!("blocked_{}", std::process::id());
    let (server, _) = shared::mariadb().rsplit_once('/').expect("a URL with a database");
    let opts = |url: &str| Opts::from_url(url).expect("a URL");
    let mut admin = Conn::new(opts(shared::mariadb())).await.expect("a server");
    admin.query_drop(format!("CREATE DATABASE {name}")).await.expect("a new name");
    let url = format!("{server}/{name}");
    let engine = Backstop::open(&url).await.expect("a server");
    let client = tokio::sync::Mutex::new(Conn::new(opts(&url)).await.expect("a server"));
    let run = async |sql: &str| client.lock().await.query_drop(sql).await.expect("done");
    keeps_its_run(engine, run, ["LOCK TABLES backstop_archive WRITE", "DO SLEEP(0.1)", "UNLOCK TABLES"])
        .await;
    admin.query_drop(format!("DROP DATABASE {name}")).await.expect("gone");
}
