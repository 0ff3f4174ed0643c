//! Many clients of several processes' stores at once: nothing twice, nothing lost, and no error reaches anybody.

mod place;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, OnConflict, Priority, Retention, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_mysql::{MysqlStore, Options};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Amend, Amended, Claim, ClaimQueue, ClaimedJob, DocumentRange, Drawer, Duty, Edit, Expect, Finish,
    InspectStore, JobFilter, KnownKind, NewWorker, PageRequest, Submit, Submitted, WorkStore,
};
use place::InDatabase;

const CLIENTS: u128 = 64;
/// Each stands for a process: they share nothing but the server.
const STORES: usize = 4;
/// The campaign `crowd` takes ten times as many, by worker processes.
const JOBS: u128 = 10_000;
const CLAIM: usize = 100;

async fn stores(place: &InDatabase) -> Vec<Arc<MysqlStore>> {
    let mut stores = Vec::new();
    for _ in 0..STORES {
        let store = MysqlStore::open(&place.url(), Options::default()).await.expect("opened");
        stores.push(Arc::new(store));
    }
    stores
}

fn kinds() -> Arc<[KnownKind]> {
    [KnownKind { kind: "work".into(), version: 1 }].into()
}

async fn enlist(store: &MysqlStore, worker: WorkerId) {
    let known = NewWorker {
        id: worker,
        name: worker.to_string(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds(),
        lease: Duration::from_secs(600),
    };
    store.enlist(known).await.expect("enlisted");
}

async fn claim(store: &MysqlStore, worker: WorkerId) -> Vec<ClaimedJob> {
    let room = ClaimQueue { queue: "default".into(), limit: CLAIM, start: CLAIM, any_kind: false };
    let claim = Claim {
        worker,
        queues: vec![room],
        kinds: kinds(),
        aging: Aging::default(),
        limits: Default::default(),
    };
    store.claim(claim).await.expect("no lock reaches a caller").jobs
}

fn success(claimed: &ClaimedJob) -> Finish {
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    Finish { lease: claimed.lease, ending }
}

/// Jobs of three priorities, so that every claim has several lanes to look at.
fn job(number: u128) -> NewJob {
    let mut spec = Spec::new(JobId::from_u128(number), "work", "{}");
    spec.priority =
        [Priority::Low, Priority::Normal, Priority::High][usize::try_from(number % 3).unwrap_or(0)];
    NewJob::new(spec)
}

/// Takes and ends whatever is there until nothing is pending any more; answers what it ended.
async fn live(store: Arc<MysqlStore>, number: u128) -> Vec<JobId> {
    let worker = WorkerId::from_u128(number);
    enlist(&store, worker).await;
    let mut done = Vec::new();
    loop {
        let taken = claim(&store, worker).await;
        if taken.is_empty() {
            let queues = store.queues().await.expect("counted");
            if queues.iter().all(|queue| queue.pending == 0) {
                return done;
            }
            continue;
        }
        let answers = store.finish(taken.iter().map(success).collect()).await.expect("finished");
        assert!(answers.iter().all(|answer| *answer == Ok(State::Succeeded)), "{answers:?}");
        done.extend(taken.iter().map(|job| job.lease.job));
    }
}

#[test]
fn no_job_is_done_twice_and_none_is_lost() {
    // L4, L5
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let stores = stores(&place).await;
        let begun = Instant::now();
        for first in (1..=JOBS).step_by(10_000) {
            let jobs = (first..(first + 10_000).min(JOBS + 1)).map(job).collect();
            stores[0].submit(Submit { jobs, atomic: false }).await.expect("stored");
        }
        let stored = begun.elapsed();
        let clients: Vec<_> = (1..=CLIENTS)
            .zip(stores.iter().cycle().cloned())
            .map(|(number, store)| tokio::spawn(live(store, number)))
            .collect();
        let mut done = Vec::new();
        for client in clients {
            done.extend(client.await.expect("no client failed"));
        }
        let distinct: HashSet<JobId> = done.iter().copied().collect();
        assert_eq!(done.len(), distinct.len(), "no job twice");
        assert_eq!(u128::try_from(done.len()).unwrap_or(0), JOBS, "none lost");
        eprintln!(
            "{JOBS} jobs stored in {stored:?} and done by {CLIENTS} clients in {:?}",
            begun.elapsed() - stored
        );
        // Folding what piled up does not change the counts.
        for node in 0..2 {
            stores[0].lead(WorkerId::from_u128(node), vec![Duty::Rescue], Duration::ZERO).await.expect("led");
            let queue = stores[1].queues().await.expect("counted").remove(0);
            let expected = (0, 0, u64::try_from(JOBS).unwrap_or(0));
            assert_eq!((queue.pending, queue.running, queue.succeeded), expected);
        }
    });
}

