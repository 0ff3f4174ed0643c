//! One request to a collector.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where spans go: `ENDPOINT/v1/traces`.
///
/// # Errors
/// A sentence when the endpoint is no address that can be used.
pub(super) fn address(endpoint: &str) -> Result<Uri, String> {
    let whole = format!("{}/v1/traces", endpoint.trim().trim_end_matches('/'));
    let address: Uri = whole.parse().map_err(|_| "it is not a URL: write http://HOST:4318".to_owned())?;
    match address.scheme_str() {
        Some("http") if address.host().is_some_and(|host| !host.is_empty()) => Ok(address),
        Some("https") => {
            Err("https is not supported: name a collector on this machine or network".to_owned())
        }
        _ => Err("it is not a URL: write http://HOST:4318".to_owned()),
    }
}

/// Posts a body; an answer that is not of the 200s is an error.
pub(super) async fn post(address: &Uri, body: String) -> Result<(), String> {
    tokio::time::timeout(PATIENCE, exchange(address, body))
        .await
        .map_err(|_| "no answer in time".to_owned())?
}

async fn exchange(address: &Uri, body: String) -> Result<(), String> {
    let host = address.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let connected = TcpStream::connect((host, address.port_u16().unwrap_or(4318))).await;
    let stream = TokioIo::new(connected.map_err(|problem| format!("cannot connect: {problem}"))?);
    let failed = |problem: hyper::Error| format!("the request failed: {problem}");
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
    // Ends with this request, also when that is dropped at its deadline.
    let mut task = tokio::task::JoinSet::new();
    task.spawn(connection);
    let request = Request::post(address.path())
        .header(HOST, address.authority().map_or("", |authority| authority.as_str()))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|problem| problem.to_string())?;
    let status = sender.send_request(request).await.map_err(failed)?.status();
    if status.is_success() { Ok(()) } else { Err(format!("it answered {}", status.as_u16())) }
}
