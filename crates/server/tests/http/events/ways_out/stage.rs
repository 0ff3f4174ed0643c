//! Jobs with secrets wherever they can have some, run to each of their ends, with everybody listening.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::rejects::NewReject;
use backstop::{
    AlertChannel, AlertFuture, AlertMessage, Alerts, Config, Encryption, Events, JobId, LogChannel,
    Retention, worker_id,
};
use backstop_core::job::Masking;
use backstop_core::sealing::SealingKeys;
use backstop_core::signing::SecretKey;
use backstop_server::{Scope, ServerSettings, Webhooks};
use backstop_store::{IncidentFilter, ModelStore, SystemClock};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;

use super::super::reader::Reader;
use super::super::sink::Sink;
use crate::harness::Harness;

/// What nobody may see.
pub(super) const NEEDLE: &str = "needle-7731-haystack";
/// The same in params, which are masked and never sealed.
pub(super) const PARAM: &str = "thimble-5512-haystack";

/// Where a job waits for a worker elsewhere, and where messages of webhooks wait.
pub(super) const CLAIMED: &str = "claimed";
pub(super) const DELIVERIES: &str = "backstop.webhooks";

/// What a job brings, and what its handler says.
pub(super) struct Case {
    pub(super) name: &'static str,
    kind: &'static str,
    payload: String,
    said: Value,
    pub(super) sealed: bool,
}

