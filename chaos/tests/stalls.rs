//! Connections that stay open and say nothing: every call has an end, and polling goes on behind a dead listener.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::limits::RunLimit;
use backstop::postgres::{Options, PostgresStore};
use backstop::prelude::*;
use backstop::{Config, Timestamp};
use backstop_chaos::journal::Journal;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::work::CampaignJob;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Ending, Operation, Progress, Retention};
use backstop_core::{Fence, Lease, WorkerId};
use backstop_store::{
    Claim, ClaimQueue, Duty, Error, Finish, JobFilter, KnownKind, LineRange, NewWorker, Note, PageRequest,
    QueueRange, Submit,
};
use backstop_testbed::Proxy;
use tokio::task::JoinSet;

/// How often the worker behind a listener that hears nothing looks for work.
const POLL: Duration = Duration::from_millis(300);

/// Far behind every deadline of this test: what has not returned by then hangs.
const HANGS: Duration = Duration::from_secs(30);

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(2);

fn newcomer(id: WorkerId, kinds: Arc<[KnownKind]>) -> NewWorker {
    let queues = vec!["default".into()];
    NewWorker { id, name: "stalled".to_owned(), code_version: None, queues, kinds, lease: HANGS }
}

/// Calls every verb at once; answers each by its name, with how long it took.
async fn call_all(engine: &Backstop) -> Vec<(&'static str, Duration, Result<(), Error>)> {
    let mut calls = JoinSet::new();
    let store = engine.store();
    let (job, worker) = (backstop::job_id(), backstop::worker_id());
    let lease = Lease { job, worker, fence: Fence(1) };
    let kinds: Arc<[KnownKind]> = vec![KnownKind { kind: CampaignJob::KIND.into(), version: 1 }].into();
    let queue = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
    let aging = engine.config().aging;
    let claim = Claim { worker, queues: vec![queue], kinds: kinds.clone(), aging, limits: Arc::default() };
    let new = engine.enqueue(CampaignJob { number: 3 }).into_new_job().expect("admitted");
    let ending = Ending::plain(new.spec.header(), Cause::Succeeded, Decision::succeeded());
    let note = Note::progress(lease, Progress { percent: 1, note: String::new() });
    let term = |duty| backstop_store::Term { duty, number: 1, node: worker, expires_at: Timestamp::MAX };
    let enlist = newcomer(worker, kinds);
    macro_rules! call {
        ($verb:ident($($argument:expr),*)) => {{
            let store = store.clone();
            calls.spawn(async move { timed(stringify!($verb), store.$verb($($argument),*)).await });
        }};
    }
    call!(now());
    call!(submit(Submit { jobs: vec![new], atomic: true }));
    call!(enlist(enlist));
    let asked = claim.clone();
    call!(peek(&asked));
    call!(claim(claim));
    call!(start(vec![lease]));
    let finish = Finish { lease, ending };
    let rescue = finish.clone();
    call!(finish(vec![finish]));
    call!(annotate(vec![note]));
    call!(renew(worker, HANGS, vec![lease]));
    call!(retire(backstop::worker_id()));
    call!(lead(worker, Duty::ALL.to_vec(), Duration::from_millis(1)));
    call!(terms());
    call!(fold(10));
    call!(advance_lines(10));
    call!(orphans(10));
    call!(handed_out());
    let (rescues, expires, archives) = (term(Duty::Rescue), term(Duty::Expire), term(Duty::Archive));
    call!(rescue(rescues, vec![rescue]));
    call!(overdue(None, 10));
    call!(expire(expires, Vec::new()));
    call!(archive(archives, Retention::default(), 10));
    call!(operate(vec![job], Operation::Pause));
    call!(pause_queue("other", false, None));
    call!(jobs(vec![job]));
    call!(archived(vec![job]));
    call!(list(JobFilter::default(), PageRequest::first(10)));
    call!(attempts(job, PageRequest::first(10)));
    call!(surroundings(job));
    call!(queues());
    call!(queue_page(QueueRange::under("other/")));
    call!(holdings("other".to_owned(), 10));
    let (lanes, incidents) = (term(Duty::Prune), term(Duty::Prune));
    call!(retire_lanes(lanes, HANGS, 10));
    call!(retire_incidents(incidents, Vec::new(), HANGS));
    call!(workers());
    call!(incidents(10));
    call!(held_lanes());
    call!(run_limits(vec![RunLimit::of_queue("default")]));
    call!(shared_holds(Vec::new(), Vec::new()));
    call!(sharing_work(vec!["default".to_owned()], Vec::new(), 10));
    call!(lines(LineRange { limit: 10, ..LineRange::default() }));
    call!(check());
    calls.join_all().await
}

