//! A bound on everything that a caller can make us hold: bodies, requests at once, streams at once.
//!
//! A body is read only after its sender has shown the right to send it, and a request takes its place among the running
//! ones only when its body is there: who sends slowly keeps nobody waiting.

mod body;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{StatusCode, request::Parts};
use axum::response::{IntoResponse, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::api::Api;
use crate::error::ApiError;
use stream::Stoppable;

/// Routes that take many things at once.
const BULK: [&str; 2] = ["/api/v1/jobs/batch", "/api/v1/work/finish"];

/// Routes whose answers wait for something to happen: counted by themselves, or they would keep the others out.
const STREAMS: [&str; 2] = ["/api/v1/events", "/api/v1/work/claim"];

/// How long a long poll may still take when the server goes down: enough for a claim that has begun to be answered.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Bounds of the server. Every field has a safe default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once; over it the oldest idle one is closed, or the new one refused.
    pub connections: usize,
    /// Requests that run at once, without streams.
    pub requests: usize,
    /// Requests that wait for their turn; more are answered 503.
    pub queued: usize,
    /// How long one waits for its turn, or for room for its body.
    pub queued_for: Duration,
    /// Streams and long polls at once.
    pub streams: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of a body that carries many things.
    pub bulk_body: usize,
    /// Bytes of all bodies that are held at once.
    pub bodies: usize,
    /// Bytes per second under which a body is too slow, once it has had `body_grace`.
    pub body_rate: u32,
    /// How long a body may take to begin, and how long it may pause.
    pub body_grace: Duration,
    /// How long a request's head may take.
    pub head: Duration,
    /// How long a connection may be idle between requests.
    pub idle: Duration,
    /// How long the other end may read nothing of an answer.
    pub unread: Duration,
    /// How long requests may go on when the server is told to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            requests: 512,
            queued: 1_024,
            queued_for: Duration::from_secs(5),
            streams: 8_000,
            body: 2 << 20,
            bulk_body: 16 << 20,
            bodies: 64 << 20,
            body_rate: 1_024,
            body_grace: Duration::from_secs(10),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            unread: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}

/// Room that is shared by all requests.
#[derive(Debug)]
pub(crate) struct Gates {
    requests: Arc<Semaphore>,
    queued: AtomicUsize,
    streams: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Gates {
    pub(crate) fn new(limits: &Limits) -> Self {
        let room = |most: usize| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let queued = AtomicUsize::new(0);
        let (requests, streams) = (room(limits.requests), room(limits.streams));
        Self { requests, queued, streams, bodies: room(limits.bodies) }
    }

    /// A place among the running requests, after a bounded wait in a bounded queue.
    async fn turn(&self, limits: &Limits) -> Result<OwnedSemaphorePermit, ApiError> {
        if let Ok(place) = self.requests.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _queued = Queued::join(&self.queued, limits.queued).ok_or_else(busy)?;
        let turn = timeout(limits.queued_for, self.requests.clone().acquire_owned()).await;
        turn.ok().and_then(Result::ok).ok_or_else(busy)
    }

    fn stream(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.streams.clone().try_acquire_owned().map_err(|_| busy())
    }
}

/// A place in the queue, given back when it is dropped.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn join(queued: &'a AtomicUsize, most: usize) -> Option<Self> {
        let before = queued.fetch_add(1, Ordering::Relaxed);
        let place = Self(queued);
        (before < most).then_some(place)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn busy() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "the server has as much to do as it takes on at once",
    )
    .hint("try again after the time in Retry-After; batches need fewer requests")
    .retry_after(1)
}

/// Refuses bodies of a form that is never taken, before anything is read.
pub(crate) fn check_form(parts: &Parts, body: &Body) -> Result<(), ApiError> {
    let unsupported = |code, message: &str| ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code, message);
    let mut encodings = parts.headers.get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        // What is small on the wire and huge in memory never gets a chance to unfold.
        return Err(unsupported("content_encoding", "bodies are taken as they are, not compressed")
            .hint("leave Content-Encoding out"));
    }
    // A form of a foreign page cannot send JSON without asking first, and we never say yes to that.
    let kind = parts.headers.get(CONTENT_TYPE);
    let is_json = kind.and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    });
    let says_what = kind.is_some() && crate::audit::is_mutating(&parts.method);
    if (says_what || !body.is_end_stream()) && !is_json {
        return Err(unsupported("unsupported_media_type", "a body must be JSON")
            .hint("send it with `Content-Type: application/json`"));
    }
    Ok(())
}

/// Reads the body, takes a place, and runs the handler.
pub(crate) async fn hand_over(
    api: &Api,
    route: &str,
    request: Request,
    handle: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    match ready(api, route, request).await {
        Ok((request, room)) => run(api, route, request, room, handle).await,
        Err(refusal) => refusal.into_response(),
    }
}

async fn ready(
    api: &Api,
    route: &str,
    request: Request,
) -> Result<(Request, Option<OwnedSemaphorePermit>), ApiError> {
    if request.body().is_end_stream() {
        return Ok((request, None));
    }
    let limits = &api.settings().limits;
    let most = if BULK.contains(&route) { limits.bulk_body } else { limits.body };
    let announced =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > most)) {
        return Err(too_large(most));
    }
    let (parts, body) = request.into_parts();
    let (bytes, room) = body::read(body, most, api).await?;
    Ok((Request::from_parts(parts, Body::from(bytes)), room))
}

async fn run(
    api: &Api,
    route: &str,
    request: Request,
    room: Option<OwnedSemaphorePermit>,
    handle: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let gates = &api.door().gates;
    if !STREAMS.contains(&route) {
        return match gates.turn(&api.settings().limits).await {
            Ok(_place) => {
                let response = handle(request).await;
                drop(room);
                response
            }
            Err(refusal) => refusal.into_response(),
        };
    }
    let place = match gates.stream() {
        Ok(place) => place,
        Err(refusal) => return refusal.into_response(),
    };
    let stopping = api.stopping();
    let cut = async {
        stopping.cancelled().await;
        tokio::time::sleep(LAST_WORD).await;
    };
    tokio::select! {
        response = handle(request) => response.map(|body| Body::new(Stoppable::new(body, stopping.clone(), place))),
        () = cut => stops(),
    }
}

fn stops() -> Response {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is going down")
        .hint("ask again: another one answers, or this one when it is back")
        .retry_after(1)
        .into_response()
}

fn too_large(most: usize) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the body is over {most} bytes"))
        .hint("send less at a time")
        .details(serde_json::json!({ "limit": most }))
}

/// Room for so many bytes of a body, after a bounded wait.
async fn room(api: &Api, bytes: &Bytes) -> Result<OwnedSemaphorePermit, ApiError> {
    let (gates, limits) = (&api.door().gates, &api.settings().limits);
    let wanted = u32::try_from(bytes.len()).map_err(|_| too_large(limits.bodies))?;
    if let Ok(given) = gates.bodies.clone().try_acquire_many_owned(wanted) {
        return Ok(given);
    }
    let given = timeout(limits.queued_for, gates.bodies.clone().acquire_many_owned(wanted)).await;
    given.ok().and_then(Result::ok).ok_or_else(busy)
}

#[cfg(test)]
mod tests;
