//! What is counted of requests, and who hears of their answers.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use backstop::figures::{Labelled, SHORT, Times};
use tokio::time::Instant;

use crate::route::RouteAccess;

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
    pub(super) count: Labelled<AtomicU64>,
    pub(super) time: Labelled<Times>,
    /// One request at a time gathers; the others wait for its text.
    pub(super) scrape: tokio::sync::Mutex<Option<(Instant, Arc<str>)>>,
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
    pub(crate) fn new(requests: &'a RequestFigures, sign: &'a RouteAccess, request: &Request) -> Self {
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
