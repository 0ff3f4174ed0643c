//! The door that every request passes; what it remembers is in `state`.
//!
//! In order: is it sent to us and not by a foreign page, is it of a form we take, who sends it, may they. Only then its
//! body is read. On the way out: a panic becomes an answer, what was done is written down, every answer gets its
//! headers, and it is counted.

mod state;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tower::{Layer, Service};

use crate::access::{self, Caller, Peer, origin, peer};
use crate::api::Api;
use crate::audit::AuditedCall;
use crate::error::ApiError;
use crate::figures::OpenRequest;
use crate::route::{CalledByPage, RouteAccess, RouteSort};
use crate::web;
use crate::{audit, headers, limits};
pub(crate) use state::Door;

/// Puts the door before the handlers of a route.
///
/// One layer does all of it: each one more costs a copy of the handler and two allocations for every request.
#[derive(Debug, Clone)]
pub(crate) struct DoorLayer {
    pub(crate) api: Api,
    pub(crate) sign: Arc<RouteAccess>,
}

impl<S> Layer<S> for DoorLayer {
    type Service = DoorService<S>;

    fn layer(&self, handler: S) -> DoorService<S> {
        DoorService { door: self.clone(), handler }
    }
}

/// The handlers of a route behind the door.
#[derive(Debug, Clone)]
pub(crate) struct DoorService<S> {
    door: DoorLayer,
    handler: S,
}

impl<S> Service<Request> for DoorService<S>
where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self { door, mut handler } = self.clone();
        Box::pin(async move {
            let handle = async |request| match handler.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            Ok(pass(&door.api, &door.sign, request, handle).await)
        })
    }
}

/// Takes a request in to its handler, and its answer out.
pub(crate) async fn pass(
    api: &Api,
    sign: &RouteAccess,
    request: Request,
    handle: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let asked = OpenRequest::new(&api.reporting().requests, sign, &request);
    let for_a_person = sign.is_page() && web::wants_words(&request);
    let (request, unread) = limits::UnreadBody::of(request);
    let mut response = match enter(api, sign, request, handle).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    };
    if for_a_person {
        response = web::in_words(response).await;
    }
    if let Some(unread) = unread {
        unread.read_on(response.headers_mut()).await;
    }
    headers::add(&mut response);
    asked.answered(&response);
    response
}

async fn enter(
    api: &Api,
    sign: &RouteAccess,
    request: Request,
    handle: impl AsyncFnOnce(Request) -> Response,
) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    match sign.is_page() && origin::is_visit(&parts) {
        true => origin::check_host(&parts, &api.settings().access)?,
        false => origin::check(&parts, &api.settings().access)?,
    }
    limits::check_form(&parts, &body, sign)?;
    // The program itself is no caller over HTTP: what it does is not for this log. The page is, for whoever uses it.
    let by_page = parts.extensions.get::<CalledByPage>().is_some();
    let from_outside = by_page || parts.extensions.get::<Caller>().is_none();
    // Whether the process lives must not hang on whether the store answers.
    let who = match parts.uri.path().starts_with("/health/") {
        true => access::Identity::nobody(),
        false if sign.is_page() => web::identify(api, &mut parts).await,
        false => access::identify(api, &parts).await,
    };
    let is_audited = sign.is_route() && sign.sort != RouteSort::Page;
    let done = (from_outside && is_audited && audit::is_mutating(&parts.method)).then(|| {
        let proxies = &api.settings().access.trusted_proxies;
        let client = parts.extensions.get::<Peer>().map(|one| peer::client(&parts.headers, *one, proxies));
        AuditedCall::new(&who.caller, &parts, &sign.path, client)
    });
    let (method, uri) = (parts.method.clone(), parts.uri.clone());
    parts.extensions.insert(who.caller.clone());
    let answer = async {
        match access::admit(sign.needs, &who) {
            Ok(()) => limits::hand_over(api, sign, Request::from_parts(parts, body), handle).await,
            Err(refusal) => refusal.into_response(),
        }
    };
    let response = unharmed(answer, &method, &uri).await;
    let Some(mut done) = done else { return Ok(response) };
    if let Some(web::LoggedIn(caller)) = response.extensions().get() {
        done.is_by(caller);
    }
    match api.door().audit.record(&done, response.status()).await {
        Ok(()) => Ok(response),
        // What did not go well is told as it went.
        Err(_) if !response.status().is_success() => Ok(response),
        Err(refusal) => Err(refusal),
    }
}

/// Runs a handler; one that panics is answered for.
async fn unharmed(answer: impl Future<Output = Response>, method: &Method, uri: &Uri) -> Response {
    let mut answer = pin!(answer);
    let guarded = std::future::poll_fn(move |cx| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    guarded.await.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<&str>().copied();
        let message =
            message.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let path = uri.path();
        tracing::error!(%method, path, message, "a handler panicked; the connection goes on");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the request failed")
            .hint("see the server's log")
            .into_response()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ServerSettings;
    use crate::route::RouteNeeds;
    use axum::Router;
    use axum::body::Body;
    use axum::http::header;
    use axum::routing::get;
    use backstop::Backstop;
    use tower::ServiceExt;

    async fn boom() -> Response {
        panic!("postgres://joe:hunter2@db")
    }

    #[tokio::test]
    async fn a_panic_leaves_the_others_alone_and_has_the_headers_of_every_answer() {
        let engine = Backstop::open("memory:").await.expect("a store in memory");
        let api = Api::new(engine, ServerSettings::default());
        let before = |path| DoorLayer {
            api: api.clone(),
            sign: Arc::new(RouteAccess::new(path, RouteNeeds::Nothing)),
        };
        let router = Router::new()
            .route("/boom", get(boom).post(boom).layer(before("/boom")))
            .route("/fine", get(async || "fine").layer(before("/fine")));
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
        let response =
            unharmed(async { panic!("postgres://joe:hunter2@db") }, &Method::GET, &Uri::default()).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.expect("a body");
        let text = String::from_utf8(body.to_vec()).expect("text");
        assert!(text.contains("\"code\":\"failed\"") && !text.contains("hunter2"), "{text}");
    }
}
