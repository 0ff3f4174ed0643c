//! awa on its queue storage: COPY in, receipts instead of leases out, one completion shard.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use awa::{
    Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig, insert, migrations,
};
use contest::{DriverError, RunCount};
use runner::{Engine, Work, contend};
use serde::{Deserialize, Serialize};
use sqlx_8::postgres::{PgPool, PgPoolOptions};

const QUEUE: &str = "default";
const WORKERS: u32 = 256;
const CONNECTIONS: u32 = 20;
const SETTINGS: &str = "queue storage with receipts, enqueue_params_copy, 256 workers, no deadline, one completion \
    shard flushed every 5 ms; a finished job is kept";

#[derive(Debug, Serialize, Deserialize, JobArgs)]
struct Contest {
    sent: u64,
    filling: String,
}

impl From<Work> for Contest {
    fn from(work: Work) -> Self {
        Self { sent: work.sent, filling: work.filling }
    }
}

#[derive(Clone)]
struct Awa {
    pool: PgPool,
    store: Arc<QueueStorage>,
}

impl Engine for Awa {
    async fn setup(&self) -> Result<(), DriverError> {
        migrations::run(&self.pool).await?;
        Ok(self.store.install(&self.pool).await?)
    }

    async fn add_many(&self, all: Vec<Work>) -> Result<(), DriverError> {
        let params = all
            .into_iter()
            .map(|work| insert::params_with(&Contest::from(work), InsertOpts::default()))
            .collect::<Result<Vec<_>, _>>()?;
        self.store.enqueue_params_copy(&self.pool, &params).await?;
        Ok(())
    }

    async fn add_one(&self, one: Work) -> Result<(), DriverError> {
        let params = [insert::params_with(&Contest::from(one), InsertOpts::default())?];
        self.store.enqueue_params_batch(&self.pool, &params).await?;
        Ok(())
    }

    async fn start_worker(&self, tally: RunCount) -> Result<(), DriverError> {
        let config = QueueConfig {
            max_workers: WORKERS,
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, config)
            .register::<Contest, _, _>(move |work: Contest, _| {
                tally.started(work.sent);
                async { Ok(JobResult::Completed) }
            })
            .build()?;
        client.start().await?;
        // It runs until the process ends.
        std::mem::forget(client);
        Ok(())
    }

    async fn has_unfinished(&self) -> Result<bool, DriverError> {
        let counts = self.store.queue_counts(&self.pool, QUEUE).await?;
        Ok(counts.available + counts.running > 0)
    }
}

fn main() -> Result<(), DriverError> {
    // awa reads its tuning from the environment only, so this program starts itself again with it.
    let tuned = [("AWA_COMPLETION_SHARDS", "1"), ("AWA_COMPLETION_FLUSH_MS", "5")];
    if std::env::var_os(tuned[0].0).is_none() {
        let mut again = Command::new(std::env::current_exe()?);
        return Err(again.args(std::env::args().skip(1)).envs(tuned).exec().into());
    }
    tokio::runtime::Runtime::new()?.block_on(contend("0.6.9", SETTINGS, |arguments| async move {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&arguments.url).await?;
        let store = Arc::new(QueueStorage::new(QueueStorageConfig::default())?);
        Ok(Awa { pool, store })
    }))
}