/// Every client submits the same keys, each under ids of its own; answers what each was told of each key.
async fn race(
    stores: &[Arc<MysqlStore>],
    keys: u128,
    mark: fn(&mut NewJob, String),
) -> HashMap<u128, Vec<Submitted>> {
    let client = |number: u128, store: Arc<MysqlStore>| async move {
        let mut told = Vec::new();
        for key in 0..keys {
            let mut new = job(number * 1_000 + key);
            mark(&mut new, format!("key-{key}"));
            let answers = store.submit(Submit { jobs: vec![new], atomic: false }).await.expect("stored");
            told.push((key, answers[0].clone().expect("not refused")));
        }
        told
    };
    let clients: Vec<_> = (1..=CLIENTS)
        .zip(stores.iter().cycle().cloned())
        .map(|(number, store)| tokio::spawn(client(number, store)))
        .collect();
    let mut told: HashMap<u128, Vec<Submitted>> = HashMap::new();
    for client in clients {
        for (key, answer) in client.await.expect("no client failed") {
            told.entry(key).or_default().push(answer);
        }
    }
    told
}

async fn stored(store: &MysqlStore) -> usize {
    store.list(JobFilter::default(), PageRequest::first(1_000)).await.expect("listed").items.len()
}

#[test]
fn an_idempotency_key_stores_one_job_whoever_comes_first() {
    // L10
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let stores = stores(&place).await;
        let told = race(&stores, 10, |new, key| new.spec.idempotency_key = Some(key)).await;
        for answers in told.values() {
            assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1);
            assert!(answers.iter().all(|answer| answer.id == answers[0].id), "{answers:?}");
        }
        assert_eq!(stored(&stores[0]).await, 10);
    });
}

#[test]
fn a_business_key_is_held_by_one_live_job() {
    // L11
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let stores = stores(&place).await;
        let told = race(&stores, 10, |new, key| {
            new.spec.business_key = Some(key);
            new.on_conflict = OnConflict::Skip;
        })
        .await;
        for answers in told.values() {
            assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1);
        }
        assert_eq!(stored(&stores[0]).await, 10);
    });
}

#[test]
fn the_last_to_replace_holds_the_key() {
    // L11, L12
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let stores = stores(&place).await;
        let told = race(&stores, 3, |new, key| {
            new.spec.business_key = Some(key);
            new.on_conflict = OnConflict::Replace;
        })
        .await;
        assert!(told.values().flatten().all(|answer| !answer.deduplicated), "each replaces the one before");
        let queue = stores[0].queues().await.expect("counted").remove(0);
        let replaced = u64::try_from(CLIENTS).unwrap_or(0) * 3 - 3;
        assert_eq!((queue.pending, queue.canceled), (3, replaced));
    });
}

fn written(body: &str, expect: Expect) -> Amend {
    let edit =
        Edit { drawer: Drawer::Plans, key: "rd-00000001".into(), expect, body: Some(body.to_owned().into()) };
    Amend { edits: vec![edit], ..Amend::default() }
}

