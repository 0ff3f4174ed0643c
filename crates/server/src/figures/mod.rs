//! Figures of the server, and all figures together as one text (V3).
//!
//! Owns what is counted of requests and the scrape, which is made at most once a second however often it is asked for.

mod stored;
mod text;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use backstop::figures::{Family, Labelled, SHORT, Sample, Sort, Times, float};
use tokio::time::Instant;

use crate::api::Api;
use crate::routes::RouteAccess;
pub(crate) use text::CONTENT_TYPE;

/// How long a scrape stands for the next ones.
const FRESH: Duration = Duration::from_secs(1);

/// The path that can be opened to everybody.
pub(crate) const PATH: &str = "/metrics";

/// A request that was answered, for whoever traces them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnsweredRequest {
    /// Its method and route, with parameters in braces; `none` as the route of a path that is unknown.
    pub route: String,
    /// The status of its answer.
    pub status: u16,
    /// How long the answer took; what follows of a stream is not counted.
    pub took: Duration,
    /// The `traceparent` it came with, as it was sent.
    pub trace_parent: Option<String>,
}

/// Hears of answered requests. It must not wait for anything.
pub(crate) type RequestListener = Box<dyn Fn(AnsweredRequest) + Send + Sync>;

/// What is counted of requests, and the latest scrape.
pub(crate) struct RequestFigures {
    count: Labelled<AtomicU64>,
    time: Labelled<Times>,
    /// One request at a time gathers; the others wait for its text.
    scrape: tokio::sync::Mutex<Option<(Instant, Arc<str>)>>,
    pub(crate) listener: OnceLock<RequestListener>,
}

impl std::fmt::Debug for RequestFigures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

impl Default for RequestFigures {
    fn default() -> Self {
        let (count, time) = (Labelled::new(["route", "status"]), Labelled::new(["route", ""]));
        Self { count, time, scrape: tokio::sync::Mutex::default(), listener: OnceLock::new() }
    }
}

/// A request that is under way. It is counted by its route, which is one of a fixed list, and not by its path, which
/// anybody can make up.
pub(crate) struct OpenRequest<'a> {
    requests: &'a RequestFigures,
    route: &'a Arc<str>,
    heard: Option<(&'a RequestListener, Option<String>)>,
    began: Instant,
}

impl<'a> OpenRequest<'a> {
    pub(crate) fn new(api: &'a Api, sign: &'a RouteAccess, request: &Request) -> Self {
        let requests = &api.reporting().requests;
        let heard = requests.listener.get().map(|listener| (listener, trace_parent(request)));
        Self { requests, route: sign.name(request.method()), heard, began: Instant::now() }
    }

    pub(crate) fn answered(self, response: &Response) {
        let (status, took) = (response.status(), self.began.elapsed());
        self.requests.count.add(self.route, status.as_str(), 1);
        self.requests.time.add(self.route, "", SHORT, took);
        if let Some((listener, trace_parent)) = self.heard {
            let (route, status) = (self.route.to_string(), status.as_u16());
            listener(AnsweredRequest { route, status, took, trace_parent });
        }
    }
}

fn trace_parent(request: &Request) -> Option<String> {
    Some(request.headers().get("traceparent")?.to_str().ok()?.to_owned())
}

/// Every figure as text, at most a second old.
pub(crate) async fn scrape(api: &Api) -> Arc<str> {
    let mut last = api.reporting().requests.scrape.lock().await;
    if let Some((at, text)) = &*last
        && at.elapsed() < FRESH
    {
        return text.clone();
    }
    let text: Arc<str> = text::render(&gather(api).await).into();
    *last = Some((Instant::now(), text.clone()));
    text
}

async fn gather(api: &Api) -> Vec<Family> {
    let mut families = api.engine().figures().families();
    families.extend(stored::families(api.engine()).await);
    families.extend(loops(api));
    families.extend(of_requests(api));
    families.extend(api.reporting().webhooks.families());
    families
}

fn of_requests(api: &Api) -> Vec<Family> {
    let requests = &api.reporting().requests;
    let count = requests.count.samples();
    let limited = count.iter().filter(|sample| sample.labels.iter().any(|(_, value)| &**value == "429"));
    let limited = limited.map(|sample| match sample.value {
        backstop::figures::Value::Number(number) => number,
        backstop::figures::Value::Times { .. } => 0.0,
    });
    let limited = vec![Sample::number(vec![], limited.sum())];
    let streams = float(u64::try_from(api.reporting().hub.subscribers()).unwrap_or(u64::MAX));
    vec![
        Family::new("backstop_rate_limited_total", "Requests answered with 429.", Sort::Counter, limited),
        Family::new("backstop_http_requests_total", "Requests by route and status.", Sort::Counter, count),
        Family::new(
            "backstop_http_request_seconds",
            "How long requests took to be answered, by route.",
            Sort::Histogram,
            requests.time.samples(),
        ),
        Family::new(
            "backstop_event_streams",
            "Open event streams.",
            Sort::Gauge,
            vec![Sample::number(vec![], streams)],
        ),
    ]
}

/// How long ago each loop of the workers here was heard of, and how often it died (H11).
fn loops(api: &Api) -> Vec<Family> {
    let (mut ages, mut restarts) = (Vec::new(), Vec::new());
    for (worker, health) in api.reporting().checks.workers() {
        for one in health.loops {
            let labels = vec![("worker", Arc::from(worker.as_str())), ("loop", Arc::from(one.name))];
            ages.push(Sample::number(labels.clone(), float(one.age_ms) / 1_000.0));
            restarts.push(Sample::number(labels, f64::from(one.restarts)));
        }
    }
    let age = "How long ago a loop was heard of; its lease is lost when `heartbeat` grows old.";
    vec![
        Family::new("backstop_loop_age_seconds", age, Sort::Gauge, ages),
        Family::new("backstop_loop_restarts_total", "How often a loop died.", Sort::Counter, restarts),
    ]
}
