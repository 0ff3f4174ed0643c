//! An engine on the model store whose clock is tokio's own, so that paused time moves both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, JobId, Timestamp, WorkerBuilder};
use backstop_core::job::{Attempt, JobDetail, State};
use backstop_store::{Clock, ModelStore, PageRequest, Store};

/// Follows tokio's time from a fixed moment.
pub(crate) struct TokioClock(tokio::time::Instant);

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000).after(self.0.elapsed())
    }
}

pub(crate) fn model() -> Arc<dyn Store> {
    Arc::new(ModelStore::new(Arc::new(TokioClock::new())))
}

pub(crate) fn engine() -> Backstop {
    engine_with(Config::default())
}

pub(crate) fn engine_with(config: Config) -> Backstop {
    Backstop::on(model(), config)
}

/// What handlers of these tests share.
#[derive(Default)]
pub(crate) struct App {
    pub(crate) starts: AtomicU32,
}

/// A job that does what its payload says, run by run.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Act {
    /// One word a run; the last one repeats.
    pub(crate) script: Vec<String>,
}

pub(crate) fn act(script: &[&str]) -> Act {
    Act { script: script.iter().map(ToString::to_string).collect() }
}

#[derive(Debug, thiserror::Error)]
#[error("plain trouble")]
pub(crate) struct Plain;

impl Job for Act {
    const KIND: &'static str = "act";
    type Context = Arc<App>;
    type Output = JobResult<serde_json::Value>;

    async fn run(self, cx: JobContext<Arc<App>>) -> JobResult<serde_json::Value> {
        cx.app().starts.fetch_add(1, Ordering::SeqCst);
        let turn = (cx.run_number() as usize - 1).min(self.script.len() - 1);
        let word = self.script[turn].clone();
        cx.log(format!("run {} does {word}", cx.run_number()));
        match word.as_str() {
            "ok" => Ok(serde_json::json!({ "done": true })),
            "error" => Err(Plain.into()),
            "panic" => panic!("out of cheese"),
            "leak" => {
                cx.log("token=sk_live_4eC39HqLyjWDarjtT1zdp7dc");
                Err("cannot reach postgres://joe:hunter2@db.example.com/mail".into())
            }
            "leak_by_panic" => panic!("password=hunter2 was refused by db.example.com"),
            "permanent" => Err(Outcome::permanent("it cannot work").into()),
            "invalid" => Err(Outcome::invalid("it makes no sense").into()),
            "snooze" => Err(Outcome::snooze(Duration::from_secs(60)).into()),
            "retry_in" => Err(Outcome::retry_in(Duration::from_secs(1_234), Plain).into()),
            "transient" => Err(Outcome::transient("smtp").into()),
            "cancel" => Err(Outcome::cancel("no longer needed").into()),
            "failure" => Err(Outcome::failure(serde_json::json!({ "declined": 51 })).into()),
            "huge" => Ok(serde_json::Value::String("x".repeat(70_000))),
            "hang" => std::future::pending().await,
            "until_canceled" => {
                cx.canceled().await;
                Ok(serde_json::Value::Null)
            }
            other => Err(format!("no such act: {other}").into()),
        }
    }
}

pub(crate) fn worker(engine: &Backstop) -> WorkerBuilder<Arc<App>> {
    engine.worker(Arc::new(App::default())).register::<Act>().queue("default", 4)
}

pub(crate) fn quick() -> Policy {
    Policy::default().backoff(Backoff::fixed(Duration::from_secs(1)))
}

pub(crate) async fn detail(engine: &Backstop, job: JobId) -> JobDetail {
    engine.job(job).await.expect("the model is there").expect("the job is there")
}

pub(crate) async fn state(engine: &Backstop, job: JobId) -> State {
    detail(engine, job).await.view.state()
}

pub(crate) async fn ledger(engine: &Backstop, job: JobId) -> Vec<Attempt> {
    let mut rows = engine.attempts(job, PageRequest::first(1_000)).await.expect("the model is there").items;
    rows.reverse();
    rows
}

/// Lets paused time run until the job is in `wanted`; a job that never gets there fails the test.
pub(crate) async fn reach(engine: &Backstop, job: JobId, wanted: State) {
    for _ in 0..40_000 {
        if state(engine, job).await == wanted {
            return;
        }
        tokio::time::advance(Duration::from_millis(50)).await;
        tokio::task::yield_now().await;
    }
    let view = detail(engine, job).await;
    panic!("the job never became {wanted}: {}", serde_json::to_string(&view).expect("plain"));
}

/// Submits one scripted job, runs it until it is in `wanted`, and returns its id.
pub(crate) async fn play(engine: &Backstop, script: &[&str], policy: Policy, wanted: State) -> JobId {
    let id = engine.enqueue(act(script)).policy(policy).submit().await.expect("admitted").id;
    let running = worker(engine).start().await.expect("the model is there");
    reach(engine, id, wanted).await;
    running.stop().await;
    id
}

/// Lets every task that can go on do so, without moving time.
pub(crate) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass second by second, as the loops would see it: one great leap would outrun every lease.
pub(crate) async fn pass(seconds: u64) {
    for _ in 0..seconds {
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
    }
}
