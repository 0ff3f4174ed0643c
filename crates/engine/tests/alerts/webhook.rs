//! The webhook against a server on this machine: what it sends, how it signs, and what it never says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::{Alerts, Ended, Finished, Handed, LogChannel, RemoteWorker, Webhook, WorkRequest};
use backstop_core::failure::{Cause, Failure};
use backstop_store::KnownKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::stage::{Stage, die};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEXT: &str = "whsec_c2VjcmV0LW9mLWEtcm90YXRlZC1lbmRwb2ludA==";
const PATH: &str = "/hooks/T0pSecretPath";

/// One request as it came.
#[derive(Debug, Clone)]
struct Received {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers)).1
    }

    /// True when one of the signatures is that of this secret.
    fn is_signed_by(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.trim_start_matches("whsec_")).expect("base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
        let (id, moment) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        mac.update(format!("{id}.{moment}.{}", self.body).as_bytes());
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        self.header("webhook-signature").split(' ').any(|one| one == expected)
    }
}

/// A server that answers each request with the next of its answers, the last one again and again.
struct Server {
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    async fn answering(answers: &[&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}{PATH}", listener.local_addr().expect("bound"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let (answers, kept) = (answers.to_vec(), received.clone());
        tokio::spawn(async move {
            for turn in 0.. {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let request = read(&mut stream).await;
                kept.lock().expect("no test panics here").push(request);
                let answer = answers[turn.min(answers.len() - 1)];
                stream.write_all(answer.as_bytes()).await.expect("the client reads");
            }
        });
        Self { address, received }
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test panics here").clone()
    }

    fn stage(&self, secrets: &[&str]) -> Stage {
        let webhook = Webhook::new(&self.address, secrets).expect("a webhook");
        Stage::with(Alerts::default().channel(webhook).channel(LogChannel))
    }
}

/// The address of a server that answers an encrypted greeting in clear.
async fn speaking_no_tls() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("https://{}{PATH}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.write_all(BROKEN.as_bytes()).await.expect("the client reads");
        // The greeting is read, or the answer would be lost with the connection.
        let _ = stream.read_buf(&mut Vec::new()).await;
    });
    address
}

async fn read(stream: &mut TcpStream) -> Received {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        stream.read_buf(&mut bytes).await.expect("a request");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        break (head.to_owned(), length.expect("a length").parse::<usize>().expect("a number"));
    };
    let begin = head.len() + 4;
    while bytes.len() < begin + length {
        stream.read_buf(&mut bytes).await.expect("a body");
    }
    let mut lines = head.lines().map(str::to_owned);
    let line = lines.next().expect("a request line");
    let pair = |line: String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let body = String::from_utf8(bytes[begin..begin + length].to_vec()).expect("UTF-8");
    Received { line, headers: lines.filter_map(pair).collect(), body }
}

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
const MOVED: &str =
    "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn an_alert_is_posted_as_json_and_signed_with_every_secret() {
    // D3
    let server = Server::answering(&[OK]).await;
    let stage = server.stage(&[SECRET, NEXT]);
    let jobs = stage.kill(&["the disk is gone"; 3]).await;
    stage.maintain().await;
    let received = server.received();
    assert_eq!(received.len(), 1);
    let request = &received[0];
    assert_eq!(request.line, format!("POST {PATH} HTTP/1.1"));
    assert_eq!(request.header("content-type"), "application/json");
    assert!(request.is_signed_by(SECRET) && request.is_signed_by(NEXT));
    assert!(!request.is_signed_by("whsec_bm9ib2R5IGtub3dzIHRoaXMga2V5IGhlcmU="));
    let mut altered = request.clone();
    altered.body = altered.body.replace("disk", "dusk");
    assert!(!altered.is_signed_by(SECRET));
    let body: Value = serde_json::from_str(&request.body).expect("JSON");
    assert_eq!((&body["type"], &body["data"]["count"]), (&"backstop.alert".into(), &3.into()));
    assert_eq!(body["data"]["error"], "the disk is gone");
    assert_eq!(body["data"]["id"], request.header("webhook-id"));
    assert_eq!(body["data"]["jobs"][0], jobs[0].to_string());
    assert_eq!(body["data"]["envelope"]["terminalReason"], "non_retryable");
    let log = stage.log(body["data"]["incident"].as_str().expect("a text")).await;
    assert_eq!((log.channel.as_str(), log.told, log.suppressed), ("webhook", 1, 2));
}

#[tokio::test]
async fn a_refused_request_is_made_again_with_the_same_id_and_body() {
    // D3
    let server = Server::answering(&[BROKEN, MOVED, OK]).await;
    let stage = server.stage(&[SECRET]);
    stage.kill(&["the disk is gone"]).await;
    for seconds in [0, 5, 10, 60] {
        stage.pass(seconds).await;
    }
    let received = server.received();
    assert_eq!(received.len(), 3, "and no redirect was followed");
    for request in &received {
        assert_eq!(request.header("webhook-id"), received[0].header("webhook-id"));
        assert_eq!(request.body, received[0].body);
        assert!(request.is_signed_by(SECRET));
    }
}

