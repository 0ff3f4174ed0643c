//! The stores that cases run on: each a fresh one, gone when they are through.

use std::sync::Arc;

use backstop::prelude::*;
use backstop_store::{ModelStore, Store};

/// In memory.
pub(crate) async fn in_memory(cases: impl AsyncFnOnce(Arc<dyn Store>)) {
    cases(Arc::new(ModelStore::default())).await;
}

/// A file.
pub(crate) async fn on_sqlite(name: &str, cases: impl AsyncFnOnce(Arc<dyn Store>)) {
    let folder = backstop_testbed::Folder::new(name).expect("a folder");
    cases(opened(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await).await;
}

/// The address of a schema of its own.
#[cfg(feature = "postgres")]
pub(crate) fn postgres(name: &str) -> String {
    format!("{}?schema={name}_{}", backstop_testbed::shared::postgres(), std::process::id())
}

/// A schema of its own.
#[cfg(feature = "postgres")]
pub(crate) async fn on_postgres(name: &str, cases: impl AsyncFnOnce(Arc<dyn Store>)) {
    cases(opened(&postgres(name)).await).await;
}

/// A database of its own.
#[cfg(feature = "mysql")]
pub(crate) async fn on_mysql(name: &str, cases: impl AsyncFnOnce(Arc<dyn Store>)) {
    use backstop::mysql::mysql_async::prelude::Queryable as _;
    use backstop::mysql::mysql_async::{Conn, Opts};

    let server = backstop_testbed::shared::mariadb();
    let mut conn = Conn::new(Opts::from_url(server).expect("a good URL")).await.expect("a server");
    let name = format!("{name}_{}", std::process::id());
    conn.query_drop(format!("CREATE DATABASE {name}")).await.expect("a new name");
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    cases(opened(&format!("{place}/{name}")).await).await;
    conn.query_drop(format!("DROP DATABASE {name}")).await.expect("it is there");
    conn.disconnect().await.expect("the connection ends");
}

async fn opened(url: &str) -> Arc<dyn Store> {
    Backstop::open(url).await.expect("it can be opened").store().clone()
}
