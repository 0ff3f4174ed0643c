//! apalis on PostgreSQL: batches of 500, woken by NOTIFY, tasks not locked one by one.

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use contest::{DriverError, RunCount};
use runner::{Engine, Work, contend};
use sqlx_9::postgres::PgPoolOptions;

const QUEUE: &str = "work";
const BATCH: usize = 500;
const CONNECTIONS: u32 = 20;
const SETTINGS: &str = "push_bulk, batch_size 500, lock_tasks off, with_pubsub, polled every 50 ms besides; a \
    finished task is kept";

#[derive(Clone)]
struct Apalis {
    pool: PgPool,
}

impl Apalis {
    fn storage(&self) -> PostgresStorage<Work> {
        let config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
        PostgresStorage::new(&self.pool).with_config(config)
    }
}

async fn nothing(work: Work, tally: Data<RunCount>) -> Result<(), BoxDynError> {
    tally.started(work.sent);
    Ok(())
}

impl Engine for Apalis {
    async fn setup(&self) -> Result<(), DriverError> {
        Ok(PostgresStorage::setup(&self.pool).await?)
    }

    async fn add_many(&self, all: Vec<Work>) -> Result<(), DriverError> {
        Ok(self.storage().push_bulk(all).await.map_err(|error| error.to_string())?)
    }

    async fn add_one(&self, one: Work) -> Result<(), DriverError> {
        Ok(self.storage().push(one).await.map_err(|error| error.to_string())?)
    }

    async fn start_worker(&self, tally: RunCount) -> Result<(), DriverError> {
        let backend = self.storage().with_pubsub().poll_with_interval(Duration::from_millis(50));
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
        let sql = "select exists (select from apalis.jobs where status <> 'Done')";
        Ok(sqlx_9::query_scalar(sql).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), DriverError> {
    contend("1.0.0", SETTINGS, |arguments| async move {
        Ok(Apalis { pool: PgPoolOptions::new().max_connections(CONNECTIONS).connect(&arguments.url).await? })
    })
    .await
}