#[tokio::test]
async fn neither_secret_nor_path_is_in_any_log_line_error_or_document() {
    // D3, F11
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let (broken, moved) = (Server::answering(&[BROKEN]).await, Server::answering(&[MOVED]).await);
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    let plain = speaking_no_tls().await;
    for (address, trouble) in [
        (broken.address.clone(), "answered 503"),
        (moved.address.clone(), "answered 307: redirects are not followed"),
        (format!("http://{nobody}{PATH}"), "cannot connect"),
        (plain, "cannot encrypt the connection"),
        (format!("http://no-such-host.invalid{PATH}"), "cannot connect"),
    ] {
        let webhook = Webhook::new(&address, &[SECRET]).expect("a webhook");
        let shown = webhook.shown();
        assert!(!format!("{webhook:?}").contains("T0pSecret"));
        let stage = Stage::with(Alerts::default().channel(webhook));
        stage.kill(&["the disk is gone"]).await;
        stage.maintain().await;
        let incident =
            stage.engine.incidents().list(1).await.expect("the model is there").remove(0).fingerprint;
        let log = stage.log(incident.as_ref()).await;
        let told = log.trouble.expect("it failed");
        assert!(told.contains(trouble) && told.contains(&shown), "{told}");
        assert!(!told.contains("T0pSecret"), "{told}");
    }
    let text = lines.text();
    assert!(text.contains("an alert was not delivered and is tried again"), "{text}");
    for secret in ["T0pSecret", "MfKQ9r8G", "whsec_"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn the_log_channel_is_one_line_per_incident_and_gap() {
    // D3
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let stage = Stage::with(Alerts::default().channel(LogChannel).gap(Duration::from_secs(5)));
    stage.kill(&["the disk is gone"; 200]).await;
    stage.maintain().await;
    stage.kill(&["the disk is gone"; 300]).await;
    stage.pass(4).await;
    stage.pass(1).await;
    let alerts: Vec<String> =
        lines.text().lines().filter(|line| line.contains("alert: jobs")).map(str::to_owned).collect();
    assert_eq!(alerts.len(), 2, "{alerts:?}");
    assert!(alerts[0].contains("count=200") && alerts[1].contains("count=300"), "{alerts:?}");
    assert!(alerts[0].contains("ERROR") && alerts[0].contains("the disk is gone"), "{alerts:?}");
}

async fn take(stage: &Stage) -> Handed {
    let request = WorkRequest {
        worker: RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None },
        queues: vec!["default".into()],
        kinds: [KnownKind { kind: "die".into(), version: 1 }].into(),
        limit: 1,
        wait: Duration::ZERO,
        lease: Duration::from_secs(30),
        code_version: None,
    };
    stage.engine.remote().claim(request).await.expect("the model is there").remove(0)
}

#[tokio::test]
async fn every_dead_letter_has_its_critical_line() {
    // F6, F12
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let stage = Stage::with(Alerts::default());
    let submit = async |job: backstop::Enqueue<()>| job.submit().await.expect("stored").id;
    let marked = submit(stage.engine.enqueue(die("its end"))).await;
    let failure = Failure::new(Cause::Permanent, "MailError", "it bounced").because("no such mailbox");
    let (grant, ended) = (take(&stage).await.grant, Ended::Failed(failure));
    let result = Finished { grant, ended, step: None, logs: Vec::new() };
    stage.engine.remote().finish(vec![result.clone()]).await.expect("the model is there");
    // Told of again: no second death.
    stage.engine.remote().finish(vec![result]).await.expect("the model is there");
    let poisoned = submit(stage.engine.enqueue(die("its end")).max_crashes(0)).await;
    take(&stage).await;
    stage.pass(60).await;
    let now = stage.engine.store().now().await.expect("the model is there");
    let late = submit(stage.engine.enqueue(die("its end")).expires_at(now)).await;
    stage.pass(1).await;
    let text = lines.text();
    for (job, words) in [(marked, "no such mailbox"), (poisoned, "reason=poisoned"), (late, "reason=expired")]
    {
        let job = job.to_string();
        let about = |line: &&str| line.contains("became a dead letter") && line.contains(&job);
        let found: Vec<&str> = text.lines().filter(about).collect();
        assert_eq!(found.len(), 1, "{words}: {text}");
        assert!(found[0].starts_with("ERROR") && found[0].contains(words), "{words}: {}", found[0]);
    }
}

/// Every log line of a test, with all its fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl Lines {
    fn text(&self) -> String {
        self.0.lock().expect("no line panics").clone()
    }
}

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().expect("no line panics");
        text.push_str(event.metadata().level().as_str());
        event.record(&mut Fields(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
