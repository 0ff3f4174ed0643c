//! A store in a schema of its own, a table of the application beside it, and what tests want to know of both.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::failure::{Cause, Decision, TerminalReason, Verdict};
use backstop_core::job::{
    Aging, Callback, Ending, FailureRecord, JobDetail, NewJob, Policy, Priority, Spec, Start, State,
};
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_postgres::{Options, PostgresStore, Schema};
use backstop_store::conformance::StorePlace;
use backstop_store::{Claim, ClaimQueue, ClaimedJob, Finish, InspectStore, KnownKind, NewWorker, WorkStore};
use tokio::sync::Notify;

use crate::drivers::Step;
use crate::place::InSchema;

/// Something to wait for before a transaction ends.
pub(crate) type Meanwhile<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Nothing to wait for.
pub(crate) fn nothing() -> Meanwhile<'static> {
    Box::pin(std::future::ready(()))
}

/// Runs a test on the runtime that all connections of this process live on.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    InSchema::block_on(future)
}

/// A store and a table of the application's own.
pub(crate) struct World {
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) schema: Schema,
    /// Told when a transaction has taken its steps and has not ended yet.
    pub(crate) begun: Arc<Notify>,
    client: tokio_postgres::Client,
    /// Drops the schema at the end.
    _place: InSchema,
}

impl World {
    pub(crate) async fn new() -> Self {
        let place = InSchema::fresh();
        let store = PostgresStore::open(&place.url(), Options::default()).await.expect("a server");
        let schema = Schema::named(place.name()).expect("a plain name");
        let client = connect(backstop_testbed::shared::postgres()).await;
        let world = Self { store: Arc::new(store), schema, begun: Arc::default(), client, _place: place };
        world.batch("CREATE TABLE backstop.account (name text)").await;
        world
    }

    /// The address of the server, without settings of ours.
    pub(crate) fn url(&self) -> String {
        backstop_testbed::shared::postgres().to_owned()
    }

    /// Another connection to the same server.
    pub(crate) async fn connect(&self) -> tokio_postgres::Client {
        connect(&self.url()).await
    }

    /// Runs statements on the tables of this world's schema.
    pub(crate) async fn batch(&self, sql: &str) {
        self.client.batch_execute(&self.schema.text(sql)).await.expect("good SQL");
    }

    /// A row that the application writes itself.
    pub(crate) fn own_row(&self) -> Step {
        Step::Sql("INSERT INTO backstop.account VALUES ('ada')")
    }

    pub(crate) async fn own_rows(&self) -> i64 {
        let sql = self.schema.text("SELECT count(*) FROM backstop.account").into_owned();
        self.client.query_one(&sql, &[]).await.expect("counted").get(0)
    }

    /// Resolves when another session waits for a lock that one of this schema's transactions holds.
    pub(crate) async fn until_another_waits(&self) {
        self.begun.notify_one();
        let sql = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND position($1 IN query) > 0)";
        let needle = format!("{}.", self.schema.name());
        while !self.client.query_one(sql, &[&needle]).await.expect("asked").get::<_, bool>(0) {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn detail(&self, number: u128) -> Option<JobDetail> {
        self.store.jobs(vec![JobId::from_u128(number)]).await.expect("read").remove(0)
    }

    pub(crate) async fn state(&self, number: u128) -> Option<State> {
        self.detail(number).await.map(|detail| detail.view.record.state)
    }

    pub(crate) async fn pending(&self) -> u64 {
        self.store.queues().await.expect("read").iter().map(|queue| queue.pending).sum()
    }

    pub(crate) async fn claim_one(&self) -> ClaimedJob {
        let worker = WorkerId::from_u128(7);
        let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
        let known = NewWorker {
            id: worker,
            name: "w".into(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: kinds.clone(),
            lease: Duration::from_secs(600),
        };
        self.store.enlist(known).await.expect("enlisted");
        let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
        let claim =
            Claim { worker, queues: vec![room], kinds, aging: Aging::default(), limits: Default::default() };
        self.store.claim(claim).await.expect("claimed").jobs.remove(0)
    }
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    client
}

pub(crate) fn job(number: u128) -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"))
}

/// A job that holds a business key.
pub(crate) fn keyed(number: u128, key: &str) -> NewJob {
    let mut new = job(number);
    new.spec.business_key = Some(key.to_owned());
    new
}

/// A job in a line.
pub(crate) fn ordered(number: u128, ordering_key: &str) -> NewJob {
    let mut new = job(number);
    new.spec.ordering_key = Some(ordering_key.into());
    new
}

/// A job with something in every field.
pub(crate) fn full_job(number: u128) -> NewJob {
    let mut new = job(number);
    let spec = &mut new.spec;
    spec.payload = "{\"text\":\"naïve ✓ \\u0000\"}".into();
    spec.version = 3;
    spec.queue = "mail".into();
    spec.priority = Priority::High;
    spec.policy = Policy::default().retries(9);
    spec.expires_at = Some(Timestamp::from_micros(4_000_000_000_000_000));
    spec.idempotency_key = Some("once".into());
    spec.business_key = Some("ada".into());
    spec.ordering_key = Some("accounts".into());
    spec.correlation_id = Some("trace-1".into());
    spec.tags = vec!["red".into(), "blue".into()];
    spec.params = Some("{\"a\":1}".into());
    spec.on_success =
        Some(Callback { kind: "next".into(), version: 1, queue: "q".into(), payload: "{}".into() });
    spec.callback_of = Some(JobId::from_u128(77));
    new.start = Start::After(Duration::from_secs(60));
    new
}

/// The end of a run that went well.
pub(crate) fn success(claimed: &ClaimedJob) -> Finish {
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    Finish { lease: claimed.lease, ending }
}

/// The end of a run that killed its job.
pub(crate) fn death(claimed: &ClaimedJob) -> Finish {
    let (error_type, message) = ("Broken".to_owned(), "it broke".to_owned());
    let reason = TerminalReason::NonRetryable;
    let decision = Decision::plain(Verdict::Dead { reason });
    let mut ending = Ending::plain(claimed.job.spec.header(), Cause::Permanent, decision);
    let fingerprint = fingerprint("work", &error_type, &message);
    ending.failure = Some(FailureRecord { error_type, message, fingerprint });
    Finish { lease: claimed.lease, ending }
}
