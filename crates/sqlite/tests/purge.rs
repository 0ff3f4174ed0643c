//! What an idempotency key answers when its job is gone and the id has come again: as the model answers.

mod scratch;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, Operation, Retention, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_sqlite::{Options, SqliteStore};
use backstop_store::conformance::block_on;
use backstop_store::{
    Claim, ClaimQueue, Duty, Finish, KnownKind, ManualClock, ModelStore, NewWorker, Store, Submit, Submitted,
};
use scratch::Scratch;

const JOB: JobId = JobId::from_u128(1);
const OTHER: JobId = JobId::from_u128(2);
const WORKER: WorkerId = WorkerId::from_u128(7);

/// One step in the life of the job.
#[derive(Debug, Clone, Copy)]
enum Step {
    Submit(Option<&'static str>),
    Cancel,
    Succeed,
    Archive,
    Purge,
    Prune,
}

fn submit(store: &dyn Store, id: JobId, key: Option<&str>) -> Submitted {
    let mut spec = Spec::new(id, "work", "{}");
    spec.idempotency_key = key.map(ToOwned::to_owned);
    let answers = block_on(store.submit(Submit { jobs: vec![NewJob::new(spec)], atomic: true }));
    answers.expect("stored")[0].clone().expect("not refused")
}

fn succeed(store: &dyn Store) {
    let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
    let known = NewWorker {
        id: WORKER,
        name: "w".into(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds.clone(),
        lease: Duration::from_secs(30),
    };
    block_on(store.enlist(known)).expect("enlisted");
    let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
    let claim = Claim {
        worker: WORKER,
        queues: vec![room],
        kinds,
        aging: Aging::default(),
        limits: Default::default(),
    };
    let claimed = block_on(store.claim(claim)).expect("claimed").jobs.remove(0);
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    let ended = block_on(store.finish(vec![Finish { lease: claimed.lease, ending }])).expect("ended");
    assert_eq!(ended, [Ok(State::Succeeded)]);
}

fn lead(store: &dyn Store, duty: Duty) -> backstop_store::Term {
    block_on(store.lead(WORKER, vec![duty], Duration::from_secs(9))).expect("asked")[0].expect("granted")
}

fn take(store: &dyn Store, step: Step) -> String {
    let mut at_once = Retention::forever();
    (at_once.succeeded, at_once.canceled) = (Some(Duration::ZERO), Some(Duration::ZERO));
    match step {
        Step::Submit(key) => format!("{:?}", submit(store, JOB, key)),
        Step::Cancel => {
            let cancel = Operation::Cancel { reason: "no".into() };
            format!("{:?}", block_on(store.operate(vec![JOB], cancel)).map(|answers| answers[0].is_ok()))
        }
        Step::Succeed => format!("{:?}", succeed(store)),
        Step::Archive => format!("{:?}", block_on(store.archive(lead(store, Duty::Archive), at_once, 9))),
        Step::Purge => format!("{:?}", block_on(store.purge(vec![JOB], None))),
        Step::Prune => {
            format!("{:?}", block_on(store.prune(lead(store, Duty::Prune), Duration::ZERO, 9)))
        }
    }
}

#[test]
fn a_key_answers_as_the_last_job_of_its_id_ended() {
    // L10, D5
    use Step::{Archive, Cancel, Prune, Purge, Submit, Succeed};
    let lives: [&[Step]; 6] = [
        &[Submit(Some("a")), Cancel, Purge],
        &[Submit(Some("a")), Succeed, Archive, Prune],
        &[Submit(Some("a")), Cancel, Archive, Purge, Purge, Submit(None), Succeed, Purge],
        &[Submit(Some("a")), Cancel, Archive, Submit(Some("b")), Succeed, Archive, Purge],
        &[Submit(Some("a")), Cancel, Archive, Submit(Some("b")), Succeed, Archive, Prune],
        &[
            Submit(Some("a")),
            Cancel,
            Archive,
            Submit(Some("b")),
            Cancel,
            Archive,
            Submit(None),
            Succeed,
            Purge,
        ],
    ];
    for life in lives {
        let dir = Scratch::new();
        let clock = ManualClock::default();
        let mut options = Options::default();
        options.clock = Arc::new(clock.clone());
        let ours = SqliteStore::open(dir.path("jobs.db"), options).expect("fresh");
        let model = ModelStore::new(Arc::new(clock));
        for step in life {
            assert_eq!(take(&ours, *step), take(&model, *step), "{step:?} of {life:?}");
        }
        for key in ["a", "b"] {
            let answers = [&ours as &dyn Store, &model].map(|store| submit(store, OTHER, Some(key)));
            assert_eq!(answers[0], answers[1], "{key} after {life:?}");
        }
    }
}
