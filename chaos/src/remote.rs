//! A worker that knows nothing but the HTTP API (E7): it claims, runs, and says how it ended.

mod run;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use backstop::{JobId, WorkerId};
use backstop_core::{Fence, Lease};
use serde_json::{Value, json};

use crate::branches;
use crate::driven::DeadLetterJob;
use crate::errand::SignalJob;
use crate::http;
use crate::joining::JoinJob;
use crate::journal::{Journal, JournalEntry};
use crate::outside::EffectStepsJob;
use crate::partner::CallingJob;
use crate::processes;
use crate::steps::SteppingJob;
use crate::work::CampaignJob;

pub(crate) use run::{RemoteEffectAnswer, RemoteRun};

/// Jobs that one claim takes at most.
const LIMIT: u64 = 4;

/// What it runs: all that a campaign submits and that needs no handler of a program.
const KINDS: [&str; 9] = [
    "toil",
    "stepping",
    "errand",
    "outside",
    "calling",
    "join",
    "redriven",
    "predicate:odd",
    "predicate:large",
];

/// How long a claim waits for work.
const WAIT_MS: u64 = 300;

/// Works until it is killed.
pub fn work(folder: &Path, lease: Duration) {
    let journal = Journal::create_in(folder);
    let name = format!("remote-{}", std::process::id());
    let claim = json!({ "worker": name, "queues": ["default"], "kinds": KINDS, "limit": LIMIT,
        "wait_ms": WAIT_MS, "lease_ms": u64::try_from(lease.as_millis()).unwrap_or(1_000) });
    loop {
        let server = any_server(folder);
        let claimed = server.map(|server| (server, http::post(server, "/api/v1/work/claim", &claim)));
        let Some((server, Ok(claimed))) = claimed else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let results: Vec<Value> = claimed["jobs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|job| run(folder, &journal, job))
            .collect();
        if !results.is_empty() {
            finish(folder, server, &json!({ "results": results }));
        }
    }
}

/// Tells the server it has the jobs from, or another one when that is gone: the same words, as often as it takes.
pub(crate) fn finish(folder: &Path, mut server: SocketAddr, results: &Value) {
    for _ in 0..100 {
        if http::post(server, "/api/v1/work/finish", results).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
        server = any_server(folder).unwrap_or(server);
    }
}

pub(crate) fn any_server(folder: &Path) -> Option<SocketAddr> {
    let servers = processes::announced(folder);
    (!servers.is_empty()).then(|| servers[fastrand::usize(..servers.len())])
}

/// Asks any server, another one when that is gone. What a server refuses without a kill being why is written down.
fn ask(folder: &Path, journal: &Journal, path: &str, body: &Value) -> io::Result<Value> {
    let mut answer = Err(io::Error::from(io::ErrorKind::NotConnected));
    for _ in 0..20 {
        answer = any_server(folder).map_or(answer, |server| http::post(server, path, body));
        let Err(error) = &answer else { break };
        let text = error.to_string();
        if text.contains("stale_lease") {
            break;
        }
        if text.contains("invalid") {
            journal.write(JournalEntry::Broken(format!("{path}: {text}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    answer
}

/// Runs a job; none when it was given up, and its lease runs out.
fn run(folder: &Path, journal: &Journal, job: &Value) -> Option<Value> {
    let token = job["lease"]["token"].as_str()?;
    let (lease, run) = (lease_of(token)?, u32::try_from(job["runs"].as_u64()?).ok()?);
    journal.write(JournalEntry::Began { lease, run });
    let ask = |path: &str, body: &Value| ask(folder, journal, path, body);
    let remote_run = RemoteRun { claimed: job, job: lease.job, run, journal, ask: &ask };
    let outcome = match job["kind"].as_str()? {
        "stepping" => SteppingJob::remotely(&remote_run).ok()?,
        "errand" => SignalJob::remotely(&remote_run).ok()?,
        "outside" => EffectStepsJob::remotely(&remote_run).ok()?,
        "calling" => CallingJob::remotely(&job["payload"])?,
        "join" => JoinJob::remotely(job)?,
        "redriven" => DeadLetterJob::remotely(&job["payload"])?,
        kind if kind.starts_with(branches::ASKING) => branches::remotely(job)?,
        _ => toil(job, run)?,
    };
    journal.write(JournalEntry::Ended { lease, run });
    Some(json!({ "lease": token, "outcome": outcome }))
}

/// Does what `work::CampaignJob` does, by the same numbers.
fn toil(job: &Value, run: u32) -> Option<Value> {
    let number = job["payload"]["number"].as_u64()?;
    std::thread::sleep(CampaignJob { number }.takes());
    Some(match number % 10 {
        0 if job["attempt"] == 0 => {
            json!({ "type": "failed", "class": "error", "message": "it fails the first time" })
        }
        1 if run == 1 => json!({ "type": "snoozed", "delay_ms": 20 }),
        2 => json!({ "type": "failed", "class": "permanent", "message": "it never works" }),
        number => json!({ "type": "succeeded", "result": number }),
    })
}

/// The hold that a lease token stands for. A worker has no use for it; the checker compares it with the ledger.
pub(crate) fn lease_of(token: &str) -> Option<Lease> {
    let bytes = decoded(token.split('.').nth(1)?)?;
    Some(Lease {
        job: JobId::from_bytes(bytes.get(1..17)?.try_into().ok()?),
        worker: WorkerId::from_bytes(bytes.get(17..33)?.try_into().ok()?),
        fence: Fence(i64::from_be_bytes(bytes.get(33..41)?.try_into().ok()?)),
    })
}

/// Base64 for URLs, without padding.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0_u32, Vec::new());
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = ((bits << 6) | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn tokens_are_read_as_they_are_written() {
        assert_eq!(super::decoded("aGVsbG8_-w").as_deref(), Some(&b"hello?\xfb"[..]));
        assert_eq!(super::decoded("a+b"), None);
    }
}
