//! Jobs, dead letters and the archive over HTTP.

mod archive;
mod dead;
mod described;
mod ids;
mod look;
mod operate;
mod ordering_keys;
mod submit;
mod tenants;

use std::collections::BTreeSet;

use backstop::prelude::*;
use backstop::{JobId, Outcome};
use backstop_server::{Caller, Scope};

use crate::harness::Harness;

/// A job that ends as its payload says.
#[derive(Serialize, Deserialize)]
pub(super) struct Play {
    pub(super) ends: String,
}

impl Job for Play {
    const KIND: &'static str = "play";
    type Context = ();
    type Output = JobResult<serde_json::Value>;
    async fn run(self, cx: JobContext<()>) -> JobResult<serde_json::Value> {
        cx.log("a line");
        match self.ends.as_str() {
            "well" => Ok(serde_json::json!({ "token": "t-99-zz" })),
            _ => Err(Outcome::permanent("the card is stolen"))?,
        }
    }
}

/// Runs a job for each ending on a queue, and answers their ids.
pub(super) async fn played(harness: &Harness, queue: &'static str, endings: &[&str]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for ends in endings {
        let job = harness.engine().enqueue(Play { ends: (*ends).to_owned() }).queue(queue);
        ids.push(job.max_retries(0).submit().await.expect("stored").id);
    }
    let worker =
        harness.engine().worker(()).register::<Play>().queue(queue, 1).name("tester").code_version("1.2.0");
    worker.inline().expect("a worker").drain(1_000).await.expect("all run");
    ids
}

/// The holder of a token with these scopes.
pub(super) fn holder(scopes: &[Scope], tenant: Option<&str>, queues: Option<&[&str]>) -> Caller {
    let scopes: BTreeSet<Scope> = scopes.iter().copied().collect();
    let queues = queues.map(|queues| queues.iter().map(|queue| (*queue).to_owned()).collect());
    Caller::holder("tester", scopes, tenant.map(str::to_owned), queues)
}
