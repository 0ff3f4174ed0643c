//! How the page asks the API: without a socket, with the rights of whoever looks.
//!
//! Answers to looks are kept for as long as an open page waits between two looks, and shared by everybody who sees the
//! same, so that fifty open pages cost the store no more than one. Refusals are kept as well: while the store is away,
//! those who wait for one answer do not each wait for their own. A change forgets them all: whoever makes it sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use backstop::JobId;
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::access::{Caller, Peer, Scope};
use crate::error::ApiError;
use crate::route::CalledByPage;
use crate::shape::{ErrorBody, ErrorDetail};

/// How often an open page looks for changes, in milliseconds.
pub(super) const LOOKS_EVERY_MS: u32 = 2_000;

/// How long an answer stands for the next ones.
const FRESH: Duration = Duration::from_millis(LOOKS_EVERY_MS as u64);

/// Answers that are kept at most, and their bytes. Those that are too old for anybody go first.
const MOST: usize = 1_000;
const MOST_BYTES: usize = 32 << 20;

/// Headers of the visitor that a call carries: by which name, and for whom.
const CARRIED: [&str; 2] = ["host", "x-forwarded-for"];

/// Why a view cannot be shown or a change cannot be made: what the API said.
#[derive(Debug, Clone)]
pub(super) struct PageProblem {
    pub(super) status: StatusCode,
    /// The stable word for it; empty where the page itself says no.
    pub(super) code: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    /// Facts that the API gave with it.
    pub(super) details: Value,
}

impl PageProblem {
    pub(super) fn new(status: StatusCode, message: &str, hint: &str) -> Self {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        Self { status, code: String::new(), message: message.to_owned(), hint, details: Value::Null }
    }

    pub(super) fn of(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(ErrorBody { error }) => {
                let ErrorDetail { code, message, hint, details } = error;
                Self { status, code, message, hint, details }
            }
            Err(_) => Self::new(status, "the request failed", ""),
        }
    }
}

impl PageProblem {
    /// Where a job is that the API has found in the archive.
    pub(super) fn archived_at(&self) -> Option<String> {
        let id: JobId = self.details.get("id").filter(|_| self.code == "archived")?.as_str()?.parse().ok()?;
        Some(format!("/archive/{id}"))
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
#[derive(Default)]
struct CachedAnswer {
    known: tokio::sync::Mutex<Option<(Instant, Result<Bytes, PageProblem>)>>,
    /// Since when it stands, and its bytes: for whoever makes room, and must not wait.
    kept: Mutex<Option<(Instant, usize)>>,
}

impl AnswerCache {
    fn entry(&self, key: String) -> Arc<CachedAnswer> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(&key) {
            make_room(&mut known);
        }
        known.entry(key).or_default().clone()
    }

    fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Forgets what is too old for anybody, and everything when that is not enough.
fn make_room(known: &mut HashMap<String, Arc<CachedAnswer>>) {
    let kept = |one: &CachedAnswer| *one.kept.lock().unwrap_or_else(PoisonError::into_inner);
    // One that nobody holds and that has no answer was asked for by somebody who has gone.
    known.retain(|_, one| {
        kept(one).map_or_else(|| Arc::strong_count(one) > 1, |(at, _)| at.elapsed() < FRESH)
    });
    let bytes: usize = known.values().filter_map(|one| Some(kept(one)?.1)).sum();
    if known.len() >= MOST || bytes >= MOST_BYTES {
        known.clear();
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
        let mut known = entry.known.lock().await;
        if let Some((at, answer)) = &*known
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let answer = self.send(Method::GET, path, None).await;
        let (at, bytes) = (Instant::now(), answer.as_ref().map_or(0, Bytes::len));
        *known = Some((at, answer.clone()));
        *entry.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, bytes));
        answer
    }

    /// Reads a path of the API afresh, for what must not be kept.
    pub(super) async fn get_afresh<T: DeserializeOwned>(&self, path: &str) -> Result<T, PageProblem> {
        read(&self.send(Method::GET, path, None).await?)
    }

    /// Asks what takes more than an address to say, and changes nothing.
    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, PageProblem> {
        read(&self.send(Method::POST, path, Some(body)).await?)
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

    /// Asks for what may be too large to be held: it is passed on as it is read.
    pub(super) async fn file(&self, path: &str) -> Result<Response, PageProblem> {
        let answer = self.answer(Method::GET, path, None).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(refused(answer).await?) }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Bytes, PageProblem> {
        let answer = self.answer(method, path, body).await?;
        if answer.status().is_success() { whole(answer).await } else { Err(refused(answer).await?) }
    }

    /// The answer to a call, before any of its body is read.
    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response, PageProblem> {
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
        match self.routes.clone().oneshot(request).await {
            Ok(answer) => Ok(answer),
            Err(never) => match never {},
        }
    }
}

async fn whole(answer: Response) -> Result<Bytes, PageProblem> {
    let body = answer.into_body().collect().await;
    Ok(body.map_err(|problem| crate::error::internal(&problem))?.to_bytes())
}

/// What the API said instead of an answer.
async fn refused(answer: Response) -> Result<PageProblem, PageProblem> {
    let status = answer.status();
    Ok(PageProblem::of(status, &whole(answer).await?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn old_answers_make_room_for_new_ones() {
        let answers = AnswerCache::default();
        let keep = async |key: String, bytes: usize| {
            let entry = answers.entry(key);
            *entry.known.lock().await = Some((Instant::now(), Ok(Bytes::from(vec![0; bytes]))));
            *entry.kept.lock().unwrap() = Some((Instant::now(), bytes));
        };
        let count = || answers.known.lock().unwrap().len();
        for number in 0..100 {
            keep(number.to_string(), 1_000).await;
        }
        assert_eq!(count(), 100);
        tokio::time::advance(FRESH).await;
        keep("new".to_owned(), 1_000).await;
        assert_eq!(count(), 1, "the others were too old for anybody");
        for number in 0..40 {
            keep(number.to_string(), 1 << 20).await;
        }
        let bytes = |one: &Arc<CachedAnswer>| one.kept.lock().unwrap().map_or(0, |(_, bytes)| bytes);
        let bytes: usize = answers.known.lock().unwrap().values().map(bytes).sum();
        assert!(bytes <= MOST_BYTES + (1 << 20), "{bytes}");
    }
}
