//! Figures of the server, and all figures together as one text (V3).
//!
//! Owns the scrape, which is made at most once a second however often it is asked for.

mod bridges;
mod requests;
mod stored;
mod text;

use std::sync::Arc;
use std::time::Duration;

use backstop::DependencyHealth;
use backstop::figures::{Family, Sample, Sort, float};
use tokio::time::Instant;

use crate::api::Api;
pub use requests::AnsweredRequest;
pub(crate) use requests::{OpenRequest, RequestFigures};
pub(crate) use text::CONTENT_TYPE;

/// How long a scrape stands for the next ones.
const FRESH: Duration = Duration::from_secs(1);

/// The path that can be opened to everybody.
pub(crate) const PATH: &str = "/metrics";

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
    families.extend(stored::families(api).await);
    families.extend(loops(api));
    families.extend(of_requests(api));
    families.extend(api.reporting().webhooks.families());
    families.extend(api.reporting().handed_in.families());
    families
}

fn of_requests(api: &Api) -> Vec<Family> {
    let requests = &api.reporting().requests;
    let count = requests.count.samples();
    let limited = count.iter().filter(|sample| sample.labels.iter().any(|(_, value)| &**value == "429"));
    let limited = limited.map(|sample| match sample.value {
        backstop::figures::FigureValue::Number(number) => number,
        backstop::figures::FigureValue::Times { .. } => 0.0,
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

/// How long ago each loop of the workers here was heard of, and how often it died (H11); which of their dependencies
/// are available (H1), and which workers claim nothing because of their failures (H8).
fn loops(api: &Api) -> Vec<Family> {
    let (mut ages, mut restarts) = (Vec::new(), Vec::new());
    let (mut dependencies, mut paused) = (Vec::new(), Vec::new());
    for (worker, health) in api.reporting().checks.workers() {
        for one in health.loops {
            let labels = vec![("worker", Arc::from(worker.as_str())), ("loop", Arc::from(one.name))];
            ages.push(Sample::number(labels.clone(), float(one.age_ms) / 1_000.0));
            restarts.push(Sample::number(labels, f64::from(one.restarts)));
        }
        dependencies.extend(health.dependencies.into_iter().map(|one| available(&worker, one)));
        if health.paused.is_some() {
            paused.push(Sample::number(vec![("worker", Arc::from(worker.as_str()))], 1.0));
        }
    }
    let remote = api.engine().remote().dependency_health();
    dependencies.extend(remote.into_iter().map(|one| available("remote", one)));
    let age = "How long ago a loop was heard of; its lease is lost when `heartbeat` grows old.";
    vec![
        Family::new("backstop_loop_age_seconds", age, Sort::Gauge, ages),
        Family::new("backstop_loop_restarts_total", "How often a loop died.", Sort::Counter, restarts),
        Family::new(
            "backstop_dependency_available",
            "1 while a dependency may be used, 0 while its kinds are not claimed.",
            Sort::Gauge,
            dependencies,
        ),
        Family::new(
            "backstop_worker_paused",
            "1 while a worker claims nothing because it fails far more often than others.",
            Sort::Gauge,
            paused,
        ),
    ]
}

fn available(worker: &str, one: DependencyHealth) -> Sample {
    let labels = vec![("worker", Arc::from(worker)), ("dependency", Arc::from(one.name))];
    Sample::number(labels, if one.ok { 1.0 } else { 0.0 })
}
