//! What claims and an idle worker cost the server, in statements as it counts them itself, each with a ceiling.
//!
//! Counted, not timed, so it says the same on every machine. A change that needs more moves a ceiling, and its commit
//! says why. The server counts all that happens on it, so each test has one of its own.

mod place;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{NewJob, Spec, Start};
use backstop_core::{JobId, WorkerId};
use backstop_mysql::{MysqlStore, Options};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Claim, ClaimQueue, DocumentRange, Drawer, Duty, InspectStore, KnownKind, NewWorker, Submit, WorkStore,
};
use backstop_testbed::{DatabaseSettings, Folder, Mariadb};
use place::InDatabase;

/// Queues of a worker that serves many.
const MANY: usize = 200;
/// Those of them that have work.
const FILLED: usize = 5;
const LEASE: Duration = Duration::from_secs(3_600);

struct Bench {
    server: Mariadb,
    store: MysqlStore,
    worker: WorkerId,
    kinds: Arc<[KnownKind]>,
}

impl Bench {
    async fn new(folder: &Folder) -> Self {
        let server =
            Mariadb::start(DatabaseSettings::new(folder.join("server"))).expect("a server of its own");
        let store = MysqlStore::open(&server.url(), Options::default()).await.expect("opened");
        let kinds: Arc<[KnownKind]> = Arc::new([KnownKind { kind: "work".into(), version: 1 }]);
        let worker = WorkerId::from_u128(1);
        let enlisted = NewWorker {
            id: worker,
            name: "w".into(),
            code_version: None,
            queues: (0..MANY).map(queue).collect(),
            kinds: kinds.clone(),
            lease: LEASE,
        };
        store.enlist(enlisted).await.expect("enlisted");
        let bench = Self { server, store, worker, kinds };
        bench.open_connections().await;
        bench
    }

    /// Opens more connections than the tests need. The driver takes one back in a task of its own: where that comes
    /// late, the next call would open another, and its first statements would count as the call's.
    async fn open_connections(&self) {
        let look = async || self.store.peek(&self.wanted(1)).await.expect("a look");
        tokio::join!(look(), look(), look(), look());
    }

    /// Statements that the server has seen, with those that begin and end transactions.
    fn questions(&self) -> u64 {
        let said = self.server.sql("show global status like 'Questions'").expect("an answer");
        said.split_whitespace().next_back().and_then(|word| word.parse().ok()).expect("a number")
    }

    /// The statements that something sends.
    async fn cost<T>(&self, what: impl AsyncFnOnce(&Self) -> T) -> (T, u64) {
        // Two looks in a row tell what a look costs.
        let (first, second) = (self.questions(), self.questions());
        let answer = what(self).await;
        (answer, self.questions() - second - (second - first))
    }

    async fn submit(&self, job: u128, queue: Arc<str>, start: Start) {
        let mut spec = Spec::new(JobId::from_u128(job), "work", "{}");
        spec.queue = queue;
        let mut job = NewJob::new(spec);
        job.start = start;
        let answers = self.store.submit(Submit { jobs: vec![job], atomic: true }).await.expect("stored");
        assert!(answers.iter().all(Result::is_ok));
    }

    fn wanted(&self, queues: usize) -> Claim {
        let room = |number| ClaimQueue { queue: queue(number), limit: 10, start: 10, any_kind: false };
        let (worker, kinds, queues) = (self.worker, self.kinds.clone(), (0..queues).map(room).collect());
        Claim { worker, queues, kinds, aging: Default::default(), limits: Default::default() }
    }
}

fn queue(number: usize) -> Arc<str> {
    format!("queue-{number:03}").into()
}

#[test]
fn a_claim_does_not_ask_each_of_many_queues() {
    let folder = Folder::new("claims").expect("a folder");
    InDatabase::block_on(async {
        let bench = Bench::new(&folder).await;
        for number in 0..MANY {
            let start = if number < FILLED { Start::Now } else { Start::After(LEASE) };
            bench.submit(1 + u128::try_from(number).expect("small"), queue(number), start).await;
        }
        let claim = async |bench: &Bench| bench.store.claim(bench.wanted(MANY)).await.expect("claimed").jobs;
        let (taken, cost) = bench.cost(claim).await;
        let ids: Vec<u128> = taken.iter().map(|claimed| claimed.job.spec.id.as_uuid().as_u128()).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5], "by queue");
        // A look at all lanes, one statement for each that has work, and what a claim of any size needs.
        let ceiling = 1 + u64::try_from(FILLED).expect("small") + 9;
        assert!(cost <= ceiling, "{cost} statements for a claim over {MANY} queues, {FILLED} of them filled");
        let (taken, cost) = bench.cost(claim).await;
        assert!(taken.is_empty());
        assert_eq!(cost, 1, "a claim that finds nothing is one look");
        let peek = async |bench: &Bench| bench.store.peek(&bench.wanted(MANY)).await.expect("a look");
        let (seen, cost) = bench.cost(peek).await;
        assert!(seen.next_due.is_some_and(|due| due > seen.now) && cost == 1, "{seen:?}: {cost} statements");
    });
}

