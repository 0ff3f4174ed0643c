//! Handlers that complete their job in their own transaction, on a SQLite file (L14).

#![cfg(feature = "sqlite")]

#[path = "completion/bank.rs"]
mod bank;

use std::sync::Arc;

use backstop::prelude::*;
use backstop::{EventKind, Hook, HookFuture, Ran, RunEnd, RunInfo};
use backstop_core::failure::Cause;
use backstop_core::job::State;
use backstop_store::{JobFilter, PageRequest};

use bank::{Bank, Transfer, Welcome};

/// Remembers the causes that it was told.
#[derive(Default)]
struct Causes(std::sync::Mutex<Vec<Cause>>);

impl Causes {
    fn seen(&self) -> Vec<Cause> {
        self.0.lock().expect("no panic").clone()
    }
}

struct Remember(Arc<Causes>);

impl Hook for Remember {
    fn after_run<'a>(&'a self, _: &'a RunInfo, end: &'a RunEnd) -> HookFuture<'a> {
        Box::pin(async move {
            self.0.0.lock().expect("no panic").push(end.cause);
            Ok(())
        })
    }
}

/// Runs one transfer to the end of its first run.
async fn run_once(bank: &Bank, way: &str) -> (Ran, Vec<Cause>) {
    let transfer = Transfer { way: way.to_owned() };
    bank.engine.enqueue(transfer).on_success(Welcome {}).submit().await.expect("admitted");
    let causes = Arc::new(Causes::default());
    let worker = bank.worker().hook(Remember(causes.clone())).inline().expect("complete");
    let ran = worker.run_next().await.expect("the file is there").expect("one is due");
    (ran, causes.seen())
}

/// Jobs of the callback's kind; a transfer brings a child too, and never one without the other.
async fn callbacks(bank: &Bank) -> usize {
    let all = bank.engine.jobs(JobFilter::default(), PageRequest::first(10)).await.expect("read").items;
    let welcomes: Vec<_> = all.iter().filter(|view| &*view.job.spec.kind == Welcome::KIND).collect();
    let children = welcomes.iter().filter(|view| &*view.job.spec.queue == "children").count();
    let callbacks = welcomes.iter().filter(|view| view.job.spec.callback_of.is_some()).count();
    assert_eq!(children, callbacks, "a child comes with the completion, as the callback does");
    welcomes.len() - children
}

#[tokio::test]
async fn what_the_handler_wrote_and_the_completion_are_one_commit() {
    // L14, L23, F14
    let bank = Bank::open().await;
    let mut events = bank.engine.events();
    let (ran, causes) = run_once(&bank, "commit").await;
    assert_eq!(
        (ran.cause, ran.state, causes),
        (Cause::Succeeded, Some(State::Succeeded), vec![Cause::Succeeded])
    );
    let detail = bank.engine.job(ran.job).await.expect("read").expect("there");
    assert_eq!(
        detail.view.result.as_deref(),
        Some("{\"moved\":5}"),
        "the result is the one that was committed"
    );
    assert_eq!((bank.rows(), callbacks(&bank).await), (1, 1));
    let run = bank.engine.attempts(ran.job, PageRequest::first(10)).await.expect("read").items.remove(0);
    assert_eq!(run.output.as_deref(), Some("moving\n"));
    while !matches!(events.next().await.expect("more").what, EventKind::Succeeded { run: 1 }) {}
}

#[tokio::test]
async fn a_rollback_that_is_called_done_is_a_failed_run() {
    // L14
    let bank = Bank::open().await;
    let (ran, causes) = run_once(&bank, "rollback").await;
    assert_eq!((ran.cause, ran.state, causes), (Cause::Error, Some(State::Pending), vec![Cause::Error]));
    let detail = bank.engine.job(ran.job).await.expect("read").expect("there");
    let failure = detail.view.last_failure.expect("it failed");
    assert_eq!(failure.message, "the transaction that completed this job was not committed");
    assert_eq!((bank.rows(), callbacks(&bank).await), (0, 0));
}

#[tokio::test]
async fn a_second_transaction_may_succeed_where_the_first_did_not() {
    // L14
    let bank = Bank::open().await;
    let (ran, _) = run_once(&bank, "rollback then commit").await;
    assert_eq!((ran.state, bank.rows()), (Some(State::Succeeded), 1));
}

