//! The way to the API: over a socket with `--server`, without one on a store of our own.
//!
//! Commands speak to one thing. What works on a store works on a server, because it is the same router that answers.

mod job;
mod remote;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use backstop::{Backstop, Timestamp};
use backstop_server::shape::{self, ErrorBody};
use backstop_server::{Api, Caller, PageLimit, ServerSettings, TokenGrant, router};
use backstop_store::{Clock as _, SystemClock};
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

pub(crate) use self::job::JobRef;
use self::remote::{AnswerStream, RemoteServer};
use crate::problem::{Exit, Problem};

/// Whoever answers.
pub(crate) struct Client {
    place: Place,
    who: String,
}

enum Place {
    Here(Router),
    There(RemoteServer),
}

/// An answer before it is read.
pub(crate) struct ApiAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Calls the API on a store of our own, as somebody who may do everything. The tokens are those of the
    /// configuration, which are shown beside those of the store.
    pub(crate) fn here(engine: Backstop, tokens: &[TokenGrant], who: String) -> Self {
        let mut settings = ServerSettings::default();
        settings.access.tokens = tokens.to_vec();
        Self { place: Place::Here(router(Api::new(engine, settings))), who }
    }

    /// Calls a server.
    pub(crate) fn there(server: &str, token: Option<String>, who: String) -> Result<Self, Problem> {
        Ok(Self { place: Place::There(RemoteServer::new(server, token)?), who })
    }

    /// Reads a path.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.call(Method::GET, path, None::<&()>).await
    }

    /// Reads a list to its end, page by page. The path has no query.
    pub(crate) async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Problem> {
        self.list_where(path, ("", None)).await
    }

    /// The same of those for which a condition holds, if there is one.
    pub(crate) async fn list_where<T: DeserializeOwned>(
        &self,
        path: &str,
        (name, wanted): (&str, Option<&str>),
    ) -> Result<Vec<T>, Problem> {
        let (mut items, mut cursor) = (Vec::new(), None);
        loop {
            let wanted = (name, wanted.map(ToOwned::to_owned));
            let which = query([wanted, ("limit", Some(PageLimit::MOST.to_string())), ("cursor", cursor)]);
            let page: shape::Items<T> = self.get(&format!("{path}{which}")).await?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(items);
            }
        }
    }

    /// Posts a body to a path.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Problem> {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Puts a body at a path.
    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Problem> {
        self.call(Method::PUT, path, Some(body)).await
    }

    /// Deletes what is at a path.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.call(Method::DELETE, path, None::<&()>).await
    }

    /// The clock that all moments of an answer are measured by: the store's. Who has a token that may not read, such as
    /// one for tokens alone, measures by this machine's.
    pub(crate) async fn now(&self) -> Result<Timestamp, Problem> {
        match self.get::<shape::ServerTime>("/api/v1/clock").await {
            Ok(clock) => Ok(clock.now),
            Err(problem) if problem.is("forbidden") => Ok(SystemClock::default().now()),
            Err(problem) => Err(problem),
        }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, Problem> {
        let body =
            body.map(serde_json::to_vec).transpose().map_err(|error| unexpected(&error.to_string()))?;
        let answer = self.send(method, path, body).await?;
        if answer.status.is_success() {
            return serde_json::from_slice(&answer.body).map_err(|error| unexpected(&error.to_string()));
        }
        Err(refused(&answer))
    }

    /// Opens a stream of events. Only a server has one.
    pub(crate) async fn stream(&self, path: &str, last_id: Option<&str>) -> Result<AnswerStream, Problem> {
        match &self.place {
            Place::There(remote) => remote.stream(path, last_id).await,
            Place::Here(_) => Err(unexpected("a store has no events")),
        }
    }

    /// Sends a request, and answers whatever came back.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<ApiAnswer, Problem> {
        match &self.place {
            Place::There(remote) => remote.send(method, path, body).await,
            Place::Here(router) => {
                let mut request = Request::builder().method(method).uri(path);
                if body.is_some() {
                    request = request.header(header::CONTENT_TYPE, "application/json");
                }
                let request =
                    request.extension(Caller::local(&self.who)).body(Body::from(body.unwrap_or_default()));
                let request = request.map_err(|error| unexpected(&error.to_string()))?;
                let answered = router.clone().oneshot(request).await;
                let Ok(response) = answered;
                let (head, body) = response.into_parts();
                let body = body.collect().await.map_err(|error| unexpected(&error.to_string()))?;
                Ok(ApiAnswer { status: head.status, body: body.to_bytes().to_vec() })
            }
        }
    }
}

/// A text as one segment of a path, or as a value of a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// A query of those values that are there: `?a=1&b=2`, or nothing.
pub(crate) fn query<'a>(values: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let mut text = String::new();
    for (name, value) in values {
        if let Some(value) = value {
            text.push(if text.is_empty() { '?' } else { '&' });
            text.push_str(&format!("{name}={}", escaped(&value)));
        }
    }
    text
}

/// What an answer that is no success means to the caller.
fn refused(answer: &ApiAnswer) -> Problem {
    let Ok(ErrorBody { error }) = serde_json::from_slice::<ErrorBody>(&answer.body) else {
        return unexpected(&format!("it answered {}", answer.status));
    };
    let exit = match answer.status.as_u16() {
        400 => Exit::Usage,
        404 if !["no_such_job", "archived", "not_archived"].contains(&&*error.code) => Exit::Failed,
        401..500 => Exit::Refused,
        _ => Exit::Failed,
    };
    Problem::told(exit, error.code, error.message, error.hint).details(error.details)
}

fn unexpected(problem: &str) -> Problem {
    Problem::failed("unexpected_answer", format!("the server's answer cannot be read: {problem}"))
        .hint("check that --server names a Backstop server of a similar version")
}
