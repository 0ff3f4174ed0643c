//! Transactions that an application leaves open: only what needs the same thing waits for them, and not for long.
//!
//! Nothing here is timed. What must not wait is given a bound that is far above what it takes and far below how long
//! the lock is held.

mod place;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, OnConflict, Operation, Progress, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_postgres::{Options, PostgresStore, Schema};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Duty, Error, Finding, Finish, InspectStore, KnownKind, NewWorker, Note,
    Observer, PageRequest, Store, Submit, Submitted, WorkStore,
};
use backstop_testbed::shared;
use place::InSchema;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// Longer than anything that does not wait takes, shorter than the locks are held and waited for.
const AT_ONCE: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);
const WORKER: WorkerId = WorkerId::from_u128(7);
const LEASE: Duration = Duration::from_secs(600);

/// A store, and an application beside it.
struct World {
    store: Arc<PostgresStore>,
    application: Client,
    watcher: Client,
    schema: Schema,
    place: InSchema,
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

async fn connect() -> Client {
    let (client, connection) =
        tokio_postgres::connect(shared::postgres(), tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

async fn open(place: &InSchema, options: Options) -> Arc<PostgresStore> {
    let url = format!("{}&application_name={}", place.url(), place.name());
    Arc::new(PostgresStore::open(&url, options).await.expect("opened"))
}

fn patient() -> Options {
    let mut options = Options::default();
    options.lock_wait = LONG;
    options
}

/// The same with so many connections that all calls share.
fn patient_with(connections: usize) -> Options {
    let mut options = patient();
    options.connections = connections;
    options
}

impl World {
    async fn new(options: Options) -> Self {
        let place = InSchema::fresh();
        let store = open(&place, options).await;
        let schema = Schema::named(place.name()).expect("a plain name");
        let world = Self { store, application: connect().await, watcher: connect().await, schema, place };
        world.enlist().await;
        world
    }

    async fn enlist(&self) {
        let worker = NewWorker {
            id: WORKER,
            name: "w".into(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: kinds(),
            lease: LEASE,
        };
        self.store.enlist(worker).await.expect("enlisted");
    }

    /// The application does something, in a transaction that it leaves open.
    async fn leave_open(&self, sql: &str) {
        self.application.batch_execute("BEGIN").await.expect("begun");
        self.application.batch_execute(&self.schema.text(sql)).await.expect("good SQL");
    }

    async fn commit(&self) {
        self.application.batch_execute("COMMIT").await.expect("committed");
    }

    /// How many statements of the store wait for a lock in the server.
    async fn waiting(&self) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0";
        let needle = format!("{}.", self.place.name());
        self.watcher.query_one(sql, &[&needle]).await.expect("asked").get(0)
    }

    async fn until_waiting(&self, wanted: impl Fn(i64) -> bool) {
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
        InSchema::block_on(async {
            let world = World::new(patient()).await;
            let ear = Arc::new(Ear::default());
            if listens {
                world.store.observe(ear.clone());
            }
            submit(&*world.store, job(1)).await.expect("stored");
            world.leave_open("SELECT backstop.enqueue('work', idempotency_key => 'held')").await;
            let blocked = world.submit(keyed(2, "held"));
            world.until_waiting(|waiting| waiting > 0).await;
            goes_on(&world, 100).await;
            assert!(!blocked.is_finished());
            at_once("a word of doctor's", async {
                let is_named =
                    |finding: &Finding| finding.subject == "locks" && finding.message.contains(" blocks ");
                while !world.store.check().await.expect("looked").iter().any(is_named) {}
            })
            .await;
            world.commit().await;
            let answer = at_once("what was held", blocked).await.expect("no panic").expect("answered");
            assert!(answer.deduplicated, "the application's job has the key");
            let told = ear.0.lock().expect("no panic").len();
            assert_eq!(told > 0, listens, "{told} events");
        });
    }
}

#[test]
fn what_was_waited_for_does_not_seem_to_come_after() {
    // L8, L11: the moments of a cancel and of a submit are those at which they had what they waited for.
    InSchema::block_on(async {
        let world = World::new(patient_with(7)).await;
        let with_key = |number: u128| {
            let mut new = job(number);
            new.spec.business_key = Some("the only one".to_owned());
            new.on_conflict = OnConflict::Replace;
            new
        };
        submit(&*world.store, with_key(1)).await.expect("stored");
        submit(&*world.store, job(2)).await.expect("stored");
        world.leave_open("SELECT 1 FROM backstop.ready FOR UPDATE").await;
        let replaced = world.submit(with_key(3));
        let store = world.store.clone();
        let canceled = tokio::spawn(async move {
            store.operate(vec![JobId::from_u128(2)], Operation::Cancel { reason: "late".into() }).await
        });
        world.until_waiting(|waiting| waiting >= 2).await;
        let before = world.store.now().await.expect("asked");
        world.commit().await;
        at_once("a submit", replaced).await.expect("no panic").expect("stored");
        at_once("a cancel", canceled).await.expect("no panic").expect("answered")[0].as_ref().expect("done");
        let ids = (1..=3).map(JobId::from_u128).collect();
        for detail in world.store.jobs(ids).await.expect("read") {
            let view = detail.expect("stored").view;
            let moment = view.record.finished_at.unwrap_or(view.job.created_at);
            assert!(moment > before, "job {}: {moment}, and was waited for until {before}", view.job.spec.id);
        }
    });
}

#[test]
fn twenty_calls_that_wait_leave_connections_for_the_others() {
    InSchema::block_on(async {
        let world = World::new(patient()).await;
        submit(&*world.store, job(1)).await.expect("stored");
        world.leave_open("SELECT backstop.enqueue('work', idempotency_key => 'held')").await;
        let blocked: Vec<_> = (0..20).map(|number| world.submit(keyed(1_000 + number, "held"))).collect();
        world.until_waiting(|waiting| waiting > 0).await;
        goes_on(&world, 100).await;
        goes_on(&world, 200).await;
        world.commit().await;
        for one in blocked {
            assert!(at_once("what was held", one).await.expect("no panic").expect("answered").deduplicated);
        }
    });
}

#[test]
fn single_submits_are_not_held_up_by_one_they_share_a_transaction_with() {
    InSchema::block_on(async {
        let world = World::new(patient()).await;
        world.leave_open("SELECT backstop.enqueue('work', idempotency_key => 'held')").await;
        for round in 0..5 {
            let blocked = world.submit(keyed(2 + round, "held"));
            let others: Vec<_> =
                (0..20).map(|number| world.submit(job(100 + 100 * round + number))).collect();
            for other in others {
                at_once("a submit", other).await.expect("no panic").expect("stored");
            }
            assert!(!blocked.is_finished());
        }
        world.commit().await;
    });
}

#[test]
fn a_lock_that_lasts_refuses_that_one_call_and_says_why() {
    InSchema::block_on(async {
        let mut options = Options::default();
        options.lock_wait = Duration::from_millis(300);
        let world = World::new(options).await;
        world.leave_open("SELECT backstop.enqueue('work', idempotency_key => 'held')").await;
        let error = at_once("a refusal", submit(&*world.store, keyed(2, "held"))).await.expect_err("held");
        assert_eq!(error.code(), "busy");
        assert!(error.is_transient() && error.to_string().contains("the same idempotency key"), "{error}");
        // A whole batch is refused alike, and nothing of it is stored.
        let batch = Submit { jobs: vec![job(3), keyed(4, "held")], atomic: false };
        let error = at_once("a refusal", world.store.submit(batch)).await.expect_err("held");
        assert_eq!(error.code(), "busy", "{error}");
        assert!(world.store.jobs(vec![JobId::from_u128(3)]).await.expect("read")[0].is_none());
        world.commit().await;
        assert!(submit(&*world.store, keyed(2, "held")).await.expect("answered").deduplicated);
    });
}

#[test]
fn a_new_lane_of_an_open_transaction_is_waited_for_by_nobody() {
    // L14
    InSchema::block_on(async {
        let world = World::new(patient()).await;
        world.leave_open("SELECT backstop.enqueue('work', priority => 4, tags => '{red}')").await;
        for _ in 0..2 {
            world
                .application
                .batch_execute(&world.schema.text("SELECT backstop.enqueue('work', priority => 4)"))
                .await
                .expect("stored");
        }
        let mut same = job(1);
        same.spec.priority = backstop_core::job::Priority::Critical;
        at_once("a submit into the same lane", submit(&*world.store, same)).await.expect("stored");
        let other = connect().await;
        let sql = world.schema.text("SELECT backstop.enqueue('work', priority => 4)").into_owned();
        at_once("the function elsewhere", other.batch_execute(&sql)).await.expect("stored");
        assert_eq!(world.claim().await.len(), 1);
        world.commit().await;
        let queues = world.store.queues().await.expect("read");
        assert_eq!((queues[0].pending, queues[0].running), (4, 1), "five jobs in one lane");
        for _ in 0..4 {
            assert_eq!(world.claim().await.len(), 1);
        }
        let lanes = world.schema.text("SELECT count(*) FROM backstop.lane").into_owned();
        assert_eq!(world.watcher.query_one(&lanes, &[]).await.expect("counted").get::<_, i64>(0), 1);
        let left = world.schema.text("SELECT count(*) FROM backstop.laneless").into_owned();
        assert_eq!(world.watcher.query_one(&left, &[]).await.expect("counted").get::<_, i64>(0), 0);
    });
}

#[test]
fn a_lane_is_prepared_outside_of_the_callers_transaction() {
    // L14
    InSchema::block_on(async {
        let world = World::new(patient()).await;
        let mut client = connect().await;
        let tx = client.transaction().await.expect("begun");
        world.store.prepare(&[job(1)]).await.expect("prepared");
        let mut session = backstop_postgres::InTransaction::new(&tx, world.schema.clone());
        backstop_postgres::submit_in(&mut session, &[job(1)]).await.expect("stored")[0]
            .as_ref()
            .expect("not refused");
        at_once("a submit into the same lane", submit(&*world.store, job(2))).await.expect("stored");
        tx.commit().await.expect("committed");
        assert_eq!(world.store.queues().await.expect("read")[0].pending, 2);
    });
}

#[test]
fn a_call_that_gives_up_leaves_no_statement_behind() {
    InSchema::block_on(async {
        let mut options = patient();
        options.deadline = Duration::from_secs(2);
        let world = World::new(options).await;
        world.leave_open("SELECT backstop.enqueue('work', idempotency_key => 'held')").await;
        // Whose caller goes away.
        let blocked = world.submit(keyed(1, "held"));
        world.until_waiting(|waiting| waiting > 0).await;
        blocked.abort();
        let batch = Submit { jobs: vec![keyed(2, "held"), keyed(3, "held")], atomic: false };
        let mut dropped = Box::pin(world.store.submit(batch));
        let wait = world.until_waiting(|waiting| waiting > 0);
        tokio::select! {
            _ = &mut dropped => panic!("it is held"),
            () = wait => {}
        }
        drop(dropped);
        // Whose deadline passes.
        for number in 0..3 {
            let error = at_once("a deadline", submit(&*world.store, keyed(10 + number, "held"))).await;
            assert!(error.expect_err("held").is_transient());
            let sessions = connections(&world).await;
            assert!(sessions <= 4, "{sessions} connections");
        }
        world.until_waiting(|waiting| waiting == 0).await;
        world.commit().await;
    });
}

/// How many connections the store has.
async fn connections(world: &World) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    world.watcher.query_one(sql, &[&world.place.name()]).await.expect("asked").get(0)
}

#[test]
fn a_locked_table_with_twenty_readers_costs_no_worker_its_lease() {
    for (connections, questions) in [(3, 1), (7, 3)] {
        InSchema::block_on(a_locked_table_with_readers(patient_with(connections), questions));
    }
}

async fn a_locked_table_with_readers(options: Options, questions: i64) {
    let world = World::new(options).await;
    submit(&*world.store, job(1)).await.expect("stored");
    world.leave_open("LOCK TABLE backstop.archive IN ACCESS EXCLUSIVE MODE").await;
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
    world.commit().await;
    for reader in readers {
        at_once("a reader", reader).await.expect("no panic").expect("read");
    }
}

#[test]
fn connections_are_made_when_needed_and_closed_when_idle() {
    InSchema::block_on(async {
        let mut options = Options::default();
        options.keep_idle = Duration::ZERO;
        let world = World::new(options).await;
        let tasks: Vec<_> = (0..100)
            .map(|number| {
                let store = world.store.clone();
                tokio::spawn(async move {
                    submit(&*store, job(1 + number)).await.expect("stored");
                    store.queues().await.expect("read");
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert!(connections(&world).await <= 4, "no more than it may have");
        let closed = async {
            while connections(&world).await > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(AT_ONCE, closed).await.expect("idle connections are closed");
        submit(&*world.store, job(1_000)).await.expect("stored, over a new one");
    });
}

#[test]
fn a_runtime_that_is_dropped_takes_no_submits_of_others_with_it() {
    // The transactions that single submits share run on the runtime of one of them.
    let place = InSchema::fresh();
    let store = InSchema::block_on(open(&place, Options::default()));
    let doomed = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Each begins a transaction that never gets any further, as many as there may be.
    let mut begun: Vec<_> = (1..=3)
        .map(|number| {
            let store = store.clone();
            Box::pin(async move { submit(&*store, job(number)).await })
        })
        .collect();
    {
        let _inside = doomed.enter();
        for one in &mut begun {
            assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    InSchema::block_on(async {
        let mut other = Box::pin(submit(&*store, job(4)));
        assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop((begun, tokio::task::spawn_blocking(move || drop(doomed)).await));
        at_once("a submit on another runtime", other).await.expect("stored");
        assert!(store.jobs(vec![JobId::from_u128(4)]).await.expect("read")[0].is_some());
    });
}
