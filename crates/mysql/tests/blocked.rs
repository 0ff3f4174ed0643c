//! Transactions that an application leaves open: only what needs the same thing waits for them, and not for long.
//!
//! Nothing here is timed. What must not wait is given a bound that is far above what it takes and far below how long
//! the lock is held.

mod place;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, Progress, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_mysql::mysql_async::prelude::Queryable;
use backstop_mysql::mysql_async::{Conn, Opts};
use backstop_mysql::{InTransaction, MysqlStore, Options, Prefix, submit_in};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Duty, Error, Finish, InspectStore, KnownKind, NewWorker, Note, Observer,
    PageRequest, Store, Submit, Submitted, WorkStore,
};
use place::InDatabase;
use tokio::task::JoinHandle;

/// Longer than anything that does not wait takes, shorter than the locks are held and waited for.
const AT_ONCE: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);
const WORKER: WorkerId = WorkerId::from_u128(7);
const LEASE: Duration = Duration::from_secs(600);
const HELD: &str = "INSERT INTO backstop_idempotency (name, job) VALUES ('held', REPEAT('x', 16))";

/// A store, and an application beside it.
struct World {
    store: Arc<MysqlStore>,
    application: Conn,
    watcher: Conn,
    place: InDatabase,
}

/// Hears of everything.
#[derive(Default)]
struct Ear(Mutex<Vec<Event>>);

impl Observer for Ear {
    fn wants_events(&self) -> bool {
        true
    }

    fn committed(&self, events: Vec<Event>) {
        self.0.lock().expect("no panic").extend(events);
    }

    fn work_arrived(&self) {}
}

async fn connect(place: &InDatabase) -> Conn {
    Conn::new(Opts::from_url(&place.url()).expect("a good URL")).await.expect("a server")
}

fn patient() -> Options {
    let mut options = Options::default();
    options.lock_wait = LONG;
    options
}

impl World {
    async fn new(options: Options) -> Self {
        let place = InDatabase::fresh();
        let store = Arc::new(MysqlStore::open(&place.url(), options).await.expect("opened"));
        let worker = NewWorker {
            id: WORKER,
            name: "w".into(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: kinds(),
            lease: LEASE,
        };
        store.enlist(worker).await.expect("enlisted");
        let (application, watcher) = (connect(&place).await, connect(&place).await);
        Self { store, application, watcher, place }
    }

    /// The application does something, in a transaction that it leaves open.
    async fn leave_open(&mut self, sql: &str) {
        self.application.query_drop("START TRANSACTION").await.expect("begun");
        self.application.query_drop(sql).await.expect("good SQL");
    }

    async fn roll_back(&mut self) {
        self.application.query_drop("ROLLBACK").await.expect("rolled back");
    }

    /// How many statements of the store take long in the server.
    async fn waiting(&mut self) -> u64 {
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}' AND command <> 'Sleep' \
             AND id <> CONNECTION_ID() AND time_ms > 100",
            self.place.name()
        );
        self.watcher.query_first(sql).await.expect("asked").expect("a row")
    }

    async fn until_waiting(&mut self, wanted: impl Fn(u64) -> bool) {
        let until = async {
            while !wanted(self.waiting().await) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(AT_ONCE, until).await.expect("the server says so in time");
    }

    fn submit(&self, job: NewJob) -> JoinHandle<Result<Submitted, Error>> {
        let store = self.store.clone();
        tokio::spawn(async move { submit(&*store, job).await })
    }

    async fn claim(&self) -> Vec<ClaimedJob> {
        let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
        let claim = Claim {
            worker: WORKER,
            queues: vec![room],
            kinds: kinds(),
            aging: Aging::default(),
            limits: Default::default(),
        };
        self.store.claim(claim).await.expect("claimed").jobs
    }
}

fn kinds() -> Arc<[KnownKind]> {
    [KnownKind { kind: "work".into(), version: 1 }].into()
}

async fn submit(store: &dyn Store, job: NewJob) -> Result<Submitted, Error> {
    let mut answers = store.submit(Submit { jobs: vec![job], atomic: false }).await?;
    Ok(answers.remove(0).expect("not refused"))
}

fn job(number: u128) -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"))
}

fn keyed(number: u128, key: &str) -> NewJob {
    let mut new = job(number);
    new.spec.idempotency_key = Some(key.to_owned());
    new
}

fn success(claimed: &ClaimedJob) -> Finish {
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    Finish { lease: claimed.lease, ending }
}

/// Runs what must not wait.
async fn at_once<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(AT_ONCE, future).await.unwrap_or_else(|_| panic!("{what} waits for somebody else"))
}

/// Everything that a process does, about other jobs than those that are held.
async fn goes_on(world: &World, from: u128) {
    let store = &world.store;
    at_once("a submit", submit(&**store, job(from))).await.expect("stored");
    at_once("a submit with a key", submit(&**store, keyed(from + 1, &format!("other {from}"))))
        .await
        .expect("stored");
    let mut elsewhere = job(from + 2);
    elsewhere.spec.queue = format!("new {from}").into();
    at_once("a new queue", submit(&**store, elsewhere)).await.expect("stored");
    let claimed = at_once("a claim", world.claim()).await.remove(0);
    let note = Note::progress(claimed.lease, Progress { percent: 50, note: "half".into() });
    at_once("progress", store.annotate(vec![note])).await.expect("kept")[0].as_ref().expect("not stale");
    at_once("a heartbeat", store.renew(WORKER, LEASE, vec![claimed.lease])).await.expect("renewed");
    let ended = at_once("a finish", store.finish(vec![success(&claimed)])).await.expect("ended");
    assert_eq!(ended, [Ok(State::Succeeded)]);
    at_once("a read", store.queues()).await.expect("read");
    at_once("a duty", store.lead(WORKER, vec![Duty::Rescue], LEASE)).await.expect("led");
}

