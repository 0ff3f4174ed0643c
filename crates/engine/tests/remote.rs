//! Workers outside of the process on every store (E7): what they take, keep, lose and end.

use std::time::Duration;

use backstop::{Backstop, Ended, Finished, Handed, LostReason, RemoteWorker, WorkRequest};
use backstop_core::job::State;
use backstop_store::KnownKind;

const QUEUE: &str = "remote";

fn worker() -> RemoteWorker {
    RemoteWorker { realm: String::new(), name: "far-away".into() }
}

fn request(limit: usize) -> WorkRequest {
    WorkRequest {
        worker: worker(),
        queues: vec![QUEUE.into()],
        kinds: [KnownKind { kind: "mail".into(), version: 1 }].into(),
        limit,
        wait: Duration::from_secs(20),
        lease: Duration::from_secs(600),
        code_version: Some("1.0".into()),
    }
}

fn end(handed: &Handed, ended: Ended) -> Finished {
    Finished { grant: handed.grant.clone(), ended, logs: vec!["a line".into()] }
}

/// Rows of workers: those of names, and those of batches.
async fn rows(engine: &Backstop) -> (usize, usize) {
    let rows = engine.workers().await.expect("the store is there");
    let names = rows.iter().filter(|row| !row.queues.is_empty()).count();
    (names, rows.len() - names)
}

async fn serves_remote_workers(engine: Backstop) {
    let remote = engine.remote();
    for _ in 0..3 {
        engine.enqueue_raw("mail", "{}").queue(QUEUE).submit().await.expect("stored");
    }
    let taken = remote.claim(request(10)).await.expect("the store is there");
    assert_eq!(taken.len(), 3);
    assert_eq!(rows(&engine).await, (1, 1));
    let job = |number: usize| taken[number].grant.lease.job;

    let grants = || taken.iter().map(|handed| handed.grant.clone()).collect::<Vec<_>>();
    let answer = remote.heartbeat(&worker(), grants()).await.expect("the store is there");
    assert_eq!((answer.held.len(), answer.lost.len()), (3, 0));
    engine.cancel(job(0), "not needed").await.expect("it runs");
    let answer = remote.heartbeat(&worker(), grants()).await.expect("the store is there");
    let lost: Vec<_> = answer.lost.iter().map(|lost| (lost.lease.job, lost.reason)).collect();
    assert_eq!((answer.held.len(), lost), (2, vec![(job(0), LostReason::Canceled)]));

    let noted = remote.progress(&taken[1].grant, 40, "on the way").await.expect("the store is there");
    assert_eq!(noted, Ok(()));
    let done = Ended::Succeeded { result: Some(serde_json::json!(7)) };
    let ends = || {
        let snooze = Ended::Snoozed { delay: Duration::from_secs(60) };
        vec![end(&taken[0], done.clone()), end(&taken[1], done.clone()), end(&taken[2], snooze)]
    };
    for _ in 0..2 {
        let answers = remote.finish(ends()).await.expect("the store is there");
        let states: Vec<_> = answers.into_iter().map(Result::ok).collect();
        assert_eq!(
            states,
            [None, Some(State::Succeeded), Some(State::Pending)],
            "also when it is told again"
        );
    }
    assert_eq!(rows(&engine).await, (1, 0), "the batch went with its last job");
    let detail = engine.job(job(1)).await.expect("the store is there").expect("the job is there");
    assert_eq!(detail.view.result.as_deref(), Some("7"));
    let waited = WorkRequest { wait: Duration::ZERO, ..request(1) };
    assert!(remote.claim(waited).await.expect("the store is there").is_empty());
}

#[tokio::test]
async fn in_memory() {
    // E7
    serves_remote_workers(Backstop::open("memory:").await.expect("memory")).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn on_sqlite() {
    // E7
    let name = format!("remote-{}.db", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let engine = Backstop::open(&format!("sqlite:{}", file.display())).await.expect("a file");
    serves_remote_workers(engine).await;
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // E7
    let schema = format!("remote_{}", std::process::id());
    let url = format!("{}?schema={schema}", backstop_testbed::shared::postgres());
    serves_remote_workers(Backstop::open(&url).await.expect("a server")).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // E7
    use backstop::mysql::mysql_async::prelude::Queryable as _;
    use backstop::mysql::mysql_async::{Conn, Opts};

    let server = backstop_testbed::shared::mariadb();
    let mut conn = Conn::new(Opts::from_url(server).expect("a good URL")).await.expect("a server");
    let name = format!("remote_{}", std::process::id());
    conn.query_drop(format!("CREATE DATABASE {name}")).await.expect("a new name");
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    serves_remote_workers(Backstop::open(&format!("{place}/{name}")).await.expect("a server")).await;
    conn.query_drop(format!("DROP DATABASE {name}")).await.expect("it is there");
    conn.disconnect().await.expect("the connection ends");
}
