//! The door that every request passes, and what stands beside it: tokens, rates, the audit log, room.
//!
//! In order: is it sent to us and not by a foreign page, is it of a form we take, who sends it. Only the route knows
//! what it needs; [`admit`](crate::access::admit) checks that and reads the body. On the way out: what was done is
//! written down, a panic becomes an answer, and every answer gets its headers.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use backstop::Backstop;
use tokio_util::sync::CancellationToken;

use crate::access::throttle::Throttle;
use crate::access::{self, Caller, Peer, Tokens, origin, peer};
use crate::api::{Api, Settings};
use crate::audit::{Audit, Done};
use crate::error::ApiError;
use crate::limits::{self, Gates};
use crate::{audit, headers};

/// What the door remembers.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) tokens: Tokens,
    /// Requests by token.
    pub(crate) rates: Option<Throttle<String>>,
    /// Wrong tokens by address.
    pub(crate) failed_logins: Throttle<IpAddr>,
    pub(crate) audit: Audit,
    pub(crate) gates: Gates,
    /// Cancelled when the server goes down: whoever waits for something to happen stops waiting.
    pub(crate) stopping: CancellationToken,
}

impl Door {
    pub(crate) fn new(engine: &Backstop, settings: &Settings) -> Self {
        let tokens = Tokens::new(engine, &settings.access.tokens);
        Self {
            audit: Audit::new(engine, tokens.clone()),
            tokens,
            rates: settings.access.rate.map(Throttle::new),
            failed_logins: Throttle::new(settings.access.failed_logins),
            gates: Gates::new(&settings.limits),
            stopping: CancellationToken::new(),
        }
    }
}

/// Puts the door around all routes.
pub(crate) fn around(router: Router<Api>, api: &Api) -> Router<Api> {
    // Bodies are counted at the door, so axum's own limit would only be a second opinion.
    router.layer(DefaultBodyLimit::disable()).layer(middleware::from_fn_with_state(api.clone(), pass))
}

async fn pass(State(api): State<Api>, request: Request, next: Next) -> Response {
    let mut response = match enter(&api, request).await {
        Ok(request) => act(&api, request, next).await,
        Err(refusal) => refusal.into_response(),
    };
    headers::add(&mut response);
    response
}

async fn enter(api: &Api, request: Request) -> Result<Request, ApiError> {
    let (mut parts, body) = request.into_parts();
    origin::check(&parts, &api.settings().access)?;
    limits::check_form(&parts, &body)?;
    // The program itself is no caller over HTTP: what it does is not for this log.
    let from_outside = parts.extensions.get::<Caller>().is_none();
    // Whether the process lives must not hang on whether the store answers.
    if !parts.uri.path().starts_with("/health/") {
        access::identify(api, &mut parts).await;
    }
    if from_outside && audit::is_mutating(&parts.method) {
        let client = parts.extensions.get::<Peer>();
        let client =
            client.map(|one| peer::client(&parts.headers, *one, &api.settings().access.trusted_proxies));
        let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
        let caller = parts.extensions.get::<Caller>().cloned().unwrap_or_else(Caller::nobody);
        if let Some(route) = route {
            let done = Done {
                caller,
                method: parts.method.clone(),
                route,
                path: parts.uri.path().to_owned(),
                client,
            };
            parts.extensions.insert(done);
        }
    }
    parts.extensions.insert(api.clone());
    Ok(Request::from_parts(parts, body))
}

async fn act(api: &Api, mut request: Request, next: Next) -> Response {
    let done = request.extensions_mut().remove::<Done>();
    let what = format!("{} {}", request.method(), request.uri().path());
    let response = unharmed(next.run(request), &what).await;
    let Some(done) = done else { return response };
    match api.door().audit.record(done, response.status()).await {
        Ok(()) => response,
        // What did not go well is told as it went.
        Err(_) if !response.status().is_success() => response,
        Err(refusal) => refusal.into_response(),
    }
}

/// Runs a handler; one that panics is answered for.
async fn unharmed(answer: impl Future<Output = Response>, what: &str) -> Response {
    let mut answer = pin!(answer);
    let guarded = std::future::poll_fn(move |cx| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    });
    guarded.await.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<&str>().copied();
        let message =
            message.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        tracing::error!(request = what, message, "a handler panicked; the connection goes on");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the request failed")
            .hint("the server's log says more")
            .into_response()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::{Method, header};
    use axum::routing::get;
    use tower::ServiceExt;

    async fn boom() -> Response {
        panic!("postgres://joe:hunter2@db")
    }

    #[tokio::test]
    async fn a_panic_leaves_the_others_alone_and_has_the_headers_of_every_answer() {
        let engine = Backstop::open("memory:").await.expect("a store in memory");
        let api = Api::new(engine, Settings::default());
        let routes = Router::new().route("/boom", get(boom).post(boom)).route("/fine", get(async || "fine"));
        let router = around(routes, &api).with_state(api.clone());
        for (method, path, status) in
            [(Method::GET, "/boom", 500), (Method::POST, "/boom", 500), (Method::GET, "/fine", 200)]
        {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).expect("a request");
            let response = router.clone().oneshot(request).await.expect("an answer");
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
        // The call is in the log, as it ended.
        api.door().audit.flush().await;
        let (lines, _) = api.door().audit.page(None, 10).await.expect("a page");
        let told: Vec<_> = lines.iter().map(|line| (line.path.as_str(), line.status)).collect();
        assert_eq!(told, [("/boom", 500)]);
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_for_and_says_nothing_of_itself() {
        let response = unharmed(async { panic!("postgres://joe:hunter2@db") }, "GET /x").await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.expect("a body");
        let text = String::from_utf8(body.to_vec()).expect("text");
        assert!(text.contains("\"code\":\"failed\"") && !text.contains("hunter2"), "{text}");
    }
}