#[test]
fn a_key_that_an_open_transaction_holds_holds_up_nobody_else() {
    // V1, L10
    for listens in [false, true] {
        InDatabase::block_on(async {
            let mut world = World::new(patient()).await;
            let ear = Arc::new(Ear::default());
            if listens {
                world.store.observe(ear.clone());
            }
            submit(&*world.store, job(1)).await.expect("stored");
            world.leave_open(HELD).await;
            let blocked = world.submit(keyed(2, "held"));
            world.until_waiting(|waiting| waiting > 0).await;
            goes_on(&world, 100).await;
            assert!(!blocked.is_finished());
            world.roll_back().await;
            let answer = at_once("what was held", blocked).await.expect("no panic").expect("answered");
            assert!(!answer.deduplicated, "the application has taken the key back");
            let told = ear.0.lock().expect("no panic").len();
            assert_eq!(told > 0, listens, "{told} events");
        });
    }
}

#[test]
fn twenty_calls_that_wait_leave_connections_for_the_others() {
    InDatabase::block_on(async {
        let mut world = World::new(patient()).await;
        submit(&*world.store, job(1)).await.expect("stored");
        world.leave_open(HELD).await;
        let blocked: Vec<_> = (0..20).map(|number| world.submit(keyed(1_000 + number, "held"))).collect();
        world.until_waiting(|waiting| waiting > 0).await;
        goes_on(&world, 100).await;
        goes_on(&world, 200).await;
        world.roll_back().await;
        let mut stored = 0;
        for one in blocked {
            let answer = at_once("what was held", one).await.expect("no panic").expect("answered");
            stored += usize::from(!answer.deduplicated);
        }
        assert_eq!(stored, 1, "the others have found its key");
    });
}

#[test]
fn a_lock_that_lasts_refuses_that_one_call_and_says_why() {
    InDatabase::block_on(async {
        let mut options = Options::default();
        options.lock_wait = Duration::from_secs(1);
        let mut world = World::new(options).await;
        world.leave_open(HELD).await;
        let error = at_once("a refusal", submit(&*world.store, keyed(2, "held"))).await.expect_err("held");
        assert_eq!(error.code(), "busy", "{error}");
        assert!(error.is_transient() && error.to_string().contains("another open transaction"), "{error}");
        world.roll_back().await;
        submit(&*world.store, keyed(2, "held")).await.expect("stored");
    });
}

#[test]
fn a_lane_is_prepared_outside_of_the_callers_transaction() {
    // L14
    InDatabase::block_on(async {
        let mut world = World::new(patient()).await;
        world.store.prepare(&[job(1)]).await.expect("prepared");
        world.application.query_drop("START TRANSACTION").await.expect("begun");
        let mut session = InTransaction::new(&mut world.application, Prefix::default());
        submit_in(&mut session, &[job(1)]).await.expect("stored")[0].as_ref().expect("not refused");
        at_once("a submit into the same lane", submit(&*world.store, job(2))).await.expect("stored");
        at_once("a duty", world.store.lead(WORKER, vec![Duty::Rescue], LEASE)).await.expect("led");
        world.application.query_drop("COMMIT").await.expect("committed");
        assert_eq!(world.store.queues().await.expect("read")[0].pending, 2);
    });
}

#[test]
fn a_call_that_gives_up_leaves_no_statement_behind() {
    InDatabase::block_on(async {
        let mut options = patient();
        options.deadline = Duration::from_secs(3);
        let mut world = World::new(options).await;
        world.leave_open(HELD).await;
        // Whose caller goes away.
        let blocked = world.submit(keyed(1, "held"));
        world.until_waiting(|waiting| waiting > 0).await;
        blocked.abort();
        // Whose deadline passes.
        for number in 0..3 {
            let error = at_once("a deadline", submit(&*world.store, keyed(10 + number, "held"))).await;
            assert!(error.expect_err("held").is_transient());
        }
        world.until_waiting(|waiting| waiting == 0).await;
        world.roll_back().await;
        submit(&*world.store, keyed(20, "held")).await.expect("stored: the locks are gone too");
    });
}

#[test]
fn a_locked_table_with_twenty_readers_costs_no_worker_its_lease() {
    for (connections, questions) in [(3, 1), (7, 3)] {
        let mut options = patient();
        options.connections = connections;
        InDatabase::block_on(a_locked_table_with_readers(options, questions));
    }
}

async fn a_locked_table_with_readers(options: Options, questions: u64) {
    let mut world = World::new(options).await;
    submit(&*world.store, job(1)).await.expect("stored");
    world.application.query_drop("LOCK TABLES backstop_archive WRITE").await.expect("locked");
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let store = world.store.clone();
            tokio::spawn(async move { store.archive_page(PageRequest::first(10)).await })
        })
        .collect();
    world.until_waiting(|waiting| waiting == questions).await;
    let claimed = at_once("a claim", world.claim()).await.remove(0);
    for _ in 0..3 {
        let renewed = at_once("a heartbeat", world.store.renew(WORKER, LEASE, vec![claimed.lease])).await;
        assert!(renewed.expect("renewed").lost.is_empty());
    }
    at_once("a duty", world.store.lead(WORKER, vec![Duty::Rescue], LEASE)).await.expect("led");
    at_once("a finish", world.store.finish(vec![success(&claimed)])).await.expect("ended");
    at_once("a submit", submit(&*world.store, job(2))).await.expect("stored");
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    world.application.query_drop("UNLOCK TABLES").await.expect("unlocked");
    for reader in readers {
        at_once("a reader", reader).await.expect("no panic").expect("read");
    }
}
