//! A bulk call whose process really dies, on every database: the job that kills is found, and no other pays for it (W12).
//!
//! The process that dies is this test again, with a variable that says so.
#![cfg(all(feature = "sqlite", feature = "postgres", feature = "mysql"))]
#![allow(missing_docs, reason = "a test")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use backstop::bulk::{BulkContext, BulkItem, BulkJob, BulkSettings};
use backstop::prelude::*;
use backstop::{JobId, State, TerminalReason};
use backstop_store::{JobFilter, PageRequest};
use backstop_testbed::shared;

/// What makes this test a process that may die: the URL of its store, and the file where its calls are written down.
const CHILD_STORE: &str = "BACKSTOP_BULK_CRASH_STORE";
const CHILD_CALLS: &str = "BACKSTOP_BULK_CRASH_CALLS";

/// More than enough: the one that kills may do so twice.
const MOST_PROCESSES: usize = 8;

#[derive(Serialize, Deserialize)]
struct Load {
    name: String,
}

impl BulkJob for Load {
    const KIND: &'static str = "load";
    type Context = PathBuf;
    type Output = JobResult;

    async fn run(jobs: Vec<BulkItem<Self>>, cx: BulkContext<PathBuf>) -> JobResult {
        let mut names: Vec<&str> = jobs.iter().map(|item| item.job().name.as_str()).collect();
        names.sort_unstable();
        let mut calls = std::fs::OpenOptions::new().append(true).create(true).open(cx.app())?;
        writeln!(calls, "{}", names.join(" "))?;
        if names.contains(&"killer") {
            std::process::abort();
        }
        jobs.into_iter().for_each(|item| item.answer(Ok(())));
        Ok(())
    }

    /// All five are in the first call, however far apart they come: it is full then.
    fn bulk() -> BulkSettings {
        BulkSettings::default().most(5).wait(Duration::from_millis(500))
    }

    fn defaults() -> Defaults {
        Defaults::default()
            .policy(Policy::default().crashes(1).backoff(Backoff::fixed(Duration::from_millis(10))))
    }
}

async fn unfinished(engine: &Backstop) -> Vec<JobId> {
    let all = engine.jobs(JobFilter::default(), PageRequest::first(100)).await.expect("read").items;
    all.iter().filter(|view| !view.state().is_terminal()).map(|view| view.job.spec.id).collect()
}

/// Works until every job has ended, unless it dies first.
async fn work(url: &str, calls: PathBuf) {
    let engine = Backstop::open(url).await.expect("a store");
    let worker = engine.worker(calls).register::<Load>().queue("default", 8);
    let worker = worker.lease(Duration::from_millis(500)).poll(Duration::from_millis(20));
    let worker = worker.start().await.expect("a worker");
    for id in unfinished(&engine).await {
        engine.wait(id).await.expect("read");
    }
    worker.stop().await;
}

async fn check(test: &str, url: &str) {
    if let (Ok(url), Some(calls)) = (std::env::var(CHILD_STORE), std::env::var_os(CHILD_CALLS)) {
        return work(&url, calls.into()).await;
    }
    let folder = backstop_testbed::Folder::new(test).expect("a folder");
    let calls = folder.path().join("calls");
    let url = url.replace("FOLDER", &folder.path().display().to_string());
    let engine = Backstop::open(&url).await.expect("a store");
    let mut ids = Vec::new();
    for name in ["a", "b", "killer", "c", "d"] {
        ids.push((name, engine.enqueue(Load { name: name.into() }).submit().await.expect("stored").id));
    }
    let mut deaths = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().expect("a running program has a path"));
        child.args(["--exact", test]).env(CHILD_STORE, &url).env(CHILD_CALLS, &calls);
        if child.output().expect("it starts").status.success() {
            break;
        }
        deaths += 1;
        assert!(deaths < MOST_PROCESSES, "it dies for ever");
    }
    assert_eq!(deaths, 2, "one crash is forgiven, and who can spare no other runs alone");
    let calls = std::fs::read_to_string(&calls).expect("they are written down");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls[0], "a b c d killer", "they died together");
    let others = calls[1..].iter().filter(|call| call.contains("killer"));
    assert!(others.clone().count() == 1 && others.clone().all(|call| *call == "killer"), "alone: {calls:?}");
    for (name, id) in ids {
        let record = engine.job(id).await.expect("read").expect("stored").view.record;
        if name == "killer" {
            assert_eq!((record.state, record.reason), (State::Failed, Some(TerminalReason::Poisoned)));
            assert_eq!((record.crashes, record.attempt), (2, 0));
        } else {
            assert_eq!((record.state, record.crashes, record.attempt), (State::Succeeded, 1, 0), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_file() {
    // W12, C1, C3
    check("on_a_file", "sqlite:FOLDER/jobs.db").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    // W12, C1, C3
    let schema = format!("bulk_crash_{}", std::process::id());
    check("on_postgres", &format!("{}?schema={schema}", shared::postgres())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_mariadb() {
    // W12, C1, C3
    let prefix = format!("bulk_crash_{}_", std::process::id());
    check("on_mariadb", &format!("{}?prefix={prefix}", shared::mariadb())).await;
}
