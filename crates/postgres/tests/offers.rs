//! Claims that an idle worker leaves with the store (L13): what a transaction stores is taken by it too.

mod place;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, Spec, Start, State};
use backstop_core::{JobId, WorkerId};
use backstop_postgres::tokio_postgres::{self, NoTls};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Answer, Claim, ClaimQueue, Claimed, Clock, Error, Finish, InspectStore, KnownKind, ManualClock,
    NewWorker, Observer, Signal, Submit, WorkStore,
};
use backstop_testbed::shared;
use place::InSchema;

const WORKER: WorkerId = WorkerId::from_u128(1);

/// Counts the hints it gets.
#[derive(Default)]
struct Ear {
    hints: AtomicUsize,
    wants_events: AtomicBool,
}

impl Observer for Ear {
    fn wants_events(&self) -> bool {
        self.wants_events.load(Ordering::SeqCst)
    }

    fn committed(&self, _: Vec<Event>) {}

    fn work_arrived(&self) {
        self.hints.fetch_add(1, Ordering::SeqCst);
    }
}

struct World {
    place: InSchema,
    clock: ManualClock,
    store: PostgresStore,
    ear: Arc<Ear>,
}

impl World {
    /// A store with a worker that serves `default`.
    async fn new() -> Self {
        let (place, clock) = (InSchema::fresh(), ManualClock::default());
        let store = open(&place, &clock).await;
        let ear = Arc::new(Ear::default());
        store.observe(ear.clone());
        let worker = NewWorker {
            id: WORKER,
            name: "one".into(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: kinds(),
            lease: Duration::from_secs(60),
        };
        store.enlist(worker).await.expect("enlisted");
        Self { place, clock, store, ear }
    }

    /// What an offer comes to while `during` happens; it is withdrawn afterwards.
    async fn offer<T>(
        &self,
        claim: Claim,
        during: impl Future<Output = T>,
    ) -> (Result<Option<Claimed>, Error>, T) {
        let (withdraw, withdrawn) = tokio::sync::oneshot::channel();
        let withdrawn: Signal<'_> = Box::pin(async move { withdrawn.await.unwrap_or_default() });
        let mut offered = self.store.offer(claim, withdrawn);
        begin(&mut offered).await;
        let done = during.await;
        let _ = withdraw.send(());
        (offered.await, done)
    }

    fn hints(&self) -> usize {
        self.ear.hints.load(Ordering::SeqCst)
    }

    /// Jobs that were stored and claimed by one transaction.
    async fn stored_and_claimed_together(&self) -> Vec<u128> {
        let (client, connection) =
            tokio_postgres::connect(shared::postgres(), NoTls).await.expect("a server");
        tokio::spawn(connection);
        let schema = self.place.name();
        let sql = format!("SELECT j.id::text FROM {schema}.job j JOIN {schema}.claim c ON c.xmin = j.xmin");
        let rows = client.query(&sql, &[]).await.expect("good SQL");
        let id = |text: &str| text.parse::<JobId>().expect("an id").as_uuid().as_u128();
        rows.iter().map(|row| id(row.get(0))).collect()
    }

    async fn states(&self, jobs: &[u128]) -> Vec<State> {
        let ids = jobs.iter().map(|number| JobId::from_u128(*number)).collect();
        let found = self.store.jobs(ids).await.expect("jobs");
        found.into_iter().map(|detail| detail.expect("it is there").view.record.state).collect()
    }
}

/// Lets an offer stand before anything else happens.
async fn begin(offered: &mut Answer<'_, Option<Claimed>>) {
    tokio::select! {
        biased;
        _ = offered => panic!("nothing has happened yet"),
        () = std::future::ready(()) => {}
    }
}

async fn open(place: &InSchema, clock: &ManualClock) -> PostgresStore {
    let mut options = Options::default();
    options.clock = Some(Arc::new(clock.clone()));
    PostgresStore::open(&place.url(), options).await.expect("opened")
}

fn kinds() -> Arc<[KnownKind]> {
    Arc::new([KnownKind { kind: "work".into(), version: 1 }])
}

fn claim(limit: usize) -> Claim {
    let queue = ClaimQueue { queue: "default".into(), limit, start: limit, any_kind: false };
    Claim {
        worker: WORKER,
        queues: vec![queue],
        kinds: kinds(),
        aging: Aging::default(),
        limits: Default::default(),
    }
}

fn job(number: u128) -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"))
}

