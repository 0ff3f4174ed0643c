//! apalis on SQLite: batches of 500, and every commit on the disk, which its own setup turns off.

use std::str::FromStr;
use std::time::Duration;

use apalis::prelude::*;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};
use contest::{DriverError, RunCount};
use runner::{Engine, Work, contend};
use sqlx_9::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

const QUEUE: &str = "work";
const BATCH: usize = 500;
const SETTINGS: &str = "push_bulk, batch_size 500, lock_tasks off, polled every 5 ms, WAL with synchronous=FULL, one \
    connection; a finished task is kept";

#[derive(Clone)]
struct Apalis {
    pool: SqlitePool,
}

impl Apalis {
    fn storage(&self) -> SqliteStorage<Work> {
        let config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
        SqliteStorage::new(&self.pool).with_config(config)
    }
}

async fn nothing(work: Work, tally: Data<RunCount>) -> Result<(), BoxDynError> {
    tally.started(work.sent);
    Ok(())
}

impl Engine for Apalis {
    async fn setup(&self) -> Result<(), DriverError> {
        Ok(SqliteStorage::setup(&self.pool).await?)
    }

    async fn add_many(&self, all: Vec<Work>) -> Result<(), DriverError> {
        Ok(self.storage().push_bulk(all).await.map_err(|error| error.to_string())?)
    }

    async fn add_one(&self, one: Work) -> Result<(), DriverError> {
        Ok(self.storage().push(one).await.map_err(|error| error.to_string())?)
    }

    async fn start_worker(&self, tally: RunCount) -> Result<(), DriverError> {
        let backend = self.storage().poll_with_interval(Duration::from_millis(5));
        tokio::spawn(async move {
            let worker = WorkerBuilder::new("contest").backend(backend).data(tally).build(nothing);
            if let Err(error) = worker.run().await {
                eprintln!("error: {error}");
                std::process::exit(1);
            }
        });
        Ok(())
    }

    async fn has_unfinished(&self) -> Result<bool, DriverError> {
        let sql = "select exists (select 1 from Jobs where status <> 'Done')";
        Ok(sqlx_9::query_scalar(sql).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), DriverError> {
    contend("1.0.0", SETTINGS, |arguments| async move {
        let options = SqliteConnectOptions::from_str(&arguments.url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        // With more than one connection writers wait for each other's locks.
        Ok(Apalis { pool: SqlitePoolOptions::new().max_connections(1).connect_with(options).await? })
    })
    .await
}
