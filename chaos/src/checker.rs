//! Compares what the processes said with what the store holds, when the faults are over.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use backstop::core::job::{Attempt, JobView, State};
use backstop::prelude::*;
use backstop::store::{JobFilter, PageRequest};
use backstop::{Cause, JobId};

use crate::journal::{self, Entry};

/// What a campaign came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Jobs in the store.
    pub jobs: usize,
    /// Submits that were acknowledged.
    pub acked: usize,
    /// Runs in the ledger.
    pub runs: usize,
    /// Of these, crashes.
    pub crashes: usize,
    /// What is wrong, one sentence each; empty is a pass.
    pub violations: Vec<String>,
}

/// Reads every journal of `folder` and the whole store, and lists every violation.
///
/// # Errors
/// When the store cannot be read.
pub async fn check(engine: &Backstop, folder: &Path) -> JobResult<Report> {
    let said = Said::read(folder);
    let jobs = all_jobs(engine).await?;
    let mut report = Report { jobs: jobs.len(), acked: said.acked.len(), ..Report::default() };
    for id in said.acked.iter().filter(|id| !jobs.contains_key(*id)) {
        report.violations.push(format!("job {id} was acknowledged and is lost"));
    }
    for (id, view) in &jobs {
        if !said.tried.contains(id) {
            report.violations.push(format!("job {id} is in the store, and nobody submitted it"));
        }
        let mut rows = engine.attempts(*id, PageRequest::first(1_000)).await?.items;
        rows.reverse();
        report.runs += rows.len();
        report.crashes += rows.iter().filter(|row| row.cause == Cause::Crash).count();
        check_job(view, &rows, &said, &mut report.violations);
    }
    Ok(report)
}

async fn all_jobs(engine: &Backstop) -> JobResult<BTreeMap<JobId, JobView>> {
    let mut jobs = BTreeMap::new();
    let mut page = PageRequest::first(1_000);
    loop {
        let answer = engine.jobs(JobFilter::default(), page).await?;
        jobs.extend(answer.items.into_iter().map(|view| (view.job.spec.id, view)));
        match answer.next {
            Some(next) => page.after = Some(next),
            None => return Ok(jobs),
        }
    }
}

fn check_job(view: &JobView, rows: &[Attempt], said: &Said, violations: &mut Vec<String>) {
    let (id, record) = (view.job.spec.id, &view.record);
    let mut complain = |what: String| violations.push(format!("job {id}: {what}"));
    if !record.state.is_terminal() {
        complain(format!("it is stuck in {}", record.state));
    }
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    if !numbers.iter().copied().eq(1..=record.runs) {
        complain(format!("its {} runs left the ledger rows {numbers:?}", record.runs));
    }
    if rows.windows(2).any(|pair| pair[0].fence >= pair[1].fence) {
        complain("its fences do not grow".to_owned());
    }
    let crashes = rows.iter().filter(|row| row.cause == Cause::Crash).count();
    if crashes != record.crashes as usize {
        complain(format!("{crashes} crashes in the ledger, {} counted", record.crashes));
    }
    let charged = rows.iter().filter(|row| row.cause.charges_attempt()).count();
    if charged != record.attempt as usize {
        complain(format!("{charged} charged runs in the ledger, {} counted", record.attempt));
    }
    let successes = rows.iter().filter(|row| row.cause == Cause::Succeeded).count();
    let last_succeeded = rows.last().is_some_and(|row| row.cause == Cause::Succeeded);
    if successes > 1 || (record.state == State::Succeeded) != last_succeeded {
        complain(format!("it is {} with {successes} successful runs", record.state));
    }
    for row in rows {
        check_run(id, row, said, &mut complain);
    }
    for run in said.began.keys().filter(|(job, _)| *job == id).map(|(_, run)| run) {
        if *run > record.runs {
            complain(format!("a handler began run {run}, which was never counted (C5)"));
        }
    }
}

/// A run whose handler was cut off must be a crash; one whose handler returned may have been cut off afterwards.
fn check_run(id: JobId, row: &Attempt, said: &Said, complain: &mut impl FnMut(String)) {
    let key = (id, row.number);
    let began = said.began.get(&key).copied().unwrap_or(0);
    let ended = said.ended.contains(&key);
    if began > 1 {
        complain(format!("run {} was begun {began} times", row.number));
    }
    if began == 1 && !ended && !matches!(row.cause, Cause::Crash | Cause::Interrupted) {
        complain(format!("run {} was cut off, and the ledger says {}", row.number, row.cause));
    }
    if began == 0 && !matches!(row.cause, Cause::Crash | Cause::Interrupted) {
        complain(format!("run {} never began, and the ledger says {}", row.number, row.cause));
    }
}

/// What all processes said, together.
struct Said {
    tried: HashSet<JobId>,
    acked: HashSet<JobId>,
    began: HashMap<(JobId, u32), usize>,
    ended: HashSet<(JobId, u32)>,
}

impl Said {
    fn read(folder: &Path) -> Self {
        let mut said = Self {
            tried: HashSet::new(),
            acked: HashSet::new(),
            began: HashMap::new(),
            ended: HashSet::new(),
        };
        for entry in journal::read_all(folder).into_iter().flat_map(|(_, entries)| entries) {
            match entry {
                Entry::Trying(job) => drop(said.tried.insert(job)),
                Entry::Acked(job) => drop(said.acked.insert(job)),
                Entry::Began(job, run) => *said.began.entry((job, run)).or_default() += 1,
                Entry::Ended(job, run) => drop(said.ended.insert((job, run))),
            }
        }
        said
    }
}