/// Named secrets, data that no reader follows, and sealed data.
pub(super) fn cases() -> Vec<Case> {
    let named = json!({ "password": NEEDLE, "api_key": { "id": NEEDLE, "parts": [NEEDLE] }, "iban": NEEDLE });
    let note = json!({ "note": NEEDLE });
    let beyond = |number: &str| format!("{{\"iban\":\"{NEEDLE}\",\"note\":[\"{NEEDLE}\"],\"n\":{number}}}");
    let levels = |levels: usize| format!("{}{named}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = (0..200).fold(named.clone(), |inner, _| json!([inner]));
    let leak = |name, payload, said| Case { name, kind: "leak", payload, said, sealed: false };
    let vault = |name, payload, said| Case { name, kind: "vault", payload, said, sealed: true };
    vec![
        leak("named", named.to_string(), named.clone()),
        leak("a number beyond all bounds", beyond("1e999"), deep.clone()),
        leak("a number of 400 digits", beyond(&"9".repeat(400)), deep.clone()),
        leak("100 levels", levels(97), deep.clone()),
        leak("126 levels", levels(123), deep.clone()),
        leak("200 levels", levels(197), deep.clone()),
        vault("sealed", note.to_string(), note.clone()),
        vault("sealed, and beyond all bounds", beyond("-1e999"), deep),
    ]
}

/// A handler that says too much, whatever it was given, and ends as its tag says.
macro_rules! talkative {
    ($name:ident, $kind:literal) => {
        #[derive(Serialize, Deserialize)]
        struct $name(Box<RawValue>);

        impl Job for $name {
            const KIND: &'static str = $kind;
            type Context = Value;
            type Output = JobResult<Value>;
            async fn run(self, cx: JobContext<Value>) -> JobResult<Value> {
                let secret = format!("password={NEEDLE}");
                cx.publish("said", cx.app().clone()).await?;
                cx.log(&secret);
                cx.progress(50, secret.clone()).await?;
                let bad = NewReject::new(cx.app(), format!("login refused: {secret}")).keep_item();
                cx.reject_with(bad).await?;
                match cx.tags()[0].as_str() {
                    "well" => Ok(cx.app().clone()),
                    "reported" => Err(Outcome::failure(cx.app().clone()))?,
                    _ => Err(Outcome::permanent(format!("login refused: {secret}")))?,
                }
            }
        }
    };
}

talkative!(Leak, "leak");
talkative!(Vault, "vault");

/// A kind whose payloads have numbers where the cases have texts: decoders quote what they meet.
#[derive(Debug, Serialize, Deserialize)]
struct Numbers {
    #[serde(default)]
    password: u32,
    #[serde(default)]
    iban: u32,
    #[serde(default)]
    note: u32,
}

impl Job for Numbers {
    const KIND: &'static str = "numbers";
    type Context = Value;
    type Output = JobResult;
    async fn run(self, _: JobContext<Value>) -> JobResult {
        Err(format!("{self:?} was taken for numbers").into())
    }
}

/// A channel that keeps what it is told.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<AlertMessage>>>);

impl AlertChannel for Ear {
    fn name(&self) -> &'static str {
        "ear"
    }

    fn deliver<'a>(&'a self, message: &'a AlertMessage) -> AlertFuture<'a> {
        self.0.lock().unwrap().push(message.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The lines that this thread logs.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self) -> DefaultGuard {
        let (log, level) = (self.clone(), tracing::Level::TRACE);
        let lines = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        tracing::subscriber::set_default(lines.with_writer(move || log.clone()).finish())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Jobs that have come to their ends, and all that was told meanwhile.
pub(super) struct Played {
    pub(super) harness: Harness,
    pub(super) service: Webhooks,
    pub(super) log: Log,
    pub(super) told: String,
    pub(super) delivered: String,
    pub(super) alerted: String,
    pub(super) streamed: String,
    archived: Vec<JobId>,
    ended: Vec<JobId>,
    dead: Vec<JobId>,
    incident: String,
    plan: String,
    webhook: String,
    _listens: DefaultGuard,
}

fn config(ear: &Ear) -> Config {
    let key = SecretKey::new("s1", vec![1; 32]).unwrap();
    Config::default()
        .alerts(Alerts::default().channel(ear.clone()).channel(LogChannel))
        .encryption(Encryption::new(SealingKeys::new([key]).unwrap()).kind("vault"))
        .masking(Masking::default().hide("*", ["iban"]).hide("leak", ["note"]).hide("numbers", ["note"]))
}

impl Played {
    pub(super) async fn new(case: &Case) -> Self {
        let (log, ear) = (Log::default(), Ear::default());
        let listens = log.listen();
        let store = Arc::new(ModelStore::new(Arc::new(SystemClock::default())));
        // Some jobs end and are archived by an earlier process, which delivers the alerts about them too.
        let at_once = Some(Duration::ZERO);
        let retention = Retention::default().succeeded(at_once).failed(at_once);
        let earlier = Backstop::on(store.clone(), config(&ear).retention(retention));
        let archived = run(&earlier, case, &["well", "dead", "reported"]).await;
        earlier.maintain(worker_id(), Duration::from_secs(30)).await.unwrap();

        let mut settings = ServerSettings::default();
        settings.reporting.webhooks = settings.reporting.webhooks.allow_private(true).ports(1..=u16::MAX);
        let harness = Harness::of(Backstop::on(store, config(&ear)), settings);
        let (service, mut sink) = (harness.api.deliver_webhooks().await, Sink::new(&[204]).await);
        let asked = json!({ "url": sink.url, "events": ["published", "dead"] });
        let webhook = harness.post("/api/v1/webhooks", asked).await.ok()["id"].as_str().unwrap().to_owned();
        let mut events = harness.engine().events();
        let caller = super::without(Some(Scope::Logs));
        let path = "/api/v1/events?event=published,dead";
        let mut stream = Reader::open(&harness, path, None, Some(&caller)).await;
        let mut endings = vec!["well", "dead", "reported"];
        if !case.sealed {
            endings.push("numbers");
        }
        let ended = run(harness.engine(), case, &endings).await;
        // Three of them publish something, and one succeeds.
        let messages = 3 + endings.len() - 1;
        let (told, delivered) = told(&mut events, &mut sink, messages).await;
        let streamed = stream.take(messages).await.iter().map(|told| told.data.to_string()).collect();
        let dead = ended[1..].to_vec();
        submit(harness.engine(), case, "well").queue(CLAIMED).submit().await.unwrap();
        let incidents = harness.engine().incidents().matching(IncidentFilter::default(), 10).await.unwrap();
        let incident = incidents.iter().find(|incident| incident.kind == case.kind).unwrap();
        let incident = incident.fingerprint.to_string();
        let plan = harness.post("/api/v1/redrives", json!({ "all": true })).await.ok();
        let plan = plan["plan"]["id"].as_str().unwrap().to_owned();
        let alerted = format!("{:?}", ear.0.lock().unwrap());
        Self {
            harness,
            service,
            log,
            told,
            delivered,
            alerted,
            archived,
            ended,
            dead,
            incident,
            plan,
            webhook,
            streamed,
            _listens: listens,
        }
    }

    /// The path with each thing that it may be about.
    pub(super) fn targets(&self, path: &str) -> Vec<String> {
        let text = |ids: &[JobId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let ids = match path {
            _ if path.starts_with("/api/v1/jobs/{id}") => text(&self.ended),
            _ if path.starts_with("/api/v1/dead-letters/{id}") => text(&self.dead),
            _ if path.starts_with("/api/v1/archive/{id}") => text(&self.archived),
            _ if path.starts_with("/api/v1/redrives") => vec![self.plan.clone()],
            _ if path.starts_with("/api/v1/webhooks") => vec![self.webhook.clone()],
            _ => vec!["r".to_owned()],
        };
        let filled = |id: String| path.replace("{id}", &id).replace("{fingerprint}", &self.incident);
        ids.into_iter()
            .map(|id| filled(id).replace("{name}", "default"))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

fn submit(engine: &Backstop, case: &Case, ends: &str) -> backstop::Enqueue {
    let kind = if ends == "numbers" { ends } else { case.kind };
    let params = json!({ "password": PARAM, "api_key": { "id": [PARAM] }, "iban": PARAM });
    let after = || backstop::Callback {
        kind: "after".into(),
        version: 1,
        queue: "after".into(),
        payload: json!({ "password": NEEDLE }).to_string().into(),
    };
    let job = engine.enqueue_raw(kind, case.payload.as_str()).tag(ends).params(params);
    job.on_success_raw(after()).on_failure_raw(after())
}

/// Runs a job to each of these ends; answers them, and the callbacks that they have left behind them.
async fn run(engine: &Backstop, case: &Case, endings: &[&str]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for ends in endings {
        ids.push(submit(engine, case, ends).submit().await.unwrap().id);
    }
    let worker =
        engine.worker(case.said.clone()).register::<Leak>().register::<Vault>().register::<Numbers>();
    worker.queue("default", 1).inline().unwrap().drain(100).await.unwrap();
    ids
}

/// What subscribers and the receiver of a webhook hear, until it has as many messages as there are.
async fn told(events: &mut Events, sink: &mut Sink, messages: usize) -> (String, String) {
    let (mut delivered, mut told, mut heard) = (String::new(), String::new(), 0);
    for _ in 0..messages {
        delivered.push_str(&sink.next().await.body);
    }
    while heard < messages {
        let event = events.next().await.expect("the engine lives");
        heard += usize::from(["published", "dead"].contains(&event.what.name()));
        told.push_str(&serde_json::to_string(&*event).unwrap());
    }
    (told, delivered)
}
