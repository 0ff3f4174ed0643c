//! Planted secrets through real jobs on every store: none of them is kept, logged, told or shown in the clear.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use backstop::prelude::*;
use backstop::sqlite::rusqlite::{Connection, TransactionBehavior};
use backstop::{BoxError, Event, JobId};
use backstop_chaos::group::drained;
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::secrets::families::{FAMILIES, planted};
use backstop_chaos::secrets::finder::SecretFinder;
use backstop_chaos::secrets::leak::{CLEAN, EchoJob, IN_PAYLOAD, LeakHook, LeakJob, LeakPath, StrictJob};
use backstop_chaos::secrets::{PlantedSecret, dump};
use backstop_store::PageRequest;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How many secrets go through each store.
const SECRETS: usize = 2_000;

/// A queue that no worker serves.
const UNSERVED: &str = "unserved";

/// Everything that was logged in this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn listen_to_the_log() {
    let level = tracing_subscriber::filter::LevelFilter::TRACE;
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(|| ToLog);
    // Another test of this process may listen already, to the same log.
    let _ = subscriber.try_init();
}

/// One campaign: the secrets, where they went, and what was captured so far.
struct Campaign {
    began: Instant,
    location: StoreLocation,
    engine: Backstop,
    seed: u64,
    secrets: Arc<Vec<PlantedSecret>>,
    finder: SecretFinder,
    ways: Vec<LeakPath>,
    jobs: Vec<JobId>,
    /// By place and way: how many, and the latest.
    leaks: BTreeMap<String, (usize, String)>,
}

impl Campaign {
    async fn new(kind: StoreKind) -> Self {
        listen_to_the_log();
        let seed = backstop_chaos::seed();
        let secrets = planted(seed, SECRETS);
        let all: Vec<LeakPath> = CLEAN.iter().chain(IN_PAYLOAD).copied().collect();
        // Each family goes each way: the way changes when all families had their turn.
        let ways = (0..SECRETS).map(|number| all[number / FAMILIES.len() % all.len()]).collect();
        let location = StoreLocation::new(kind, "secrets");
        let engine = location.open().await;
        let finder = SecretFinder::new(&secrets);
        let secrets = Arc::new(secrets);
        Self {
            began: Instant::now(),
            location,
            engine,
            seed,
            secrets,
            finder,
            ways,
            jobs: Vec::new(),
            leaks: BTreeMap::new(),
        }
    }

    /// Submits the jobs of these ways, runs them all and stops.
    async fn play(&mut self, ways: &[LeakPath]) {
        let numbers: Vec<usize> = (0..SECRETS).filter(|number| ways.contains(&self.ways[*number])).collect();
        for some in numbers.chunks(500) {
            let jobs = some.iter().map(|number| self.job(*number)).collect();
            for (number, stored) in
                some.iter().zip(self.engine.submit_all(jobs, false).await.expect("stored"))
            {
                let id = stored.expect("admitted").id;
                if self.ways[*number] == LeakPath::CancelOutside {
                    self.engine.cancel(id, &self.secrets[*number].text).await.expect("it is pending");
                }
                self.jobs.push(id);
            }
        }
        let worker = self.engine.worker_sharing(self.secrets.clone()).hook(LeakHook(self.secrets.clone()));
        let worker =
            worker.register::<LeakJob>().register::<StrictJob>().register::<EchoJob>().queue("default", 32);
        let worker = worker.start().await.expect("started");
        drained(&self.engine).await;
        worker.stop().await;
    }

    fn job(&self, number: usize) -> backstop::Enqueue {
        let (way, text) = (self.ways[number], self.secrets[number].text.clone());
        let job = match way {
            LeakPath::Decode => {
                self.engine.enqueue_raw(StrictJob::KIND, json!({ "count": text }).to_string())
            }
            LeakPath::Validate | LeakPath::Reported => {
                self.engine.enqueue(EchoJob { text, is_valid: way == LeakPath::Reported }).untyped()
            }
            _ => self.engine.enqueue(LeakJob { number, way }).untyped(),
        };
        let queue = if way == LeakPath::CancelOutside { UNSERVED } else { "default" };
        job.queue(queue).policy(Policy::default().retries(1).backoff(Backoff::none()))
    }

