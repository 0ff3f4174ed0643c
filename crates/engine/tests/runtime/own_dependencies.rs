//! Jobs that name what they need, or whose payload does: one that cannot run now is put off by itself (H1, H3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::circuits::{CircuitSettings, CircuitState, CircuitView};
use backstop::prelude::*;
use backstop::{Backoff, Config, Error, JobId, WorkerHandle};
use backstop_core::failure::Cause;
use backstop_core::job::{State, WaitReason};
use backstop_store::{DocumentRange, Drawer, Store};

use crate::fixture::{detail, model, pass, settle};

/// The sites that jobs here call.
#[derive(Default)]
struct Sites {
    up: Mutex<BTreeSet<String>>,
    calls: Mutex<BTreeMap<String, u64>>,
}

impl Sites {
    fn new(up: &[&str]) -> Arc<Self> {
        let sites = Self::default();
        up.iter().for_each(|site| sites.set_up(site));
        Arc::new(sites)
    }

    fn set_up(&self, site: &str) {
        self.up.lock().expect("no panic").insert(site.to_owned());
    }

    fn call(&self, site: &str) -> bool {
        *self.calls.lock().expect("no panic").entry(site.to_owned()).or_default() += 1;
        self.up.lock().expect("no panic").contains(site)
    }

    fn calls(&self, site: &str) -> u64 {
        self.calls.lock().expect("no panic").get(site).copied().unwrap_or_default()
    }
}

#[job(dependency = "site", dependency_from = "/host")]
async fn call(cx: JobContext<Sites>, host: Option<String>) -> JobResult {
    let host = host.unwrap_or_else(|| "home".to_owned());
    if cx.app().call(&host) { Ok(()) } else { Err("no answer".into()) }
}

/// Says that the site is away, by the only name that code knows.
#[job(dependency = "site", dependency_from = "/host")]
async fn visit(cx: JobContext<Sites>, host: String) -> JobResult {
    if cx.app().call(&host) { Ok(()) } else { Err(Outcome::transient("site").into()) }
}

/// A kind with one dependency for all its jobs, unless one says otherwise.
#[job(dependency = "bank")]
async fn pay(cx: JobContext<Sites>, bank: String) -> JobResult {
    if cx.app().call(&bank) { Ok(()) } else { Err("no answer".into()) }
}

fn settings() -> CircuitSettings {
    let mut settings = CircuitSettings::default();
    (settings.min_calls, settings.probes) = (10, 2);
    (settings.open, settings.slow_start) = (Duration::from_secs(30), Duration::from_secs(10));
    settings
}

fn config() -> Config {
    let config = Config::default().kind_dependency("call", "site").kind_dependency_from("call", "/host");
    config.kind_dependency("pay", "bank").circuit_settings("site", settings())
}

/// A process of its own, as far as a store can tell.
async fn process(store: &Arc<dyn Store>, sites: &Arc<Sites>) -> (Backstop, WorkerHandle) {
    let engine = Backstop::on(store.clone(), config());
    let worker =
        engine.worker_sharing(sites.clone()).register::<Call>().register::<Visit>().register::<Pay>();
    (engine, worker.queue("default", 4).start().await.expect("the model is there"))
}

fn patient() -> Policy {
    Policy::default().retries(50).backoff(Backoff::fixed(Duration::from_secs(1)))
}

async fn circuit(engine: &Backstop, key: &str) -> CircuitView {
    engine.circuits().get(key).await.expect("the model is there").expect("it is known")
}

async fn submit(engine: &Backstop, host: &str, count: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        let job = engine.enqueue(Call { host: Some(host.to_owned()) }).policy(patient());
        jobs.push(job.submit().await.expect("admitted").id);
    }
    jobs
}

async fn states(engine: &Backstop, jobs: &[JobId]) -> BTreeMap<&'static str, usize> {
    let mut states = BTreeMap::new();
    for job in jobs {
        *states.entry(detail(engine, *job).await.view.state().as_str()).or_default() += 1;
    }
    states
}

async fn charged(engine: &Backstop, jobs: &[JobId]) -> u64 {
    let mut sum = 0;
    for job in jobs {
        sum += u64::from(detail(engine, *job).await.view.record.attempt);
    }
    sum
}

/// The most that one of these jobs was put off.
async fn put_off(engine: &Backstop, jobs: &[JobId]) -> u64 {
    let mut most = 0;
    for job in jobs {
        let counters = detail(engine, *job).await.counters;
        most = most.max(counters.get(&Cause::CircuitOpen).copied().unwrap_or_default());
    }
    most
}

