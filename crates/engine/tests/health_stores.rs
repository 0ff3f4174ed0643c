//! What workers depend on, on every store: one that finds it away leaves its jobs to others, and says so (H1, H2).
#![allow(missing_docs, reason = "a test")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use backstop::circuits::CircuitSettings;
use backstop::prelude::*;
use backstop::{Config, DependencySettings, EventKind, Events, WorkerHandle};
use backstop_core::health::WorkerReport;
use backstop_store::Store;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a worker runs.
#[derive(Default)]
struct Site {
    smtp_is_up: AtomicBool,
    sent: AtomicU32,
}

#[job(dependency = "smtp")]
async fn send(cx: JobContext<Site>) -> JobResult {
    if !cx.app().smtp_is_up.load(Ordering::SeqCst) {
        return Err(Outcome::transient("smtp").into());
    }
    cx.app().sent.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

#[job]
async fn count(cx: JobContext<Site>) -> JobResult<u32> {
    Ok(cx.app().sent.load(Ordering::SeqCst))
}

async fn start(store: &Arc<dyn Store>, name: &str, up: bool) -> (Backstop, Arc<Site>, WorkerHandle) {
    let often = DependencySettings::default().every(Duration::from_millis(100));
    let engine = Backstop::on(store.clone(), Config::default().dependency("smtp", often));
    let site = Arc::new(Site::default());
    site.smtp_is_up.store(up, Ordering::SeqCst);
    let check = |site: Arc<Site>| async move {
        if site.smtp_is_up.load(Ordering::SeqCst) { Ok(()) } else { Err("nobody answers".into()) }
    };
    let worker = engine.worker_sharing(site.clone()).register::<Send>().register::<Count>();
    let worker = worker.queue("mail", 4).name(name).check("smtp", check).start().await.expect("started");
    (engine, site, worker)
}

/// What a worker tells, once it is as wanted.
async fn told(
    engine: &Backstop,
    worker: &WorkerHandle,
    wanted: impl Fn(&WorkerReport) -> bool,
) -> WorkerReport {
    let look = async {
        loop {
            let workers = engine.workers().await.expect("the store is there");
            let mut reports = engine.worker_reports(&workers).await.expect("the store is there");
            match reports.remove(&worker.id()) {
                Some(report) if wanted(&report) => return report,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    within(look).await
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("within a minute")
}

fn is_green(report: &WorkerReport) -> bool {
    report.dependencies.len() == 1 && report.dependencies[0].ok
}

fn is_red(report: &WorkerReport) -> bool {
    report.dependencies.len() == 1 && !report.dependencies[0].ok && report.dependencies[0].last.is_some()
}

async fn leaves_to_others_what_it_cannot_do(store: Arc<dyn Store>) {
    let (cut_off, far, here) = start(&store, "cut-off", false).await;
    let report = told(&cut_off, &here, is_red).await;
    assert_eq!(
        (&*report.dependencies[0].dependency, &report.dependencies[0].kinds[..]),
        ("smtp", &["send".to_owned()][..])
    );
    let sent = cut_off.enqueue(Send {}).queue("mail").submit().await.expect("stored");
    let counted = cut_off.enqueue(Count {}).queue("mail").submit().await.expect("stored");
    assert_eq!(within(counted.result()).await.expect("it needs nothing"), 0);
    let (_, explained) = cut_off.explain(sent.id).await.expect("the store is there").expect("it is there");
    assert!(explained.because.starts_with("it waits for its dependency `smtp`"), "{}", explained.because);

    let (connected, near, there) = start(&store, "connected", true).await;
    within(sent.result()).await.expect("sent from elsewhere");
    assert_eq!((far.sent.load(Ordering::SeqCst), near.sent.load(Ordering::SeqCst)), (0, 1));
    let job = connected.job(sent.id).await.expect("the store is there").expect("it is there");
    assert_eq!(job.view.record.runs, 1, "a worker that cannot run it does not try");
    told(&cut_off, &there, is_green).await;
    told(&connected, &here, is_red).await;
    there.stop().await;

    // A run finds out first that it is away: the job goes back at no cost until the check passes.
    far.smtp_is_up.store(true, Ordering::SeqCst);
    told(&connected, &here, is_green).await;
    let policy = Policy::default().retries(0).backoff(Backoff::fixed(Duration::from_millis(50)));
    far.smtp_is_up.store(false, Ordering::SeqCst);
    let later = cut_off.enqueue(Send {}).queue("mail").policy(policy).submit().await.expect("stored");
    told(&connected, &here, is_red).await;
    far.smtp_is_up.store(true, Ordering::SeqCst);
    within(later.result()).await.expect("sent once it was back");
    here.stop().await;
    let workers = connected.workers().await.expect("the store is there");
    assert!(connected.worker_reports(&workers).await.expect("the store is there").is_empty());
}

/// What three processes call.
#[derive(Default)]
struct Partner {
    is_up: AtomicBool,
    failed: AtomicU32,
}

#[job(dependency = "partner")]
async fn order(cx: JobContext<Partner>) -> JobResult {
    if cx.app().is_up.load(Ordering::SeqCst) {
        return Ok(());
    }
    cx.app().failed.fetch_add(1, Ordering::SeqCst);
    Err("no answer".into())
}

/// A process of its own, as far as a store can tell, with a circuit that is quick.
async fn caller(store: &Arc<dyn Store>, partner: &Arc<Partner>) -> (Backstop, Events, WorkerHandle) {
    let mut quick = CircuitSettings::default();
    (quick.min_calls, quick.probes) = (5, 2);
    (quick.open, quick.slow_start) = (Duration::from_millis(300), Duration::from_millis(300));
    let engine = Backstop::on(store.clone(), Config::default().circuit_settings("partner", quick));
    let events = engine.events();
    let worker = engine.worker_sharing(partner.clone()).register::<Order>().queue("orders", 4);
    let worker = worker.poll(Duration::from_millis(50)).start().await.expect("started");
    (engine, events, worker)
}

/// Three processes and one dependency that fails and comes back: each change of the circuit is made once, and nobody is
/// charged who did not call (H3).
async fn leaves_alone_what_fails(store: Arc<dyn Store>) {
    let partner = Arc::new(Partner::default());
    let mut callers = Vec::new();
    for _ in 0..3 {
        callers.push(caller(&store, &partner).await);
    }
    let engine = callers[0].0.clone();
    let policy = Policy::default().retries(1_000).backoff(Backoff::fixed(Duration::from_millis(20)));
    let mut jobs = Vec::new();
    for _ in 0..60 {
        let job = engine.enqueue(Order {}).queue("orders").policy(policy.clone());
        jobs.push(job.submit().await.expect("stored"));
    }
    let generation = async || {
        let seen = engine.circuits().get("partner").await.expect("the store is there");
        seen.map_or(0, |seen| seen.circuit.generation)
    };
    // Opened, tried and opened again.
    within(async {
        while generation().await < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    partner.is_up.store(true, Ordering::SeqCst);
    let mut charged = 0;
    for job in jobs {
        within(job.result()).await.expect("it goes well once the partner is back");
        let detail = engine.job(job.id).await.expect("the store is there").expect("it is there");
        charged += detail
            .counters
            .iter()
            .filter(|(cause, _)| cause.charges_attempt())
            .map(|(_, runs)| runs)
            .sum::<u64>();
    }
    let failed = u64::from(partner.failed.load(Ordering::SeqCst));
    assert_eq!(charged, failed, "who did not call is not charged");
    let mut told = Vec::new();
    for (_, mut events, worker) in callers {
        worker.stop().await;
        while let Some(event) = events.try_next() {
            if let EventKind::Circuit { generation, .. } = event.what {
                told.push(generation);
            }
        }
    }
    told.sort_unstable();
    let last = generation().await;
    assert_eq!(
        told,
        (1..=last).collect::<Vec<_>>(),
        "each change is reported once, by the process that made it"
    );
}

/// A host that jobs name in their payload.
#[job(dependency = "host", dependency_from = "/name")]
async fn ask(cx: JobContext<Partner>, name: String) -> JobResult {
    if name == "well" || cx.app().is_up.load(Ordering::SeqCst) {
        return Ok(());
    }
    cx.app().failed.fetch_add(1, Ordering::SeqCst);
    Err("no answer".into())
}

/// One host of two fails: its jobs are put off one by one and cost nothing, those of the other go on (H3).
async fn puts_off_what_names_a_host_that_fails(store: Arc<dyn Store>) {
    let partner = Arc::new(Partner::default());
    let mut quick = CircuitSettings::default();
    (quick.min_calls, quick.probes) = (5, 2);
    (quick.open, quick.slow_start) = (Duration::from_millis(300), Duration::from_millis(300));
    let mut processes = Vec::new();
    for _ in 0..2 {
        let engine = Backstop::on(store.clone(), Config::default().circuit_settings("host", quick));
        let worker = engine.worker_sharing(partner.clone()).register::<Ask>().queue("asks", 4);
        let worker = worker.poll(Duration::from_millis(50)).start().await.expect("started");
        processes.push((engine, worker));
    }
    let engine = processes[0].0.clone();
    let policy = Policy::default().retries(1_000).backoff(Backoff::fixed(Duration::from_millis(20)));
    let submit = async |name: &str| {
        let job = engine.enqueue(Ask { name: name.to_owned() }).queue("asks").policy(policy.clone());
        job.submit().await.expect("stored")
    };
    let mut jobs = Vec::new();
    for _ in 0..30 {
        jobs.push(submit("ill").await);
    }
    within(async {
        let opened = async || {
            let seen = engine.circuits().get("host:ill").await.expect("the store is there");
            seen.is_some_and(|seen| seen.circuit.generation >= 3)
        };
        while !opened().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(submit("well").await.result()).await.expect("the other host is well");
    partner.is_up.store(true, Ordering::SeqCst);
    let mut charged = 0;
    for job in jobs {
        within(job.result()).await.expect("it goes well once the host is back");
        let detail = engine.job(job.id).await.expect("the store is there").expect("it is there");
        let runs = detail.counters.iter().filter(|(cause, _)| cause.charges_attempt());
        charged += runs.map(|(_, runs)| runs).sum::<u64>();
    }
    assert_eq!(charged, u64::from(partner.failed.load(Ordering::SeqCst)), "who did not call is not charged");
    for (_, worker) in processes {
        worker.stop().await;
    }
}

#[tokio::test]
async fn in_memory() {
    // H1, H2, H3
    let engine = Backstop::open("memory:").await.expect("memory");
    leaves_to_others_what_it_cannot_do(engine.store().clone()).await;
    leaves_alone_what_fails(engine.store().clone()).await;
    puts_off_what_names_a_host_that_fails(engine.store().clone()).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn on_sqlite() {
    // H1, H2, H3
    let name = format!("health-{}.db", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let engine = Backstop::open(&format!("sqlite:{}", file.display())).await.expect("a file");
    leaves_to_others_what_it_cannot_do(engine.store().clone()).await;
    leaves_alone_what_fails(engine.store().clone()).await;
    puts_off_what_names_a_host_that_fails(engine.store().clone()).await;
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // H1, H2, H3
    let schema = format!("health_{}", std::process::id());
    let url = format!("{}?schema={schema}", backstop_testbed::shared::postgres());
    let engine = Backstop::open(&url).await.expect("a server");
    leaves_to_others_what_it_cannot_do(engine.store().clone()).await;
    leaves_alone_what_fails(engine.store().clone()).await;
    puts_off_what_names_a_host_that_fails(engine.store().clone()).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // H1, H2, H3
    use backstop::mysql::mysql_async::prelude::Queryable as _;
    use backstop::mysql::mysql_async::{Conn, Opts};

    let server = backstop_testbed::shared::mariadb();
    let mut conn = Conn::new(Opts::from_url(server).expect("a good URL")).await.expect("a server");
    let name = format!("health_{}", std::process::id());
    conn.query_drop(format!("CREATE DATABASE {name}")).await.expect("a new name");
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    let engine = Backstop::open(&format!("{place}/{name}")).await.expect("a server");
    leaves_to_others_what_it_cannot_do(engine.store().clone()).await;
    leaves_alone_what_fails(engine.store().clone()).await;
    puts_off_what_names_a_host_that_fails(engine.store().clone()).await;
    drop(engine);
    conn.query_drop(format!("DROP DATABASE {name}")).await.expect("it is there");
    conn.disconnect().await.expect("the connection ends");
}
