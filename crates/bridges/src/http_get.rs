//! One question over HTTP or HTTPS, with an answer of a few words.
//!
//! Redirects are not followed, and nothing of this process is sent along: addresses come from messages.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use url::Url;

use crate::net::{NoConnection, connect};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of an answer at most.
const MOST_ANSWER: usize = 64 * 1024;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// Asks. An error says in words why there is no answer.
pub(crate) async fn get(url: &str) -> Result<HttpAnswer, String> {
    let url = Url::parse(url).map_err(|problem| problem.to_string())?;
    match tokio::time::timeout(PATIENCE, exchange(&url)).await {
        Ok(answer) => answer,
        Err(_) => Err("no answer in time".to_owned()),
    }
}

async fn exchange(url: &Url) -> Result<HttpAnswer, String> {
    let host = url.host_str().ok_or("the address has no host")?;
    let port = url.port_or_known_default().ok_or("the address has no port")?;
    let connected = connect(host.trim_matches(['[', ']']), port, url.scheme() == "https", None).await;
    let stream = connected.map_err(|problem| match problem {
        NoConnection::Unavailable(problem) | NoConnection::Refused(problem) => problem,
    })?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // Ends with this function.
    let mut task = JoinSet::new();
    task.spawn(async move { drop(connection.await) });
    let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let request = Request::get(path).header("host", authority).body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.map_err(|error| error.to_string())?).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let named = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = answer.headers().iter().map(named).collect();
    let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok(HttpAnswer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}
