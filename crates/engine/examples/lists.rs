//! How long lists with filters take among many jobs: `cargo run --release --example lists -- URL [COUNT]`.
//!
//! Fills the store with COUNT jobs (two million unless told otherwise), ends some of them well and some badly, and
//! prints how long storing and each list take. What is rare is spread, or among the oldest jobs only: the worst place
//! for a list that begins with the newest. Give it a store of its own.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::{Backstop, job_id};
use backstop_core::WorkerId;
use backstop_core::failure::{Cause, Decision, TerminalReason, Verdict};
use backstop_core::job::{Aging, Ending, NewJob, Spec, State};
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Finish, JobFilter, KnownKind, NewWorker, PageRequest, Store, Submit,
};

const BATCH: usize = 1_000;
/// One in so many is rare.
const RARE: usize = 2_000;
/// So many of the first jobs are on a queue of their own, and nothing else is.
const EARLY: usize = 30_000;
const WORKER: WorkerId = WorkerId::from_u128(1);

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store, such as sqlite:lists.db")?;
    let count: usize = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let engine = Backstop::open(&url).await?;
    if count > 0 {
        let began = Instant::now();
        fill(&**engine.store(), count).await?;
        println!("{count} jobs stored in {:.1} s", began.elapsed().as_secs_f64());
        let began = Instant::now();
        settle(&**engine.store(), count).await?;
        println!("some of them ended in {:.1} s", began.elapsed().as_secs_f64());
    }
    for (what, filter) in table() {
        measure(&engine, what, &filter).await?;
    }
    Ok(())
}

fn table() -> Vec<(&'static str, JobFilter)> {
    let all = JobFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let on = |queue: &str| JobFilter { queue: text(queue), ..all() };
    let of = |kind: &str| JobFilter { kind: text(kind), ..all() };
    let tenant = |tenant: &str| JobFilter { tenant: text(tenant), ..all() };
    let in_state = |state, filter| JobFilter { state: Some(state), ..filter };
    vec![
        ("all", all()),
        ("all, pending", in_state(State::Pending, all())),
        ("all, failed", in_state(State::Failed, all())),
        ("all, succeeded", in_state(State::Succeeded, all())),
        ("all, dead for one reason", JobFilter { reason: Some(TerminalReason::NonRetryable), ..all() }),
        ("a large queue", on("default")),
        ("a large queue, failed", in_state(State::Failed, on("default"))),
        ("a large queue, succeeded", in_state(State::Succeeded, on("default"))),
        ("a small queue, spread", on("small")),
        ("a small queue, pending", in_state(State::Pending, on("small"))),
        ("a small queue, failed", in_state(State::Failed, on("small"))),
        ("a small queue, succeeded", in_state(State::Succeeded, on("small"))),
        ("a small queue, oldest jobs only", on("old")),
        ("30,000 oldest jobs", on("early")),
        ("30,000 oldest jobs, pending", in_state(State::Pending, on("early"))),
        ("30,000 oldest jobs, failed", in_state(State::Failed, on("early"))),
        ("30,000 oldest jobs, succeeded", in_state(State::Succeeded, on("early"))),
        ("a rare kind", of("rare")),
        ("a rare kind, failed", in_state(State::Failed, of("rare"))),
        ("a small tenant", tenant("acme")),
        ("a small tenant, pending", in_state(State::Pending, tenant("acme"))),
    ]
}

async fn measure(engine: &Backstop, what: &str, filter: &JobFilter) -> Result<(), Failure> {
    let (mut times, mut found) = (Vec::new(), 0);
    for _ in 0..7 {
        let began = Instant::now();
        found = engine.jobs(filter.clone(), PageRequest::first(50)).await?.items.len();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let millis = |span: Duration| span.as_secs_f64() * 1_000.0;
    println!(
        "{what}: {found} jobs, median {:.2} ms, slowest of 7 {:.2} ms",
        millis(times[3]),
        millis(times[6])
    );
    Ok(())
}

async fn fill(store: &dyn Store, count: usize) -> Result<(), Failure> {
    for first in (0..count).step_by(BATCH) {
        let jobs = (first..count.min(first + BATCH)).map(job).collect();
        store.submit(Submit { jobs, atomic: true }).await?;
    }
    Ok(())
}

fn job(number: usize) -> NewJob {
    let mut spec = Spec::new(job_id(), if number % RARE == 2 { "rare" } else { "work" }, "{}");
    match number % RARE {
        0 => spec.queue = "small".into(),
        1 => spec.queue = "acme/mail".into(),
        2 => {}
        _ if number < 40 => spec.queue = "old".into(),
        _ if number < EARLY => spec.queue = "early".into(),
        _ => {}
    }
    NewJob::new(spec)
}

/// Ends some jobs on each queue, the oldest first as always: every second one badly.
async fn settle(store: &dyn Store, count: usize) -> Result<(), Failure> {
    let kinds: Arc<[KnownKind]> =
        ["work", "rare"].map(|kind| KnownKind { kind: kind.into(), version: 1 }).into();
    let ends = [("default", count / 50), ("early", 2_000), ("small", 200)];
    let worker = NewWorker {
        id: WORKER,
        name: "lists".into(),
        code_version: None,
        queues: ends.iter().map(|(queue, _)| (*queue).into()).collect(),
        kinds: kinds.clone(),
        lease: Duration::from_secs(600),
    };
    store.enlist(worker).await?;
    for (queue, many) in ends {
        for _ in (0..many).step_by(500) {
            let room = ClaimQueue { queue: queue.into(), limit: 500.min(many), start: 500, any_kind: false };
            let claim = Claim {
                worker: WORKER,
                queues: vec![room],
                kinds: kinds.clone(),
                aging: Aging::default(),
                limits: Default::default(),
            };
            let taken = store.claim(claim).await?.jobs;
            store.finish(taken.iter().enumerate().map(ending).collect()).await?;
        }
    }
    store.retire(WORKER).await?;
    Ok(())
}

fn ending((number, taken): (usize, &ClaimedJob)) -> Finish {
    let header = taken.job.spec.header();
    let ending = if number % 2 == 0 {
        Ending::plain(header, Cause::Succeeded, Decision::succeeded())
    } else {
        let verdict = Verdict::Dead { reason: TerminalReason::NonRetryable };
        Ending::plain(header, Cause::Permanent, Decision::plain(verdict))
    };
    Finish { lease: taken.lease, ending }
}
