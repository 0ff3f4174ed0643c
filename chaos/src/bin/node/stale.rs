//! Claims one job, waits to be told, then tries every write with what may be a stale lease.

use std::io;
use std::path::Path;
use std::time::Duration;

use backstop::prelude::*;
use backstop_chaos::work::CampaignJob;
use backstop_chaos::{http, processes};
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Ending, Progress};
use backstop_store::{Claim, ClaimQueue, Error, Finish, KnownKind, NewWorker, Note};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

pub(super) async fn run(engine: &Backstop, lease: Duration) -> JobResult {
    let store = engine.store();
    let worker = backstop::worker_id();
    let kinds: std::sync::Arc<[KnownKind]> =
        vec![KnownKind { kind: CampaignJob::KIND.into(), version: 1 }].into();
    let name = "stopped".to_owned();
    let queues = vec!["default".into()];
    store
        .enlist(NewWorker { id: worker, name, code_version: None, queues, kinds: kinds.clone(), lease })
        .await?;
    let queue = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
    let claim = Claim {
        worker,
        queues: vec![queue],
        kinds,
        aging: engine.config().aging,
        limits: Default::default(),
    };
    let claimed = store.claim(claim).await?.jobs.pop().ok_or("there is nothing to claim")?;
    println!("claimed {}", claimed.lease.job);

    told_to_go_on().await?;

    let held = claimed.lease;
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    let progress = Progress { percent: 50, note: "half".to_owned() };
    tell("finish", store.finish(vec![Finish { lease: held, ending }]).await?[0].is_err());
    tell("start", store.start(vec![held]).await?[0].is_err());
    tell("progress", store.annotate(vec![Note::progress(held, progress)]).await?[0].is_err());
    let renewed = store.renew(worker, lease, vec![held]).await;
    tell("renew", matches!(renewed, Err(Error::NotEnlisted { .. })));
    Ok(())
}

/// The same as a worker that knows nothing but the HTTP API: it tries every verb at every server.
pub(super) async fn run_remotely(folder: &Path, lease: Duration) -> JobResult {
    let servers = processes::announced(folder);
    let first = *servers.first().ok_or("there is no server")?;
    let claim = json!({ "worker": "stopped", "queues": ["default"], "kinds": [CampaignJob::KIND], "limit": 1,
        "wait_ms": 5_000, "lease_ms": u64::try_from(lease.as_millis())? });
    let claimed = http::post(first, "/api/v1/work/claim", &claim)?;
    let job = &claimed["jobs"][0];
    let token = job["lease"]["token"].as_str().ok_or("there is nothing to claim")?;
    println!("claimed {}", job["id"].as_str().ok_or("a job has an id")?);

    told_to_go_on().await?;

    let stale = |answer: io::Result<Value>| match answer {
        // Some answer for many at a time: then each has its own.
        Ok(answer) => {
            answer["results"][0]["error"]["code"] == "stale_lease"
                || answer["lost"][0]["reason"] == "stale_lease"
        }
        Err(error) => error.to_string().contains("stale_lease"),
    };
    for server in servers {
        let post = |verb: &str, body: &Value| http::post(server, &format!("/api/v1/work/{verb}"), body);
        let outcome = json!({ "type": "succeeded", "result": 3 });
        let results = json!({ "results": [{ "lease": token, "outcome": outcome }] });
        tell("finish", stale(post("finish", &results)));
        tell("progress", stale(post("progress", &json!({ "lease": token, "percent": 50, "note": "half" }))));
        tell("log", stale(post("log", &json!({ "lease": token, "lines": ["half"] }))));
        tell("step", stale(post("step", &json!({ "lease": token, "name": "half", "result": 50 }))));
        tell("heartbeat", stale(post("heartbeat", &json!({ "worker": "stopped", "leases": [token] }))));
    }
    Ok(())
}

/// Returns when its parent says so.
async fn told_to_go_on() -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await?;
    Ok(())
}

fn tell(verb: &str, refused: bool) {
    println!("{verb} {}", if refused { "refused" } else { "accepted" });
}
