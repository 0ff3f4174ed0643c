//! Worker processes that work side by side, of which some may be broken (H8).

use std::path::Path;
use std::time::Duration;

use backstop::prelude::*;
use serde_json::{Value, json};

use crate::http;
use crate::remote::{any_server, finish};

/// Fails where its process is broken.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct FleetJob {}

/// Says to a process which queue it serves: each has its own, so that each has its share.
pub const QUEUE: &str = "CHAOS_QUEUE";

/// Says to a process that it is broken.
pub const BROKEN: &str = "CHAOS_BROKEN";

impl Job for FleetJob {
    const KIND: &'static str = "fleet";
    /// Whether the process is broken.
    type Context = bool;
    type Output = JobResult;

    async fn run(self, cx: JobContext<bool>) -> JobResult {
        if *cx.app() { Err("no space left on device".into()) } else { Ok(()) }
    }
}

/// Works until it is told to stop.
///
/// # Errors
/// When the store cannot be opened.
pub async fn work(url: &str, lease: Duration) -> JobResult {
    let (queue, broken) = (std::env::var(QUEUE)?, std::env::var_os(BROKEN).is_some());
    let worker = Backstop::open(url).await?.worker(broken).register::<FleetJob>().queue(queue.clone(), 4);
    worker.name(queue).lease(lease).poll(Duration::from_millis(200)).run().await?;
    Ok(())
}

/// The same as a worker that knows nothing but the HTTP API, until it is killed.
///
/// # Errors
/// When nobody says which queue it serves.
pub fn work_remotely(folder: &Path, lease: Duration) -> JobResult {
    let (queue, broken) = (std::env::var(QUEUE)?, std::env::var_os(BROKEN).is_some());
    let outcome = match broken {
        true => json!({ "type": "failed", "class": "error", "message": "no space left on device" }),
        false => json!({ "type": "succeeded", "result": null }),
    };
    let claim = json!({ "worker": queue, "queues": [queue], "kinds": [FleetJob::KIND], "limit": 4,
        "wait_ms": 300, "lease_ms": u64::try_from(lease.as_millis())? });
    loop {
        let claimed =
            any_server(folder).map(|server| (server, http::post(server, "/api/v1/work/claim", &claim)));
        let Some((server, Ok(claimed))) = claimed else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let jobs = claimed["jobs"].as_array().into_iter().flatten();
        let end = |job: &Value| json!({ "lease": job["lease"]["token"], "outcome": outcome });
        let results: Vec<Value> = jobs.map(end).collect();
        if !results.is_empty() {
            finish(folder, server, &json!({ "results": results }));
        }
    }
}