#[tokio::test(start_paused = true)]
async fn what_payloads_name_has_circuits_of_its_own() {
    // H3
    let (store, sites) = (model(), Sites::new(&["us", "home"]));
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(process(&store, &sites).await);
    }
    let engine = processes[0].0.clone();
    let far = submit(&engine, "eu", 200).await;
    let near = submit(&engine, "us", 30).await;
    let home = engine.enqueue(Call { host: None }).submit().await.expect("admitted").id;
    pass(5).await;
    let calls = sites.calls("eu");
    assert!((10..=3 * (10 + 2 * 4)).contains(&calls), "{calls} calls");
    assert_eq!(circuit(&engine, "site:eu").await.circuit.state, CircuitState::Open);
    assert_eq!(states(&engine, &near).await, [("succeeded", 30)].into(), "others of the kind go on");
    assert_eq!(detail(&engine, home).await.view.state(), State::Succeeded);
    assert_eq!(
        circuit(&engine, "site").await.counts.calls,
        1,
        "a payload that names none needs the plain one"
    );
    assert_eq!(charged(&engine, &far).await, calls, "a call costs an attempt, and nothing else does");
    pass(20).await;
    assert_eq!(sites.calls("eu"), calls, "nobody calls it while its circuit is open");
    assert!(put_off(&engine, &far).await <= 2, "nothing goes round");
    assert_eq!(states(&engine, &far).await, [("waiting", 200)].into());
    assert_eq!(circuit(&engine, "site:eu").await.waiting, 200);
    let waiting = detail(&engine, far[199]).await.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, waiting.key.as_str()), (WaitReason::Circuit, "site:eu"));
    assert_eq!(waiting.until, circuit(&engine, "site:eu").await.circuit.until);
    let (_, why) = engine.explain(far[199]).await.expect("the model is there").expect("the job is there");
    assert!(why.because.contains("circuit of its dependency `site:eu` is open"), "{}", why.because);

    sites.set_up("eu");
    for second in 0..40 {
        pass(1).await;
        if circuit(&engine, "site:eu").await.circuit.state == CircuitState::Closed {
            break;
        }
        assert!(sites.calls("eu") - calls <= 2, "{} in second {second}, two may", sites.calls("eu") - calls);
    }
    pass(60).await;
    assert_eq!(states(&engine, &far).await, [("succeeded", 200)].into());
    assert_eq!(circuit(&engine, "site:eu").await.circuit.generation, 3, "opened once, tried once, closed");
    assert!(put_off(&engine, &far).await <= 4, "nothing goes round");
    assert_eq!(charged(&engine, &far).await, calls);
    for (_, worker) in processes {
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_names_its_own_dependency_does_not_wait_for_that_of_its_kind() {
    // H3
    let (store, sites) = (model(), Sites::new(&["ours", "theirs"]));
    let (engine, worker) = process(&store, &sites).await;
    // Whoever submits has none of the code, and knows nothing of what kinds need.
    let producer = Backstop::on(store.clone(), Config::default());
    producer.circuits().open("bank", "ann", Some(Duration::from_secs(600))).await.expect("opened");
    let ours = producer.enqueue_raw("pay", r#"{"bank":"ours"}"#).submit().await.expect("admitted").id;
    pass(10).await;
    assert_eq!(detail(&engine, ours).await.view.state(), State::Waiting);
    let theirs = producer.enqueue_raw("pay", r#"{"bank":"theirs"}"#).dependency("other bank");
    let theirs = theirs.submit().await.expect("admitted").id;
    pass(5).await;
    assert_eq!(detail(&engine, theirs).await.view.state(), State::Succeeded);
    assert_eq!(detail(&engine, theirs).await.view.reads().dependency.as_deref(), Some("other bank"));
    producer.circuits().open("third bank", "ann", Some(Duration::from_secs(600))).await.expect("opened");
    let third = producer.enqueue_raw("pay", r#"{"bank":"third"}"#).dependency("third bank");
    third.submit().await.expect("admitted");
    pass(5).await;
    for key in ["bank", "third bank"] {
        assert_eq!(circuit(&engine, key).await.waiting, 1, "{key}: each job waits for one of them");
    }
    let listed = engine.circuits().list().await.expect("the model is there");
    let held_up = listed.iter().filter(|view| view.waiting > 0);
    let held_up: Vec<_> = held_up.map(|view| (&*view.key, view.waiting)).collect();
    assert_eq!(held_up, [("bank", 1), ("third bank", 1)]);
    pass(115).await;
    assert_eq!(detail(&engine, ours).await.view.state(), State::Waiting);
    assert_eq!(sites.calls("ours"), 0);
    assert!(put_off(&engine, &[ours]).await <= 4, "its kind is claimed now, and it does not go round");
    producer.circuits().close("bank", "ann").await.expect("closed");
    pass(331).await;
    assert_eq!(detail(&engine, ours).await.view.state(), State::Succeeded);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_run_finds_away_puts_off_only_jobs_that_name_it() {
    // H1
    let (store, sites) = (model(), Sites::new(&["us"]));
    let (engine, worker) = process(&store, &sites).await;
    let far = engine.enqueue(Visit { host: "eu".to_owned() }).submit().await.expect("admitted").id;
    settle().await;
    tokio::time::advance(Duration::from_millis(600)).await;
    settle().await;
    let reports = engine.worker_reports(&engine.workers().await.expect("the model is there")).await;
    let report = reports.expect("the model is there").remove(&worker.id()).expect("it tells");
    let red: Vec<_> = report.dependencies.iter().filter(|one| !one.ok).collect();
    assert_eq!(red.iter().map(|one| &*one.dependency).collect::<Vec<_>>(), ["site:eu"]);
    assert!(red[0].kinds.is_empty() && worker.health().ready, "no kind is left out because of it");
    let near = engine.enqueue(Visit { host: "us".to_owned() }).submit().await.expect("admitted").id;
    pass(1).await;
    assert_eq!(detail(&engine, near).await.view.state(), State::Succeeded);
    pass(100).await;
    let calls = sites.calls("eu");
    assert!((2..30).contains(&calls), "tried again and again, less and less often: {calls}");
    assert_eq!(charged(&engine, &[far]).await, 0);
    sites.set_up("eu");
    pass(180).await;
    assert_eq!(detail(&engine, far).await.view.state(), State::Succeeded);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn circuits_that_nobody_needs_any_more_are_removed() {
    // H3
    let (store, sites) = (model(), Sites::new(&["us"]));
    let (engine, worker) = process(&store, &sites).await;
    submit(&engine, "us", 1).await;
    submit(&engine, "eu", 1).await;
    pass(70).await;
    engine.circuits().open("kept", "ann", Some(Duration::from_secs(20 * 86_400))).await.expect("opened");
    worker.stop().await;
    let keys = async || {
        let found = store.documents(DocumentRange::first(Drawer::Circuits, 9)).await.expect("it is there");
        found.items.into_iter().map(|document| document.key).collect::<Vec<_>>()
    };
    assert_eq!(keys().await, ["kept", "site:eu", "site:us"]);
    tokio::time::advance(Duration::from_secs(86_500)).await;
    let node = backstop::worker_id();
    engine.maintain(node, Duration::from_secs(60)).await.expect("the model is there");
    assert_eq!(keys().await, ["kept"]);
}

#[tokio::test(start_paused = true)]
async fn pointers_that_lead_nowhere_are_refused_at_the_start() {
    // H3
    for (config, told) in [
        (Config::default().kind_dependency_from("call", "host"), "it is a JSON pointer"),
        (
            Config::default().kind_dependency("pay", "b").kind_dependency_from("pay", ""),
            "it is a JSON pointer",
        ),
        (Config::default().circuit_settings("bank:eu", settings()), "no kind needs dependency `bank:eu`"),
    ] {
        let engine = Backstop::on(model(), config);
        let worker = engine.worker_sharing(Sites::new(&[])).register::<Call>().register::<Pay>();
        let problem: Error = worker.queue("default", 1).start().await.err().expect("refused");
        assert!(problem.to_string().contains(told), "{problem}");
    }
    let config =
        Config::default().circuit_settings("site:eu", settings()).circuit_settings("site", settings());
    let worker = Backstop::on(model(), config).worker_sharing(Sites::new(&[])).register::<Call>();
    worker.queue("default", 1).start().await.expect("one of several").stop().await;
    let long = Backstop::on(model(), Config::default()).enqueue_raw("call", "{}").dependency("x".repeat(129));
    assert!(long.submit().await.is_err_and(|problem| problem.to_string().contains("dependency")));
}

/// A store that lets whoever asks submit and nothing else of its own.
struct SubmitsOnly {
    inner: Arc<dyn Store>,
    asked: AtomicU64,
}

impl backstop_store::Layer for SubmitsOnly {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    fn amend(&self, _: backstop_store::Amend) -> backstop_store::Answer<'_, backstop_store::Amended> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let problem = "permission denied".to_owned();
        let error = backstop_store::Error::Unavailable { location: "here".into(), problem, source: None };
        Box::pin(std::future::ready(Err(error)))
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_may_only_submit_names_dependencies_all_the_same() {
    // H3
    let store = model();
    let narrow = Arc::new(SubmitsOnly { inner: store.clone(), asked: AtomicU64::new(0) });
    let producer = Backstop::on(narrow.clone(), Config::default());
    let sites = Sites::new(&["theirs"]);
    let (engine, worker) = process(&store, &sites).await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        let job = producer.enqueue_raw("pay", r#"{"bank":"theirs"}"#).dependency("other bank");
        jobs.push(job.submit().await.expect("admitted").id);
    }
    assert_eq!(narrow.asked.load(Ordering::SeqCst), 1, "it is not asked again with every job");
    pass(3).await;
    assert_eq!(states(&engine, &jobs).await, [("succeeded", 5)].into());
    worker.stop().await;
}