    /// Looks for every secret in what was captured at `place`, which must hold something that was redacted.
    fn search(&mut self, place: &str, bytes: &[u8]) {
        let markers = bytes.windows(10).filter(|window| *window == b"[redacted]").count();
        println!(
            "{:?} {}: {place}: {} bytes, {markers} markers",
            self.began.elapsed(),
            self.location.kind(),
            bytes.len()
        );
        assert!(markers > FAMILIES.len(), "{place} holds only {markers} markers: was anything captured?");
        for number in self.finder.found(bytes) {
            let leak = self.leaks.entry(format!("{place} by {:?}", self.ways[number])).or_default();
            *leak = (leak.0 + 1, format!("{:?}", self.secrets[number]));
        }
    }

    /// The bytes of the database's own files, where nothing may be left of a row that was overwritten either.
    fn search_files(&mut self) {
        let mut raw = Vec::new();
        for name in ["jobs.db", "jobs.db-wal"] {
            let bytes = std::fs::read(self.location.folder().join(name)).unwrap_or_default();
            raw.extend_from_slice(&bytes);
        }
        self.search("raw files", &raw);
    }

    async fn search_tables(&mut self) {
        let dump = dump::tables(&self.location).await;
        assert!(dump.tables >= 8 && dump.rows > 2 * SECRETS, "{} tables, {} rows", dump.tables, dump.rows);
        self.search("tables", &dump.bytes);
    }

    /// What every interface shows: jobs, attempts, explanations, incidents.
    async fn search_answers(&mut self) {
        let mut readers = JoinSet::new();
        for some in self.jobs.chunks(SECRETS.div_ceil(8)) {
            readers.spawn(Shown::of(self.engine.clone(), some.to_vec()));
        }
        let mut shown = Shown::default();
        for part in readers.join_all().await {
            shown.jobs.extend(part.jobs);
            shown.attempts.extend(part.attempts);
            shown.explanations.extend(part.explanations);
        }
        assert_eq!(shown.jobs.len(), SECRETS);
        self.search("jobs", &json_bytes(&shown.jobs));
        self.search("attempts", &json_bytes(&shown.attempts));
        self.search("explanations", &json_bytes(&shown.explanations));
        let incidents = self.engine.incidents().list(1_000).await.expect("readable");
        assert!(incidents.len() > FAMILIES.len(), "{} incidents", incidents.len());
        self.search("incidents", &json_bytes(&incidents));
    }

    fn search_events(&mut self, events: &[Arc<Event>]) {
        for name in ["failed", "retrying", "dead", "canceled", "deferred", "hook_failed"] {
            assert!(events.iter().any(|event| event.what.name() == name), "no event `{name}`");
        }
        self.search("events", &json_bytes(&events.iter().map(|event| &**event).collect::<Vec<_>>()));
    }

    fn search_log(&mut self) {
        let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.search("log", &log);
    }
}

/// What interfaces show of some jobs.
#[derive(Default)]
struct Shown {
    jobs: Vec<Value>,
    attempts: Vec<Value>,
    explanations: Vec<Value>,
}

impl Shown {
    async fn of(engine: Backstop, jobs: Vec<JobId>) -> Self {
        let mut shown = Self::default();
        for detail in engine.store().jobs(jobs.clone()).await.expect("readable") {
            let detail = detail.expect("there");
            let id = detail.view.job.spec.id;
            assert!(detail.view.state().is_terminal(), "the job {id} never ended");
            shown.jobs.push(without_data(&detail));
        }
        for id in jobs {
            let page = engine.attempts(id, PageRequest::first(10)).await.expect("readable");
            shown.attempts.extend(page.items.iter().map(without_data));
            let (_, explanation) = engine.explain(id).await.expect("readable").expect("there");
            shown.explanations.push(serde_json::to_value(&explanation).expect("JSON"));
        }
        shown
    }
}

fn json_bytes(shown: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shown).expect("JSON")
}

/// What is shown of something, without what the job was given and gave back.
fn without_data(shown: &impl Serialize) -> Value {
    let mut shown = serde_json::to_value(shown).expect("JSON");
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("payload");
        fields.remove("result");
    }
    shown
}