async fn submit(store: &PostgresStore, job: NewJob) {
    let answers = store.submit(Submit { jobs: vec![job], atomic: true }).await.expect("stored");
    assert!(answers[0].is_ok(), "{answers:?}");
}

fn taken(answer: &Result<Option<Claimed>, Error>) -> Vec<u128> {
    let claimed = answer.as_ref().expect("an answer").as_ref();
    let jobs = claimed.into_iter().flat_map(|claimed| &claimed.jobs);
    jobs.map(|taken| taken.job.spec.id.as_uuid().as_u128()).collect()
}

#[test]
fn storing_and_taking_share_one_commit() {
    // L5, L13
    InSchema::block_on(async {
        let w = World::new().await;
        submit(&w.store, job(1)).await;
        assert_eq!(w.store.claim(claim(9)).await.expect("claimed").jobs.len(), 1);
        let hints = w.hints();
        let (answer, ()) = w.offer(claim(9), submit(&w.store, job(2))).await;
        assert_eq!(taken(&answer), [2]);
        assert_eq!(w.hints(), hints, "there is nothing left to look for");
        assert_eq!(w.stored_and_claimed_together().await, [2], "the first one was not");
        let claimed = answer.expect("an answer").expect("something").jobs.remove(0);
        assert!(claimed.is_started());
        assert_eq!(claimed.lease.fence.0, 2, "the next one after that of the first claim");
        assert_eq!(w.states(&[2]).await, [State::Running]);
        let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
        let ended = w.store.finish(vec![Finish { lease: claimed.lease, ending }]).await.expect("written");
        assert_eq!(ended, [Ok(State::Succeeded)]);
        let queue = w.store.queues().await.expect("queues").remove(0);
        assert_eq!((queue.pending, queue.running, queue.succeeded), (0, 1, 1));
    });
}

#[test]
fn who_has_waited_longer_is_taken_first() {
    // L3: an offer is for what a claim would take, not for what was stored just now.
    InSchema::block_on(async {
        let w = World::new().await;
        let elsewhere = open(&w.place, &w.clock).await;
        submit(&elsewhere, job(1)).await;
        w.clock.advance(Duration::from_secs(1));
        let hints = w.hints();
        let (answer, ()) = w.offer(claim(1), submit(&w.store, job(2))).await;
        assert_eq!(taken(&answer), [1]);
        assert_eq!(w.states(&[1, 2]).await, [State::Running, State::Pending]);
        assert!(w.hints() > hints, "what was stored is still to be claimed");
    });
}

#[test]
fn jobs_that_come_together_are_taken_together() {
    // L13
    InSchema::block_on(async {
        let w = World::new().await;
        let all = async {
            tokio::join!(submit(&w.store, job(1)), submit(&w.store, job(2)), submit(&w.store, job(3)))
        };
        let (answer, _) = w.offer(claim(9), all).await;
        let mut first = taken(&answer);
        assert!(!first.is_empty());
        let rest = w.store.claim(claim(9)).await.expect("claimed").jobs;
        first.extend(rest.iter().map(|taken| taken.job.spec.id.as_uuid().as_u128()));
        first.sort_unstable();
        assert_eq!(first, [1, 2, 3], "each once");
    });
}

#[test]
fn nothing_is_taken_for_an_offer_that_was_withdrawn() {
    // L13
    InSchema::block_on(async {
        let w = World::new().await;
        let (answer, ()) = w.offer(claim(9), async {}).await;
        assert_eq!(taken(&answer), [0; 0]);
        let hints = w.hints();
        submit(&w.store, job(1)).await;
        assert!(w.hints() > hints);
        assert_eq!(w.states(&[1]).await, [State::Pending]);
        // Nor for one whose worker is gone without a word.
        let mut offered = w.store.offer(claim(9), Box::pin(std::future::pending()));
        begin(&mut offered).await;
        assert_eq!(w.store.standing_offers(), 1);
        drop(offered);
        submit(&w.store, job(2)).await;
        assert_eq!(w.states(&[2]).await, [State::Pending]);
        assert_eq!(w.store.standing_offers(), 0);
    });
}

