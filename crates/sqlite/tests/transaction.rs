//! Jobs inside the caller's own transaction (L14).

mod scratch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, OnConflict, Spec, State};
use backstop_core::{JobId, Refusal, WorkerId};
use backstop_sqlite::rusqlite::{Connection, TransactionBehavior};
use backstop_sqlite::{Options, SqliteStore, finish_in, submit_in};
use backstop_store::conformance::block_on;
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Finish, InspectStore, KnownKind, ManualClock, NewWorker, Submit, WorkStore,
};
use scratch::Scratch;

/// A store, the application's own connection to the same file, and a table of its own there.
struct Both {
    store: SqliteStore,
    conn: Connection,
    clock: ManualClock,
    path: PathBuf,
    _dir: Scratch,
}

impl Both {
    fn new() -> Self {
        let dir = Scratch::new();
        let path = dir.path("app.db");
        let clock = ManualClock::default();
        let mut options = Options::default();
        options.clock = Arc::new(clock.clone());
        let store = SqliteStore::open(&path, options).expect("fresh");
        let conn = Connection::open(&path).expect("the same file");
        conn.execute_batch("CREATE TABLE account (name TEXT)").expect("room for both");
        Self { store, conn, clock, path, _dir: dir }
    }

    fn accounts(&self) -> i64 {
        self.conn.query_row("SELECT count(*) FROM account", [], |row| row.get(0)).expect("counted")
    }

    fn state(&self, number: u128) -> Option<State> {
        let found = block_on(self.store.jobs(vec![JobId::from_u128(number)])).expect("read");
        found[0].as_ref().map(|detail| detail.view.record.state)
    }

    fn pending(&self) -> u64 {
        block_on(self.store.queues()).expect("read").iter().map(|queue| queue.pending).sum()
    }

    fn claim_one(&self) -> ClaimedJob {
        let worker = WorkerId::from_u128(7);
        let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
        let known = NewWorker {
            id: worker,
            name: "w".into(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: kinds.clone(),
            lease: Duration::from_secs(30),
        };
        block_on(self.store.enlist(known)).expect("enlisted");
        let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
        let claim =
            Claim { worker, queues: vec![room], kinds, aging: Aging::default(), limits: Default::default() };
        block_on(self.store.claim(claim)).expect("claimed").jobs.remove(0)
    }
}

fn job(number: u128) -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"))
}

#[test]
fn commit_makes_the_job_and_rollback_leaves_none() {
    // L14
    let mut both = Both::new();
    for (number, commit) in [(1, true), (2, false)] {
        let tx = both.conn.transaction_with_behavior(TransactionBehavior::Immediate).expect("begun");
        tx.execute("INSERT INTO account VALUES ('ada')", []).expect("written");
        let answers = submit_in(&tx, &both.clock, &[job(number)]).expect("stored");
        assert!(answers[0].as_ref().is_ok_and(|answer| !answer.deduplicated));
        if commit { tx.commit().expect("committed") } else { tx.rollback().expect("rolled back") }
    }
    assert_eq!((both.accounts(), both.state(1), both.state(2)), (1, Some(State::Pending), None));
    assert_eq!(both.pending(), 1, "the counts are rolled back too");
}

#[test]
fn a_job_of_the_callers_transaction_is_claimed_like_any_other() {
    // L14
    let mut both = Both::new();
    let tx = both.conn.transaction_with_behavior(TransactionBehavior::Immediate).expect("begun");
    submit_in(&tx, &both.clock, &[job(1)]).expect("stored");
    tx.commit().expect("committed");
    assert_eq!(both.claim_one().lease.job, JobId::from_u128(1));
}

#[test]
fn the_completion_commits_with_what_the_handler_wrote() {
    // L14
    let mut both = Both::new();
    block_on(both.store.submit(Submit { jobs: vec![job(1)], atomic: true })).expect("stored");
    let claimed = both.claim_one();
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    let finish = [Finish { lease: claimed.lease, ending }];
    for commit in [false, true] {
        let tx = both.conn.transaction_with_behavior(TransactionBehavior::Immediate).expect("begun");
        tx.execute("INSERT INTO account VALUES ('ada')", []).expect("written");
        assert_eq!(finish_in(&tx, &both.clock, &finish).expect("finished"), [Ok(State::Succeeded)]);
        if commit {
            tx.commit().expect("committed")
        } else {
            tx.rollback().expect("rolled back")
        }
        let expected = if commit { State::Succeeded } else { State::Running };
        assert_eq!((both.state(1), both.accounts()), (Some(expected), i64::from(commit)));
    }
    let again = block_on(both.store.finish(finish.to_vec())).expect("answered");
    assert_eq!(
        again,
        [Ok(State::Succeeded)],
        "L5: another connection has ended it, and the answer is that of then"
    );
}

#[test]
fn each_job_of_the_batch_stands_for_itself() {
    // L11, L14
    let mut both = Both::new();
    let keyed = |number| {
        let mut new = job(number);
        new.spec.business_key = Some("k".into());
        new.on_conflict = OnConflict::Reject;
        new
    };
    let tx = both.conn.transaction_with_behavior(TransactionBehavior::Immediate).expect("begun");
    let answers = submit_in(&tx, &both.clock, &[keyed(1), keyed(2), job(3)]).expect("answered");
    tx.commit().expect("committed");
    assert!(matches!(answers[1], Err(Refusal::BusinessKeyConflict { .. })));
    assert_eq!(
        [both.state(1), both.state(2), both.state(3)].map(|state| state.is_some()),
        [true, false, true]
    );
}

#[test]
fn a_call_without_a_transaction_is_refused() {
    // L14
    let both = Both::new();
    let error = submit_in(&both.conn, &both.clock, &[job(1)]).expect_err("no transaction");
    assert!(error.to_string().contains("no transaction is open"), "{error}");
    assert_eq!(both.state(1), None);
}

#[test]
fn a_file_without_a_store_is_refused() {
    // L14
    let both = Both::new();
    let other = Connection::open(both.path.with_file_name("other.db")).expect("made");
    other.execute_batch("BEGIN IMMEDIATE").expect("begun");
    let error = submit_in(&other, &both.clock, &[job(1)]).expect_err("no tables");
    assert_eq!(error.code(), "store_unusable");
    assert!(!other.is_autocommit(), "the caller's transaction is still the caller's");
}
