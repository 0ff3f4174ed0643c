//! underway: a queue and a worker with sixteen tasks at once.

use std::sync::Arc;

use contest::{DriverError, RunCount};
use runner::{Engine, Work, contend};
use sqlx_8::Transaction;
use sqlx_8::postgres::{PgPool, PgPoolOptions, Postgres};
use underway::task::Result as TaskResult;
use underway::{Queue, Task, Worker};

const CONCURRENCY: usize = 16;
/// Every task that runs holds one, and one more to be claimed with.
const CONNECTIONS: u32 = 40;
const SETTINGS: &str = "enqueue_multi, Worker::run with 16 tasks at once; a finished task is kept";

struct Nothing(RunCount);

impl Task for Nothing {
    type Input = Work;
    type Output = ();

    async fn execute(&self, _: Transaction<'_, Postgres>, input: Work) -> TaskResult<()> {
        self.0.started(input.sent);
        Ok(())
    }
}

#[derive(Clone)]
struct Underway {
    pool: PgPool,
}

impl Underway {
    async fn queue(&self) -> Result<Queue<Nothing>, DriverError> {
        Ok(Queue::builder().name("work").pool(self.pool.clone()).build().await?)
    }
}

#[derive(Clone)]
struct Open {
    underway: Underway,
    queue: Option<Arc<Queue<Nothing>>>,
}

impl Open {
    fn queue(&self) -> Result<&Queue<Nothing>, DriverError> {
        self.queue.as_deref().ok_or_else(|| "the tables are not made yet".into())
    }
}

impl Engine for Open {
    async fn setup(&self) -> Result<(), DriverError> {
        underway::run_migrations(&self.underway.pool).await?;
        self.underway.queue().await.map(drop)
    }

    async fn add_many(&self, all: Vec<Work>) -> Result<(), DriverError> {
        let task = Nothing(RunCount::default());
        self.queue()?.enqueue_multi(&self.underway.pool, &task, &all).await?;
        Ok(())
    }

    async fn add_one(&self, one: Work) -> Result<(), DriverError> {
        let task = Nothing(RunCount::default());
        self.queue()?.enqueue(&self.underway.pool, &task, &one).await?;
        Ok(())
    }

    async fn start_worker(&self, tally: RunCount) -> Result<(), DriverError> {
        let queue = Arc::new(self.underway.queue().await?);
        let mut worker = Worker::new(queue, Nothing(tally));
        worker.set_concurrency_limit(CONCURRENCY);
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("error: {error}");
                std::process::exit(1);
            }
        });
        Ok(())
    }

    async fn has_unfinished(&self) -> Result<bool, DriverError> {
        let sql = "select exists (select from underway.task where state in ('pending', 'in_progress'))";
        Ok(sqlx_8::query_scalar(sql).fetch_one(&self.underway.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), DriverError> {
    contend("0.2.0", SETTINGS, |arguments| async move {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&arguments.url).await?;
        let underway = Underway { pool };
        let queue = underway.queue().await.ok().map(Arc::new);
        Ok(Open { underway, queue })
    })
    .await
}
