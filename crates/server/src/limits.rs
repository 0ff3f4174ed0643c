//! A bound on everything that a caller can make us hold: bodies, requests at once, streams at once.
//!
//! A body is read only after its sender has shown the right to send it, and a request takes its place among the running
//! ones only when its body is there: who sends slowly keeps nobody waiting.

mod body;
mod request_room;
pub(crate) mod room;
mod settings;
mod shares;
mod stream;
mod unread;

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{StatusCode, request::Parts};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::access::Caller;
use crate::api::Api;
use crate::error::ApiError;
use crate::route::RouteAccess;
pub(crate) use request_room::RequestRoom;
pub use settings::ServerLimits;
pub use shares::Share;
use shares::{HeldShare, busy};
use stream::StoppableBody;
pub(crate) use unread::UnreadBody;

/// Routes that take many things at once.
const BULK: [&str; 5] = [
    "/api/v1/jobs/batch",
    "/api/v1/work/finish",
    "/api/v1/workflows",
    "/api/v1/batches",
    "/api/v1/batches/{id}/jobs",
];

/// How long a long poll may still take when the server goes down: enough for a claim that has begun to be answered.
const LAST_WORD: Duration = Duration::from_millis(200);

/// Refuses bodies of a form that is never taken, before anything is read.
pub(crate) fn check_form(parts: &Parts, body: &Body, sign: &RouteAccess) -> Result<(), ApiError> {
    let unsupported = |code, message: &str| ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code, message);
    let mut encodings = parts.headers.get_all(CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        // What is small on the wire and huge in memory never gets a chance to unfold.
        return Err(unsupported("content_encoding", "compressed bodies are not supported")
            .hint("leave Content-Encoding out"));
    }
    // A form of a foreign page cannot send JSON without asking first, and we never say yes to that.
    let kind = parts.headers.get(CONTENT_TYPE);
    let essence = kind.and_then(|kind| kind.to_str().ok()?.split(';').next()).unwrap_or_default().trim();
    // Our own page's forms are another matter: they carry a proof that they are ours.
    let is_expected = match sign.is_page() {
        true => essence.eq_ignore_ascii_case("application/x-www-form-urlencoded"),
        false => crate::body::is_json(&parts.headers),
    };
    let says_what = kind.is_some() && crate::audit::is_mutating(&parts.method);
    if (says_what || !body.is_end_stream()) && !is_expected {
        if sign.is_page() {
            return Err(unsupported("unsupported_media_type", "a form was expected")
                .hint("programs call the API: see /api/v1/openapi.json"));
        }
        return Err(unsupported("unsupported_media_type", "a body must be JSON")
            .hint("send it with `Content-Type: application/json`"));
    }
    Ok(())
}

/// Reads the body, takes a place, and runs the handler.
pub(crate) async fn hand_over(
    api: &Api,
    sign: &RouteAccess,
    request: Request,
    handle: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    match ready(api, &sign.path, request).await {
        // A view takes no place itself: the calls of the API that it makes do, and would wait for it in a full house.
        Ok((request, _room)) if sign.is_page() => handle(request).await,
        Ok((request, room)) => run(api, &sign.path, request, room, handle).await,
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
