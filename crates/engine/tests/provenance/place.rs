//! Stores that somebody else can write into, and the jobs of these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop::mysql::mysql_async::prelude::Queryable;
use backstop::mysql::mysql_async::{Conn, Opts};
use backstop::postgres::tokio_postgres::{self, NoTls};
use backstop::prelude::*;
use backstop::sqlite::rusqlite::Connection;
use backstop::{Config, JobId, Signing, TerminalReason};
use backstop_core::job::JobDetail;
use backstop_core::signing::{SecretKey, SigningKeys};
use backstop_testbed::{Folder, shared};

/// Which queues the workers of these tests serve.
pub(crate) const QUEUES: [&str; 4] = ["default", "other", "acme/work", "after"];

/// A database with a store in it.
pub(crate) enum Place {
    Sqlite(Folder),
    Postgres(String),
    Mysql(String),
}

impl Place {
    /// One of each.
    pub(crate) async fn all(label: &str) -> [Self; 3] {
        let name = format!("papers_{label}_{}", std::process::id());
        let places = [
            Self::Sqlite(Folder::new(&name).expect("a folder")),
            Self::Postgres(name.clone()),
            Self::Mysql(name),
        ];
        if let Self::Mysql(name) = &places[2] {
            Self::on_mysql(shared::mariadb(), &format!("CREATE DATABASE {name}")).await;
        }
        places
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
            Self::Mysql(_) => "mysql",
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.join("jobs.db").display()),
            Self::Postgres(schema) => {
                format!("{}?schema={schema}&listen=off&connections=2", shared::postgres())
            }
            Self::Mysql(database) => {
                let (server, _) = shared::mariadb().rsplit_once('/').expect("a URL with a database");
                format!("{server}/{database}")
            }
        }
    }

    pub(crate) async fn open(&self, config: Config) -> Backstop {
        Backstop::open_with(&self.url(), config).await.expect("it opens")
    }

    /// A table's name in SQL.
    pub(crate) fn table(&self, name: &str) -> String {
        match self {
            Self::Postgres(schema) => format!("{schema}.{name}"),
            _ => format!("backstop_{name}"),
        }
    }

    /// An id in SQL.
    pub(crate) fn id(&self, id: JobId) -> String {
        match self {
            Self::Postgres(_) => format!("'{id}'::uuid"),
            _ => format!("X'{}'", id.to_string().replace('-', "")),
        }
    }

    /// Writes into the database as somebody who has no keys.
    pub(crate) async fn sql(&self, text: &str) {
        match self {
            Self::Sqlite(folder) => {
                let conn = Connection::open(folder.join("jobs.db")).expect("the file");
                conn.busy_timeout(std::time::Duration::from_secs(5)).expect("set");
                conn.execute_batch(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
            }
            Self::Postgres(_) => {
                let client = client().await;
                client.batch_execute(text).await.unwrap_or_else(|problem| panic!("{text}: {problem}"));
            }
            Self::Mysql(_) => Self::on_mysql(&self.url(), text).await,
        }
    }

    async fn on_mysql(url: &str, text: &str) {
        let mut conn = Conn::new(Opts::from_url(url).expect("a URL")).await.expect("the server");
        for statement in text.split(";\n") {
            conn.query_drop(statement).await.unwrap_or_else(|problem| panic!("{statement}: {problem}"));
        }
        conn.disconnect().await.expect("it ends");
    }

    /// Everything that stands in the store, as text.
    pub(crate) async fn dump(&self) -> String {
        match self {
            Self::Sqlite(folder) => ["jobs.db", "jobs.db-wal"]
                .iter()
                .filter_map(|name| std::fs::read(folder.join(name)).ok())
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .collect(),
            Self::Postgres(schema) => {
                let client = client().await;
                let mut text = String::new();
                for row in client
                    .query("SELECT tablename::text FROM pg_tables WHERE schemaname = $1", &[schema])
                    .await
                    .expect("tables")
                {
                    let table: String = row.get(0);
                    let rows = client.query(&format!("SELECT t::text FROM {schema}.{table} t"), &[]).await;
                    rows.expect("rows").iter().for_each(|row| text.push_str(row.get(0)));
                }
                text
            }
            Self::Mysql(_) => {
                let mut conn =
                    Conn::new(Opts::from_url(&self.url()).expect("a URL")).await.expect("the server");
                let columns: Vec<(String, String)> = conn
                    .query("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()")
                    .await
                    .expect("columns");
                let mut text = String::new();
                for (table, column) in columns {
                    let cells: Vec<Option<Vec<u8>>> = conn
                        .query(format!("SELECT CAST(`{column}` AS BINARY) FROM {table}"))
                        .await
                        .expect("cells");
                    cells.iter().flatten().for_each(|cell| text.push_str(&String::from_utf8_lossy(cell)));
                }
                text
            }
        }
    }

    /// Takes it away, once everything has gone well.
    pub(crate) async fn done(self) {
        match &self {
            Self::Sqlite(_) => {}
            Self::Postgres(schema) => self.sql(&format!("DROP SCHEMA {schema} CASCADE")).await,
            Self::Mysql(database) => {
                Self::on_mysql(shared::mariadb(), &format!("DROP DATABASE {database}")).await;
            }
        }
    }
}

