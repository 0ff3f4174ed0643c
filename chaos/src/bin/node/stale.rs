//! Claims one job, waits to be told, then tries every write with what may be a stale lease.

use std::time::Duration;

use backstop::prelude::*;
use backstop_chaos::work::CampaignJob;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Ending, Progress};
use backstop_store::{Claim, ClaimQueue, Error, Finish, KnownKind, NewWorker, Note};
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

    let mut line = String::new();
    BufReader::new(tokio::io::stdin()).read_line(&mut line).await?;

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

fn tell(verb: &str, refused: bool) {
    println!("{verb} {}", if refused { "refused" } else { "accepted" });
}
