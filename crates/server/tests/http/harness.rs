//! An API on a store of its own, called without a socket or over one.

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use backstop::{Backstop, Config};
use backstop_server::{Api, Caller, ServerSettings, router};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// An API under test.
pub(crate) struct Harness {
    pub(crate) api: Api,
    router: Router,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|problem| panic!("{problem}: {}", self.text))
    }

    /// The body of an answer that went well.
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.text);
        self.json()
    }

    /// The code of a refusal in the one shape.
    pub(crate) fn code(&self) -> String {
        let error = self.json();
        assert!(error["error"]["message"].is_string(), "not the one shape: {error}");
        error["error"]["code"].as_str().expect("a code").to_owned()
    }
}

impl Harness {
    /// On a store in memory.
    pub(crate) async fn new() -> Self {
        Self::with(Config::default(), ServerSettings::default()).await
    }

    /// With settings.
    pub(crate) async fn with(config: Config, settings: ServerSettings) -> Self {
        let engine = Backstop::open_with("memory:", config).await.expect("a store in memory opens");
        Self::of(engine, settings)
    }

    /// On an engine.
    pub(crate) fn of(engine: Backstop, settings: ServerSettings) -> Self {
        let api = Api::new(engine, settings);
        Self { router: router(api.clone()), api }
    }

    /// The engine behind it.
    pub(crate) fn engine(&self) -> &Backstop {
        self.api.engine()
    }

    /// Sends any request, and leaves the body unread.
    pub(crate) async fn open(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.expect("the router always answers")
    }

    /// Sends any request.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.open(request).await;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).expect("text"),
        }
    }

    /// Reads a path.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).expect("a request")).await
    }

    /// Posts JSON to a path.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.json(Method::POST, path, body).await
    }

    /// Sends text that says it is JSON.
    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        self.text(Method::POST, path, body.to_owned()).await
    }

    /// Sends JSON to a path.
    pub(crate) async fn json(&self, method: Method, path: &str, body: Value) -> Answer {
        self.text(method, path, body.to_string()).await
    }

    async fn text(&self, method: Method, path: &str, body: String) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body))
            .expect("a request");
        self.send(request).await
    }

    /// Sends a request as somebody.
    pub(crate) async fn send_as(
        &self,
        caller: &Caller,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).extension(caller.clone());
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(request.body(body).expect("a request")).await
    }

    /// Reads a path as somebody.
    pub(crate) async fn get_as(&self, caller: &Caller, path: &str) -> Answer {
        self.send_as(caller, Method::GET, path, None).await
    }

    /// Posts JSON to a path as somebody.
    pub(crate) async fn post_as(&self, caller: &Caller, path: &str, body: Value) -> Answer {
        self.send_as(caller, Method::POST, path, Some(body)).await
    }
}
