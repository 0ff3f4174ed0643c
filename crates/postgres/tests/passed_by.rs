//! A due job is found in its rank's turn, whenever and through whichever process it became due or visible (L2): each of
//! these shapes lies behind the cursors of a process that has already taken later jobs.

mod place;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Aging, NewJob, Operation, Priority, Spec, Start};
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_postgres::tokio_postgres::{self, Client, NoTls};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{Claim, ClaimQueue, InspectStore, KnownKind, NewWorker, Submit, WorkStore};
use backstop_testbed::shared;
use place::InSchema;

/// Two processes on one schema, a connection of an application, and a backlog.
struct World {
    place: InSchema,
    one: PostgresStore,
    other: PostgresStore,
    next: u128,
}

fn kinds() -> Arc<[KnownKind]> {
    Arc::new([KnownKind { kind: "work".into(), version: 1 }])
}

async fn open(place: &InSchema, worker: u128) -> PostgresStore {
    let store = PostgresStore::open(&place.url(), Options::default()).await.expect("it opens");
    let enlisted = NewWorker {
        id: WorkerId::from_u128(worker),
        name: format!("w{worker}"),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds(),
        lease: Duration::from_secs(3_600),
    };
    store.enlist(enlisted).await.expect("enlisted");
    store
}

impl World {
    async fn new() -> Self {
        let place = InSchema::fresh();
        let one = open(&place, 1).await;
        let other = open(&place, 2).await;
        let mut world = Self { place, one, other, next: 1 << 80 };
        world.backlog(40).await;
        world
    }

    async fn application(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(shared::postgres(), NoTls).await.expect("the server is there");
        tokio::spawn(connection);
        client
    }

    fn job(&mut self) -> NewJob {
        self.next += 1;
        NewJob::new(Spec::new(JobId::from_u128(self.next), "work", "{}"))
    }

    async fn backlog(&mut self, jobs: usize) -> Vec<JobId> {
        let jobs: Vec<NewJob> = (0..jobs).map(|_| self.job()).collect();
        let ids = jobs.iter().map(|job| job.spec.id).collect();
        self.one.submit(Submit { jobs, atomic: true }).await.expect("stored");
        ids
    }

    /// What one process claims next.
    async fn claim(&self, limit: usize) -> Vec<JobId> {
        claim(&self.one, 1, limit).await
    }
}

async fn claim(store: &PostgresStore, worker: u128, limit: usize) -> Vec<JobId> {
    let queue = ClaimQueue { queue: "default".into(), limit, start: limit, any_kind: false };
    let worker = WorkerId::from_u128(worker);
    let claim = Claim {
        worker,
        queues: vec![queue],
        kinds: kinds(),
        aging: Aging::default(),
        limits: Default::default(),
    };
    let claimed = store.claim(claim).await.expect("claimed");
    claimed.jobs.iter().map(|claimed| claimed.job.spec.id).collect()
}

#[test]
fn a_job_whose_transaction_stayed_open() {
    // L2
    InSchema::block_on(async {
        let mut world = World::new().await;
        let application = world.application().await;
        application.batch_execute("BEGIN").await.expect("begun");
        let enqueue = format!("SELECT {}.enqueue('work')::text", world.place.name());
        let late = application.query_one(&enqueue, &[]).await.expect("stored");
        let late: JobId = late.get::<_, &str>(0).parse().expect("an id");
        world.backlog(40).await;
        // The cursor is far behind what the open transaction has stored: half of what came after it is taken.
        assert_eq!(world.claim(60).await.len(), 60);
        application.batch_execute("COMMIT").await.expect("committed");
        assert_eq!(world.claim(1).await, [late], "it has waited longer than all others");
        assert_eq!(world.claim(100).await.len(), 20);
    });
}

#[test]
fn a_job_that_is_due_in_the_past() {
    // L2
    InSchema::block_on(async {
        let mut world = World::new().await;
        assert_eq!(world.claim(10).await.len(), 10);
        for priority in [Priority::Normal, Priority::Critical] {
            let mut early = world.job();
            early.spec.priority = priority;
            early.start = Start::At(Timestamp::from_micros(1));
            let id = early.spec.id;
            world.other.submit(Submit { jobs: vec![early], atomic: true }).await.expect("stored");
            assert_eq!(world.claim(1).await, [id], "{priority:?}");
            assert_eq!(world.claim(1).await.len(), 1);
        }
    });
}

