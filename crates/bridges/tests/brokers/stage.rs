//! What every case stands on: a broker behind a proxy, an engine, and a source between them.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::{Backoff, Backstop, Config};
use backstop_bridges::{
    BridgeSettings, Broker, BrokerSession, NewMessage, Source, SourceHandle, SourceSettings, SourceStatus,
    SourceTimes, brokers,
};
use backstop_core::Refusal;
use backstop_store::{Answer, Error as StoreError, JobFilter, Layer, PageRequest, Store, Submit, Submitted};
use backstop_testbed::{Folder, Proxy};

/// How long anything may take before a case fails: far longer than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker under test.
pub(crate) trait TestBroker: Send {
    /// Its port, for the proxy.
    fn port(&self) -> u16;
    /// Its address.
    fn url(&self) -> String;
    /// Makes a queue of this name.
    fn make_queue(&self, queue: &str);
    /// Ends it like a crash, or as near to that as its data survives.
    fn kill(&mut self, proxy: &Proxy);
    /// Starts it again.
    fn start_again(&mut self, proxy: &Proxy);
    /// What a client sends when it acknowledges.
    fn ack_bytes(&self) -> &'static [u8];
    /// Changes settings as this broker needs it.
    fn settings(&self, settings: BridgeSettings) -> BridgeSettings {
        settings
    }
    /// Whether messages come in the order in which they were published.
    fn is_ordered(&self) -> bool {
        true
    }
    /// Whether messages of a connection that is gone are delivered again at once.
    fn redelivers_at_once(&self) -> bool {
        true
    }
    /// Whether messages are held by a connection, so that one that breaks lets go of them.
    fn holds_by_connection(&self) -> bool {
        true
    }
    /// Whether two messages with one body are told apart.
    fn gives_ids(&self) -> bool {
        true
    }
    /// Whether a body can be sent at all.
    fn carries(&self, _: &[u8]) -> bool {
        true
    }
    /// Whether a queue has to be made before it is read.
    fn needs_queue(&self) -> bool {
        true
    }
    /// The bodies of abandoned messages of a queue.
    fn abandoned(&self, queue: &str) -> Vec<Vec<u8>>;
}

/// A store that can be told to fail.
#[derive(Default)]
pub(crate) struct Faults {
    /// Submits that fail as if the store were away.
    pub(crate) away: AtomicUsize,
    /// A payload that the database stumbles over.
    pub(crate) poison: Mutex<Option<String>>,
    /// Submits wait for it.
    pub(crate) stalled: tokio::sync::RwLock<()>,
    /// How many do.
    pub(crate) waiting: AtomicUsize,
    /// Payloads that were jobs already.
    pub(crate) known: Mutex<BTreeSet<String>>,
}

struct FaultyStore {
    below: Arc<dyn Store>,
    faults: Arc<Faults>,
}

impl Layer for FaultyStore {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        Box::pin(async move {
            self.faults.waiting.fetch_add(1, Ordering::SeqCst);
            let _turn = self.faults.stalled.read().await;
            self.faults.waiting.fetch_sub(1, Ordering::SeqCst);
            let location = || "here".to_owned();
            let fewer = |left: usize| left.checked_sub(1);
            if self.faults.away.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok() {
                return Err(StoreError::Unavailable {
                    location: location(),
                    problem: "away".into(),
                    source: None,
                });
            }
            let poison = self.faults.poison.lock().expect("no panic").clone();
            let is_poison = |text: &str| poison.as_ref().is_some_and(|poison| text.contains(poison));
            if submit.jobs.iter().any(|job| is_poison(&job.spec.payload)) {
                return Err(StoreError::Backend {
                    location: location(),
                    problem: "bad text".into(),
                    source: None,
                });
            }
            let payloads: Vec<String> = submit.jobs.iter().map(|job| job.spec.payload.to_string()).collect();
            let answers = self.below.submit(submit).await?;
            let known = payloads.into_iter().zip(&answers).filter_map(|(payload, answer)| {
                answer.as_ref().is_ok_and(|submitted| submitted.deduplicated).then_some(payload)
            });
            self.faults.known.lock().expect("no panic").extend(known);
            Ok(answers)
        })
    }
}

/// A broker behind a proxy, and what cases need to write.
pub(crate) struct Stage {
    pub(crate) server: Box<dyn TestBroker>,
    pub(crate) proxy: Proxy,
    _folder: Folder,
}

/// An engine on a store of its own, and the faults of that store.
pub(crate) struct TestEngine {
    pub(crate) engine: Backstop,
    pub(crate) faults: Arc<Faults>,
    _folder: Folder,
}

impl TestEngine {
    pub(crate) async fn new(config: Config) -> Self {
        let folder = Folder::new("bridge-jobs").expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
        Self::at(&url, config, folder).await
    }

    pub(crate) async fn at(url: &str, config: Config, folder: Folder) -> Self {
        let below = Backstop::open(url).await.expect("a store").store().clone();
        let faults = Arc::new(Faults::default());
        let store = Arc::new(FaultyStore { below, faults: faults.clone() });
        Self { engine: Backstop::on(store, config), faults, _folder: folder }
    }

