//! Two stores of one kind, for both ends: fresh ones, gone when the cases are through.

use std::sync::Arc;

use backstop::Backstop;
use backstop::mysql::mysql_async::prelude::Queryable as _;
use backstop::mysql::mysql_async::{Conn, Opts};
use backstop_store::{ModelStore, Store};

use crate::stage::StorePair;

pub(crate) async fn in_memory(cases: impl AsyncFnOnce(StorePair)) {
    let store = || Arc::new(ModelStore::default()) as Arc<dyn Store>;
    cases(StorePair { sender: store(), receiver: store() }).await;
}

pub(crate) async fn on_sqlite(name: &str, cases: impl AsyncFnOnce(StorePair)) {
    let folder = backstop_testbed::Folder::new(name).expect("a folder");
    let file = |end: &str| format!("sqlite:{}", folder.path().join(end).display());
    cases(pair(&file("sender.db"), &file("receiver.db")).await).await;
}

pub(crate) async fn on_postgres(name: &str, cases: impl AsyncFnOnce(StorePair)) {
    let server = backstop_testbed::shared::postgres();
    let schema = |end: &str| format!("{server}?schema={name}_{end}_{}", std::process::id());
    cases(pair(&schema("sender"), &schema("receiver")).await).await;
}

pub(crate) async fn on_mysql(name: &str, cases: impl AsyncFnOnce(StorePair)) {
    let server = backstop_testbed::shared::mariadb();
    let mut conn = Conn::new(Opts::from_url(server).expect("a good URL")).await.expect("a server");
    let database = |end: &str| format!("{name}_{end}_{}", std::process::id());
    let (sender, receiver) = (database("sender"), database("receiver"));
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    for name in [&sender, &receiver] {
        conn.query_drop(format!("CREATE DATABASE {name}")).await.expect("a new name");
    }
    cases(pair(&format!("{place}/{sender}"), &format!("{place}/{receiver}")).await).await;
    for name in [&sender, &receiver] {
        conn.query_drop(format!("DROP DATABASE {name}")).await.expect("it is there");
    }
    conn.disconnect().await.expect("the connection ends");
}

async fn pair(sender: &str, receiver: &str) -> StorePair {
    StorePair { sender: opened(sender).await, receiver: opened(receiver).await }
}

async fn opened(url: &str) -> Arc<dyn Store> {
    Backstop::open(url).await.expect("it can be opened").store().clone()
}