#[test]
fn an_offer_does_not_concern_other_jobs() {
    // L2, H10: of other queues and kinds, of later, of newer code.
    InSchema::block_on(async {
        let w = World::new().await;
        let mut others: Vec<NewJob> = (1..=4).map(job).collect();
        others[0].spec.queue = "elsewhere".into();
        others[1].spec.kind = "play".into();
        others[2].start = Start::After(Duration::from_secs(1));
        others[3].spec.version = 2;
        let store_them = async {
            for other in others {
                submit(&w.store, other).await;
            }
        };
        let (answer, ()) = w.offer(claim(9), store_them).await;
        assert_eq!(taken(&answer), [0; 0]);
        assert_eq!(w.states(&[1, 2, 3, 4]).await, [State::Pending; 4]);
        // A claim without room is none.
        let (answer, ()) = w.offer(claim(0), submit(&w.store, job(5))).await;
        assert_eq!((taken(&answer), w.states(&[5]).await), (vec![], vec![State::Pending]));
    });
}

#[test]
fn an_offer_is_no_way_around_a_pause() {
    // L13
    InSchema::block_on(async {
        let w = World::new().await;
        assert!(w.store.pause_queue("default", true, None).await.expect("paused"));
        let hints = w.hints();
        let (answer, ()) = w.offer(claim(9), submit(&w.store, job(1))).await;
        assert_eq!((taken(&answer), w.states(&[1]).await), (vec![], vec![State::Pending]));
        assert!(w.hints() > hints);
    });
}

#[test]
fn a_worker_whose_lease_ran_out_is_told_and_the_job_is_stored() {
    // L5
    InSchema::block_on(async {
        let w = World::new().await;
        w.clock.advance(Duration::from_secs(61));
        let (answer, ()) = w.offer(claim(9), submit(&w.store, job(1))).await;
        assert!(matches!(answer, Err(Error::NotEnlisted { worker: WORKER })), "{answer:?}");
        assert_eq!(w.states(&[1]).await, [State::Pending]);
    });
}

#[test]
fn what_has_expired_is_passed_by() {
    // L19
    InSchema::block_on(async {
        let w = World::new().await;
        let mut late = job(1);
        late.spec.expires_at = Some(w.clock.now().after(Duration::from_secs(1)));
        submit(&w.store, late).await;
        w.clock.advance(Duration::from_secs(5));
        let (answer, ()) = w.offer(claim(9), submit(&w.store, job(2))).await;
        assert_eq!(
            (taken(&answer), w.states(&[1, 2]).await),
            (vec![2], vec![State::Pending, State::Running])
        );
    });
}

#[test]
fn a_repeated_submit_takes_nothing() {
    // L10
    InSchema::block_on(async {
        let w = World::new().await;
        submit(&w.store, job(1)).await;
        let held = w.store.claim(claim(9)).await.expect("claimed").jobs;
        assert_eq!(held.len(), 1);
        let (answer, ()) = w.offer(claim(9), submit(&w.store, job(1))).await;
        assert_eq!((taken(&answer), w.states(&[1]).await), (vec![], vec![State::Running]));
    });
}

#[test]
fn while_somebody_listens_to_events_claims_keep_their_place_in_line() {
    // F12: events are told in the order of the commits, which one statement alone cannot promise.
    InSchema::block_on(async {
        let w = World::new().await;
        w.ear.wants_events.store(true, Ordering::SeqCst);
        let (answer, ()) = w.offer(claim(9), submit(&w.store, job(1))).await;
        assert_eq!((taken(&answer), w.states(&[1]).await), (vec![], vec![State::Pending]));
    });
}
