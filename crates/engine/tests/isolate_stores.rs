//! Isolated runs on every database: their crashes are kept there, and their handlers complete in transactions of their
//! own (L14).
//!
//! A child is this test again, up to the start of its worker.
#![cfg(all(target_os = "linux", feature = "sqlite", feature = "postgres", feature = "mysql"))]
#![allow(missing_docs, reason = "a test")]

use std::time::Duration;

use backstop::mysql::mysql_async::prelude::Queryable as _;
use backstop::mysql::mysql_async::{Conn, Opts, TxOpts};
use backstop::postgres::tokio_postgres::{self, NoTls};
use backstop::prelude::*;
use backstop::sinks::{Sink, SinkLimits, SinkTopic};
use backstop::sqlite::rusqlite::{Connection, TransactionBehavior};
use backstop::{Cause, State, TerminalReason, is_isolated_child};
use backstop_store::{JobFilter, PageRequest};
use backstop_testbed::shared;

/// A store, and a table of the application's own beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Place {
    /// What the engine opens.
    url: String,
    /// What the application opens: a file or a server.
    own: String,
    table: String,
}

impl Place {
    /// Carries out a statement of the application's own, in a transaction that may complete a job.
    async fn transact(&self, statement: String, job: Option<JobContext<()>>, commit: bool) -> JobResult {
        match self.url.split_once(':') {
            Some(("sqlite", _)) => {
                let own = self.own.clone();
                let done = move || on_sqlite(&own, &statement, job.as_ref(), commit);
                return tokio::task::spawn_blocking(done).await?;
            }
            Some(("postgres", _)) => {
                let (mut client, connection) = tokio_postgres::connect(&self.own, NoTls).await?;
                tokio::spawn(connection);
                let mut tx = client.transaction().await?;
                tx.batch_execute(&statement).await?;
                if let Some(job) = job {
                    job.complete_in(&mut tx, "moved").await?;
                }
                if commit {
                    tx.commit().await?;
                }
            }
            _ => {
                let mut conn = Conn::new(Opts::from_url(&self.own)?).await?;
                let mut tx = conn.start_transaction(TxOpts::default()).await?;
                tx.query_drop(&statement).await?;
                if let Some(job) = job {
                    job.complete_in(&mut tx, "moved").await?;
                }
                if commit {
                    tx.commit().await?;
                } else {
                    tx.rollback().await?;
                }
            }
        }
        Ok(())
    }
}

fn on_sqlite(file: &str, statement: &str, job: Option<&JobContext<()>>, commit: bool) -> JobResult {
    let mut conn = Connection::open(file)?;
    conn.busy_timeout(Duration::from_secs(10))?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(statement)?;
    if let Some(job) = job {
        job.complete_in_blocking(&tx, "moved")?;
    }
    if commit {
        tx.commit()?;
    }
    Ok(())
}

/// Completes itself, and then returns, or dies.
#[job(isolate = "always", max_retries = 0, max_crashes = 0)]
async fn transfer(cx: JobContext<()>, place: Place, then: String) -> JobResult<String> {
    let statement = format!("INSERT INTO {} VALUES (5)", place.table);
    place.transact(statement, Some(cx.clone()), then != "roll back").await?;
    if then == "die" {
        std::process::abort();
    }
    Ok("not what is kept".to_owned())
}

/// Runs after a transfer, wherever it likes.
#[job]
async fn after() {}

/// Says something, submits something, and dies.
#[job(isolate = "always", max_crashes = 1)]
async fn die(cx: JobContext<()>) -> JobResult {
    cx.progress(40, "on the way").await?;
    let after = cx.enqueue(After {}).idempotency_key(cx.effect_key());
    after.queue("elsewhere").submit().await?;
    cx.log("about to die");
    std::process::abort();
}

/// Stores the process of its first run as a step, and dies; the next run goes on from there.
#[job(isolate = "always", max_crashes = 2)]
async fn stepping(cx: JobContext<()>) -> JobResult<(u32, u32, String)> {
    let first = cx.step("first", || async { JobResult::Ok(std::process::id()) }).await?;
    if cx.run_number() == 1 {
        std::process::abort();
    }
    let sent = cx.effect("send", "key-7", || async { JobResult::Ok(cx.transition_key()) }).await?;
    Ok((first, std::process::id(), sent))
}

