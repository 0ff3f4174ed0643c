//! What people do about failures over HTTP: incidents, re-drive plans, rules; and who is there to work.

mod bridges;
mod circuits;
mod handoffs;
mod incidents;
mod limits;
mod redrives;
mod retention;
mod retry_budgets;
mod rules;
mod scale;
mod schedules;
mod workers;

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;
use backstop::Outcome;
use backstop::prelude::*;
use backstop_server::{Caller, Scope};
use serde_json::{Value, json};

use crate::harness::{Answer, Harness};

/// A job that ends as its payload says.
#[derive(Serialize, Deserialize)]
struct Play {
    ends: String,
}

impl Job for Play {
    const KIND: &'static str = "play";
    type Context = ();
    type Output = JobResult;
    async fn run(self, _: JobContext<()>) -> JobResult {
        ended(&self.ends)
    }
}

/// The same, of a kind as the incidents of tenant `acme` name it.
#[derive(Serialize, Deserialize)]
struct OfAcme {
    ends: String,
}

impl Job for OfAcme {
    const KIND: &'static str = "acme/play";
    type Context = ();
    type Output = JobResult;
    async fn run(self, _: JobContext<()>) -> JobResult {
        ended(&self.ends)
    }
}

fn ended(ends: &str) -> JobResult {
    match ends {
        "well" => Ok(()),
        "permanent" => Err(Outcome::permanent("the card is stolen"))?,
        other => Err(format!("it ended as {other}").into()),
    }
}

/// An API on a store where jobs have ended so; those that begin with `acme:` are of that kind.
async fn played(endings: &[&str]) -> Harness {
    let harness = Harness::new().await;
    let engine = harness.engine();
    for ends in endings {
        let job = match ends.strip_prefix("acme:") {
            Some(ends) => engine.enqueue(OfAcme { ends: ends.to_owned() }),
            None => engine.enqueue(Play { ends: (*ends).to_owned() }),
        };
        job.max_retries(0).submit().await.unwrap();
    }
    let worker = engine.worker(()).register::<Play>().register::<OfAcme>().queue("default", 1).name("tester");
    worker.inline().unwrap().drain(100).await.unwrap();
    harness
}

/// The holder of a token with these rights.
fn holder(scopes: &[Scope], tenant: Option<&str>, queues: Option<&[&str]>) -> Caller {
    let scopes: BTreeSet<Scope> = scopes.iter().copied().collect();
    let queues = queues.map(|queues| queues.iter().map(|queue| (*queue).to_owned()).collect());
    Caller::holder("robot", scopes, tenant.map(str::to_owned), queues)
}

/// Sends a request as somebody.
async fn send_as(
    harness: &Harness,
    caller: &Caller,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path).extension(caller.clone());
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    harness.send(request.body(body).unwrap()).await
}

/// The fingerprint of the incident whose text holds a word.
async fn fingerprint(harness: &Harness, word: &str) -> String {
    let list = harness.get("/api/v1/incidents").await.ok();
    let found =
        list["items"].as_array().unwrap().iter().find(|one| one["message"].to_string().contains(word));
    found.unwrap()["fingerprint"].as_str().unwrap().to_owned()
}

/// Checks a refusal: its status, its code, and the field it names.
fn refused(answer: &Answer, status: u16, code: &str, field: Option<&str>) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (status, code), "{}", answer.text);
    if let Some(field) = field {
        assert_eq!(answer.json()["error"]["details"], json!({ "field": field }), "{}", answer.text);
    }
}