/// Writes a document as if nobody else did, until nobody else has; answers how often that took.
async fn insist(store: Arc<MysqlStore>, number: u128) -> u64 {
    let mut tries = 0;
    loop {
        tries += 1;
        let found = store.documents(DocumentRange::first(Drawer::Plans, 1)).await.expect("read").items;
        let expect = found.first().map_or(Expect::Absent, |document| Expect::Revision(document.revision));
        let amended =
            store.amend(written(&number.to_string(), expect)).await.expect("no lock reaches a caller");
        if let Amended::Done { .. } = amended {
            return tries;
        }
    }
}

#[test]
fn no_change_of_a_document_is_lost() {
    // D4
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let stores = stores(&place).await;
        let clients: Vec<_> = (1..=CLIENTS)
            .zip(stores.iter().cycle().cloned())
            .map(|(number, store)| tokio::spawn(insist(store, number)))
            .collect();
        let mut tries = 0;
        for client in clients {
            tries += client.await.expect("no client failed");
        }
        let found = stores[0].documents(DocumentRange::first(Drawer::Plans, 2)).await.expect("read").items;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(u128::try_from(found[0].revision).unwrap_or(0), CLIENTS, "after {tries} tries");
    });
}

#[test]
fn of_many_who_write_a_new_document_one_does() {
    // D4
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let stores = stores(&place).await;
        let clients: Vec<_> = (1..=CLIENTS)
            .zip(stores.iter().cycle().cloned())
            .map(|(number, store)| {
                tokio::spawn(async move { store.amend(written(&number.to_string(), Expect::Absent)).await })
            })
            .collect();
        let mut done = 0;
        for client in clients {
            match client.await.expect("no client failed").expect("no lock reaches a caller") {
                Amended::Done { .. } => done += 1,
                Amended::Conflict { drawer, key } => {
                    assert_eq!((drawer, key.as_str()), (Drawer::Plans, "rd-00000001"));
                }
                Amended::Refused { index, refusal } => panic!("job {index} is refused: {refusal}"),
            }
        }
        assert_eq!(done, 1);
    });
}

#[test]
fn a_job_leaves_once_whoever_takes_it_away() {
    // L16, D5: those who purge and those who archive meet over the same jobs, and every count comes out even.
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let stores = stores(&place).await;
        let all: Vec<JobId> = (1..=600).map(JobId::from_u128).collect();
        stores[0].submit(Submit { jobs: (1..=600).map(job).collect(), atomic: true }).await.expect("stored");
        live(stores[0].clone(), 1).await;
        let node = WorkerId::from_u128(1);
        let led = stores[0].lead(node, vec![Duty::Archive], Duration::from_secs(600)).await.expect("led");
        let term = led[0].expect("nobody else leads");
        let archiver = stores[0].clone();
        let archived = tokio::spawn(async move {
            let at_once = Retention::default().succeeded(Some(Duration::ZERO));
            let mut moved = 0;
            for _ in 0..20 {
                moved += archiver.archive(term, at_once, 10).await.expect("archived");
            }
            moved
        });
        let purgers: Vec<_> = stores[1..]
            .iter()
            .cloned()
            .map(|store| {
                let all = all.clone();
                tokio::spawn(async move {
                    let mut purged = 0;
                    for some in all.chunks(50) {
                        let answers =
                            store.purge(some.to_vec(), None).await.expect("no lock reaches a caller");
                        purged += answers.iter().filter(|answer| answer.is_ok()).count();
                    }
                    purged
                })
            })
            .collect();
        let mut purged = 0;
        for purger in purgers {
            purged += purger.await.expect("no purger failed");
        }
        let moved = archived.await.expect("no archiver failed");
        let left = stores[0].archived(all).await.expect("read").into_iter().flatten().count();
        assert_eq!(purged + left, 600, "{moved} were archived first");
        let queue = stores[0].queues().await.expect("counted").remove(0);
        assert_eq!((queue.succeeded, stored(&stores[0]).await), (0, 0));
    });
}
