//! Rejects of a process that really dies: what was told is there, each once, and what waited comes again (W9).
//!
//! The process that dies is this test again, with a variable that says so.
#![cfg(feature = "sqlite")]
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{JobId, State};

/// What makes this test a process that may die: the URL of its store, and the ids of its jobs.
const CHILD_STORE: &str = "BACKSTOP_REJECT_CRASH_STORE";
const CHILD_JOBS: &str = "BACKSTOP_REJECT_CRASH_JOBS";

/// Rejected in a step, whose function is called once.
const IN_STEP: u64 = 30;

/// Rejects items in a step and behind it, and dies in its first run.
#[job(max_retries = 3)]
async fn sift(cx: JobContext<()>, items: u64) -> JobResult {
    let kept = cx.step("sort", || async {
        for item in 0..IN_STEP {
            cx.reject(&format!("step {item}"), "bad").await?;
        }
        JobResult::Ok(IN_STEP)
    });
    kept.await?;
    for item in 0..items {
        cx.reject(&item, "bad").await?;
    }
    if cx.run_number() == 1 {
        std::process::abort();
    }
    Ok(())
}

/// Works until the jobs have ended, unless it dies first.
async fn work(url: &str, jobs: &str) {
    let engine = Backstop::open(url).await.expect("a store");
    let worker = engine.worker(()).register::<Sift>().queue("default", 1);
    let worker = worker.lease(Duration::from_millis(500)).poll(Duration::from_millis(20));
    let worker = worker.start().await.expect("a worker");
    for job in jobs.split_whitespace() {
        engine.wait(job.parse().expect("an id")).await.expect("read");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_loses_no_reject() {
    // W9, C1
    if let (Ok(url), Ok(jobs)) = (std::env::var(CHILD_STORE), std::env::var(CHILD_JOBS)) {
        return work(&url, &jobs).await;
    }
    let folder = backstop_testbed::Folder::new("reject-crash").expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let engine = Backstop::open(&url).await.expect("a store");
    let mut jobs: Vec<(JobId, u64)> = Vec::new();
    // Nothing of the first would be written if the step did not; of the second, two batches of a hundred are.
    for items in [10, 250] {
        let job = engine.enqueue(Sift { items }).max_crashes(3).backoff(Backoff::fixed(Duration::ZERO));
        jobs.push((job.submit().await.expect("stored").id, items));
    }
    let ids: Vec<String> = jobs.iter().map(|(id, _)| id.to_string()).collect();
    let mut deaths = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().expect("a running program has a path"));
        child.args(["--exact", "a_process_that_dies_loses_no_reject"]);
        child.env(CHILD_STORE, &url).env(CHILD_JOBS, ids.join(" "));
        if child.output().expect("it starts").status.success() {
            break;
        }
        deaths += 1;
        assert!(deaths <= jobs.len(), "each job kills once");
    }
    assert_eq!(deaths, jobs.len());
    for (id, items) in jobs {
        let view = engine.job(id).await.expect("read").expect("stored");
        assert_eq!((view.view.state(), view.view.record.crashes), (State::Succeeded, 1));
        let counts = view.reads().rejects.expect("there are some");
        assert_eq!((counts.stored, counts.run, counts.rejected), (IN_STEP + items, 2, items));
        let all = engine.rejects().of_job(id, 500).await.expect("read");
        let named: BTreeSet<_> = all.iter().map(|one| (one.step.clone(), &one.item_fingerprint)).collect();
        assert_eq!((all.len() as u64, named.len() as u64), (IN_STEP + items, IN_STEP + items));
        let first = all.iter().filter(|one| one.run == 1).count() as u64;
        assert_eq!(first, IN_STEP + items / 100 * 100, "what was written before it died");
        assert_eq!(all.iter().filter(|one| one.step.is_some()).count() as u64, IN_STEP);
    }
}
