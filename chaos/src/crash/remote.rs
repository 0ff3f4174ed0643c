//! The job of the crash matrix in a worker that knows nothing but the HTTP API.

use std::path::Path;
use std::time::Duration;

use backstop::Job;
use serde_json::{Value, json};

use super::KillPoint;
use super::job::EffectJob;
use crate::http;
use crate::journal::{Journal, JournalEntry};
use crate::remote::{any_server, finish, lease_of};

/// The variable that says how many jobs a worker claims at once; one without it.
pub const LIMIT: &str = "CHAOS_LIMIT";

/// How long a claim waits for work.
const WAIT_MS: u64 = 300;

/// What lies in the folder of a campaign while its remote workers are to claim nothing more.
pub const STOP: &str = "stop";

/// Runs one job after the other, and reports those of one claim together, until it dies or is asked to stop.
pub fn work(folder: &Path, lease: Duration) {
    let journal = Journal::create_in(folder);
    let name = format!("remote-{}", std::process::id());
    let limit = std::env::var(LIMIT).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    let claim = json!({ "worker": name, "instance": name, "queues": ["default"], "kinds": [EffectJob::KIND],
        "limit": limit, "wait_ms": WAIT_MS, "lease_ms": u64::try_from(lease.as_millis()).unwrap_or(1_000) });
    while !folder.join(STOP).exists() {
        let claimed =
            any_server(folder).map(|server| (server, http::post(server, "/api/v1/work/claim", &claim)));
        let Some((server, Ok(claimed))) = claimed else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let results: Vec<Value> =
            claimed["jobs"].as_array().into_iter().flatten().filter_map(|job| run(&journal, job)).collect();
        if !results.is_empty() {
            finish(folder, server, &json!({ "results": results }));
        }
    }
}

/// Does what [`EffectJob`] does.
fn run(journal: &Journal, job: &Value) -> Option<Value> {
    let token = job["lease"]["token"].as_str()?;
    let (lease, run) = (lease_of(token)?, u32::try_from(job["runs"].as_u64()?).ok()?);
    let effect: EffectJob = serde_json::from_value(job["payload"].clone()).ok()?;
    journal.write(JournalEntry::Began { lease, run });
    effect.die_at(KillPoint::LeaseHeld, run);
    let outcome = if effect.point == Some(KillPoint::RetryScheduling) && job["attempt"] == 0 {
        let message = format!("{} fails the first time", effect.label);
        json!({ "type": "failed", "class": "error", "message": message })
    } else {
        journal.write(JournalEntry::Effect { job: lease.job, key: job["id"].as_str()?.to_owned() });
        effect.die_at(KillPoint::AfterEffect, run);
        json!({ "type": "succeeded", "result": effect.label })
    };
    journal.write(JournalEntry::Ended { lease, run });
    Some(json!({ "lease": token, "outcome": outcome }))
}
