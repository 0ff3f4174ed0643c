//! Archives, prunes and purges with an export for as long as it lives, a few jobs at a time.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{JobId, Retention, State, WorkerId};
use backstop_store::{Duty, Error, JobFilter, PageRequest, Term};

/// Jobs of one step at most: small, so that a kill finds many steps to hit.
const FEW: usize = 12;

pub(super) async fn run(engine: &Backstop, folder: &Path, lease: Duration) -> JobResult {
    let node = backstop::worker_id();
    let mut dice = fastrand::Rng::new();
    let mut exports = File::create(folder.join(format!("export-{}.jsonl", std::process::id())))?;
    println!("ready");
    loop {
        let few = dice.usize(1..=FEW);
        let done = match dice.u8(..3) {
            0 => archive(engine, node, lease, few).await?,
            1 => prune(engine, node, lease, few).await?,
            _ => purge(engine, &mut exports, few).await?,
        };
        if done == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn led(engine: &Backstop, node: WorkerId, duty: Duty, lease: Duration) -> Result<Option<Term>, Error> {
    Ok(engine.store().lead(node, vec![duty], lease).await?.pop().flatten())
}

/// What a step did; another node that leads by now is nothing to complain of.
fn unless_deposed(answer: Result<usize, Error>) -> Result<usize, Error> {
    answer.or_else(|error| if matches!(error, Error::Deposed { .. }) { Ok(0) } else { Err(error) })
}

async fn archive(engine: &Backstop, node: WorkerId, lease: Duration, few: usize) -> Result<usize, Error> {
    let at_once = Some(Duration::ZERO);
    let retention = Retention::forever().succeeded(at_once).canceled(at_once);
    match led(engine, node, Duty::Archive, lease).await? {
        Some(term) => unless_deposed(engine.store().archive(term, retention, few).await),
        None => Ok(0),
    }
}

async fn prune(engine: &Backstop, node: WorkerId, lease: Duration, few: usize) -> Result<usize, Error> {
    match led(engine, node, Duty::Prune, lease).await? {
        Some(term) => unless_deposed(engine.store().prune(term, Duration::ZERO, few).await),
        None => Ok(0),
    }
}

/// As `backstop dead purge --export` does: what goes is on the disk before it goes.
async fn purge(engine: &Backstop, exports: &mut File, few: usize) -> Result<usize, BoxError> {
    let dead = JobFilter { state: Some(State::Failed), ..JobFilter::default() };
    let found = engine.archive().export(dead, PageRequest::first(few)).await?.items;
    for job in &found {
        exports.write_all(format!("{}\n", job.document).as_bytes())?;
    }
    exports.sync_data()?;
    let ids: Vec<JobId> = found.iter().map(|job| job.id).collect();
    Ok(engine.archive().purge(ids).await?.len())
}
