//! What a claim over many queues costs, in runs of statements: counted, not timed.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{NewJob, Spec};
use backstop_core::{JobId, WorkerId};
use backstop_store::conformance::block_on;
use backstop_store::{Claim, ClaimQueue, Error, KnownKind, NewWorker, Submit, WorkStore};
use rusqlite::StatementStatus;

use crate::scratch::Scratch;
use crate::{Options, SqliteStore, sql};

/// Queues of the worker.
const MANY: usize = 200;
const WORKER: WorkerId = WorkerId::from_u128(1);
/// The statements whose runs are counted.
const COUNTED: [&str; 4] =
    [sql::LANES_WITH_WORK, sql::LANE_DUE, sql::STATE_UPDATE_HELD, sql::STATE_UPDATE_HELD_LISTED];

fn queue(number: usize) -> Arc<str> {
    format!("queue-{number:03}").into()
}

fn kinds() -> Arc<[KnownKind]> {
    Arc::new([KnownKind { kind: "work".into(), version: 1 }])
}

/// A store with a worker, and `jobs` jobs that lie in turn in the first `filled` queues.
fn filled(dir: &Scratch, jobs: usize, filled: usize) -> SqliteStore {
    let store = SqliteStore::open(dir.path("jobs.db"), Options::default()).expect("fresh");
    let worker = NewWorker {
        id: WORKER,
        name: "w".into(),
        code_version: None,
        queues: (0..MANY).map(queue).collect(),
        kinds: kinds(),
        lease: Duration::from_secs(3_600),
    };
    block_on(store.enlist(worker)).expect("enlisted");
    let job = |number: usize| {
        let mut spec = Spec::new(JobId::from_u128(1 + u128::try_from(number).expect("small")), "work", "{}");
        spec.queue = queue(number % filled);
        NewJob::new(spec)
    };
    let submit = Submit { jobs: (0..jobs).map(job).collect(), atomic: true };
    assert!(block_on(store.submit(submit)).expect("stored").iter().all(Result::is_ok));
    store
}

/// Claims from queues; answers how many jobs came, and the runs of each counted statement.
fn claim(store: &SqliteStore, queues: impl Iterator<Item = usize>, limit: usize) -> (usize, [i32; 4]) {
    let runs = || {
        let count = |tx: &mut crate::transaction::WriteTransaction<'_>| {
            let mut runs = [0; 4];
            for (runs, text) in runs.iter_mut().zip(COUNTED) {
                *runs = tx.conn.prepare_cached(text)?.reset_status(StatementStatus::Run);
            }
            Ok(runs)
        };
        let counted: Result<[i32; 4], Error> = block_on(store.write(1, count));
        counted.expect("counted")
    };
    runs();
    let room = |number| ClaimQueue { queue: queue(number), limit, start: limit, any_kind: false };
    let wanted = Claim {
        worker: WORKER,
        queues: queues.map(room).collect(),
        kinds: kinds(),
        aging: Default::default(),
        limits: Default::default(),
    };
    let jobs = block_on(store.claim(wanted)).expect("claimed").jobs.len();
    (jobs, runs())
}

#[test]
fn empty_queues_cost_a_claim_nothing() {
    let dir = Scratch::new();
    let store = filled(&dir, 100, 5);
    let (jobs, [lanes, due, side_by_side, listed]) = claim(&store, 0..MANY, 10);
    assert_eq!((jobs, lanes, due), (50, 1, 5), "one look, and one read for each queue that has jobs");
    assert_eq!((side_by_side, listed), (1, 0), "taken queue by queue, written as they lie");
    let (jobs, [lanes, due, ..]) = claim(&store, 5..MANY, 10);
    assert_eq!((jobs, lanes, due), (0, 1, 0));
}

#[test]
fn jobs_of_many_queues_are_written_together() {
    let dir = Scratch::new();
    let store = filled(&dir, 5 * MANY, MANY);
    let (jobs, runs) = claim(&store, (0..MANY).step_by(2), 1);
    assert_eq!((jobs, runs), (MANY / 2, [1, 100, 0, 1]), "none of them are neighbours");
    let (jobs, runs) = claim(&store, 0..MANY, 2);
    assert_eq!(jobs, 2 * MANY);
    assert_eq!(runs[..2], [1, 200]);
    assert!(runs[2] + runs[3] <= 3, "{runs:?}: one run of neighbours, and the others listed");
}

#[test]
fn no_statement_of_a_claim_is_planned_anew() {
    let dir = Scratch::new();
    let store = filled(&dir, 5 * MANY, MANY);
    for _ in 0..3 {
        claim(&store, 0..MANY, 1);
    }
    let count = |tx: &mut crate::transaction::WriteTransaction<'_>| {
        let planned = |text: &str| Ok(tx.conn.prepare_cached(text)?.get_status(StatementStatus::RePrepare));
        COUNTED.into_iter().map(planned).collect()
    };
    let planned: Result<Vec<i32>, Error> = block_on(store.write(1, count));
    assert_eq!(planned.expect("counted"), [0; 4], "whatever values they are given");
}
