//! Group commit, and what one bad command does to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_core::depth::{DepthLimit, DepthScope};
use backstop_core::job::{NewJob, Operation, Spec};
use backstop_core::workflow::PartOf;
use backstop_core::{JobId, Timestamp, WorkflowId};
use backstop_store::{
    Clock, DocumentRange, Drawer, Error, InspectStore, JobFilter, Observer, PageRequest, Silent, Submit,
    SystemClock, WorkStore,
};
use crossbeam_channel::{Sender, bounded};
use tokio::sync::oneshot::Receiver;

use crate::error::SqliteFailure;
use crate::scratch::Scratch;
use crate::transaction::WriteTransaction;
use crate::{Options, SqliteStore, operate, submit};

fn open(dir: &Scratch) -> SqliteStore {
    SqliteStore::open(dir.path("jobs.db"), Options::default()).expect("fresh")
}

fn job(number: u128) -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"))
}

fn store_job(number: u128) -> impl FnMut(&mut WriteTransaction<'_>) -> Result<bool, SqliteFailure> + Send {
    let submit = Submit { jobs: vec![job(number)], atomic: true };
    move |tx| Ok(submit::submit(tx, &submit)?[0].is_ok())
}

/// Makes the writer wait until the sender is dropped, so that what is sent meanwhile forms one group.
fn hold(store: &SqliteStore) -> (Sender<()>, Receiver<Result<(), Error>>) {
    let (gate, opened) = bounded::<()>(0);
    let (arrived, waiting) = bounded(1);
    let answer = store.writer().send(1, move |_| {
        let _ = arrived.send(());
        let _ = opened.recv();
        Ok(())
    });
    waiting.recv().expect("the writer has begun");
    (gate, answer)
}

fn count(store: &SqliteStore) -> usize {
    let listed = store.list(JobFilter::default(), PageRequest::first(1_000));
    backstop_store::conformance::block_on(listed).expect("listed").items.len()
}

#[test]
fn calls_that_wait_share_one_commit() {
    let dir = Scratch::new();
    let store = open(&dir);
    let (gate, held) = hold(&store);
    let answers: Vec<_> = (1..=64).map(|number| store.writer().send(1, store_job(number))).collect();
    drop(gate);
    held.blocking_recv().expect("answered").expect("done");
    for answer in answers {
        assert!(answer.blocking_recv().expect("answered").expect("stored"));
    }
    assert_eq!(store.commits(), 2, "one for the call that held the writer, one for the 64 others");
    assert_eq!(count(&store), 64);
}

#[test]
fn a_group_has_a_limit() {
    let dir = Scratch::new();
    let store = open(&dir);
    let (gate, held) = hold(&store);
    let answers: Vec<_> = (1..=300).map(|number| store.writer().send(1, store_job(number))).collect();
    drop(gate);
    held.blocking_recv().expect("answered").expect("done");
    for answer in answers {
        assert!(answer.blocking_recv().expect("answered").expect("stored"));
    }
    assert_eq!(store.commits(), 3, "300 calls are two groups");
}

#[test]
fn a_bad_command_fails_alone() {
    // C7
    let dir = Scratch::new();
    let store = open(&dir);
    let (gate, held) = hold(&store);
    let before = store.writer().send(1, store_job(1));
    let bad = store.writer().send(1, |tx| {
        submit::submit(tx, &Submit { jobs: vec![job(7)], atomic: true })?;
        Ok(tx.conn.execute_batch("INSERT INTO no_such_table VALUES (1)")?)
    });
    let after = store.writer().send(1, store_job(2));
    drop(gate);
    held.blocking_recv().expect("answered").expect("done");
    assert!(before.blocking_recv().expect("answered").expect("stored"));
    assert!(after.blocking_recv().expect("answered").expect("stored"));
    let error = bad.blocking_recv().expect("answered").expect_err("there is no such table");
    assert_eq!(error.code(), "store_failed");
    assert_eq!(count(&store), 2, "what the bad one had written before is gone");
}

