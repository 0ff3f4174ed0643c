//! A database of its own for each test, on the server that `cargo xtask servers` has started.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use backstop_mysql::mysql_async::prelude::Queryable;
use backstop_mysql::mysql_async::{Conn, Opts};
use backstop_mysql::{MysqlStore, Options};
use backstop_store::conformance::StorePlace;
use backstop_store::{ManualClock, Store};
use backstop_testbed::shared;

/// A database that nobody else uses; dropped at the end.
pub(crate) struct InDatabase(String);

/// One runtime for everything a test process does: connections live on it.
pub(crate) fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    })
}

/// Runs SQL on the shared server, outside of every store.
pub(crate) async fn sql(url: &str, text: &str) {
    let mut conn = Conn::new(Opts::from_url(url).expect("a good URL")).await.expect("the server is there");
    conn.query_drop(text).await.unwrap_or_else(|problem| panic!("{text}: {problem}"));
    conn.disconnect().await.expect("the connection ends");
}

impl InDatabase {
    /// The URL of this database.
    pub(crate) fn url(&self) -> String {
        let server = shared::mariadb();
        let (server, _) = server.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{}", self.0)
    }

    /// The name of the database.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

/// Runs a future to its end, also where a runtime is at work already.
fn apart<F: Future<Output = ()> + Send + 'static>(future: F) {
    let done = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(future);
    });
    done.join().expect("the server obeys");
}

impl StorePlace for InDatabase {
    const SEEDS: u64 = 25;

    fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let make = format!("CREATE DATABASE {name}");
        apart(async move { sql(shared::mariadb(), &make).await });
        Self(name)
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock));
        Arc::new(MysqlStore::open(&self.url(), options).await.expect("the test server takes a store"))
    }

    async fn lose_fences(&self) -> bool {
        sql(&self.url(), "ALTER TABLE backstop_claim AUTO_INCREMENT = 1").await;
        true
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        runtime().block_on(future)
    }
}

impl Drop for InDatabase {
    fn drop(&mut self) {
        let gone = format!("DROP DATABASE {}", self.0);
        apart(async move { sql(shared::mariadb(), &gone).await });
    }
}
