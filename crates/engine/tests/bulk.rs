//! Bulk kinds through the library, on every store (W12).
#![allow(missing_docs, reason = "a test")]

#[path = "bulk/post.rs"]
mod post;

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop::prelude::*;
use backstop::{Cause, Config, InlineWorker, JobId, State};
use backstop_store::{ModelStore, PageRequest, Store};

use post::{Desk, Post, post};

struct Stage {
    engine: Backstop,
    desk: Arc<Desk>,
    worker: InlineWorker,
}

impl Stage {
    fn on(store: &Arc<dyn Store>) -> Self {
        let engine = Backstop::on(store.clone(), Config::default());
        let desk = Arc::new(Desk::default());
        let worker = engine.worker_sharing(desk.clone()).register::<Post>().queue("default", 100);
        Self { engine, desk, worker: worker.inline().expect("it has a kind") }
    }

    async fn submit(&self, name: impl ToString, does: &[&str]) -> JobId {
        let job = self.engine.enqueue(post(name, does)).backoff(Backoff::none());
        job.max_retries(20).submit().await.expect("stored").id
    }

    async fn drain(&self) -> usize {
        self.worker.drain(50_000).await.expect("the store is there").len()
    }

    async fn end(&self, id: JobId) -> (State, Vec<Cause>, u32) {
        let record = self.engine.job(id).await.expect("the store is there").expect("stored").view.record;
        let runs = self.engine.attempts(id, PageRequest::first(100)).await.expect("the store is there").items;
        (record.state, runs.iter().rev().map(|run| run.cause).collect(), record.attempt)
    }
}

/// W12: one call, and every way a job can be answered in it.
async fn each_job_is_answered_for_itself(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let mut ids = Vec::new();
    for does in [
        &["ok"][..],
        &["permanent"],
        &["cancel"],
        &["snooze"],
        &["called_off"],
        &["error", "ok"],
        &["silent", "ok"],
    ] {
        ids.push(stage.submit(ids.len(), does).await);
    }
    assert_eq!(stage.drain().await, 7 + 2);
    assert_eq!(stage.desk.sizes(), [7, 2]);
    let mut ends = Vec::new();
    for id in &ids {
        ends.push(stage.end(*id).await);
    }
    let again = (State::Succeeded, vec![Cause::Error, Cause::Succeeded], 1);
    assert_eq!(
        ends,
        [
            (State::Succeeded, vec![Cause::Succeeded], 0),
            (State::Failed, vec![Cause::Permanent], 1),
            (State::Canceled, vec![Cause::Canceled], 0),
            (State::Pending, vec![Cause::Snoozed], 0),
            (State::Canceled, vec![Cause::Canceled], 0),
            again.clone(),
            again,
        ]
    );
    let called_off = stage.engine.job(ids[4]).await.expect("the store is there").expect("stored").view;
    assert_eq!(called_off.result, None, "what was answered too late is not written");
    stage.engine.cancel(ids[3], "not waited for").await.expect("it waits");
}

/// W12: two bad jobs of sixteen are found, and nobody else is charged.
async fn bad_jobs_are_found(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let mut ids = Vec::new();
    for place in 0..16 {
        let does = match place {
            3 => &["breaks_for_good"][..],
            9 => &["panics", "ok"],
            _ => &["ok"],
        };
        ids.push(stage.submit(place, does).await);
    }
    assert_eq!(stage.drain().await, 17);
    let calls = stage.desk.sizes().len() - 1;
    assert!(calls <= 1 + 2 * 2 * 4, "{calls} calls: {:?}", stage.desk.sizes());
    for (place, id) in ids.into_iter().enumerate() {
        let expected = match place {
            3 => (State::Failed, vec![Cause::Permanent], 1),
            9 => (State::Succeeded, vec![Cause::Panic, Cause::Succeeded], 1),
            _ => (State::Succeeded, vec![Cause::Succeeded], 0),
        };
        assert_eq!(stage.end(id).await, expected, "job {place}");
    }
}