#[tokio::test]
async fn an_error_before_the_commit_is_the_error_of_the_run() {
    // L14
    let bank = Bank::open().await;
    let (ran, _) = run_once(&bank, "error before commit").await;
    let detail = bank.engine.job(ran.job).await.expect("read").expect("there");
    assert_eq!(detail.view.last_failure.expect("it failed").message, "the bank is closed");
    assert_eq!((ran.state, bank.rows()), (Some(State::Pending), 0));
}

#[tokio::test]
async fn whatever_happens_after_the_commit_the_job_is_done() {
    // L14: the process could as well have died there.
    for way in ["error after commit", "panic after commit"] {
        let bank = Bank::open().await;
        let (ran, causes) = run_once(&bank, way).await;
        assert_eq!((ran.state, causes), (Some(State::Succeeded), vec![Cause::Succeeded]), "{way}");
        assert_eq!((bank.rows(), callbacks(&bank).await), (1, 1), "{way}");
    }
}

#[tokio::test]
async fn a_canceled_job_cannot_be_completed() {
    // L7, L14
    let bank = Bank::open().await;
    let (ran, _) = run_once(&bank, "canceled meanwhile").await;
    assert_eq!(ran.state, None);
    let detail = bank.engine.job(ran.job).await.expect("read").expect("there");
    assert_eq!((detail.view.state(), bank.rows()), (State::Canceled, 0));
    assert!(bank.last_error().contains("is stale"), "{}", bank.last_error());
}

#[tokio::test]
async fn a_lease_that_ends_with_the_commit_is_no_loss() {
    // L14: the heartbeat finds that the job is not held any more, and the run is stopped as if it were lost.
    let bank = Bank::open().await;
    let causes = Arc::new(Causes::default());
    let worker = bank.worker().hook(Remember(causes.clone())).start().await.expect("started");
    let transfer = Transfer { way: "commit and wait to be stopped".to_owned() };
    let mut events = bank.engine.events();
    bank.engine.enqueue(transfer).submit().await.expect("admitted");
    while !matches!(events.next().await.expect("more").what, EventKind::Succeeded { run: 1 }) {}
    let stopped = worker.stop().await;
    assert_eq!((stopped.interrupted, stopped.clean, bank.rows()), (0, true, 1));
    assert_eq!(causes.seen(), [Cause::Succeeded]);
}

#[tokio::test]
async fn a_transaction_on_another_kind_of_database_is_refused() {
    // L14
    let bank = Bank::open().await;
    let elsewhere = Backstop::open("memory:").await.expect("always there");
    let mut conn = bank.connect();
    let mut tx = conn.transaction().expect("begun");
    let refused = elsewhere.enqueue(Welcome {}).submit_in(&mut tx).await.expect_err("another database");
    assert!(refused.to_string().contains("the transaction is on sqlite"), "{refused}");
}

#[tokio::test]
async fn a_blocking_submit_stands_or_falls_with_its_transaction() {
    // L14
    let bank = Bank::open().await;
    for commit in [false, true] {
        let mut conn = bank.connect();
        let tx = conn.transaction().expect("begun");
        bank.engine.enqueue(Welcome {}).submit_in_blocking(&tx).expect("stored");
        if commit {
            tx.commit().expect("committed");
        } else {
            tx.rollback().expect("rolled back");
        }
        assert_eq!(callbacks(&bank).await, usize::from(commit));
    }
}

#[cfg(feature = "tx-sqlx-sqlite")]
#[tokio::test]
async fn sqlx_completes_and_submits_in_one_transaction() {
    // L14
    for (way, rows) in [("commit", 1), ("rollback", 0)] {
        let bank = Bank::open().await;
        bank.engine.enqueue(bank::OverSqlx { way: way.to_owned() }).submit().await.expect("admitted");
        let worker = bank.worker().inline().expect("complete");
        let ran = worker.run_next().await.expect("the file is there").expect("one is due");
        let expected = if rows == 1 { State::Succeeded } else { State::Pending };
        assert_eq!((ran.state, bank.rows()), (Some(expected), rows), "{way}");
        assert_eq!(callbacks(&bank).await, usize::from(rows == 1), "{way}");
    }
}