#[test]
fn a_refused_batch_takes_nothing_of_others_with_it() {
    // H12, W3: what an earlier command of the group has left to be written is written inside the savepoint of the
    // refused batch, and undone with it; it must be written again.
    let dir = Scratch::new();
    let store = open(&dir);
    let mut part = job(1);
    part.spec.provenance_mut().part_of = Some(PartOf {
        id: WorkflowId::from_u128(7),
        node: None,
        number: 1,
        follows: false,
        renewed: false,
        payload_from: None,
    });
    let part = Submit { jobs: vec![part], atomic: true };
    let stored = store.writer().send(1, move |tx| submit::submit(tx, &part).map(|answers| answers.len()));
    stored.blocking_recv().expect("answered").expect("stored");
    let (gate, held) = hold(&store);
    let cancel = Operation::Cancel { reason: "no longer wanted".into() };
    let canceled = store.writer().send(1, move |tx| operate::one(tx, JobId::from_u128(1), &cancel).map(drop));
    let mut crowd = job(2);
    crowd.depth_limits = vec![DepthLimit { scope: DepthScope::Queue("default".into()), most: 0 }];
    let crowd = Submit { jobs: vec![crowd], atomic: true };
    let refused = store.writer().send(1, move |tx| Ok(submit::submit(tx, &crowd)?[0].is_err()));
    drop(gate);
    held.blocking_recv().expect("answered").expect("done");
    canceled.blocking_recv().expect("answered").expect("canceled");
    assert!(refused.blocking_recv().expect("answered").expect("answered"), "there is no room");
    assert_eq!(store.commits(), 3, "the cancel and the refused batch are one group");
    let notes = store.documents(DocumentRange::first(Drawer::WorkflowEnds, 10));
    let notes = backstop_store::conformance::block_on(notes).expect("read").items;
    assert_eq!(notes.len(), 1, "the end of the canceled part is noted");
}

#[test]
fn the_writer_survives_a_panic() {
    // F1, C7
    let dir = Scratch::new();
    let store = open(&dir);
    let (gate, held) = hold(&store);
    let before = store.writer().send(1, store_job(1));
    let bad = store.writer().send(1, |tx| -> Result<(), SqliteFailure> {
        submit::submit(tx, &Submit { jobs: vec![job(7)], atomic: true })?;
        panic!("a fault of ours");
    });
    drop(gate);
    held.blocking_recv().expect("answered").expect("done");
    assert!(before.blocking_recv().expect("answered").expect("stored"));
    let error = bad.blocking_recv().expect("answered").expect_err("it panicked");
    assert!(error.to_string().contains("a fault of ours"), "{error}");
    assert!(store.writer().send(1, store_job(2)).blocking_recv().expect("alive").expect("stored"));
    assert_eq!(count(&store), 2);
}

#[test]
fn a_full_disk_stores_nothing_and_is_named() {
    let dir = Scratch::new();
    let store = open(&dir);
    let limit_pages = |pages: &'static str| {
        let set = store.writer().send(1, move |tx| Ok(tx.conn.execute_batch(pages)?));
        set.blocking_recv().expect("answered").expect("set");
    };
    limit_pages("PRAGMA max_page_count = 1");
    let many: Vec<NewJob> = (1..=2_000).map(job).collect();
    let run = move |tx: &mut WriteTransaction<'_>| {
        submit::submit(tx, &Submit { jobs: many.clone(), atomic: false }).map(|answers| answers.len())
    };
    let error = store.writer().send(1, run.clone()).blocking_recv().expect("answered").expect_err("no room");
    assert_eq!(error.code(), "disk_full");
    assert_eq!(count(&store), 0);
    limit_pages("PRAGMA max_page_count = 100000");
    let answer = store.writer().send(1, move |tx| run(tx)).blocking_recv();
    assert_eq!(answer.expect("answered").expect("stored"), 2_000);
}