async fn timed<T>(
    name: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> (&'static str, Duration, Result<(), Error>) {
    let began = Instant::now();
    let answer = tokio::time::timeout(HANGS, call).await;
    let answer = answer.unwrap_or_else(|_| panic!("`{name}` hangs on a stalled connection"));
    (name, began.elapsed(), answer.map(drop))
}

/// Every verb returns from a stalled connection, and works again afterwards.
async fn stall_everything(kind: StoreKind) {
    let location = StoreLocation::new(kind, "stalls");
    let proxy = Proxy::start(location.address()).expect("a proxy");
    let url = proxy.url(&location.url_with(&format!("deadline={}&connections=8", DEADLINE.as_secs())));
    let engine = Backstop::open(&url).await.expect("the store opens");
    for (name, _, answer) in call_all(&engine).await {
        let refused = matches!(answer, Err(Error::NotEnlisted { .. } | Error::Deposed { .. }));
        assert!(answer.is_ok() || refused, "`{name}` before the stall: {answer:?}");
    }
    proxy.stall(true);
    let stalled = call_all(&engine).await;
    let longest = stalled.iter().map(|(_, time, _)| *time).max().unwrap_or_default();
    for (name, _, answer) in &stalled {
        let error = answer.as_ref().expect_err(name);
        assert!(error.is_transient(), "`{name}` while stalled: {error}");
    }
    let (_, opening, opened) = timed("open", async {
        Backstop::open(&url).await.map_err(|error| Error::Unusable {
            location: String::new(),
            problem: error.to_string(),
            hint: String::new(),
        })
    })
    .await;
    opened.expect_err("a stalled server cannot be opened");
    proxy.stall(false);
    let began = Instant::now();
    while engine.store().now().await.is_err() {
        assert!(began.elapsed() < HANGS, "the store does not come back");
    }
    for (name, _, answer) in call_all(&engine).await {
        let refused = matches!(answer, Err(Error::NotEnlisted { .. } | Error::Deposed { .. }));
        assert!(answer.is_ok() || refused, "`{name}` after the stall: {answer:?}");
    }
    // R12: a call that has to be repeated may take its deadline twice.
    assert!(
        longest.max(opening) <= 2 * DEADLINE + Duration::from_secs(1),
        "{longest:?}, opening {opening:?}"
    );
    println!(
        "{kind}: {} verbs on a stalled connection, all returned after {longest:.1?} at the latest with a deadline of \
         2 s, opening after {opening:.1?}; all work afterwards",
        stalled.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_returns_from_a_stalled_connection_on_postgres() {
    // F17, H11
    stall_everything(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_returns_from_a_stalled_connection_on_mariadb() {
    // F17, H11
    stall_everything(StoreKind::Mariadb).await;
}

/// An address as the value of a setting in another one.
fn escaped(url: &str) -> String {
    let escape = |c: char| match c {
        ':' | '/' | '?' | '&' | '=' | '@' | '%' => format!("%{:02X}", c as u32),
        plain => plain.to_string(),
    };
    url.chars().map(escape).collect()
}

async fn until(what: &str, limit: Duration, mut test: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !test() {
        assert!(began.elapsed() < limit, "{what}: not after {limit:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

/// Submits from another process's point of view, one after the other; answers how long the slowest took to run.
async fn run_jobs(client: &Backstop, queue: &'static str, count: usize) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..count {
        let began = Instant::now();
        let id = client.enqueue(CampaignJob { number: 3 }).queue(queue).submit().await.expect("stored").id;
        let ended = tokio::time::timeout(HANGS, client.wait(id)).await.expect("the job is picked up");
        assert!(ended.expect("readable").is_some_and(|job| job.view.state().is_terminal()));
        longest = longest.max(began.elapsed());
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_listener_costs_a_poll_and_is_replaced() {
    // L13
    let location = StoreLocation::new(StoreKind::Postgres, "half-open");
    let client = location.open().await;
    let proxy = Proxy::start(location.address()).expect("a proxy");
    let mut options = Options::default();
    options.probe = Duration::from_millis(500);
    let url = location.url_with(&format!("listen={}", escaped(&proxy.url(location.url()))));
    let store = Arc::new(PostgresStore::open(&url, options).await.expect("the store opens"));
    let engine = Backstop::on(store.clone(), Config::default());
    let journal = Arc::new(Journal::create_in(location.folder()));
    let worker = engine.worker(journal.clone()).register::<CampaignJob>().queue("polled", 1);
    let polling = worker.poll(POLL).start().await.expect("a worker");
    until("it listens", HANGS, || store.is_listening()).await;

    proxy.stall(true);
    let polled = run_jobs(&client, "polled", 10).await;
    let noticed = until("it notices that it hears nothing", HANGS, || !store.is_listening()).await;
    proxy.stall(false);
    let back = until("it listens again", HANGS, || store.is_listening()).await;

    // With a poll of a minute, only a notice can be that quick.
    let worker = engine.worker(journal).register::<CampaignJob>().queue("woken", 1);
    let waiting = worker.poll(Duration::from_secs(60)).start().await.expect("a worker");
    let woken = run_jobs(&client, "woken", 3).await;
    // R11
    assert!(polled <= POLL + Duration::from_secs(1), "{polled:?} for a job behind a half-open listener");
    assert!(noticed.max(back) <= HANGS, "noticed {noticed:?}, back {back:?}");
    println!(
        "PostgreSQL: behind a half-open listener each of 10 jobs was polled in {polled:.1?} at most; noticed \
         {noticed:.1?} later, listening again {back:.1?} after the stall, each of 3 jobs woken in {woken:.1?} at most"
    );
    polling.stop().await;
    waiting.stop().await;
}
