//! The API as its own OpenAPI document says it is: schemathesis makes requests from the document, right ones and wrong
//! ones, sends them to a real listener, and compares every answer with the document.
//!
//! `cargo xtask servers` installs schemathesis and says where it is; without it this test fails.

use std::net::SocketAddr;
use std::process::{Command, Output};

use backstop::core::incident::IncidentVerb;
use backstop::core::redrive::Selector;
use backstop::prelude::*;
use backstop::{Config, Outcome};
use backstop_server::{Api, Settings};
use backstop_testbed::{Folder, shared};
use serde_json::Value;
use tokio::sync::oneshot;

/// The same requests in every run.
const SEED: &str = "20260117";

/// Requests that are made up for each operation and phase, beyond those that try each bound.
const EXAMPLES: &str = "10";

/// The field by which a request waits for something to happen.
const WAITS: &str = "wait_ms";

/// Paths that no test of single answers can call, each for its reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("^/api/v1/events", "an answer that goes on until the caller leaves"),
    ("^/api/v1/tokens", "a token that is made closes the door to everybody who has none, this test too"),
];

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
    let jobs = engine.jobs(Default::default(), backstop::store::PageRequest::first(2)).await.expect("a page");
    engine.cancel(jobs.items[0].job.spec.id, "a test").await.expect("canceled");
    engine.pause(jobs.items[1].job.spec.id).await.expect("paused");
    let incidents = engine.incidents(10).await.expect("a page");
    let print = &incidents[0].fingerprint;
    engine.say_of_incident(print, IncidentVerb::Acknowledge, "ann", None).await.expect("said");
    engine.redrive(Selector::all()).by("ann").create().await.expect("a plan");
    engine
}

/// The document without what it says of tokens: the server of this test has none, and lets everybody on this machine
/// in. The tests of access go through every route with every sort of token.
fn open_document() -> String {
    let mut document = serde_json::to_value(backstop_server::document()).expect("plain data");
    let paths = document["paths"].as_object_mut().expect("paths");
    for operation in
        paths.values_mut().filter_map(|item| item.as_object_mut()).flat_map(|item| item.values_mut())
    {
        operation.as_object_mut().expect("an operation").remove("security");
    }
    hurry(&mut document);
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

fn run(address: SocketAddr) -> Output {
    let folder = Folder::new("schemathesis").expect("a folder");
    std::fs::write(folder.join("openapi.json"), open_document()).expect("a file");
    let settings = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis.toml");
    let mut command = Command::new(shared::schemathesis());
    command.args(["--config-file", settings, "run", "openapi.json", "--url", &format!("http://{address}")]);
    command.args(["--seed", SEED, "--max-examples", EXAMPLES, "--checks", "all", "--workers", "1"]);
    command.args(["--request-timeout", "20", "--continue-on-failure", "--no-color", "--warnings", "off"]);
    // Of several patterns it takes the last one, so they are one.
    let left_out: Vec<&str> = LEFT_OUT.iter().map(|(path, _)| *path).collect();
    command.args(["--exclude-path-regex", &left_out.join("|")]);
    // What it remembers from one run to the next is in the folder, which goes away: every run is the same.
    command.current_dir(folder.path()).output().expect("schemathesis starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_the_document_says() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let api = Api::new(seeded().await, Settings::default());
    let served = tokio::spawn(backstop_server::serve(listener, api, async {
        // Either word means to stop.
        let _ = stopped.await;
    }));
    let output = tokio::task::spawn_blocking(move || run(address)).await.expect("it ends");
    drop(stop);
    served.await.expect("no panic").expect("it served");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "schemathesis found differences ({})\n{out}\n{err}", output.status);
    assert!(out.contains("Test cases"), "it said nothing of what it did\n{out}\n{err}");
}
