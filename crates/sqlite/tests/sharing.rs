//! Several stores on one file: nobody sees a lock, nothing is done twice, and each hears of the others.

mod scratch;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, Operation, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_sqlite::{Options, SqliteStore};
use backstop_store::conformance::block_on;
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Finish, InspectStore, KnownKind, NewWorker, Observer, Submit, WorkStore,
};
use scratch::Scratch;

const WORKERS: u128 = 4;
const JOBS_EACH: u128 = 250;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::default()).expect("no lock reaches a caller")
}

fn kinds() -> Arc<[KnownKind]> {
    [KnownKind { kind: "work".into(), version: 1 }].into()
}

fn enlist(store: &SqliteStore, worker: WorkerId) {
    let known = NewWorker {
        id: worker,
        name: worker.to_string(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds(),
        lease: Duration::from_secs(600),
    };
    block_on(store.enlist(known)).expect("enlisted");
}

fn claim(store: &SqliteStore, worker: WorkerId, limit: usize) -> Vec<ClaimedJob> {
    let room = ClaimQueue { queue: "default".into(), limit, start: limit, any_kind: false };
    let claim = Claim {
        worker,
        queues: vec![room],
        kinds: kinds(),
        aging: Aging::default(),
        limits: Default::default(),
    };
    block_on(store.claim(claim)).expect("claimed").jobs
}

fn success(claimed: &ClaimedJob) -> Finish {
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    Finish { lease: claimed.lease, ending }
}

fn submit(store: &SqliteStore, number: u128) {
    let job = NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"));
    let answers = block_on(store.submit(Submit { jobs: vec![job], atomic: true })).expect("stored");
    assert!(answers[0].as_ref().is_ok_and(|answer| !answer.deduplicated));
}

/// Submits jobs one by one, then takes and ends whatever is there; answers what it ended.
fn live(path: &Path, number: u128) -> Vec<JobId> {
    let store = open(path);
    let worker = WorkerId::from_u128(number);
    enlist(&store, worker);
    for job in 0..JOBS_EACH {
        submit(&store, number * 10_000 + job);
    }
    let mut done = Vec::new();
    loop {
        let taken = claim(&store, worker, 20);
        if taken.is_empty() {
            return done;
        }
        let answers = block_on(store.finish(taken.iter().map(success).collect())).expect("finished");
        assert!(answers.iter().all(|answer| *answer == Ok(State::Succeeded)), "{answers:?}");
        done.extend(taken.iter().map(|job| job.lease.job));
    }
}

#[test]
fn no_job_is_done_twice_and_none_is_lost() {
    // L4, L5
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    let done: Vec<JobId> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=WORKERS)
            .map(|number| {
                scope.spawn({
                    let path = &path;
                    move || live(path, number)
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no worker failed")).collect()
    });
    let distinct: HashSet<JobId> = done.iter().copied().collect();
    assert_eq!(distinct.len(), done.len(), "no job is done twice");
    // A worker that found nothing may have stopped while another was still submitting.
    let store = open(&path);
    enlist(&store, WorkerId::from_u128(99));
    let rest = claim(&store, WorkerId::from_u128(99), 5_000).len();
    assert_eq!(u128::try_from(done.len() + rest), Ok(WORKERS * JOBS_EACH), "no job is lost");
}

#[test]
fn what_another_store_ended_cannot_be_ended_again() {
    // L5, L7: the record that the claiming store remembers is not believed once another has written.
    let dir = Scratch::new();
    let (first, second) = (open(&dir.path("jobs.db")), open(&dir.path("jobs.db")));
    let worker = WorkerId::from_u128(1);
    enlist(&first, worker);
    submit(&first, 1);
    let taken = claim(&first, worker, 1).remove(0);
    let cancel = Operation::Cancel { reason: "not needed".into() };
    let operated = block_on(second.operate(vec![taken.lease.job], cancel)).expect("answered");
    assert!(operated[0].as_ref().is_ok_and(|answer| answer.changed));
    let answers = block_on(first.finish(vec![success(&taken)])).expect("answered");
    assert!(answers[0].is_err(), "the run was canceled");
}

#[test]
fn fences_grow_across_stores() {
    // L5
    let dir = Scratch::new();
    let (first, second) = (open(&dir.path("jobs.db")), open(&dir.path("jobs.db")));
    let worker = WorkerId::from_u128(1);
    enlist(&first, worker);
    let fences: Vec<i64> = [&first, &second, &first, &second]
        .into_iter()
        .zip(1..)
        .map(|(store, number)| {
            submit(store, number);
            claim(store, worker, 1)[0].lease.fence.0
        })
        .collect();
    assert_eq!(fences, [1, 2, 3, 4]);
}

/// Passes every hint on.
struct Hints(std::sync::Mutex<Sender<()>>);

impl Observer for Hints {
    fn wants_events(&self) -> bool {
        false
    }

    fn committed(&self, _events: Vec<Event>) {}

    fn work_arrived(&self) {
        let _ = self.0.lock().map(|sender| sender.send(()));
    }
}

fn hints(store: &SqliteStore) -> Receiver<()> {
    let (sender, receiver) = channel();
    store.observe(Arc::new(Hints(std::sync::Mutex::new(sender))));
    receiver
}

#[test]
fn a_store_hears_of_work_that_others_bring() {
    // L13
    let dir = Scratch::new();
    let (first, second) = (open(&dir.path("jobs.db")), open(&dir.path("jobs.db")));
    let heard = hints(&first);
    submit(&second, 1);
    heard.recv_timeout(Duration::from_secs(30)).expect("the idle store looks at the file by itself");
}