/// W12, L21: jobs of one ordering key are never in one call, and come in their order.
async fn jobs_of_one_key_are_never_together(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    for nth in 0..4 {
        for key in ["a", "b", "c"] {
            let job = stage.engine.enqueue(post(format!("{key}{nth}"), &["ok"])).ordering_key(key);
            job.submit().await.expect("stored");
        }
    }
    assert_eq!(stage.drain().await, 12);
    for call in stage.desk.calls() {
        let keys: BTreeSet<&str> = call.iter().map(|name| &name[..1]).collect();
        assert_eq!(keys.len(), call.len(), "{:?}", stage.desk.calls());
    }
    for key in ["a", "b", "c"] {
        let mut of_key: Vec<String> = stage.desk.calls().into_iter().flatten().collect();
        of_key.retain(|name| name.starts_with(key));
        assert_eq!(of_key, [0, 1, 2, 3].map(|nth| format!("{key}{nth}")));
    }
    assert!(stage.desk.sizes().len() < 12, "jobs of several keys are: {:?}", stage.desk.calls());
}

/// What a job that does this would come to by itself, in a call of its own.
fn alone(does: &[&str]) -> (State, Vec<Cause>, u32) {
    let (mut causes, mut charged) = (Vec::new(), 0);
    for word in does {
        let (cause, state) = match *word {
            "error" | "silent" | "breaks" => (Cause::Error, None),
            "panics" => (Cause::Panic, None),
            "again" => (Cause::Snoozed, None),
            "permanent" | "breaks_for_good" => (Cause::Permanent, Some(State::Failed)),
            "cancel" => (Cause::Canceled, Some(State::Canceled)),
            _ => (Cause::Succeeded, Some(State::Succeeded)),
        };
        causes.push(cause);
        charged += u32::from(cause.charges_attempt());
        if let Some(state) = state {
            return (state, causes, charged);
        }
    }
    panic!("the script {does:?} has no end");
}

/// W12: whatever happens in its calls, every job comes to exactly what it would come to alone: nothing is lost, nothing
/// is charged for another, nothing is answered twice.
async fn every_job_comes_to_what_it_would_alone(store: Arc<dyn Store>) {
    const WORDS: [&str; 10] = [
        "ok",
        "early",
        "error",
        "silent",
        "breaks",
        "panics",
        "again",
        "permanent",
        "breaks_for_good",
        "cancel",
    ];
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::on(&store);
    let mut jobs = Vec::new();
    for place in 0..60 {
        let mut does: Vec<&str> = (0..random.usize(0..4)).filter_map(|_| random.choice(WORDS)).collect();
        does.push("ok");
        jobs.push((stage.submit(place, &does).await, does));
    }
    // A snooze of no time may be due after the look for it.
    let mut ran = 0;
    let expected: usize = jobs.iter().map(|(_, does)| alone(does).1.len()).sum();
    for _ in 0..1_000 {
        ran += stage.drain().await;
        if ran >= expected {
            break;
        }
    }
    for (id, does) in &jobs {
        assert_eq!(stage.end(*id).await, alone(does), "{does:?}, seed {seed}");
    }
    assert_eq!((ran, stage.drain().await), (expected, 0), "seed {seed}");
}

/// Every case, on one store.
async fn everything(store: Arc<dyn Store>) {
    each_job_is_answered_for_itself(store.clone()).await;
    bad_jobs_are_found(store.clone()).await;
    jobs_of_one_key_are_never_together(store.clone()).await;
    every_job_comes_to_what_it_would_alone(store).await;
}

#[tokio::test]
async fn in_memory() {
    // W12
    everything(Arc::new(ModelStore::default())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn on_sqlite() {
    // W12
    let folder = backstop_testbed::Folder::new("bulk").expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    everything(Backstop::open(&url).await.expect("a new file").store().clone()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // W12
    let schema = format!("bulk_{}", std::process::id());
    let url = format!("{}?schema={schema}", backstop_testbed::shared::postgres());
    everything(Backstop::open(&url).await.expect("a server").store().clone()).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // W12
    let prefix = format!("bulk_{}_", std::process::id());
    let url = format!("{}?prefix={prefix}", backstop_testbed::shared::mariadb());
    everything(Backstop::open(&url).await.expect("a server").store().clone()).await;
}
