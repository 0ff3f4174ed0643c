//! Jobs that die together, of which one kills its process every time (C3).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{http, processes};

/// Kills its process as soon as all of them run in it, or happened to be there.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Bystander {
    /// It is the one that kills.
    pub guilty: bool,
    /// How many there are.
    pub of: usize,
}

/// How many of them this process has started, and how many run in it.
#[derive(Debug)]
pub struct BystanderCount {
    started: watch::Sender<usize>,
    running: AtomicUsize,
}

impl Job for Bystander {
    const KIND: &'static str = "bystander";
    type Context = BystanderCount;
    type Output = JobResult<usize>;

    /// Answers how many ran with it when it was not killed.
    async fn run(self, cx: JobContext<BystanderCount>) -> JobResult<usize> {
        let company = cx.app();
        let beside = company.running.fetch_add(1, Ordering::SeqCst) + 1;
        company.started.send_modify(|started| *started += 1);
        if cx.run_number() == 1 {
            company.started.subscribe().wait_for(|started| *started >= self.of).await?;
            if !self.guilty {
                std::future::pending::<()>().await;
            }
        }
        if self.guilty {
            std::process::abort();
        }
        company.running.fetch_sub(1, Ordering::SeqCst);
        Ok(beside)
    }
}

/// Works in this process until it is killed, by its own job or from outside.
///
/// # Errors
/// When the store cannot be opened.
pub async fn work(url: &str, lease: Duration) -> JobResult {
    let company = BystanderCount { started: watch::Sender::new(0), running: AtomicUsize::new(0) };
    let worker = Backstop::open(url).await?.worker(company).register::<Bystander>().queue("default", 8);
    worker.lease(lease).poll(Duration::from_millis(50)).grace(Duration::ZERO).run().await?;
    Ok(())
}

/// The same as a worker that knows nothing but the HTTP API of some servers.
pub fn work_remotely(folder: &Path, lease: Duration) {
    let name = format!("remote-{}", std::process::id());
    let claim = json!({ "worker": name, "queues": ["default"], "kinds": [Bystander::KIND], "limit": 8,
        "wait_ms": 300, "lease_ms": u64::try_from(lease.as_millis()).unwrap_or(1_000) });
    let hasty = json!({ "worker": name, "queues": ["default"], "kinds": [Bystander::KIND], "limit": 8,
        "wait_ms": 0, "lease_ms": claim["lease_ms"] });
    let servers = processes::announced(folder);
    let taken = |server: usize, claim: &Value| -> Vec<Value> {
        let answer = http::post(servers[server % servers.len()], "/api/v1/work/claim", claim);
        answer.ok().and_then(|answer| answer["jobs"].as_array().cloned()).unwrap_or_default()
    };
    for turn in 0.. {
        let jobs = taken(turn, &claim);
        // Another server does not hand out what this one would not.
        let more = if jobs.is_empty() { Vec::new() } else { taken(turn + 1, &hasty) };
        if jobs.iter().chain(&more).any(|job| job["payload"]["guilty"] == true) {
            std::process::abort();
        }
        let company = jobs.len() + more.len();
        for job in jobs.iter().chain(&more) {
            finish(servers[turn % servers.len()], job, company);
        }
    }
}

fn finish(server: SocketAddr, job: &Value, company: usize) {
    let outcome = json!({ "type": "succeeded", "result": company });
    let results = json!({ "results": [{ "lease": job["lease"]["token"], "outcome": outcome }] });
    // What is not heard is found by the lease, and fails the campaign.
    let _ = http::post(server, "/api/v1/work/finish", &results);
}
