//! A store in a database of its own, a table of the application beside it, and what tests want to know of both.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{
    Aging, Callback, Ending, JobDetail, NewJob, Policy, Priority, Progress, Spec, Stale, Start, State,
};
use backstop_core::{JobId, Refusal, Timestamp, WorkerId};
use backstop_mysql::mysql_async::prelude::Queryable;
use backstop_mysql::mysql_async::{Conn, IsolationLevel, Opts, TxOpts};
use backstop_mysql::{InTransaction, MysqlStore, Options, Prefix, Query, Session, finish_in, submit_in};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Error, Finish, InspectStore, KnownKind, NewWorker, Note, Submitted,
    WorkStore,
};
use tokio::sync::Notify;

use crate::place::InDatabase;

/// Something to wait for while a transaction is open.
pub(crate) type Meanwhile<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What carries the caller's transaction, and how much it sees of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carrier {
    /// The driver's own transaction, or statements on a plain connection.
    pub(crate) plain: bool,
    pub(crate) isolation: IsolationLevel,
}

/// Something that a transaction does.
pub(crate) enum Step<'a> {
    /// Writes a row of the application.
    OwnRow,
    /// Reads one, which is when the state that the transaction sees is fixed.
    Look,
    Submit(Vec<NewJob>),
    Finish(Vec<Finish>),
    Wait(Meanwhile<'a>),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    Submitted(Result<Vec<Result<Submitted, Refusal>>, Error>),
    Finished(Result<Vec<Result<State, Stale>>, Error>),
}

/// A store and a table of the application's own.
pub(crate) struct World {
    pub(crate) store: Arc<MysqlStore>,
    /// Told when a transaction has taken its steps and has not ended yet.
    pub(crate) begun: Arc<Notify>,
    /// Drops the database at the end.
    place: InDatabase,
}

impl World {
    pub(crate) async fn new() -> Self {
        let place = InDatabase::fresh();
        let store = MysqlStore::open(&place.url(), Options::default()).await.expect("a server");
        let world = Self { store: Arc::new(store), begun: Arc::default(), place };
        world.sql("CREATE TABLE account (name VARCHAR(20)) ENGINE=InnoDB").await;
        world
    }

    pub(crate) async fn connect(&self) -> Conn {
        Conn::new(Opts::from_url(&self.place.url()).expect("a good URL")).await.expect("a server")
    }

    /// Where the database is, for other drivers.
    #[allow(dead_code, reason = "the tests over the store's own driver need no address")]
    pub(crate) fn address(&self) -> String {
        self.place.url()
    }

    pub(crate) async fn sql(&self, text: &str) {
        crate::place::sql(&self.place.url(), text).await;
    }

    /// Begins a transaction, takes the steps, and commits or rolls back.
    pub(crate) async fn transaction(
        &self,
        carrier: Carrier,
        commit: bool,
        steps: Vec<Step<'_>>,
    ) -> Vec<Outcome> {
        let mut conn = self.connect().await;
        if carrier.plain {
            let begin = format!("SET TRANSACTION ISOLATION LEVEL {}; START TRANSACTION", carrier.isolation);
            conn.query_drop(begin).await.expect("begun");
            let outcomes = take(&mut InTransaction::new(&mut conn, Prefix::default()), steps).await;
            conn.query_drop(if commit { "COMMIT" } else { "ROLLBACK" }).await.expect("ended");
            return outcomes;
        }
        let mut options = TxOpts::default();
        options.with_isolation_level(carrier.isolation);
        let mut tx = conn.start_transaction(options).await.expect("begun");
        let outcomes = take(&mut InTransaction::new(&mut tx, Prefix::default()), steps).await;
        if commit {
            tx.commit().await.expect("committed");
        } else {
            tx.rollback().await.expect("rolled back");
        }
        outcomes
    }

    pub(crate) async fn own_rows(&self) -> i64 {
        let found = self.connect().await.query_first("SELECT COUNT(*) FROM account").await;
        found.expect("counted").expect("a number")
    }

    /// Rows of jobs that have a past and have not succeeded.
    pub(crate) async fn records(&self) -> i64 {
        let found = self.connect().await.query_first("SELECT COUNT(*) FROM backstop_record").await;
        found.expect("counted").expect("a number")
    }

    /// Resolves when another transaction waits for a lock.
    pub(crate) async fn until_another_waits(&self) {
        self.begun.notify_one();
        let mut conn = self.connect().await;
        // A write of this database that has been under way for so long is one that waits. The server's own list of
        // locks would not do: it is not renewed while it is being asked for.
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() \
                   AND id <> CONNECTION_ID() AND state = 'Update' AND time_ms > 100";
        while conn.query_first::<i64, _>(sql).await.expect("asked").expect("a number") == 0 {
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

async fn take(session: &mut impl Session, steps: Vec<Step<'_>>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for step in steps {
        let mut run = async |sql: &'static str| {
            let query = Query { sql: sql.into(), params: Vec::new() };
            session.one(query).await.expect("the transaction is usable");
            Outcome::Done
        };
        outcomes.push(match step {
            Step::OwnRow => run("INSERT INTO account VALUES ('ada')").await,
            Step::Look => run("SELECT name FROM account").await,
            Step::Submit(jobs) => Outcome::Submitted(submit_in(session, &jobs).await),
            Step::Finish(endings) => Outcome::Finished(finish_in(session, &endings).await),
            Step::Wait(meanwhile) => {
                meanwhile.await;
                Outcome::Done
            }
        });
    }
    outcomes
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
    spec.payload = "{\"text\":\"it's a \\\\ and a ?; ä\\u0000\"}".into();
    spec.queue = "mail".into();
    spec.priority = Priority::High;
    spec.policy = Policy::default().retries(9);
    spec.expires_at = Some(Timestamp::from_micros(4_000_000_000_000_000));
    spec.idempotency_key = Some("order-17 ".into());
    spec.business_key = Some("customer-4".into());
    spec.correlation_id = Some("c".into());
    spec.tags = vec!["red".into(), "it's".into()];
    spec.params = Some("{}".into());
    let callback =
        |kind: &str| Callback { kind: kind.into(), version: 1, queue: "q".into(), payload: "{}".into() };
    spec.on_success = Some(callback("next"));
    spec.on_failure = Some(callback("mourn"));
    spec.callback_of = Some(JobId::from_u128(77));
    new.start = Start::After(Duration::from_secs(60));
    new
}

pub(crate) fn success(claimed: &ClaimedJob) -> Finish {
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    Finish { lease: claimed.lease, ending }
}

/// A word about a run that is under way.
pub(crate) fn note(claimed: &ClaimedJob) -> Note {
    Note::progress(claimed.lease, Progress { percent: 50, note: "half".into() })
}
