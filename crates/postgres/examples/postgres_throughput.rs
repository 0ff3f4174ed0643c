//! How fast the store itself is, without an engine: `postgres_throughput URL [JOBS] [WORKERS]`. It works in a schema of
//! its own and drops it at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, Spec};
use backstop_core::run_limit::{CountBy, RunLimit};
use backstop_core::{JobId, WorkerId};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::{Claim, ClaimQueue, Finish, KnownKind, NewWorker, Submit, WorkStore};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const BATCH: usize = 500;

fn kinds() -> Arc<[KnownKind]> {
    [KnownKind { kind: "work".into(), version: 1 }].into()
}

fn new_job() -> NewJob {
    NewJob::new(Spec::new(JobId::from_uuid(uuid::Uuid::now_v7()), "work", "x".repeat(110)))
}

/// One of a hundred keys.
fn with_key(number: usize) -> NewJob {
    let mut job = new_job();
    job.spec.needs_mut().limit_key = Some(format!("key {}", number % 100).into());
    job
}

async fn fill(store: Arc<PostgresStore>, jobs: usize, keys: bool) -> Outcome {
    for _ in 0..jobs / 1_000 {
        let new = |number| if keys { with_key(number) } else { new_job() };
        let jobs = (0..1_000).map(new).collect();
        store.submit(Submit { jobs, atomic: true }).await?;
    }
    Ok(())
}

async fn drain(store: Arc<PostgresStore>, number: u128, limits: Arc<[RunLimit]>) -> Outcome {
    let worker = WorkerId::from_u128(number);
    let lease = Duration::from_secs(600);
    let queues = vec!["default".into()];
    let name = format!("worker {number}");
    store.enlist(NewWorker { id: worker, name, code_version: None, queues, kinds: kinds(), lease }).await?;
    loop {
        let room = ClaimQueue { queue: "default".into(), limit: BATCH, start: BATCH, any_kind: false };
        let claim = Claim {
            worker,
            queues: vec![room],
            kinds: kinds(),
            aging: Aging::default(),
            limits: limits.clone(),
        };
        let claimed = store.claim(claim).await?;
        if claimed.jobs.is_empty() {
            return Ok(());
        }
        let end = |job: &backstop_store::ClaimedJob| {
            let mut ending = Ending::plain(job.job.spec.header(), Cause::Succeeded, Decision::succeeded());
            ending.result = Some("null".into());
            Finish { lease: job.lease, ending }
        };
        store.finish(claimed.jobs.iter().map(end).collect()).await?;
    }
}

/// Runs tasks to their end and says how fast they were.
async fn time<F: Future<Output = Outcome> + Send + 'static>(
    what: &str,
    jobs: usize,
    tasks: Vec<F>,
) -> Outcome {
    let begin = Instant::now();
    let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    for task in tasks {
        task.await??;
    }
    let rate = jobs as f64 / begin.elapsed().as_secs_f64();
    #[allow(clippy::print_stdout, reason = "a program for the terminal")]
    {
        println!("{what}: {rate:.0} jobs/s");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a server: postgres_throughput postgres://…")?;
    let jobs: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let workers: u128 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let store = Arc::new(
        PostgresStore::open(&format!("{url}?schema=throughput&listen=off"), Options::default()).await?,
    );
    // A limit that leaves room for all of them: what it costs is the lock and the count (H5).
    let roomy: Arc<[RunLimit]> =
        [RunLimit { concurrency: Some(1_000_000), ..RunLimit::of_queue("default") }].into();
    // The same for each of a hundred keys, which take turns.
    let by_key: Arc<[RunLimit]> =
        [RunLimit { by: CountBy::Key, concurrency: Some(1_000_000), ..RunLimit::new("key") }].into();
    for (what, limits, keys) in [
        ("claim and finish, batches of 500", Arc::default(), false),
        ("the same under a limit", roomy.clone(), false),
        ("the same with a hundred keys", by_key.clone(), true),
        ("the first again", Arc::default(), false),
        ("the second again", roomy, false),
        ("the third again", by_key, true),
    ] {
        let fillers = (0..2).map(|_| fill(store.clone(), jobs / 2, keys)).collect();
        time("bulk submit, 2 tasks of 1,000", jobs, fillers).await?;
        let drains = (1..=workers).map(|number| drain(store.clone(), number, limits.clone())).collect();
        time(what, jobs, drains).await?;
    }
    let singles = 20_000;
    let single = |_| {
        let store = store.clone();
        async move {
            for _ in 0..singles / 64 {
                store.submit(Submit { jobs: vec![new_job()], atomic: true }).await?;
            }
            Ok(())
        }
    };
    time("single submits, 64 tasks", singles, (0..64).map(single).collect()).await?;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("DROP SCHEMA throughput CASCADE").await?;
    Ok(())
}