#[test]
fn a_lock_that_lasts_is_named_with_its_file() {
    let dir = Scratch::new();
    let options = Options { busy_timeout: Duration::from_millis(40), ..Options::default() };
    let store = SqliteStore::open(dir.path("jobs.db"), options).expect("fresh");
    let other = rusqlite::Connection::open(dir.path("jobs.db")).expect("the same file");
    other.execute_batch(crate::sql::BEGIN_WRITE).expect("locked");
    let error = store.writer().send(1, store_job(1)).blocking_recv().expect("answered").expect_err("locked");
    assert_eq!(error.code(), "store_unavailable");
    assert!(error.is_transient() && error.to_string().contains("jobs.db"), "{error}");
    drop(other);
    assert!(store.writer().send(1, store_job(1)).blocking_recv().expect("answered").expect("stored"));
}

#[test]
fn dropping_the_store_runs_what_is_queued() {
    let dir = Scratch::new();
    let store = open(&dir);
    let (gate, held) = hold(&store);
    let answers: Vec<_> = (1..=20).map(|number| store.writer().send(1, store_job(number))).collect();
    drop(gate);
    drop(store);
    held.blocking_recv().expect("answered").expect("done");
    for answer in answers {
        assert!(answer.blocking_recv().expect("answered before the end").expect("stored"));
    }
    assert_eq!(count(&open(&dir)), 20);
}

#[test]
fn an_observer_may_hold_the_store_and_panic() {
    struct Rude(std::sync::Mutex<Option<Arc<SqliteStore>>>);
    impl backstop_store::Observer for Rude {
        fn wants_events(&self) -> bool {
            true
        }

        fn committed(&self, _events: Vec<backstop_core::event::Event>) {
            // The last handle goes on the writer's own thread.
            drop(self.0.lock().expect("not poisoned").take());
            panic!("observers are foreign code");
        }

        fn work_arrived(&self) {}
    }
    let dir = Scratch::new();
    let store = Arc::new(open(&dir));
    store.observe(Arc::new(Rude(std::sync::Mutex::new(Some(store.clone())))));
    let answer = store.writer().send(1, store_job(1));
    drop(store);
    assert!(answer.blocking_recv().expect("answered").expect("stored"));
}

/// A clock that fails when it is told to.
struct Broken(Arc<AtomicBool>);

impl Clock for Broken {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "the clock fell down");
        SystemClock::default().now()
    }
}

#[test]
fn a_panic_outside_of_a_command_ends_that_command_alone() {
    // F17
    let dir = Scratch::new();
    let falls = Arc::new(AtomicBool::new(false));
    let options = Options { clock: Arc::new(Broken(falls.clone())), ..Options::default() };
    let store = SqliteStore::open(dir.path("jobs.db"), options).expect("fresh");
    assert!(store.writer().send(1, store_job(1)).blocking_recv().expect("answered").expect("stored"));
    for number in 2..5 {
        falls.store(true, Ordering::SeqCst);
        let answer = store.writer().send(1, store_job(number)).blocking_recv().expect("nobody hangs");
        assert!(answer.expect_err("it panicked").to_string().contains("the clock fell down"));
        falls.store(false, Ordering::SeqCst);
        let stored = store.writer().send(1, store_job(number)).blocking_recv().expect("answered");
        assert!(stored.expect("the writer goes on"));
    }
    assert_eq!(count(&store), 4);
}

/// A listener that fails whenever it is asked anything.
struct Frail;

impl Observer for Frail {
    fn committed(&self, _: Vec<backstop_core::event::Event>) {
        panic!("the listener fell down");
    }

    fn work_arrived(&self) {
        panic!("the listener fell down");
    }

    fn wants_events(&self) -> bool {
        panic!("the listener fell down");
    }
}

#[test]
fn a_listener_that_panics_leaves_the_writer_alive() {
    // F17, V2
    let dir = Scratch::new();
    let store = open(&dir);
    store.observe(Arc::new(Frail));
    for number in 1..4 {
        let answer = store.writer().send(1, store_job(number)).blocking_recv().expect("nobody hangs");
        assert!(answer.is_err());
    }
    store.observe(Arc::new(Silent));
    assert!(store.writer().send(1, store_job(9)).blocking_recv().expect("answered").expect("stored"));
    assert_eq!(count(&store), 1);
}
