//! An application with a table of its own in the file that holds the jobs, and a handler that writes to both.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use backstop::prelude::*;
use backstop::sqlite::rusqlite::{Connection, TransactionBehavior};
use backstop::{CompleteError, JobId, WorkerBuilder};

/// What the handlers share.
pub(crate) struct App {
    file: PathBuf,
    engine: Backstop,
    last_error: Mutex<String>,
}

/// An engine on a file of its own, which goes away with it.
pub(crate) struct Bank {
    pub(crate) engine: Backstop,
    app: Arc<App>,
    folder: PathBuf,
}

impl Bank {
    pub(crate) async fn open() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("backstop-completion-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let file = folder.join("bank.db");
        let engine = Backstop::open(&format!("sqlite:{}", file.display())).await.expect("a fresh file");
        let app = App { file, engine: engine.clone(), last_error: Mutex::default() };
        let bank = Self { engine, app: Arc::new(app), folder };
        bank.connect().execute_batch("CREATE TABLE moved (cents INTEGER)").expect("room for both");
        bank
    }

    /// The application's own connection.
    pub(crate) fn connect(&self) -> Connection {
        connect(&self.app)
    }

    pub(crate) fn worker(&self) -> WorkerBuilder<App> {
        let worker = self.engine.worker_sharing(self.app.clone()).register::<Transfer>();
        #[cfg(feature = "tx-sqlx-sqlite")]
        let worker = worker.register::<OverSqlx>();
        worker.queue("default", 1)
    }

    /// Rows of the application's own table.
    pub(crate) fn rows(&self) -> i64 {
        self.connect().query_row("SELECT count(*) FROM moved", [], |row| row.get(0)).expect("counted")
    }

    /// What the last attempt to complete answered.
    pub(crate) fn last_error(&self) -> String {
        self.app.last_error.lock().expect("no panic").clone()
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        // What is left behind in the temporary folder hurts nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn connect(app: &App) -> Connection {
    let conn = Connection::open(&app.file).expect("the same file");
    conn.busy_timeout(std::time::Duration::from_secs(10)).expect("set");
    conn
}

/// Runs after a transfer.
#[derive(Serialize, Deserialize)]
pub(crate) struct Welcome {}

impl Job for Welcome {
    const KIND: &'static str = "welcome";
    type Context = App;
    type Output = JobResult;

    async fn run(self, _: JobContext<App>) -> JobResult {
        Ok(())
    }
}

/// Moves money the way it is told.
#[derive(Serialize, Deserialize)]
pub(crate) struct Transfer {
    pub(crate) way: String,
}

#[derive(Serialize)]
struct Moved {
    moved: u32,
}

/// One transaction: a row of ours and the end of the job.
fn transact(cx: &JobContext<App>, commit: bool) -> JobResult {
    let mut conn = connect(cx.app());
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute("INSERT INTO moved VALUES (5)", [])?;
    if let Err(error) = cx.complete_in_blocking(&tx, Moved { moved: 5 }) {
        assert!(matches!(error, CompleteError::Stale(_)), "{error}");
        *cx.app().last_error.lock().expect("no panic") = error.to_string();
        return Err(error.into());
    }
    if commit {
        tx.commit()?
    } else {
        tx.rollback()?
    }
    Ok(())
}

async fn cancel(cx: &JobContext<App>, job: JobId) -> JobResult {
    cx.app().engine.cancel(job, "changed my mind").await?;
    Ok(())
}

impl Job for Transfer {
    const KIND: &'static str = "transfer";
    type Context = App;
    type Output = JobResult<&'static str>;

    async fn run(self, cx: JobContext<App>) -> JobResult<&'static str> {
        cx.log("moving");
        if self.way == "canceled meanwhile" {
            cancel(&cx, cx.id()).await?;
        }
        cx.submit_with_completion(cx.enqueue(Welcome {}).queue("children")).await?;
        let (inside, way) = (cx.clone(), self.way.clone());
        let transacted = tokio::task::spawn_blocking(move || {
            let first = if way == "rollback then commit" { transact(&inside, false) } else { Ok(()) };
            first.and_then(|()| transact(&inside, !matches!(&*way, "rollback" | "error before commit")))
        });
        transacted.await??;
        match &*self.way {
            "error before commit" | "error after commit" => Err("the bank is closed".into()),
            "panic after commit" => panic!("out of cheese"),
            "commit and wait to be stopped" => {
                cx.canceled().await;
                Ok("stopped")
            }
            _ => Ok("what the handler returns is not kept"),
        }
    }
}

/// The same over sqlx, with another job in the same transaction.
#[cfg(feature = "tx-sqlx-sqlite")]
#[derive(Serialize, Deserialize)]
pub(crate) struct OverSqlx {
    pub(crate) way: String,
}

#[cfg(feature = "tx-sqlx-sqlite")]
impl Job for OverSqlx {
    const KIND: &'static str = "over_sqlx";
    type Context = App;
    type Output = JobResult;

    async fn run(self, cx: JobContext<App>) -> JobResult {
        use backstop::sqlite::sqlx::{self, Connection as _};
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&cx.app().file);
        let mut conn = sqlx::SqliteConnection::connect_with(&options).await?;
        let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query("INSERT INTO moved VALUES (?1)").bind(5).execute(&mut *tx).await?;
        cx.app().engine.enqueue(Welcome {}).submit_in(&mut tx).await?;
        cx.complete_in(&mut tx, Moved { moved: 5 }).await?;
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM moved").fetch_one(&mut *tx).await?;
        assert_eq!(rows, 1, "the connection is sqlx's own again");
        if self.way == "commit" {
            tx.commit().await?
        } else {
            tx.rollback().await?
        }
        conn.close().await?;
        Ok(())
    }
}
