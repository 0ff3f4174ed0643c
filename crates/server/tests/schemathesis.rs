//! The API as its own OpenAPI document says it is: schemathesis makes requests from the document, right ones and wrong
//! ones, sends them to a real listener, and compares every answer with the document.
//!
//! `cargo xtask servers` installs schemathesis and says where it is; without it this test fails.

use std::net::SocketAddr;
use std::process::{Command, Output};

use backstop::prelude::*;
use backstop::{Config, Outcome};
use backstop_core::incident::IncidentVerb;
use backstop_core::redrive::PlanSelector;
use backstop_server::{Api, Rate, Scope, ServerSettings, Token, TokenGrant, TokenRequest};
use backstop_testbed::{Folder, shared};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The same requests in every run.
const SEED: &str = "20260117";

/// How much is tried: requests that are made up for each operation and phase, and the phases.
#[derive(Clone, Copy)]
struct Effort {
    examples: &'static str,
    phases: &'static str,
}

/// Everything: the phase of coverage tries each bound of each field.
const WHOLE: Effort = Effort { examples: "10", phases: "examples,coverage,fuzzing,stateful" };

/// For a caller that is refused nearly everywhere, before what it sends is looked at.
const BRIEF: Effort = Effort { examples: "2", phases: "examples,fuzzing" };

/// A bound that no run reaches.
const COUNTLESS: u32 = 1_000_000;

/// The field by which a request waits for something to happen.
const WAITS: &str = "wait_ms";

/// A job that ends as its payload says.
#[derive(Serialize, Deserialize)]
struct Play {
    ends: String,
}

impl Job for Play {
    const KIND: &'static str = "play";
    type Context = ();
    type Output = JobResult;
    async fn run(self, cx: JobContext<()>) -> JobResult {
        cx.log("on its way");
        match self.ends.as_str() {
            "well" => Ok(()),
            "permanent" => Err(Outcome::permanent("the card is stolen"))?,
            other => Err(format!("it ended as {other}").into()),
        }
    }
}

/// An engine with a job in every state that needs no crash, an incident that was looked at, a plan and a rule.
async fn seeded() -> Backstop {
    let engine = Backstop::open_with("memory:", Config::default()).await.expect("a store in memory");
    for ends in ["well", "permanent", "rain", "rain"] {
        let job = Play { ends: ends.to_owned() };
        engine.enqueue(job).max_retries(0).tag("played").submit().await.expect("stored");
    }
    let worker = engine.worker(()).register::<Play>().queue("default", 1).name("tester").inline();
    worker.expect("a worker").drain(100).await.expect("all run");
    for kind in ["mail", "mail.later", "mail.never"] {
        engine.enqueue_raw(kind, r#"{"to":"ann"}"#).queue("mail").submit().await.expect("stored");
    }
    let jobs = engine.jobs(Default::default(), backstop_store::PageRequest::first(2)).await.expect("a page");
    engine.cancel(jobs.items[0].job.spec.id, "a test").await.expect("canceled");
    engine.pause(jobs.items[1].job.spec.id).await.expect("paused");
    let incidents = engine.incidents().list(10).await.expect("a page");
    let print = &incidents[0].fingerprint;
    engine.incidents().say(print, IncidentVerb::Acknowledge, "ann", None).await.expect("said");
    engine.redrives().plan(PlanSelector::all()).by("ann").create().await.expect("a plan");
    engine
}

/// The document of the server, in a hurry.
fn document() -> String {
    let mut document = serde_json::to_value(backstop_server::document()).expect("plain data");
    hurry(&mut document);
    // The document says of a stream that it is a text. Schemathesis takes that for a word about each event, so it is
    // told what an event is.
    let text = json!({ "type": "string" });
    let fields = json!({ "id": text, "event": text, "data": text });
    let event = json!({ "type": "object", "required": ["id", "event", "data"], "properties": fields });
    let stream = "/paths/~1api~1v1~1events/get/responses/200/content/text~1event-stream/schema";
    *document.pointer_mut(stream).expect("a stream of events") = event;
    document.to_string()
}

/// Leaves out every field that lets a request wait: an answer that comes late is a test of its own.
fn hurry(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove(WAITS);
            fields.values_mut().for_each(hurry);
        }
        Value::Array(items) => {
            items.retain(|item| item != WAITS && item["name"] != WAITS);
            items.iter_mut().for_each(hurry);
        }
        _ => {}
    }
}

/// What becomes of a token of the configuration: it cannot be revoked, so no request of a run can end the run.
fn granted(name: &str, scopes: &[Scope]) -> (Token, TokenGrant) {
    let scopes = scopes.iter().copied().collect();
    let wish = TokenRequest { name: name.to_owned(), scopes, tenant: None, queues: None, expires: None };
    wish.granted().expect("a token")
}

/// An API whose answers all end.
fn api(engine: Backstop, grants: Vec<TokenGrant>) -> Api {
    let mut settings = ServerSettings::default();
    settings.access.tokens = grants;
    // The checks of access show a wrong token on every operation: a bound on those would answer for the check.
    settings.access.failed_logins = Rate::per_second(COUNTLESS, COUNTLESS);
    settings.access.rate = None;
    let api = Api::new(engine, settings);
    // A stream of events then says how it begins and ends, as when a server goes down, instead of going on.
    api.close_streams();
    api
}

fn run(address: SocketAddr, token: &Token, effort: Effort) -> Output {
    let folder = Folder::new("schemathesis").expect("a folder");
    std::fs::write(folder.join("openapi.json"), document()).expect("a file");
    let settings = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis.toml");
    let mut command = Command::new(shared::schemathesis());
    command.args(["--config-file", settings, "run", "openapi.json", "--url", &format!("http://{address}")]);
    command.args(["--header", &format!("Authorization: Bearer {}", token.reveal())]);
    command.args(["--seed", SEED, "--max-examples", effort.examples, "--checks", "all", "--workers", "1"]);
    command.args(["--phases", effort.phases]);
    command.args(["--request-timeout", "20", "--continue-on-failure", "--no-color", "--warnings", "off"]);
    // What it remembers from one run to the next is in the folder, which goes away: every run is the same.
    command.current_dir(folder.path()).output().expect("schemathesis starts")
}

/// Serves an API while schemathesis calls it with a token that has these scopes.
async fn check(scopes: &[Scope], effort: Effort) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let (token, grant) = granted("tester", scopes);
    let served = tokio::spawn(backstop_server::serve(listener, api(seeded().await, vec![grant]), async {
        // Either word means to stop.
        let _ = stopped.await;
    }));
    let output = tokio::task::spawn_blocking(move || run(address, &token, effort)).await.expect("it ends");
    drop(stop);
    served.await.expect("no panic").expect("it served");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "schemathesis found differences ({})\n{out}\n{err}", output.status);
    assert!(out.contains("Test cases"), "it said nothing of what it did\n{out}\n{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_the_document_says() {
    check(&Scope::ALL, WHOLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_is_as_the_document_says() {
    // E13
    check(&[Scope::Submit], BRIEF).await;
}