/// Waits for a signal that is there, then for one that never comes.
#[job(isolate = "always")]
async fn waiting(cx: JobContext<()>, key: String) -> JobResult<(Option<u32>, Option<u32>, u32)> {
    let first = cx.signal::<u32>(&key).await?.received();
    let second = cx.signal::<u32>(key).timeout(Duration::from_millis(1)).await?.received();
    Ok((first, second, cx.run_number()))
}

/// Rejects items, dies, and rejects them again with one more.
#[job(isolate = "always", max_crashes = 2)]
async fn rejecting(cx: JobContext<()>) -> JobResult {
    cx.reject_many((0..120).map(|item| (item, "bad"))).await?;
    if cx.run_number() == 1 {
        cx.flush_rejects().await?;
        std::process::abort();
    }
    cx.reject("another", "bad").await?;
    Ok(())
}

async fn check(place: Place) {
    let engine = Backstop::open(&place.url).await.expect("a store");
    if !is_isolated_child() {
        let create = format!("CREATE TABLE {} (cents integer)", place.table);
        place.transact(create, None, true).await.expect("a new table");
    }
    // In a child this is where it ends.
    let worker = engine.worker(()).register::<Transfer>().register::<After>().register::<Die>();
    let worker = worker.register::<Stepping>().register::<Waiting>().register::<Rejecting>();
    let worker = worker.queue("default", 2).start().await.expect("a worker");
    completes_in_transactions_of_its_own(&engine, &place).await;
    dies_with_evidence(&engine).await;
    goes_on_from_its_steps(&engine).await;
    waits_for_signals(&engine).await;
    keeps_its_rejects(&engine).await;
    worker.stop().await;
    let drop = format!("DROP TABLE {}", place.table);
    place.transact(drop, None, true).await.expect("it is there");
}

async fn of_kind(engine: &Backstop, kind: &str) -> usize {
    let filter = JobFilter { kind: Some(kind.to_owned()), ..JobFilter::default() };
    engine.jobs(filter, PageRequest::first(10)).await.expect("read").items.len()
}

async fn completes_in_transactions_of_its_own(engine: &Backstop, place: &Place) {
    let told = Sink::new("told", [SinkTopic::Results]);
    engine.sinks().set(&told, SinkLimits::default()).await.expect("kept");
    let mut ended = Vec::new();
    for (then, state, follows) in
        [("commit", State::Succeeded, 1), ("die", State::Succeeded, 2), ("roll back", State::Failed, 2)]
    {
        let job = Transfer { place: place.clone(), then: then.to_owned() };
        let job = engine.enqueue(job).on_success(After {}).submit().await.expect("stored");
        let result = job.result().await;
        let detail = engine.job(job.id).await.expect("read").expect("a job");
        assert_eq!(detail.view.record.state, state, "{then}: {result:?}");
        assert_eq!(of_kind(engine, After::KIND).await, follows, "{then}");
        let run = engine.attempts(job.id, PageRequest::first(5)).await.expect("read").items;
        assert_eq!(run.len(), 1, "{then}");
        ended.push(job.id);
        match state {
            State::Succeeded => assert_eq!(result.expect("it succeeded"), "moved", "{then}"),
            _ => assert_eq!(run[0].failure.as_ref().expect("evidence").error_type, "NotCommitted"),
        }
    }
    // B2: whoever wrote the end, its message is in the same transaction.
    let mut publisher = engine.sinks().publisher("told");
    assert!(publisher.hold().await.expect("held"));
    let page = publisher.next(100).await.expect("read");
    for id in ended {
        assert_eq!(page.messages.iter().filter(|message| message.job == Some(id)).count(), 1, "{id}");
    }
    engine.sinks().remove("told").await.expect("removed");
}