#[test]
fn a_job_that_was_paused_and_resumed() {
    // L2, L8
    InSchema::block_on(async {
        let mut world = World::new().await;
        let first = world.claim(5).await;
        let waiting = world.backlog(1).await;
        // The next in turn; its place is behind the cursor once it is back.
        let next = JobId::from_u128(first.last().expect("five").as_uuid().as_u128() + 1);
        let operate = |operation| world.other.operate(vec![next], operation);
        operate(Operation::Pause).await.expect("answered")[0].as_ref().expect("pending");
        assert_eq!(world.claim(20).await.len(), 20);
        operate(Operation::Resume).await.expect("answered")[0].as_ref().expect("paused");
        assert_eq!(world.claim(1).await, [next]);
        assert_eq!(world.claim(100).await.last(), waiting.last());
    });
}

#[test]
fn a_job_that_somebody_had_locked() {
    // L2, L4
    InSchema::block_on(async {
        let world = World::new().await;
        let application = world.application().await;
        let schema = world.place.name();
        let lock = format!("BEGIN; SELECT FROM {schema}.ready ORDER BY run_at, id LIMIT 1 FOR UPDATE");
        application.batch_execute(&lock).await.expect("locked");
        let (first, second) = (world.claim(10).await, world.claim(10).await);
        application.batch_execute("ROLLBACK").await.expect("let go");
        let next = world.claim(1).await;
        assert!(first.iter().chain(&second).all(|id| *id > next[0]), "{next:?} is the oldest");
    });
}

#[test]
fn a_new_process_passes_nothing_by() {
    // L2: it begins with the cursors that another has kept.
    InSchema::block_on(async {
        let mut world = World::new().await;
        let application = world.application().await;
        let schema = world.place.name().to_owned();
        application.batch_execute("BEGIN").await.expect("begun");
        let enqueue = format!("SELECT {schema}.enqueue('work')::text");
        let late = application.query_one(&enqueue, &[]).await.expect("stored");
        let late: JobId = late.get::<_, &str>(0).parse().expect("an id");
        world.backlog(10).await;
        assert_eq!(world.claim(45).await.len(), 45);
        world.one.retire(WorkerId::from_u128(1)).await.expect("gone");
        let kept = world.application().await.query(&format!("SELECT FROM {schema}.cursor"), &[]).await;
        assert_eq!(kept.expect("an answer").len(), 1);
        let new = open(&world.place, 3).await;
        application.batch_execute("COMMIT").await.expect("committed");
        assert_eq!(claim(&new, 3, 1).await, [late]);
    });
}

#[test]
fn what_was_taken_is_not_walked_over() {
    // L2: while an old snapshot keeps everything that was taken, a look from the cursors reads a few pages.
    InSchema::block_on(async {
        let mut world = World::new().await;
        let (old, application) = (world.application().await, world.application().await);
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("a snapshot");
        for _ in 0..20 {
            world.backlog(500).await;
            assert_eq!(world.claim(500).await.len(), 500);
        }
        world.one.retire(WorkerId::from_u128(1)).await.expect("its cursors are kept");
        let schema = world.place.name();
        let cursors = format!(
            "(SELECT jsonb_build_object('server', server, 'seen', seen, 'last', run_at, 'lanes',
                jsonb_build_object(lane::text, jsonb_build_array(run_at, id))) FROM {schema}.cursor)"
        );
        let mut pages = Vec::new();
        for cursors in [&*cursors, "NULL"] {
            let look = format!(
                "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT * FROM {schema}.peek(NULL,
                 ARRAY['default'], ARRAY[true], ARRAY['work'], ARRAY[1]::bigint[], {cursors})"
            );
            // The second time the function is planned and the catalog is read.
            application.query_one(&look, &[]).await.expect("a plan");
            let plan: serde_json::Value =
                serde_json::from_str(&text(&application, &look).await).expect("JSON");
            let buffers = |name: &str| plan[0]["Plan"][name].as_u64().unwrap_or_default();
            pages.push(buffers("Shared Hit Blocks") + buffers("Shared Read Blocks"));
        }
        assert!(
            pages[0] < 20 && pages[1] > 100,
            "from the cursors {}, from the start {}",
            pages[0],
            pages[1]
        );
    });
}

async fn text(client: &Client, sql: &str) -> String {
    use backstop_postgres::tokio_postgres::SimpleQueryMessage::Row;
    let rows = client.simple_query(sql).await.expect("an answer");
    let rows = rows.iter().filter_map(|row| if let Row(row) = row { row.get(0) } else { None });
    rows.collect()
}
