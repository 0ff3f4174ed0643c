//! A schema of its own for each test, on the server that `cargo xtask servers` has started.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{ManualClock, Store};
use backstop_testbed::shared;

/// A schema that nobody else uses; dropped at the end.
pub(crate) struct InSchema(String);

/// The same, with claims and ends that go the long way. Behind a pooler they go the short one, so each case is played on
/// both.
pub(crate) struct LongWay(InSchema);

/// A schema behind a pooler in transaction mode.
pub(crate) struct BehindPooler(InSchema);

impl StorePlace for BehindPooler {
    /// What differs from the place without a pooler is the way to the server, and that of claims and ends.
    const SEEDS: u64 = 10;

    fn fresh() -> Self {
        Self(InSchema::fresh())
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let url = format!("{}?schema={}", shared::pgbouncer(), self.0.name());
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock));
        Arc::new(PostgresStore::open(&url, options).await.expect("the pooler takes a store"))
    }

    async fn lose_fences(&self) -> bool {
        self.0.lose_fences().await
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        runtime().block_on(future)
    }
}

impl StorePlace for LongWay {
    const SEEDS: u64 = InSchema::SEEDS;

    fn fresh() -> Self {
        Self(InSchema::fresh())
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock));
        options.long_way = true;
        Arc::new(PostgresStore::open(&self.0.url(), options).await.expect("the test server takes a store"))
    }

    async fn lose_fences(&self) -> bool {
        self.0.lose_fences().await
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        runtime().block_on(future)
    }
}

/// One runtime for everything a test process does: connections live on it.
fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    })
}

impl InSchema {
    /// The URL of a store in this schema.
    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}&listen=off", shared::postgres(), self.0)
    }

    /// The name of the schema.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

impl StorePlace for InSchema {
    const SEEDS: u64 = 25;

    fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(format!("t_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock));
        Arc::new(PostgresStore::open(&self.url(), options).await.expect("the test server takes a store"))
    }

    async fn lose_fences(&self) -> bool {
        let (client, connection) = tokio_postgres::connect(shared::postgres(), tokio_postgres::NoTls)
            .await
            .expect("the server is there");
        let driver = tokio::spawn(connection);
        let set_back = format!("SELECT setval('{}.fence', 1, false)", self.0);
        client.batch_execute(&set_back).await.expect("the sequence is there");
        drop(client);
        let _ = driver.await;
        true
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        runtime().block_on(future)
    }
}

impl Drop for InSchema {
    fn drop(&mut self) {
        let url = shared::postgres().to_owned();
        let drop_it = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0);
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let (client, connection) =
                    tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server is there");
                let driver = tokio::spawn(connection);
                let _ = client.batch_execute(&drop_it).await;
                drop(client);
                let _ = driver.await;
            });
        });
        let _ = dropped.join();
    }
}
