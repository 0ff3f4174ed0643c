//! An API on the model store whose clock is tokio's own, so that paused time moves both.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use backstop::{Backstop, Config, JobId, Timestamp, WorkerId};
use backstop_core::job::{Attempt, JobDetail};
use backstop_server::{Caller, ServerSettings};
use backstop_store::{Clock, ModelStore, PageRequest, Store};
use serde_json::{Value, json};

use crate::harness::{Answer, Harness};

/// Follows tokio's time from a fixed moment.
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000).after(self.0.elapsed())
    }
}

/// A store that several engines can share.
pub(super) fn store() -> Arc<dyn Store> {
    Arc::new(ModelStore::new(Arc::new(TokioClock(tokio::time::Instant::now()))))
}

/// An API with what the tests of remote workers do to it.
pub(super) struct Stage {
    pub(super) harness: Harness,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::on(store(), Config::default())
    }

    pub(super) fn on(store: Arc<dyn Store>, config: Config) -> Self {
        Self { harness: Harness::of(Backstop::on(store, config), ServerSettings::default()) }
    }

    pub(super) fn engine(&self) -> &Backstop {
        self.harness.engine()
    }

    /// Stores a job on the queue `default`, and answers its id.
    pub(super) async fn submit(&self, kind: &str, payload: Value) -> String {
        self.engine().enqueue_raw(kind, payload.to_string()).submit().await.unwrap().id.to_string()
    }

    /// Claims, and answers the jobs.
    pub(super) async fn claim(&self, ask: Value) -> Vec<Value> {
        let answer = self.harness.post("/api/v1/work/claim", ask).await.ok();
        answer["jobs"].as_array().unwrap().clone()
    }

    /// Claims one job of kind `mail`.
    pub(super) async fn claim_one(&self) -> Value {
        let ask = json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"], "code_version": "1.0" });
        let jobs = self.claim(ask).await;
        assert_eq!(jobs.len(), 1);
        jobs[0].clone()
    }

    /// Reports the end of one run, and answers what is said of it.
    pub(super) async fn finish(&self, job: &Value, outcome: Value) -> Value {
        self.finish_all(json!([{ "lease": job["lease"]["token"], "outcome": outcome }])).await[0].clone()
    }

    pub(super) async fn finish_all(&self, results: Value) -> Vec<Value> {
        let answer = self.harness.post("/api/v1/work/finish", json!({ "results": results })).await.ok();
        answer["results"].as_array().unwrap().clone()
    }

    pub(super) async fn heartbeat(&self, leases: &[&Value]) -> Value {
        let tokens: Vec<&Value> = leases.iter().map(|job| &job["lease"]["token"]).collect();
        let body = json!({ "worker": "w1", "leases": tokens });
        self.harness.post("/api/v1/work/heartbeat", body).await.ok()
    }

    /// Posts as somebody in particular.
    pub(super) async fn post_as(&self, caller: &Caller, path: &str, body: Value) -> Answer {
        let mut request = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        request.extensions_mut().insert(caller.clone());
        self.harness.send(request).await
    }

    pub(super) async fn detail(&self, id: &str) -> JobDetail {
        self.engine().job(parsed(id)).await.unwrap().unwrap()
    }

    pub(super) async fn status(&self, id: &str) -> String {
        self.detail(id).await.view.state().to_string()
    }

    pub(super) async fn runs(&self, id: &str) -> Vec<Attempt> {
        self.engine().attempts(parsed(id), PageRequest::first(100)).await.unwrap().items
    }

    pub(super) async fn last_run(&self, id: &str) -> Attempt {
        self.runs(id).await.remove(0)
    }

    /// Lets time pass, and does what maintenance has to do then.
    pub(super) async fn pass(&self, seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        self.engine().maintain(WorkerId::from_u128(1), Duration::from_secs(1)).await.unwrap();
    }
}

pub(super) fn parsed(id: &str) -> JobId {
    id.parse().unwrap()
}

/// Lets every task that can go on do so, without moving time.
pub(super) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