async fn dies_with_evidence(engine: &Backstop) {
    let at_once = Backoff::fixed(Duration::from_millis(1));
    let job = engine.enqueue(Die {}).backoff(at_once).submit().await.expect("stored");
    job.result().await.expect_err("it cannot succeed");
    let record = engine.job(job.id).await.expect("read").expect("a job").view.record;
    assert_eq!((record.state, record.reason), (State::Failed, Some(TerminalReason::Poisoned)));
    assert_eq!((record.runs, record.crashes, record.attempt), (2, 2, 0));
    assert_eq!(record.progress.map(|progress| progress.note).as_deref(), Some("on the way"));
    for run in engine.attempts(job.id, PageRequest::first(5)).await.expect("read").items {
        let failure = run.failure.expect("evidence");
        assert_eq!((run.cause, &*failure.error_type), (Cause::Crash, "Crash::SIGABRT"));
        for evidence in ["killed by SIGABRT (signal 6)", "peak memory", "last line: about to die"] {
            assert!(failure.message.contains(evidence), "{evidence}: {}", failure.message);
        }
        assert!(run.output.unwrap_or_default().contains("about to die"));
    }
    assert_eq!(of_kind(engine, After::KIND).await, 3, "what it submitted is there once");
}

/// W9: a child rejects items as every run does, once each.
async fn keeps_its_rejects(engine: &Backstop) {
    let at_once = Backoff::fixed(Duration::from_millis(1));
    let job = engine.enqueue(Rejecting {}).backoff(at_once).submit().await.expect("stored");
    job.result().await.expect("its second run succeeds");
    let tally = engine.job(job.id).await.expect("read").expect("a job").view.record.rejects().cloned();
    let tally = tally.expect("there are some");
    assert_eq!((tally.stored, tally.run, tally.rejected), (121, 2, 121));
    let all = engine.rejects().of_job(job.id, 500).await.expect("read");
    assert_eq!((all.len(), all[120].run), (121, 2));
}

async fn goes_on_from_its_steps(engine: &Backstop) {
    let at_once = Backoff::fixed(Duration::from_millis(1));
    let job = engine.enqueue(Stepping {}).backoff(at_once).submit().await.expect("stored");
    let (first, last, sent) = job.result().await.expect("it succeeds in its second run");
    assert_ne!(first, last, "the step of the process that died was answered from the store");
    assert_eq!(sent, format!("{}:1:2", job.id));
    let steps = engine.job(job.id).await.expect("read").expect("a job").view.record.steps_in_order();
    let steps: Vec<_> = steps.iter().map(|step| (&*step.name, step.run, step.key.as_deref())).collect();
    assert_eq!(steps, [("first", 1, None), ("send", 2, Some("key-7"))]);
}

/// What is kept is taken in its first run, which ends with the second wait; when that is over, it runs once more.
async fn waits_for_signals(engine: &Backstop) {
    engine.signals().send("isolated", &7).await.expect("sent");
    let job = engine.enqueue(Waiting { key: "isolated".into() }).submit().await.expect("stored");
    assert_eq!(job.result().await.expect("it succeeds"), (Some(7), None, 2));
    let runs = engine.attempts(job.id, PageRequest::first(5)).await.expect("read").items;
    assert_eq!(runs.iter().map(|run| run.cause).collect::<Vec<_>>(), [Cause::Succeeded, Cause::Waiting]);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_file() {
    // E2, C4, C5, L14, W7, W8, W10
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("isolate-{}.db", std::process::id()))
        .display()
        .to_string();
    check(Place { url: format!("sqlite:{file}"), own: file.clone(), table: "moved".into() }).await;
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{file}{end}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    // E2, C4, C5, L14, W7, W8, W10
    let (server, own) = (shared::postgres(), format!("isolate_{}", std::process::id()));
    let url = format!("{server}?schema={own}");
    check(Place { url, own: server.to_owned(), table: format!("{own}.moved") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_mariadb() {
    // E2, C4, C5, L14, W7, W8, W10
    let (server, own) = (shared::mariadb(), format!("isolate_{}_", std::process::id()));
    let url = format!("{server}?prefix={own}");
    check(Place { url, own: server.to_owned(), table: format!("{own}moved") }).await;
}
