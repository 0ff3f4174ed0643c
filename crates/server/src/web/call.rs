//! How the page asks the API: without a socket, with the rights of whoever looks.
//!
//! Answers to looks are kept for a second and shared by everybody who sees the same, so that fifty open pages cost the
//! store no more than one. A change forgets them all: whoever makes it sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::access::{Caller, Peer, Scope};
use crate::error::ApiError;
use crate::route::CalledByPage;
use crate::shape::ErrorBody;

/// How long an answer stands for the next ones.
const FRESH: Duration = Duration::from_secs(1);

/// Answers that are kept at most.
const MOST: usize = 1_000;

/// Bytes of an answer that is kept.
const MOST_BYTES: usize = 256 << 10;

/// Headers of the visitor that a call carries: by which name, and for whom.
const CARRIED: [&str; 2] = ["host", "x-forwarded-for"];

/// Why a view cannot be shown or a change cannot be made: what the API said.
#[derive(Debug, Clone)]
pub(super) struct PageProblem {
    pub(super) status: StatusCode,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl PageProblem {
    pub(super) fn new(status: StatusCode, message: &str, hint: &str) -> Self {
        Self { status, message: message.to_owned(), hint: Some(hint.to_owned()) }
    }

    fn of(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(ErrorBody { error }) => Self { status, message: error.message, hint: error.hint },
            Err(_) => Self { status, message: "the request failed".to_owned(), hint: None },
        }
    }
}

impl From<ApiError> for PageProblem {
    fn from(error: ApiError) -> Self {
        Self::of(error.status(), serde_json::json!({ "error": error.to_json() }).to_string().as_bytes())
    }
}

/// Answers that were given a moment ago.
#[derive(Default)]
pub(super) struct AnswerCache {
    known: Mutex<HashMap<String, Arc<CachedAnswer>>>,
}

/// One answer. Whoever comes while it is asked for waits for it instead of asking too.
type CachedAnswer = tokio::sync::Mutex<Option<(Instant, Bytes)>>;

impl AnswerCache {
    fn entry(&self, key: String) -> Arc<CachedAnswer> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.entry(key).or_default().clone()
    }

    fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Calls of the API for one visitor.
pub(super) struct ApiCalls {
    /// The routes of the API.
    pub(super) routes: Router,
    pub(super) answers: Arc<AnswerCache>,
    pub(super) caller: Caller,
    /// Those that calls carry on.
    pub(super) headers: HeaderMap,
    pub(super) peer: Option<Peer>,
}

impl ApiCalls {
    /// Reads a path of the API.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, PageProblem> {
        read(&self.look(path).await?)
    }

    /// The same where the answer may be for others: none when this visitor may not have it.
    pub(super) async fn get_if_allowed<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, PageProblem> {
        match self.look(path).await {
            Ok(bytes) => read(&bytes).map(Some),
            Err(problem) if problem.status == StatusCode::FORBIDDEN => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn look(&self, path: &str) -> Result<Bytes, PageProblem> {
        let entry = self.answers.entry(format!("{} {path}", seen_by(&self.caller)));
        let mut known = entry.lock().await;
        if let Some((at, bytes)) = &*known
            && at.elapsed() < FRESH
        {
            return Ok(bytes.clone());
        }
        let bytes = self.send(Method::GET, path, None).await?;
        *known = (bytes.len() <= MOST_BYTES).then(|| (Instant::now(), bytes.clone()));
        Ok(bytes)
    }

    /// Reads a path of the API afresh, for what must not be kept.
    pub(super) async fn get_afresh<T: DeserializeOwned>(&self, path: &str) -> Result<T, PageProblem> {
        read(&self.send(Method::GET, path, None).await?)
    }

    /// Makes a change by a call of the API, and answers what came of it.
    pub(super) async fn change(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, PageProblem> {
        let answer = self.send(method, path, body).await;
        self.answers.forget();
        let bytes = answer?;
        Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes, PageProblem> {
        let mut request = Request::builder().method(method).uri(path);
        for name in CARRIED {
            if let Some(value) = self.headers.get(name) {
                request = request.header(name, value);
            }
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = request.body(body).map_err(|_| {
            PageProblem::new(StatusCode::BAD_REQUEST, "the address is not valid", "check its spelling")
        })?;
        request.extensions_mut().insert(self.caller.clone());
        request.extensions_mut().insert(CalledByPage);
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        let answer = match self.routes.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let (head, body) = answer.into_parts();
        let bytes = body.collect().await.map_err(|problem| crate::error::internal(&problem))?.to_bytes();
        if head.status.is_success() { Ok(bytes) } else { Err(PageProblem::of(head.status, &bytes)) }
    }
}

fn read<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, PageProblem> {
    serde_json::from_slice(bytes).map_err(|problem| crate::error::internal(&problem).into())
}

/// All that an answer depends on beside the path.
fn seen_by(caller: &Caller) -> String {
    let scopes: Vec<&str> =
        Scope::ALL.into_iter().filter(|scope| caller.may(*scope)).map(Scope::as_str).collect();
    format!("{:?} {}", caller.view(), scopes.join(","))
}

/// The headers that calls carry on.
pub(super) fn carried(headers: &HeaderMap) -> HeaderMap {
    headers
        .iter()
        .filter(|(name, _)| CARRIED.contains(&name.as_str()))
        .map(|(a, b)| (a.clone(), b.clone()))
        .collect()
}