/// What a process with a worker does again and again while there is no work, with how often in a minute by default: it
/// leads every duty.
#[test]
fn an_idle_worker_is_quiet() {
    const DUTIES: [Duty; 4] = [Duty::Rescue, Duty::Expire, Duty::Redrive, Duty::Count];
    let folder = Folder::new("idle").expect("a folder");
    InDatabase::block_on(async {
        let bench = Bench::new(&folder).await;
        // A lane that is empty now, as most are; and counts that are up to date.
        bench.submit(1, queue(0), Start::Now).await;
        assert_eq!(bench.store.claim(bench.wanted(1)).await.expect("claimed").jobs.len(), 1);
        let lead = async || bench.store.lead(bench.worker, DUTIES.to_vec(), LEASE).await.expect("leads");
        lead().await[1].expect("nobody else leads");
        bench.store.fold(500).await.expect("folded");
        let peek = async |bench: &Bench| bench.store.peek(&bench.wanted(1)).await.expect("a look");
        let (_, look) = bench.cost(peek).await;
        let shelf = DocumentRange::first(Drawer::Plans, 1_000);
        let read = async |bench: &Bench| bench.store.documents(shelf).await.expect("read");
        let (_, plans) = bench.cost(read).await;
        let rescue = async |bench: &Bench| bench.store.orphans(500).await.expect("read");
        let (_, orphans) = bench.cost(rescue).await;
        let (_, lead_on) = bench.cost(async |_: &Bench| lead().await).await;
        let ((), round) = bench
            .cost(async |bench: &Bench| {
                assert_eq!(bench.store.overdue(None, 500).await.expect("told"), []);
                assert_eq!(bench.store.fold(500).await.expect("folded"), 0);
                bench.store.renew(bench.worker, LEASE, Vec::new()).await.expect("lives on");
            })
            .await;
        // By default: a look for work a second, plans every three, orphans every one and a half, terms every five, the
        // rest every ten. A renewal of terms is two statements here.
        let a_minute = 60 * look + 20 * plans + 40 * orphans + 12 * lead_on + 6 * round;
        assert!(a_minute <= 170, "{look} {plans} {orphans} {lead_on} {round}: {a_minute} a minute");
    });
}

/// What commits leave beside the counts of lanes is added as fast as it came, however much it is.
#[test]
fn what_piles_up_beside_the_counts_is_added_in_bounded_batches() {
    const PILE: usize = 50_000;
    let folder = Folder::new("pile").expect("a folder");
    InDatabase::block_on(async {
        let bench = Bench::new(&folder).await;
        bench.submit(1, queue(0), Start::Now).await;
        let shown = async || {
            let queues = bench.store.queues().await.expect("read");
            queues.into_iter().find(|view| view.name == *queue(0)).expect("it has a job").pending
        };
        let before = shown().await;
        let rows = || -> usize {
            let count = bench.server.sql("select count(*) from backstop_tally").expect("an answer");
            count.split_whitespace().next_back().and_then(|word| word.parse().ok()).expect("a number")
        };
        let more = format!(
            "insert into backstop_tally (lane, pending, running, succeeded, failed, paused, canceled, waiting) \
             select l.id, 1, 0, 0, 0, 0, 0, 0 from backstop_lane l, seq_1_to_{PILE}"
        );
        bench.server.sql(&more).expect("written");
        let pile = rows();
        assert!(pile >= PILE, "{pile}");
        let mut folds = Vec::new();
        while folds.last().is_none_or(|folded| *folded == 20_000) {
            folds.push(bench.store.fold(20_000).await.expect("folded"));
        }
        assert_eq!((folds.len(), folds.iter().sum::<usize>(), rows()), (3, pile, 0));
        assert_eq!(shown().await, before + u64::try_from(PILE).expect("small"), "nothing of it is lost");
    });
}