    /// Payloads of all jobs, in the order of their submits.
    pub(crate) async fn payloads(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let request = PageRequest { limit: 1_000, after };
            let page = self.engine.jobs(JobFilter::default(), request).await.expect("the store is there");
            all.extend(page.items.iter().map(|view| view.job.spec.payload.to_string()));
            after = page.next;
            if after.is_none() {
                all.reverse();
                return all;
            }
        }
    }
}

impl Stage {
    pub(crate) fn new(folder: Folder, server: Box<dyn TestBroker>) -> Self {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        Self { server, proxy: Proxy::start(target).expect("a proxy"), _folder: folder }
    }

    /// A new queue with a name of its own.
    pub(crate) fn queue(&self) -> String {
        let queue = Self::new_name();
        self.server.make_queue(&queue);
        queue
    }

    pub(crate) fn new_name() -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        format!("orders-{}", COUNT.fetch_add(1, Ordering::SeqCst))
    }

    /// Settings of a source that goes through the proxy.
    pub(crate) fn settings(&self, source: SourceSettings) -> BridgeSettings {
        self.server.settings(BridgeSettings::new(self.proxy.url(&self.server.url()), source))
    }

    /// A session that does not go through the proxy.
    pub(crate) async fn session(&self, queue: &str) -> Box<dyn BrokerSession> {
        let settings =
            BridgeSettings::new(self.server.url(), SourceSettings::new(queue, "charge").prefetch(10));
        let broker =
            brokers::open("orders", &self.server.settings(settings), "session").expect("good settings");
        soon("a session", broker.connect()).await.expect("the broker is there")
    }

    pub(crate) async fn publish(&self, queue: &str, bodies: impl IntoIterator<Item = impl Into<Vec<u8>>>) {
        let messages: Vec<NewMessage> = bodies.into_iter().map(NewMessage::new).collect();
        let mut session = self.session(queue).await;
        soon("a publication", session.publish(queue, &messages)).await.expect("the broker confirms");
    }

    /// Waits until a broker that was started again has this queue again: it may listen before its queues are up.
    pub(crate) async fn until_up(&self, queue: &str) {
        let settings = self
            .server
            .settings(BridgeSettings::new(self.server.url(), SourceSettings::new(queue, "charge")));
        let connected = async {
            let mut looks = tokio::time::interval(Duration::from_millis(100));
            while let Err(error) = broker(&settings).connect().await {
                eprintln!("the broker is not up yet: {error}");
                looks.tick().await;
            }
        };
        soon("the queue after a restart", connected).await;
    }

    /// Messages that wait at the broker.
    pub(crate) async fn depth(&self, queue: &str) -> u64 {
        self.session(queue).await.depth().await.expect("the broker is there").expect("it tells")
    }

    pub(crate) fn start(&self, engine: &TestEngine, source: SourceSettings) -> SourceHandle {
        self.start_with(engine, &self.settings(source))
    }

    pub(crate) fn start_with(&self, engine: &TestEngine, settings: &BridgeSettings) -> SourceHandle {
        Source::new(&engine.engine, "orders", settings).expect("good settings").times(times()).start()
    }
}

/// Short waits: nothing here rests on their length.
pub(crate) fn times() -> SourceTimes {
    let mut times = SourceTimes::default();
    times.wait = Duration::from_millis(100);
    times.backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_millis(100));
    times.look = Duration::from_millis(20);
    // There is one process, which knows its sinks at once.
    times.sink_known = Duration::ZERO;
    times
}

/// Ends a case that hangs, and says where.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} takes too long"),
    }
}

/// Waits for a status, and shows the last one when it does not come.
pub(crate) async fn until(
    source: &SourceHandle,
    wanted: impl Fn(&SourceStatus) -> bool + Send,
) -> SourceStatus {
    match tokio::time::timeout(PATIENCE, source.until(wanted)).await {
        Ok(status) => status,
        Err(_) => panic!("the status does not come; it is {:?}", source.status()),
    }
}

/// Waits for something that no status tells.
pub(crate) async fn eventually(source: &SourceHandle, is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            // Looks again when anything changes, and now and then.
            let received = source.status().received;
            let more = source.until(|status| status.received > received);
            let _ = tokio::time::timeout(Duration::from_millis(20), more).await;
        }
    };
    soon("what a case waits for", look).await;
}

/// A broker that a test connects to by itself.
pub(crate) fn broker(settings: &BridgeSettings) -> Arc<dyn Broker> {
    brokers::open("orders", settings, "test").expect("good settings")
}

/// The bodies of everything that waits in a queue, read and settled.
pub(crate) fn read_all(settings: &BridgeSettings) -> Vec<Vec<u8>> {
    let broker = broker(settings);
    let read = async move {
        let mut session = broker.connect().await.expect("the broker is there");
        let mut bodies = Vec::new();
        loop {
            let found = session.receive(10, Duration::from_millis(300)).await.expect("the broker is there");
            if found.is_empty() {
                return bodies;
            }
            let tags: Vec<_> = found.iter().map(|one| one.tag.clone()).collect();
            bodies.extend(found.into_iter().map(|one| one.body));
            session.ack(&tags).await.expect("the broker is there");
        }
    };
    block_on(soon("reading a queue", read))
}

/// For what is not async, in a runtime that goes on meanwhile.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}