async fn client() -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(shared::postgres(), NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

/// What the handlers of these tests have done.
#[derive(Default)]
pub(crate) struct App {
    pub(crate) starts: AtomicU32,
    pub(crate) callbacks: AtomicU32,
}

/// Says back what it was told.
#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) say: String,
}

impl Job for Work {
    const KIND: &'static str = "work";
    const VERSION: u32 = 9;
    type Context = Arc<App>;
    type Output = JobResult<String>;

    async fn run(self, cx: JobContext<Arc<App>>) -> JobResult<String> {
        cx.app().starts.fetch_add(1, Ordering::SeqCst);
        if self.say == "fail" { Err(Outcome::permanent("it was told to").into()) } else { Ok(self.say) }
    }
}

/// The same under another name.
#[derive(Serialize, Deserialize)]
pub(crate) struct Other {
    say: String,
}

impl Job for Other {
    const KIND: &'static str = "other";
    const VERSION: u32 = 9;
    type Context = Arc<App>;
    type Output = JobResult<String>;

    async fn run(self, cx: JobContext<Arc<App>>) -> JobResult<String> {
        cx.app().starts.fetch_add(1, Ordering::SeqCst);
        Ok(self.say)
    }
}

/// A callback.
#[derive(Serialize, Deserialize)]
pub(crate) struct After {
    pub(crate) note: String,
}

impl Job for After {
    const KIND: &'static str = "after";
    type Context = Arc<App>;
    type Output = JobResult;

    fn defaults() -> Defaults {
        Defaults::default().queue("after")
    }

    async fn run(self, cx: JobContext<Arc<App>>) -> JobResult {
        cx.app().callbacks.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

pub(crate) fn work(say: &str) -> Work {
    Work { say: say.to_owned() }
}

pub(crate) fn after(note: &str) -> After {
    After { note: note.to_owned() }
}

/// Runs everything that is due on every queue.
pub(crate) async fn drain(engine: &Backstop, app: &Arc<App>) {
    let mut worker = engine.worker(app.clone()).register::<Work>().register::<Other>().register::<After>();
    for queue in QUEUES {
        worker = worker.queue(queue, 1);
    }
    worker.inline().expect("a worker").drain(1_000).await.expect("the store is there");
}

pub(crate) async fn detail(engine: &Backstop, id: JobId) -> JobDetail {
    engine.job(id).await.expect("the store is there").expect("the job is there")
}

pub(crate) async fn reason(engine: &Backstop, id: JobId) -> Option<TerminalReason> {
    detail(engine, id).await.view.record.reason
}

pub(crate) fn keys(keys: &[(&str, u8)]) -> SigningKeys {
    let key = |(id, fill): &(&str, u8)| SecretKey::new(*id, vec![*fill; 32]).expect("a good key");
    SigningKeys::new(keys.iter().map(key).collect::<Vec<_>>()).expect("good keys")
}

/// Settings under which nothing runs that is not signed.
pub(crate) fn strict() -> Config {
    Config::default().signing(Signing::new(keys(&[("k1", 1)])).required())
}
