//! How long lists take in a store full of dead letters: `cargo run --release --example dead_letters -- URL [COUNT]`.
//!
//! Fills the store with COUNT dead letters (a million unless told otherwise) of 50 incidents, by the same verbs that
//! workers use, and prints how long each list takes. Give it a store of its own.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::{Backstop, job_id, worker_id};
use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::failure::{Cause, Decision, TerminalReason, Verdict};
use backstop_core::job::{Aging, Ending, FailureRecord, NewJob, Spec, State};
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Finish, JobFilter, KnownKind, NewWorker, PageRequest, Store, Submit,
};

const BATCH: usize = 1_000;
const INCIDENTS: usize = 50;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store, such as sqlite:dead.db")?;
    let count: usize = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let engine = Backstop::open(&url).await?;
    let began = Instant::now();
    fill(&**engine.store(), count).await?;
    println!("{count} dead letters stored in {:.1} s", began.elapsed().as_secs_f64());
    let incidents = engine.incidents().list(INCIDENTS).await?;
    let dead: u64 = incidents.iter().map(|incident| incident.open).sum();
    println!("{} incidents with {dead} dead letters", incidents.len());
    let failed = || JobFilter { state: Some(State::Failed), ..JobFilter::default() };
    let of_one = || JobFilter { fingerprint: Some(incidents[0].fingerprint.to_string()), ..failed() };
    let page = || PageRequest::first(50);
    measure("incident list", async || engine.incidents().list(INCIDENTS).await.map(drop)).await?;
    measure("dead list, 50 of all", async || engine.jobs(failed(), page()).await.map(drop)).await?;
    measure("dead list, 50 of one incident", async || engine.jobs(of_one(), page()).await.map(drop)).await?;
    measure("queue list", async || engine.queues().list().await.map(drop)).await?;
    Ok(())
}

async fn measure<E: Into<Failure>>(what: &str, ask: impl AsyncFn() -> Result<(), E>) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        ask().await.map_err(Into::into)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let millis = |span: Duration| span.as_secs_f64() * 1_000.0;
    println!("{what}: median {:.2} ms, slowest of 20 {:.2} ms", millis(times[10]), millis(times[19]));
    Ok(())
}

async fn fill(store: &dyn Store, count: usize) -> Result<(), Failure> {
    let worker = worker_id();
    let kinds: Arc<[KnownKind]> = vec![KnownKind { kind: "charge".into(), version: 1 }].into();
    let lease = Duration::from_secs(3_600);
    let (name, queues) = ("filler".to_owned(), vec!["default".into()]);
    store
        .enlist(NewWorker { id: worker, name, code_version: None, queues, kinds: kinds.clone(), lease })
        .await?;
    let mut dead = 0;
    while dead < count {
        let batch = BATCH.min(count - dead);
        let jobs = (0..batch).map(|_| NewJob::new(Spec::new(job_id(), "charge", "{}"))).collect();
        store.submit(Submit { jobs, atomic: true }).await?;
        let room = ClaimQueue { queue: "default".into(), limit: batch, start: batch, any_kind: false };
        let claim = Claim {
            worker,
            queues: vec![room],
            kinds: kinds.clone(),
            aging: Aging::default(),
            limits: Default::default(),
        };
        let taken = store.claim(claim).await?.jobs;
        let endings = taken.iter().zip(dead..).map(|(job, number)| dies(job, number % INCIDENTS)).collect();
        store.finish(endings).await?;
        dead += taken.len();
    }
    Ok(())
}

fn dies(claimed: &ClaimedJob, incident: usize) -> Finish {
    let verdict = Verdict::Dead { reason: TerminalReason::NonRetryable };
    let decision = Decision::plain(verdict);
    let mut ending = Ending::plain(claimed.job.spec.header(), Cause::Permanent, decision);
    // Words, because numbers would be taken out of the fingerprint.
    let word = |digit: usize| ["ash", "birch", "cedar", "elm", "fir", "holly", "ivy", "larch"][digit % 8];
    let message = format!("the {} service refused the {} call", word(incident), word(incident / 8));
    let error_type = "Refused".to_owned();
    let fingerprint = fingerprint("charge", &error_type, &message);
    ending.failure = Some(FailureRecord { error_type, message, fingerprint });
    Finish { lease: claimed.lease, ending }
}
