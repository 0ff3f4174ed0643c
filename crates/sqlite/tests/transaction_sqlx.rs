//! Jobs inside a transaction of the driver `sqlx` (L14).

#![cfg(feature = "sqlx")]

mod scratch;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, Operation, Spec, State};
use backstop_core::{JobId, Refusal, WorkerId};
use backstop_sqlite::sqlx::sqlite::SqliteConnectOptions;
use backstop_sqlite::sqlx::{self, Connection, Sqlite, SqliteConnection, Transaction};
use backstop_sqlite::{Options, SqliteStore, finish_in_sqlx, submit_in_sqlx};
use backstop_store::{
    Claim, ClaimQueue, Finish, InspectStore, KnownKind, NewWorker, Submit, SystemClock, WorkStore,
};
use scratch::Scratch;

/// A store, the application's own connection to the same file, and a table of its own there.
struct Both {
    store: SqliteStore,
    conn: SqliteConnection,
    dir: Scratch,
}

impl Both {
    async fn new() -> Self {
        let dir = Scratch::new();
        let path = dir.path("app.db");
        let store = SqliteStore::open(&path, Options::default()).expect("fresh");
        let options = SqliteConnectOptions::new().filename(&path);
        let mut conn = SqliteConnection::connect_with(&options).await.expect("the same file");
        sqlx::query("CREATE TABLE account (name TEXT)").execute(&mut conn).await.expect("room for both");
        Self { store, conn, dir }
    }

    async fn begin(&mut self) -> Transaction<'_, Sqlite> {
        let mut tx = self.conn.begin_with("BEGIN IMMEDIATE").await.expect("begun");
        let own = sqlx::query("INSERT INTO account VALUES ('ada')");
        own.execute(&mut *tx).await.expect("written");
        tx
    }

    async fn accounts(&mut self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM account").fetch_one(&mut self.conn).await.expect("counted")
    }

    async fn state(&self, number: u128) -> Option<State> {
        let found = self.store.jobs(vec![JobId::from_u128(number)]).await.expect("read");
        found[0].as_ref().map(|detail| detail.view.record.state)
    }

    /// Stores a job, claims it, and answers how it ends well.
    async fn running(&self, number: u128) -> Finish {
        self.store.submit(Submit { jobs: vec![job(number)], atomic: true }).await.expect("stored");
        let worker = WorkerId::from_u128(7);
        let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
        let known = NewWorker {
            id: worker,
            name: "w".into(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: kinds.clone(),
            lease: Duration::from_secs(600),
        };
        self.store.enlist(known).await.expect("enlisted");
        let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
        let claim =
            Claim { worker, queues: vec![room], kinds, aging: Aging::default(), limits: Default::default() };
        let claimed = self.store.claim(claim).await.expect("claimed").jobs.remove(0);
        let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
        Finish { lease: claimed.lease, ending }
    }
}

fn job(number: u128) -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"))
}

#[tokio::test]
async fn commit_makes_the_job_and_rollback_leaves_none() {
    // L14
    let mut both = Both::new().await;
    let clock = SystemClock::default();
    for (number, commit) in [(1, true), (2, false)] {
        let mut tx = both.begin().await;
        let answers = submit_in_sqlx(&mut tx, &clock, &[job(number)]).await.expect("stored");
        assert!(answers[0].is_ok());
        if commit {
            tx.commit().await.expect("committed");
        } else {
            tx.rollback().await.expect("rolled back");
        }
    }
    assert_eq!((both.state(1).await, both.state(2).await), (Some(State::Pending), None));
    assert_eq!(both.accounts().await, 1);
    assert_eq!(both.store.queues().await.expect("read")[0].pending, 1, "the counts are rolled back too");
}

#[tokio::test]
async fn a_refused_job_leaves_the_transaction_usable() {
    // L11, L14
    let mut both = Both::new().await;
    let clock = SystemClock::default();
    let keyed = |number| {
        let mut new = job(number);
        new.spec.business_key = Some("k".into());
        new
    };
    let mut tx = both.begin().await;
    let answers = submit_in_sqlx(&mut tx, &clock, &[keyed(1), keyed(2)]).await.expect("answered");
    assert!(matches!(answers[1], Err(Refusal::BusinessKeyConflict { .. })));
    submit_in_sqlx(&mut tx, &clock, &[job(3)]).await.expect("usable");
    sqlx::query("INSERT INTO account VALUES ('bob')").execute(&mut *tx).await.expect("usable");
    tx.commit().await.expect("committed");
    assert_eq!((both.state(2).await, both.state(3).await), (None, Some(State::Pending)));
    assert_eq!(both.accounts().await, 2);
}

#[tokio::test]
async fn the_completion_commits_with_what_the_handler_wrote() {
    // L5, L14
    let mut both = Both::new().await;
    let clock = SystemClock::default();
    let finish = both.running(1).await;
    for commit in [false, true] {
        let mut tx = both.begin().await;
        let answers = finish_in_sqlx(&mut tx, &clock, std::slice::from_ref(&finish)).await.expect("answered");
        assert_eq!(answers, [Ok(State::Succeeded)]);
        if commit {
            tx.commit().await.expect("committed");
        } else {
            tx.rollback().await.expect("rolled back");
        }
        let expected = if commit { State::Succeeded } else { State::Running };
        assert_eq!((both.state(1).await, both.accounts().await), (Some(expected), i64::from(commit)));
    }
    assert_eq!(both.store.finish(vec![finish]).await.expect("answered"), [Ok(State::Succeeded)]);
}

#[tokio::test]
async fn a_completion_of_a_canceled_job_is_stale() {
    // L5, L7, L14
    let mut both = Both::new().await;
    let clock = SystemClock::default();
    let finish = both.running(1).await;
    let cancel = Operation::Cancel { reason: "changed my mind".into() };
    both.store.operate(vec![JobId::from_u128(1)], cancel).await.expect("answered");
    let mut tx = both.begin().await;
    assert!(finish_in_sqlx(&mut tx, &clock, &[finish]).await.expect("answered")[0].is_err());
    tx.rollback().await.expect("rolled back");
    assert_eq!((both.state(1).await, both.accounts().await), (Some(State::Canceled), 0));
}

#[tokio::test]
async fn a_key_of_an_open_transaction_is_waited_for() {
    // L10, L14
    let mut both = Both::new().await;
    let clock = SystemClock::default();
    let with_key = |number| {
        let mut new = job(number);
        new.spec.idempotency_key = Some("order-17".into());
        new
    };
    let store = Arc::new(SqliteStore::open(both.dir.path("app.db"), Options::default()).expect("the same"));
    let mut tx = both.begin().await;
    submit_in_sqlx(&mut tx, &clock, &[with_key(1)]).await.expect("stored");
    let other = tokio::spawn(async move {
        store.submit(Submit { jobs: vec![with_key(2)], atomic: true }).await.expect("answered").remove(0)
    });
    // Whether the other waits already or comes later, it must find what is committed here.
    tokio::task::yield_now().await;
    tx.commit().await.expect("committed");
    let answer = other.await.expect("no panic").expect("known");
    assert_eq!((answer.id, answer.deduplicated), (JobId::from_u128(1), true));
}

#[tokio::test]
async fn a_call_without_a_transaction_is_refused() {
    // L14
    let mut both = Both::new().await;
    let clock = SystemClock::default();
    let error = submit_in_sqlx(&mut both.conn, &clock, &[job(1)]).await.expect_err("no transaction");
    assert!(error.to_string().contains("no transaction is open"), "{error}");
}
