//! Both ends: an engine whose jobs end, and a server that takes what it hands off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backstop::handoffs::HandOffView;
use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop::{Backoff, Config, JobId};
use backstop_bridges::handoff::{HandOffHandle, HandOffLoop, HandOffSettings, HandOffTimes};
use backstop_core::job::JobView;
use backstop_server::{Api, Scope, ServerSettings, TokenRequest, bind, serve};
use backstop_store::{JobFilter, Store};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything may take before a case fails: far longer than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stores of both ends.
pub(crate) struct StorePair {
    pub(crate) sender: Arc<dyn Store>,
    pub(crate) receiver: Arc<dyn Store>,
}

/// Pays, or cannot.
#[job(max_retries = 0)]
async fn pay(_cx: JobContext<()>, order: u32, amount: u32) -> JobResult<Value> {
    if amount == 0 {
        return Err("nothing to pay".into());
    }
    Ok(json!({ "paid": amount, "for": order }))
}

/// Waits until something is so.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Times that let a case end soon.
pub(crate) fn quick() -> HandOffTimes {
    let mut times = HandOffTimes::default();
    times.look = Duration::from_millis(10);
    times.backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_millis(50));
    times
}

/// The engine that hands off.
pub(crate) struct Sender {
    pub(crate) engine: Backstop,
}

impl Sender {
    pub(crate) fn new(store: &Arc<dyn Store>) -> Self {
        Self::with(store, Config::default())
    }

    pub(crate) fn with(store: &Arc<dyn Store>, config: Config) -> Self {
        Self { engine: Backstop::on(store.clone(), config) }
    }

    /// Starts a hand-off, and waits until it is known.
    pub(crate) async fn start(&self, name: &str, settings: &HandOffSettings) -> HandOffHandle {
        let started =
            HandOffLoop::new(&self.engine, name, settings).expect("good settings").times(quick()).start();
        let known = async || self.engine.handoffs().show(name).await.expect("read");
        until("the hand-off is known", known).await;
        started
    }

    pub(crate) fn order(&self, order: u32, amount: u32) -> backstop::Enqueue {
        self.engine.enqueue(Pay { order, amount })
    }

    /// Runs a job to its end.
    pub(crate) async fn pay(&self, job: backstop::Enqueue) -> JobId {
        let id = job.submit().await.expect("stored").id;
        self.run("default").await;
        id
    }

    pub(crate) async fn run(&self, queue: &str) {
        let worker = self.engine.worker(()).register::<Pay>().queue(queue.to_owned(), 1);
        let ran = worker.inline().expect("it has kinds").drain(10).await.expect("the store is there");
        assert!(!ran.is_empty(), "there was something to run");
    }

    pub(crate) async fn view(&self, name: &str) -> HandOffView {
        self.engine.handoffs().show(name).await.expect("read").expect("it is there")
    }

    /// Waits until the hand-off stands so.
    pub(crate) async fn stands(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&HandOffView) -> bool,
    ) -> HandOffView {
        until(what, async || Some(self.view(name).await).filter(&wanted)).await
    }

    /// Leaves the store as it was.
    pub(crate) async fn end(&self, names: &[&str]) {
        for name in names {
            self.engine.handoffs().remove(name).await.expect("removed");
        }
        assert_eq!(self.engine.handoffs().list().await.expect("read"), []);
    }
}

/// The server that takes.
pub(crate) struct Receiver {
    pub(crate) api: Api,
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Receiver {
    pub(crate) async fn new(store: &Arc<dyn Store>) -> Self {
        Self::start(store, Config::default(), ServerSettings::default(), 0).await
    }

    pub(crate) async fn start(
        store: &Arc<dyn Store>,
        config: Config,
        settings: ServerSettings,
        port: u16,
    ) -> Self {
        let api = Api::new(Backstop::on(store.clone(), config), settings);
        let listener = bind(([127, 0, 0, 1], port).into(), &api).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let serving = serve(listener, api.clone(), async { drop(stopped.await) });
        let served = tokio::spawn(async move { serving.await.expect("it serves") });
        Self { api, address, stop, served }
    }

    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.served.await.expect("it ends");
    }

    /// A token that may submit.
    pub(crate) async fn token(&self, name: &str, tenant: Option<&str>) -> String {
        let wish = TokenRequest {
            name: name.to_owned(),
            scopes: [Scope::Submit].into_iter().collect(),
            tenant: tenant.map(|tenant| tenant.parse().expect("a name")),
            queues: None,
            expires: None,
        };
        let (token, _) = self.api.tokens().create(wish, "test").await.expect("a token");
        token.reveal().to_owned()
    }

    /// Settings that publish here.
    pub(crate) async fn settings(&self, tenant: Option<&str>) -> HandOffSettings {
        let token = self.token(&format!("sender-{}", self.address.port()), tenant).await;
        HandOffSettings::to(format!("http://{}", self.address)).token(token)
    }

    /// The jobs that were made under a publication, the oldest first.
    pub(crate) async fn jobs(&self, publication: &str) -> Vec<JobView> {
        let found =
            self.api.engine().jobs(JobFilter::default(), PageRequest::first(200)).await.expect("read");
        let of = |view: &JobView| {
            let key = view.job.spec.idempotency_key.as_deref().unwrap_or_default();
            key.contains(&format!("handoff:{publication}:"))
        };
        let mut jobs: Vec<JobView> = found.items.into_iter().filter(of).collect();
        jobs.sort_by_key(|view| (view.job.created_at, view.job.spec.id));
        jobs
    }

    /// The value of a figure, as everybody reads it.
    pub(crate) async fn figure(&self, line: &str) -> Option<String> {
        let text = self.get("/metrics").await;
        text.lines().find_map(|found| found.strip_prefix(line)).map(|value| value.trim().to_owned())
    }

    async fn get(&self, path: &str) -> String {
        let host = self.address;
        self.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await
    }

    pub(crate) async fn post(&self, path: &str, token: &str, body: &Value) -> String {
        let (body, head) = (
            body.to_string(),
            format!("POST {path} HTTP/1.1\r\nhost: {}\r\nconnection: close", self.address),
        );
        let kind = "content-type: application/json";
        let length = body.len();
        self.send(format!(
            "{head}\r\n{kind}\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    async fn send(&self, request: String) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("answered");
        text
    }
}