/// Secrets of every family in errors, panics, chains, reasons, logs, notes and payloads; then the search.
async fn nothing_is_told(kind: StoreKind) {
    let mut campaign = Campaign::new(kind).await;
    let mut events = campaign.engine.events();
    campaign.play(CLEAN).await;
    if kind == StoreKind::Sqlite {
        campaign.search_files();
    }
    campaign.play(IN_PAYLOAD).await;
    let told: Vec<Arc<Event>> = std::iter::from_fn(|| events.try_next()).collect();
    assert_eq!((events.missed(), campaign.jobs.len()), (0, SECRETS));
    campaign.search_events(&told);
    campaign.search_tables().await;
    campaign.search_answers().await;
    campaign.search_log();
    let Campaign { leaks, seed, .. } = campaign;
    assert!(leaks.is_empty(), "seed {seed}: secrets in the clear on {kind}: {leaks:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_planted_secret_is_kept_or_told_in_clear_on_sqlite() {
    // F11
    nothing_is_told(StoreKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_planted_secret_is_kept_or_told_in_clear_on_postgres() {
    // F11
    nothing_is_told(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_planted_secret_is_kept_or_told_in_clear_on_mariadb() {
    // F11
    nothing_is_told(StoreKind::Mariadb).await;
}

/// A job that is completed in a transaction of its own, and says a secret afterwards.
#[derive(Serialize, Deserialize)]
struct Afterwards {
    number: usize,
}

/// The file that the transactions are in, and the secrets.
struct Place {
    file: PathBuf,
    secrets: Vec<PlantedSecret>,
}

impl Job for Afterwards {
    const KIND: &'static str = "afterwards";
    type Context = Place;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Place>) -> JobResult {
        let inside = cx.clone();
        tokio::task::spawn_blocking(move || {
            let mut conn = Connection::open(&inside.app().file)?;
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            inside.complete_in_blocking(&tx, ())?;
            Ok::<_, BoxError>(tx.commit()?)
        })
        .await??;
        Err(cx.app().secrets[self.number].text.clone().into())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_says_after_its_own_commit_is_not_logged_in_clear() {
    // F11, L14
    listen_to_the_log();
    let seed = backstop_chaos::seed();
    let secrets = planted(seed, FAMILIES.len());
    let finder = SecretFinder::new(&secrets);
    let location = StoreLocation::new(StoreKind::Sqlite, "afterwards");
    let engine = location.open().await;
    for number in 0..secrets.len() {
        engine.enqueue(Afterwards { number }).submit().await.expect("stored");
    }
    let place = Place { file: location.folder().join("jobs.db"), secrets: secrets.clone() };
    let worker = engine.worker(place).register::<Afterwards>().queue("default", 2).inline().expect("a queue");
    worker.drain(secrets.len()).await.expect("all run");
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let said = String::from_utf8_lossy(&log).matches("after it had completed its job").count();
    assert!(said >= secrets.len(), "only {said} were told of");
    let leaks: Vec<&PlantedSecret> = finder.found(&log).into_iter().map(|number| &secrets[number]).collect();
    assert!(
        leaks.is_empty(),
        "seed {seed}: {} secrets in the clear in the log: {:#?}",
        leaks.len(),
        leaks.first()
    );
}

#[test]
fn the_search_finds_every_secret_and_every_half_of_one() {
    let secrets = planted(7, SECRETS);
    let finder = SecretFinder::new(&secrets);
    for (number, secret) in secrets.iter().enumerate() {
        let in_json = json!({ "error": &secret.text }).to_string();
        assert!(finder.found(in_json.as_bytes()).contains(&number), "{secret:?}");
        let half = &secret.hidden[..secret.hidden.len().div_ceil(2).max(12).min(secret.hidden.len())];
        assert!(finder.found(format!("<{half}>").as_bytes()).contains(&number), "{half:?} of {secret:?}");
    }
    assert!(
        finder.found(b"nothing of them, only [redacted] and 0192f3a4-77aa-7bbb-8ccc-1234567890ab").is_empty()
    );
    // Each family goes each way.
    assert!(SECRETS >= FAMILIES.len() * (CLEAN.len() + IN_PAYLOAD.len()));
}
