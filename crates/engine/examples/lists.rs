//! How long lists with filters take among many jobs: `cargo run --release --example lists -- URL [COUNT]`.
//!
//! Fills the store with COUNT pending jobs (two million unless told otherwise), of which one in 2,000 is on a queue,
//! of a kind or of a tenant of its own, and prints how long each list takes. Give it a store of its own.

#![allow(clippy::print_stdout, reason = "an example prints what it measured")]

use std::time::{Duration, Instant};

use backstop::core::job::{NewJob, Spec, State};
use backstop::store::{JobFilter, PageRequest, Store, Submit};
use backstop::{Backstop, job_id};

const BATCH: usize = 1_000;
/// One in so many is rare, and each rare thing is met once among the first jobs only: the worst place for a list.
const RARE: usize = 2_000;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a store, such as sqlite:lists.db")?;
    let count: usize = arguments.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let engine = Backstop::open(&url).await?;
    let began = Instant::now();
    fill(&**engine.store(), count).await?;
    println!("{count} jobs stored in {:.1} s", began.elapsed().as_secs_f64());
    let text = |text: &str| Some(text.to_owned());
    let all = JobFilter::default;
    let table = [
        ("all", all()),
        ("a large queue", JobFilter { queue: text("default"), ..all() }),
        ("a small queue, spread", JobFilter { queue: text("small"), ..all() }),
        ("a small queue, oldest jobs only", JobFilter { queue: text("old"), ..all() }),
        ("a rare kind", JobFilter { kind: text("rare"), ..all() }),
        ("a small tenant", JobFilter { tenant: text("acme"), ..all() }),
        ("a small tenant, pending", JobFilter { tenant: text("acme"), state: Some(State::Pending), ..all() }),
    ];
    for (what, filter) in table {
        measure(&engine, what, &filter).await?;
    }
    Ok(())
}

async fn measure(engine: &Backstop, what: &str, filter: &JobFilter) -> Result<(), Failure> {
    let (mut times, mut found) = (Vec::new(), 0);
    for _ in 0..5 {
        let began = Instant::now();
        found = engine.jobs(filter.clone(), PageRequest::first(50)).await?.items.len();
        times.push(began.elapsed());
    }
    times.sort_unstable();
    let millis = |span: Duration| span.as_secs_f64() * 1_000.0;
    println!(
        "{what}: {found} jobs, median {:.2} ms, slowest of 5 {:.2} ms",
        millis(times[2]),
        millis(times[4])
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
        _ if number < 40 => spec.queue = "old".into(),
        _ => {}
    }
    NewJob::new(spec)
}
