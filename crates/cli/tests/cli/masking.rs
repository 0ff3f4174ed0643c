//! What the program shows of payloads and results: never a secret, unless somebody asks for it (F11).

use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, Retention, worker_id};
use serde_json::{Value, json};

use crate::program::{Program, on_engine};

/// A job that returns what it was given.
#[derive(Serialize, Deserialize)]
struct Echo(Value);

impl Job for Echo {
    const KIND: &'static str = "echo";
    type Context = ();
    type Output = JobResult<Value>;
    async fn run(self, _: JobContext<()>) -> JobResult<Value> {
        Ok(self.0)
    }
}

const SECRETS: [&str; 5] = ["hunter2", "t-99-zz", "s3same", "ann@example.org", "4111111111111111"];

fn data() -> Value {
    json!({
        "to": "Ann", "smtp": {"password": "hunter2", "hosts": [{"api_key": "t-99-zz", "port": 25}]},
        "dsn": "postgres://app:s3same@db.internal:5432/jobs", "reply": "ann@example.org", "card": 4_111_111_111_111_111_u64,
    })
}

fn hides(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in: {text}");
    }
}

/// Stores and runs one job with secrets in its payload, its parameters and its result.
fn echoed(program: &Program) -> String {
    on_engine(program, async |engine| {
        let job =
            engine.enqueue(Echo(data())).business_key("order-hunter2").params(json!({"token": "t-99-zz"}));
        let id = job.submit().await.expect("stored").id;
        let worker = engine.worker(()).register::<Echo>().queue("default", 1).inline().expect("a worker");
        worker.drain(10).await.expect("it runs");
        id.to_string()
    })
}

/// Moves what has ended to the archive at once.
fn archive(program: &Program) {
    on_engine(program, async |_| {
        let retention = Retention::default().succeeded(Some(Duration::ZERO));
        let config = Config::default().retention(retention);
        let engine = Backstop::open_with(&program.store(), config).await.expect("the same store");
        engine.maintain(worker_id(), Duration::from_secs(30)).await.expect("it archives");
    });
}

#[test]
fn payload_parameters_and_result_are_shown_without_secrets() {
    // F11
    let program = Program::new();
    let id = echoed(&program);
    let shown = program.run(&["job", "show", &id]).exits(0).says(&["db.internal:5432", "Ann", "[redacted]"]);
    hides(&shown.stdout.replace("order-hunter2", ""));
    for args in [
        vec!["job", "show", &id, "--json"],
        vec!["job", "list", "--json"],
        vec!["job", "attempts", &id, "--json"],
    ] {
        let answer = program.run(&args).exits(0);
        hides(&answer.stdout.replace("order-hunter2", ""));
        let document = answer.json();
        let part = document.get("items").map_or(&document, |items| &items[0]);
        assert_eq!(
            part["result"]["smtp"]["hosts"][0],
            json!({"api_key": "[redacted]", "port": 25}),
            "{args:?}"
        );
    }
    let document = program.run(&["job", "show", &id, "--json"]).json();
    assert_eq!(document["payload"]["smtp"]["password"], "[redacted]");
    assert_eq!(document["payload"]["dsn"], "postgres://[redacted]@db.internal:5432/jobs");
    assert_eq!(document["params"], json!({"token": "[redacted]"}));
    // People look jobs up by their keys.
    assert_eq!(document["business_key"], "order-hunter2");
}

#[test]
fn reveal_shows_what_is_stored() {
    // F11
    let program = Program::new();
    let id = echoed(&program);
    program.run(&["job", "show", &id, "--reveal"]).exits(0).says(&SECRETS);
    let document = program.run(&["job", "show", &id, "--reveal", "--json"]).exits(0).json();
    assert_eq!((&document["payload"], &document["result"]), (&data(), &data()));
    assert_eq!(document["params"], json!({"token": "t-99-zz"}));
}

#[test]
fn patterns_of_the_operator_count_and_archived_jobs_are_masked_too() {
    // F11
    let program = Program::new();
    program.write("backstop.toml", "[sanitize]\npatterns = ['Ann']\n");
    let id = echoed(&program);
    let shown = program.run(&["job", "show", &id, "--json"]).exits(0).json();
    assert_eq!(shown["payload"]["to"], "[redacted]");
    archive(&program);
    let page = program.run(&["job", "show", &id]).exits(0).says(&["archived", "[redacted]"]);
    hides(&page.stdout.replace("order-hunter2", ""));
    let document = program.run(&["job", "show", &id, "--json"]).exits(0);
    hides(&document.stdout.replace("order-hunter2", ""));
    let revealed = program.run(&["job", "show", &id, "--reveal", "--json"]).exits(0).json();
    assert_eq!(revealed["payload"], data());
}
