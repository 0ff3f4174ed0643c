//! A bound on everything that a caller can make us hold: bodies, requests at once, streams at once.
//!
//! A body is read only after its sender has shown the right to send it, and a request takes its place among the running
//! ones only when its body is there: who sends slowly keeps nobody waiting.

mod body;
pub(crate) mod room;
mod shares;
mod stream;
mod unread;

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

use crate::access::Caller;
use crate::api::Api;
use crate::error::ApiError;
pub use shares::Share;
use shares::{HeldShare, Shares};
use stream::StoppableBody;
pub(crate) use unread::UnreadBody;

/// Routes that take many things at once.
const BULK: [&str; 2] = ["/api/v1/jobs/batch", "/api/v1/work/finish"];

/// Routes whose answers wait for something to happen: each counted by itself, or it would keep the others out.
const STREAM: &str = "/api/v1/events";
const POLL: &str = "/api/v1/work/claim";

/// How long a long poll may still take when the server goes down: enough for a claim that has begun to be answered.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Bounds of the server. Every field has a safe default.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Connections at once; over it the oldest idle one is closed, or the new one refused.
    pub connections: usize,
    /// Requests that run at once, without streams.
    pub requests: usize,
    /// Requests that wait for their turn; more are answered 503.
    pub queued: usize,
    /// How long one waits for its turn, or for room for its body.
    pub queued_for: Duration,
    /// Event streams at once.
    pub streams: usize,
    /// Of those, for one token and for one tenant; more are answered 429.
    pub streams_each: Share,
    /// Claims that wait for work at once.
    pub claims: usize,
    /// Of those, for one token and for one tenant; more are answered 429.
    pub claims_each: Share,
    /// Bytes of a body.
    pub body: usize,
    /// Bytes of a body that carries many things.
    pub bulk_body: usize,
    /// Bytes of all bodies that are held at once.
    pub bodies: usize,
    /// Of those, for one token and for one tenant; whoever has more under way waits for its own.
    pub bodies_each: Share,
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

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            requests: 512,
            queued: 1_024,
            queued_for: Duration::from_secs(5),
            streams: 8_000,
            streams_each: Share { token: 500, tenant: 2_000 },
            claims: 8_000,
            claims_each: Share { token: 2_000, tenant: 4_000 },
            body: 2 << 20,
            bulk_body: 16 << 20,
            bodies: 64 << 20,
            bodies_each: Share { token: 16 << 20, tenant: 32 << 20 },
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
pub(crate) struct RequestRoom {
    requests: Arc<Semaphore>,
    queued: AtomicUsize,
    streams: Shares,
    claims: Shares,
    bodies: Shares,
}

impl RequestRoom {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        // Whoever may send a body may send a whole one.
        let whole = limits.body.max(limits.bulk_body);
        let Share { token, tenant } = limits.bodies_each;
        let bodies_each = Share { token: token.max(whole), tenant: tenant.max(whole) };
        Self {
            requests: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
            queued: AtomicUsize::new(0),
            streams: Shares::new(limits.streams, limits.streams_each),
            claims: Shares::new(limits.claims, limits.claims_each),
            bodies: Shares::new(limits.bodies, bodies_each),
        }
    }

    /// A place among the running requests, after a bounded wait in a bounded queue.
    async fn turn(&self, limits: &ServerLimits) -> Result<OwnedSemaphorePermit, ApiError> {
        if let Ok(place) = self.requests.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _queued = Queued::join(&self.queued, limits.queued).ok_or_else(busy)?;
        let turn = timeout(limits.queued_for, self.requests.clone().acquire_owned()).await;
        turn.ok().and_then(Result::ok).ok_or_else(busy)
    }

    /// A place for an answer that waits for something to happen; none for a route that does not.
    fn waiting(&self, route: &str, caller: &Caller) -> Option<Result<HeldShare, ApiError>> {
        let (shares, what, setting) = match route {
            STREAM => (&self.streams, "event streams", "max_streams"),
            POLL => (&self.claims, "waiting claims", "max_claims"),
            _ => return None,
        };
        Some(shares.try_take(caller, 1).map_err(|full| full.refused(what, setting)))
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
        "the server has reached its limit of concurrent requests",
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
        return Err(unsupported("content_encoding", "compressed bodies are not supported")
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

async fn ready(api: &Api, route: &str, request: Request) -> Result<(Request, Option<HeldShare>), ApiError> {
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
    let caller = Caller::of_request(request.extensions());
    let (parts, body) = request.into_parts();
    let (bytes, room) = body::read(body, most, api, &caller).await?;
    Ok((Request::from_parts(parts, Body::from(bytes)), room))
}

async fn run(
    api: &Api,
    route: &str,
    request: Request,
    room: Option<HeldShare>,
    handle: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let gates = &api.door().gates;
    let Some(place) = gates.waiting(route, &Caller::of_request(request.extensions())) else {
        return match gates.turn(&api.settings().limits).await {
            Ok(_place) => {
                let response = handle(request).await;
                drop(room);
                response
            }
            Err(refusal) => refusal.into_response(),
        };
    };
    let place = match place {
        Ok(place) => place,
        Err(refusal) => return refusal.into_response(),
    };
    let stopping = api.stopping();
    let cut = async {
        stopping.cancelled().await;
        tokio::time::sleep(LAST_WORD).await;
    };
    tokio::select! {
        response = handle(request) => response.map(|body| Body::new(StoppableBody::new(body, stopping.clone(), place))),
        () = cut => stops(),
    }
}

fn stops() -> Response {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is shutting down")
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
async fn room(api: &Api, caller: &Caller, bytes: &Bytes) -> Result<HeldShare, ApiError> {
    let (gates, limits) = (&api.door().gates, &api.settings().limits);
    let wanted = u32::try_from(bytes.len()).map_err(|_| too_large(limits.bodies))?;
    if let Ok(given) = gates.bodies.try_take(caller, wanted) {
        return Ok(given);
    }
    timeout(limits.queued_for, gates.bodies.take(caller, wanted)).await.map_err(|_| busy())
}

#[cfg(test)]
mod tests;
